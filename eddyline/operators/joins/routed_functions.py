"""User functions over one input of a join: called before its tuples probe the SteMs, after, or between two probes.

After k probes, the tuples that still have partners meet the conditions, each once, whatever the number of its partners,
and those that pass for some query probe on. With F the seconds of a tuple in the conditions, p the share that passes,
S(k) the seconds of a tuple in the first k of n probes, and h(k) the share that has partners after them, a tuple costs

    S(k) + h(k) F + p (S(n) - S(k)).

The place with the least cost is chosen for each batch. With two inputs, that is the order by tickets per cost:
(1 - p) / F against (1 - h) / S. All measures are taken wherever the tuples go, so no function is called to explore; in
the first batch, and once in a while where probes follow the functions, a sample of tuples probes without meeting them,
which has no effect.

The place never affects a result: the rows, their order, and the queries that fail are the same. A call that fails
counts only for rows of the join that satisfy all other conditions (`checks.py`); if a call for a bare tuple fails where
failures are attributed to queries, its joined rows are matched instead. (Document 1, sections 4 and 5, Figure 11b.)
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from eddyline.index.keys.sorted_runs import pieces, spread
from eddyline.operators.base import Step
from eddyline.operators.checks import Checks, Pairs
from eddyline.operators.condition import Condition
from eddyline.operators.describe import describe_checks, describe_index
from eddyline.operators.evaluate import Functions
from eddyline.operators.joins.probe import Probe
from eddyline.operators.joins.route_counts import RouteCounts
from eddyline.operators.joins.routes import Partial, follow
from eddyline.operators.joins.tactic import Piece
from eddyline.operators.joins.timed_route import TimedRoute
from eddyline.operators.joins.tuple_lineage import TupleLineage
from eddyline.operators.matcher import Matcher
from eddyline.operators.query_index import QueryIndex
from eddyline.operators.room import CHANGE
from eddyline.plan import physical
from eddyline.plan.expressions import calls_functions, may_overflow
from eddyline.routing.eddy import Eddy
from eddyline.state.delta import Delta

SAMPLE = 64  # tuples that probe to learn how many have partners
SAMPLE_EVERY = 8192  # tuples
MOST_SAMPLED = 1 << 16  # partners of a sample
UNKNOWN_COST, UNKNOWN_SHARE = 50e-6, 0.5  # of a function that has not been called yet


class RoutedFunctions:
    """The tactic. Only results count towards the memory limit, because measured times choose the place."""

    def __init__(self, plan: physical.FirstFilter, probe: Probe) -> None:
        self.probe, self.stems, self.input = probe, probe.stems, probe.input
        node = self.stems.node
        self.matcher = Matcher(plan.condition, (), node.inputs[self.input].types)
        self.rest = None if plan.rest is None else Checks(Condition(plan.rest).checks, Eddy())
        self.eddy = Eddy()
        self.route = TimedRoute(self.stems, self.input, self.eddy)
        self.places = Counter[int]()  # tuples, by the number of probes before functions were called
        # Where probing may fail or call functions, a sample would have effects.
        parts = [e for p in node.probes[self.input] for e in (*p.exprs, p.conditions) if e is not None]
        self._samples = not any(calls_functions(e) or may_overflow(e) for e in parts)
        self._unsampled = 0

    @classmethod
    def of(cls, probe: Probe) -> RoutedFunctions | None:
        plan = probe.stems.node.filters[probe.input]
        return cls(plan, probe) if plan is not None and plan.calls_functions else None

    def results(self, step: Step, delta: Delta) -> list[Piece] | None:
        if step.kind == "replay":
            return None
        place = self.place(step, delta)
        self.places[place] += len(delta)
        if place < len(self.route.probes):
            return self._routed(step, delta, place)
        self._unsampled = 0
        # With other conditions, functions are called only for joined rows and queries that satisfy those.
        return self._routed(step, delta, place) if self.rest is None else self._matched(step, delta)

    def place(self, step: Step, delta: Delta) -> int:
        """After how many probes the functions are called for these tuples."""
        place = self._cheapest()
        if place == 0 and self._sample_is_due(0, len(delta)):
            self._sample(step, self.route.start(delta), 0)
            place = self._cheapest()
        return place

    def _cheapest(self) -> int:
        if not self.route.known(0):
            return 0
        expected = self.expected()
        return expected.index(min(expected))

    def expected(self) -> list[float]:
        """The expected seconds of a tuple, by the number of probes before its functions are called."""
        functions, joined = self.eddy.account("functions"), self.eddy.account("joined")
        passing, cost = UNKNOWN_SHARE, UNKNOWN_COST
        if functions.rows or joined.rows:
            known = functions if functions.rows else joined
            passing, cost = known.selectivity or 0.0, known.cost
        shares, seconds = self.route.expected()
        costs = [cost] * (len(shares) - 1) + [joined.cost if joined.rows else cost]
        return [s + h * c + passing * (seconds[-1] - s) for h, s, c in zip(shares, seconds, costs, strict=True)]

    def _sample_is_due(self, place: int, tuples: int) -> bool:
        """Whether some of these tuples, which are about to meet functions, should probe on without meeting them."""
        self._unsampled += tuples
        return self._samples and (self._unsampled >= SAMPLE_EVERY or not self.route.known(place))

    def _sample(self, step: Step, partial: Partial, place: int) -> None:
        """Lets a sample of tuples probe on, to learn how many have partners and what probing costs."""
        self._unsampled = 0
        tuples = partial.tuples()
        sampled = np.zeros(len(partial.changes), np.bool_)
        sampled[tuples[:: max(1, len(tuples) // SAMPLE)]] = True
        some, partners = partial.take(sampled[partial.rows[self.input]]), 0
        if not self.route.known(place):  # the first probes load kernels and make indexes
            for _ in follow(step, some, self.route.probes[place:], RouteCounts()):
                break
        run = self.route.run(step, len(partial.changes), RouteCounts())
        for joined in run.results(some, place, len(self.route.probes)):
            partners += len(joined)
            if partners > MOST_SAMPLED:
                break
        run.learn()

    def _counts(self) -> RouteCounts:
        """Which tuples probe depends on measured times, so they must not tell the selectivity of conditions: that
        chooses the order of probes, and with it the order of results."""
        return RouteCounts(steps=self.stems.counts.steps)

    def _routed(self, step: Step, delta: Delta, place: int) -> list[Piece]:
        """Results of tuples that meet the functions after so many probes."""
        results: list[Piece] = []
        probes, lineage = len(self.route.probes), TupleLineage(self.matcher, delta)
        run = self.route.run(step, len(delta), self._counts())
        for partial in run.results(self.route.start(delta), 0, place):
            tuples = partial.tuples()
            if 0 < place < probes and self._sample_is_due(place, len(tuples)):
                self._sample(step, partial, place)
            if lineage.decides(step, tuples):
                for joined in run.results(lineage.passing(partial), place, probes):
                    results += self._attached(step, joined, lineage)
            else:
                for joined in run.results(partial, place, probes):
                    matched, _ = self.probe.matched(step, joined)
                    results += [matched] if len(matched) else []
        run.learn()
        met, passed = int(np.count_nonzero(lineage.met)), int(np.count_nonzero(lineage.passed))
        self._learn("functions", met, passed, lineage.seconds)
        return results

    def _matched(self, step: Step, delta: Delta) -> list[Piece]:
        """Results of tuples whose joined rows meet all conditions, in the order of the clauses' eddy."""
        results: list[Piece] = []
        met, passed = np.zeros((2, len(delta)), np.bool_)
        seconds = 0.0
        run = self.route.run(step, len(delta), self._counts())
        for joined in run.results(self.route.start(delta), 0, len(self.route.probes)):
            begun = time.perf_counter()
            matched, rows = self.probe.matched(step, joined)
            results += [matched] if len(matched) else []
            met[joined.rows[self.input]] = True
            passed[joined.rows[self.input][rows]] = True
            seconds += time.perf_counter() - begun
        run.learn()
        self._learn("joined", int(np.count_nonzero(met)), int(np.count_nonzero(passed)), seconds)
        return results

    def _attached(self, step: Step, partial: Partial, lineage: TupleLineage) -> list[Delta]:
        """Results as changes of the queries of their tuples."""
        narrow = partial.joined(self.probe.matcher.columns)
        all_visible = not len(partial) or int(partial.first.min()) >= step.queries.latest
        rows, positions, pairs = [np.empty(0, np.int64)], [np.empty(0, np.int64)], 0
        functions = step.functions if step.functions.failures is None else Functions(step.functions.bodies, {}, [])
        for start, begins, ends in pieces(*lineage.ranges(partial)):
            row, place = spread(begins, ends)
            row, position = row + start, lineage.members[place].astype(np.int64)
            if not all_visible:  # the partner may have arrived before the query was registered
                visible = partial.first[row] >= step.queries.since_at(position)
                row, position = row[visible], position[visible]
            if self.rest is not None:
                left = self.rest.holding(replace(step, functions=functions), Pairs(narrow, row, position, partial))
                if functions.failures:
                    matched, _ = self.probe.matched(step, partial)
                    return [matched]
                assert left.position is not None
                row, position = left.change, left.position
            pairs += len(row)
            step.room.require(pairs, CHANGE)
            rows.append(row)
            positions.append(position)
        if not pairs:
            return []
        attached = self.probe.matcher.attached(step, narrow, np.concatenate(rows), np.concatenate(positions))
        return [self.probe.widened(step, partial, attached)[0]] if len(attached) else []

    def _learn(self, operator: str, rows: int, left: int, seconds: float) -> None:
        if rows:
            self.eddy.learn(operator, rows, rows, left)
            self.eddy.learn_cost(operator, seconds / rows)
            self.eddy.entered(operator, rows)

    def indexes(self) -> Sequence[QueryIndex]:
        return (self.matcher.index,)

    def details(self) -> list[str]:
        called = self.places.total()
        if not called:
            return []
        probes = range(1, len(self.route.probes) + 1)
        after = [f"{self.places[k] / called:.1%} after {k} probe{'s' if k > 1 else ''}" for k in probes]
        share = f"{self.places[0] / called:.1%} of {called} tuples called functions before they probed"
        lines = [f"input {self.input + 1}: {', '.join((share, *after))} ({'; '.join(self._measured())})"]
        below = [*describe_index(self.matcher.index), *([] if self.rest is None else describe_checks(self.rest))]
        return lines + [f"  {line}" for line in below]

    def _measured(self) -> list[str]:
        measured = []
        for i, probe in enumerate(self.route.probes):
            if self.route.known(i):
                stem = self.route.account(i)
                met = f"{stem.selectivity or 0:.3f} have partners, {self.route.fanout(i):.2f} each tuple"
                measured.append(f"SteM of input {probe.input + 1}: {met}, {stem.cost * 1e6:.2f} µs")
        for operator, name in (("functions", "functions"), ("joined", "functions of joined rows")):
            account = self.eddy.account(operator)
            if account.rows:
                measured.append(f"{name}: {account.selectivity or 0:.3f} pass, {account.cost * 1e6:.2f} µs a tuple")
        return measured

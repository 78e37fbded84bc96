"""User functions over one input of a join, called before or after its tuples probe the SteMs, chosen for each batch.

Before: every tuple meets the conditions, and those that pass for some query probe. After: all tuples probe, and those
that have partners meet the conditions, each once, whatever the number of its partners. With F and S the seconds a tuple
takes in the conditions and in the SteMs, p the share that passes, and h the share that has partners,

    before costs F + p S, after costs S + h F.

So the operator with more tickets per cost comes first: (1 - p) / F against (1 - h) / S. All four are measured wherever
the tuples go, so no function is called to explore; in the first batch, and once in a while where the functions come
first, a sample of tuples probes, which has no effect.

The order never affects a result: the rows, their order, and the queries that fail are the same. A call that fails
counts only for rows of the join that satisfy all other conditions (`checks.py`); if a call for a bare tuple fails where
failures are attributed to queries, its joined rows are matched instead. (Document 1, sections 4 and 5, Figure 11b.)
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from eddyline.arrays import Ints, Ints32, Mask
from eddyline.index.keys.sorted_runs import pieces, spread
from eddyline.index.runtime.row_sets import Lists
from eddyline.operators.base import Step
from eddyline.operators.checks import Checks, Pairs
from eddyline.operators.condition import Condition
from eddyline.operators.describe import describe_checks, describe_index
from eddyline.operators.evaluate import Functions
from eddyline.operators.joins.probe import Probe
from eddyline.operators.joins.route_counts import RouteCounts
from eddyline.operators.joins.routes import Partial
from eddyline.operators.joins.tactic import Piece
from eddyline.operators.matcher import Matcher, joined_lists
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

Place = Literal["before", "after"]


class RoutedFunctions:
    """The tactic. Only results count towards the memory limit, because measured times choose the order."""

    def __init__(self, plan: physical.FirstFilter, probe: Probe) -> None:
        self.probe, self.stems, self.input = probe, probe.stems, probe.input
        node = self.stems.node
        self.matcher = Matcher(plan.condition, (), node.inputs[self.input].types)
        self.rest = None if plan.rest is None else Checks(Condition(plan.rest).checks, Eddy())
        self.eddy = Eddy()
        self.places: dict[Place, int] = {"before": 0, "after": 0}  # tuples, by where the functions were called
        # Where probing may fail or call functions, a sample would have effects.
        parts = [e for p in node.probes[self.input] for e in (*p.exprs, p.conditions) if e is not None]
        self._samples = not any(calls_functions(e) or may_overflow(e) for e in parts)
        self._unsampled = SAMPLE_EVERY

    @classmethod
    def of(cls, probe: Probe) -> RoutedFunctions | None:
        plan = probe.stems.node.filters[probe.input]
        return cls(plan, probe) if plan is not None and plan.calls_functions else None

    def results(self, step: Step, delta: Delta) -> list[Piece] | None:
        if step.kind == "replay":
            return None
        if self.place(step, delta) == "before":
            begun = time.perf_counter()
            lineage = self._lineage(step, delta)
            if lineage is not None:
                self.places["before"] += len(delta)
                passing = np.nonzero(lineage.counts)[0]
                self._learn("functions", len(delta), len(passing), time.perf_counter() - begun)
                return self._results_before(step, delta.take(passing).spread(), lineage, passing)
        self.places["after"] += len(delta)
        self._unsampled = 0
        return self._results_after(step, delta)

    def place(self, step: Step, delta: Delta) -> Place:
        """Where the functions are called for these tuples."""
        self._unsampled += len(delta)
        if self._samples and self._unsampled >= SAMPLE_EVERY:
            self._unsampled = 0
            self._sample(step, delta)
        if not self.eddy.account("stems").rows:
            return "before"
        before, after = self._expected()
        return "before" if before <= after else "after"

    def _sample(self, step: Step, delta: Delta) -> None:
        """Lets a sample of tuples probe, to learn how many have partners and what probing costs."""
        some = delta.take(np.arange(0, len(delta), max(1, len(delta) // SAMPLE))).spread()
        if not self.eddy.account("stems").rows:  # the first probes load kernels and make indexes
            for _ in self.stems.results(step, self.input, some, counts=RouteCounts()):
                break
        for _ in self._probed(step, some, RouteCounts(), MOST_SAMPLED):
            pass

    def _expected(self) -> tuple[float, float]:
        """The expected seconds of a tuple whose functions are called before, and after it probes."""
        stems, functions, joined = (self.eddy.account(o) for o in ("stems", "functions", "joined"))
        passing, cost = UNKNOWN_SHARE, UNKNOWN_COST
        if functions.rows or joined.rows:
            known = functions if functions.rows else joined
            passing, cost = known.selectivity or 0.0, known.cost
        later = joined.cost if joined.rows else cost
        return cost + passing * stems.cost, stems.cost + (stems.selectivity or 0.0) * later

    def _results_before(self, step: Step, tuples: Delta, lineage: Lists, passing: Ints) -> list[Piece]:
        low, high = lineage.starts[passing], lineage.starts[passing + 1]
        results: list[Piece] = []
        for partial in self._probed(step, tuples):
            origin = partial.rows[self.input]
            results += self._attached(step, partial, low[origin], high[origin], lineage.members)
        return results

    def _results_after(self, step: Step, delta: Delta) -> list[Piece]:
        results: list[Piece] = []
        met, passed = np.zeros(len(delta), np.bool_), np.zeros(len(delta), np.bool_)
        seconds = 0.0
        for partial in self._probed(step, delta):
            begun = time.perf_counter()
            tuples, place = np.unique(partial.rows[self.input], return_inverse=True)
            met[tuples] = True
            # With other conditions, functions are called only for joined rows and queries that satisfy those.
            lineage = None if self.rest is not None else self._lineage(step, delta.take(tuples).spread())
            if lineage is None:
                matched, rows = self.probe.matched(step, partial)
                results += [matched] if len(matched) else []
                passed[partial.rows[self.input][rows]] = True
            else:
                results += self._attached(
                    step, partial, lineage.starts[place], lineage.starts[place + 1], lineage.members
                )
                passed[tuples[np.nonzero(lineage.counts)[0]]] = True
            seconds += time.perf_counter() - begun
        operator = "functions" if self.rest is None else "joined"
        self._learn(operator, int(np.count_nonzero(met)), int(np.count_nonzero(passed)), seconds)
        return results

    def _lineage(self, step: Step, tuples: Delta) -> Lists | None:
        """The queries whose conditions on this input each tuple satisfies. None if calls failed, and failures are
        attributed to queries: only joined rows tell which of them count."""
        if step.functions.failures is None:
            return joined_lists(self.matcher.prepare(step, tuples).sets())
        functions = Functions(step.functions.bodies, {}, [])
        lineage = joined_lists(self.matcher.prepare(replace(step, functions=functions), tuples).sets())
        return None if functions.failures else lineage

    def _attached(self, step: Step, partial: Partial, low: Ints, high: Ints, members: Ints32) -> list[Delta]:
        """Results as changes of queries: by joined row, a range of the members of a lineage."""
        narrow = partial.joined(self.probe.matcher.columns)
        all_visible = not len(partial) or int(partial.first.min()) >= step.queries.latest
        rows, positions, pairs = [np.empty(0, np.int64)], [np.empty(0, np.int64)], 0
        functions = step.functions if step.functions.failures is None else Functions(step.functions.bodies, {}, [])
        for start, begins, ends in pieces(low, high):
            row, place = spread(begins, ends)
            row, position = row + start, members[place].astype(np.int64)
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

    def _probed(
        self, step: Step, delta: Delta, counts: RouteCounts | None = None, most: int | None = None
    ) -> Iterator[Partial]:
        """The results of probing, of which the time and the number of tuples with partners are learnt."""
        if counts is None:
            # Which tuples probe depends on measured times, so they must not tell the selectivity of conditions: that
            # chooses the order of probes, and with it the order of results.
            counts = RouteCounts(steps=self.stems.counts.steps)
        if not len(delta):
            return
        seconds, partners, begun = 0.0, 0, time.perf_counter()
        met: Mask = np.zeros(len(delta), np.bool_)
        for partial in self.stems.results(step, self.input, delta, counts=counts):
            met[partial.rows[self.input]] = True
            partners += len(partial)
            seconds += time.perf_counter() - begun
            yield partial
            begun = time.perf_counter()
            if most is not None and partners > most:
                break
        self.eddy.learn("partners", len(delta), len(delta), partners)
        self._learn("stems", len(delta), int(np.count_nonzero(met)), seconds + time.perf_counter() - begun)

    def _learn(self, operator: str, rows: int, left: int, seconds: float) -> None:
        if rows:
            self.eddy.learn(operator, rows, rows, left)
            self.eddy.learn_cost(operator, seconds / rows)
            self.eddy.entered(operator, rows)

    def indexes(self) -> Sequence[QueryIndex]:
        return (self.matcher.index,)

    def details(self) -> list[str]:
        stems, functions, joined = (self.eddy.account(o) for o in ("stems", "functions", "joined"))
        called = sum(self.places.values())
        if not called:
            return []
        share = f"{self.places['before'] / called:.1%} of {called} tuples called functions before they probed"
        measured = []
        if stems.rows:
            partners = self.eddy.account("partners").selectivity or 0.0
            met = f"{stems.selectivity or 0:.3f} have partners, {partners:.2f} each tuple"
            measured.append(f"SteMs: {met}, {stems.cost * 1e6:.2f} µs")
        for account, name in ((functions, "functions"), (joined, "functions of joined rows")):
            if account.rows:
                measured.append(f"{name}: {account.selectivity or 0:.3f} pass, {account.cost * 1e6:.2f} µs a tuple")
        lines = [f"input {self.input + 1}: {share} ({'; '.join(measured)})"]
        below = [*describe_index(self.matcher.index), *([] if self.rest is None else describe_checks(self.rest))]
        return lines + [f"  {line}" for line in below]

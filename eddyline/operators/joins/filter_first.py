"""Filter before probing: the eddy's choice between a grouped filter and the SteMs of a join (document 1, section 5).

Conditions with parameters over one input alone can be checked on its tuples before they probe; tuples that match no
query do not probe. If these are all the conditions with parameters, the joined rows inherit the queries of their tuples
(their lineage); otherwise the joined rows are matched again with all conditions.

Both orders give the same rows in the same order, and the SteM stores all tuples either way: measured times must not
affect a result. The order is chosen for each batch by the expected cost of a tuple: from the share that passes the
filter, the partners per tuple, and the measured cost of either. Conditions that call user-defined functions have a
tactic of their own (`routed_functions.py`).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from eddyline.index.keys.sorted_runs import pieces, spread
from eddyline.index.runtime.row_sets import Lists
from eddyline.operators.base import Step
from eddyline.operators.describe import describe_index
from eddyline.operators.joins.probe import Probe, built
from eddyline.operators.joins.routes import Partial
from eddyline.operators.joins.tactic import Piece
from eddyline.operators.matcher import Matcher, joined_lists
from eddyline.operators.query_index import QueryIndex
from eddyline.plan import physical
from eddyline.routing.eddy import Eddy
from eddyline.state.delta import Delta

WORTH_FILTERING = 0.95  # the expected cost of a tuple, relative to that of probing first, which keeps no lineage
SAMPLE = 64  # tuples from which the filter's selectivity is learnt while the SteMs come first
SAMPLE_EVERY = 8192  # tuples


@dataclass(frozen=True)
class Wanted:
    """Tuples that match some query, and for each tuple the positions of these queries, if already computed."""

    tuples: Delta
    lineage: Lists | None


class FilterFirst:
    """The tactic. Only results count towards the memory limit, because measured times choose the order."""

    def __init__(self, plan: physical.FirstFilter, probe: Probe) -> None:
        self.probe, self.stems, self.input = probe, probe.stems, probe.input
        self.filter = FirstFilter(plan, probe.matcher, self.stems.node.inputs[self.input].types)

    @classmethod
    def of(cls, probe: Probe) -> FilterFirst | None:
        plan = probe.stems.node.filters[probe.input]
        return None if plan is None or plan.calls_functions else cls(plan, probe)

    def results(self, step: Step, delta: Delta) -> list[Piece] | None:
        if step.kind == "replay":
            return None
        if self.filter.first() == "stem":
            self.filter.sample(step, delta)
            return list(self.probe.finished(step, self._probed(step, delta)))
        wanted = self.filter.wanted(step, delta)
        results = self._probed(step, wanted.tuples)
        if not self.filter.carries:
            return list(self.probe.finished(step, results))
        return [x for partial in results for x in self.filter.attach(step, partial, wanted)]

    def _probed(self, step: Step, delta: Delta) -> Iterator[Partial]:
        """The results of probing, of which the time and the number are learnt."""
        seconds, partners, begun = 0.0, 0, time.perf_counter()
        for partial in self.stems.results(step, self.input, delta):
            seconds += time.perf_counter() - begun
            partners += len(partial)
            yield partial
            begun = time.perf_counter()
        self.filter.probed(len(delta), partners, seconds + time.perf_counter() - begun)

    def indexes(self) -> Sequence[QueryIndex]:
        return (self.filter.matcher.index,)

    def details(self) -> list[str]:
        return self.filter.details(f"input {self.input + 1}")


class FirstFilter:
    """The conditions over one input, checked before its tuples probe."""

    def __init__(self, plan: physical.FirstFilter, whole: Matcher, types: Sequence[pa.DataType]) -> None:
        """`types` are those of the input's own columns; `whole` has all conditions over the joined rows."""
        self.matcher = Matcher(plan.condition, (), types)
        self.whole = whole
        self.carries = plan.carries
        self.always = plan.always
        self.eddy = Eddy()
        self._unsampled = SAMPLE_EVERY  # tuples since the last sample

    def first(self) -> str:
        """What tuples visit first: "filter" or "stem"."""
        filter_, stem = self.eddy.account("filter"), self.eddy.account("stem")
        if self.always or filter_.selectivity is None or stem.selectivity is None:
            return "filter"
        passing, partners = filter_.selectivity, stem.selectivity
        # Joined rows are matched too, at about the cost of the filter, unless they inherit the queries of their tuples.
        then = stem.cost + partners * filter_.cost
        before = filter_.cost + passing * (stem.cost if self.carries else then)
        return "filter" if before < WORTH_FILTERING * then else "stem"

    def wanted(self, step: Step, delta: Delta) -> Wanted:
        """The tuples that match some query."""
        begun = time.perf_counter()
        matching = self.matcher.prepare(step, delta)
        # Counting matches of ranges is cheaper than listing them; they are listed only for tuples with partners, unless
        # most tuples have some.
        lineage = joined_lists(matching.sets()) if self.carries and self._most_match else None
        kept = np.nonzero(matching.counts() if lineage is None else lineage.counts)[0]
        self._learn("filter", len(delta), len(kept), time.perf_counter() - begun)
        if len(kept) == len(delta):
            return Wanted(delta.spread(), lineage)
        if lineage is not None:
            lineage = Lists(np.append(lineage.starts[kept], lineage.starts[-1:]), lineage.members)
        return Wanted(delta.take(kept).spread(), lineage)

    def sample(self, step: Step, delta: Delta) -> None:
        """Learns the selectivity of the filter from a sample of tuples, once in a while. So few tell no cost."""
        self._unsampled += len(delta)
        if self._unsampled < SAMPLE_EVERY:
            return
        self._unsampled = 0
        some = delta.take(np.arange(0, len(delta), max(1, len(delta) // SAMPLE)))
        passing = int(np.count_nonzero(self.matcher.prepare(step, some).counts()))
        self.eddy.learn("filter", len(some), len(some), passing)
        self.eddy.entered("filter", len(some))

    @property
    def _most_match(self) -> bool:
        passing, partners = (self.eddy.account(o).selectivity or 0.0 for o in ("filter", "stem"))
        return passing > 0.5 and partners > 0.5

    def probed(self, tuples: int, partners: int, seconds: float) -> None:
        self._learn("stem", tuples, partners, seconds)

    def _learn(self, operator: str, rows: int, left: int, seconds: float) -> None:
        if rows:
            self.eddy.learn(operator, rows, rows, left)
            self.eddy.learn_cost(operator, seconds / rows)
            self.eddy.entered(operator, rows)

    def attach(self, step: Step, partial: Partial, wanted: Wanted) -> Iterator[Delta]:
        """Results as changes of the queries that their tuples match."""
        origin = partial.rows[partial.origin]
        joined, lineage, place_of = built(step, partial), wanted.lineage, origin
        if lineage is None:
            tuples, place_of = np.unique(origin, return_inverse=True)
            lineage = joined_lists(self.matcher.prepare(step, wanted.tuples.take(tuples)).sets())
        all_visible = not len(joined) or int(joined.first.min()) >= step.queries.latest
        low, high = lineage.starts[place_of], lineage.starts[place_of + 1]
        for start, begins, ends in pieces(low, high):
            row, place = spread(begins, ends)
            row, position = row + start, lineage.members[place].astype(np.int64)
            if not all_visible:  # the partner may have arrived before the query was registered
                visible = joined.first[row] >= step.queries.since_at(position)
                row, position = row[visible], position[visible]
            yield self.whole.attached(step, joined, row, position)

    def details(self, name: str) -> list[str]:
        """Lines for EXPLAIN ANALYZE."""
        known = [o for o in ("filter", "stem") if self.eddy.account(o).entered]
        if not known:
            return []
        shares = dict(zip(("filter", "stem"), self.eddy.shares(["filter", "stem"]), strict=True))
        statistics = []
        for o in known:
            account = self.eddy.account(o)
            left = "pass" if o == "filter" else "partners a tuple"
            measured = f"{account.selectivity or 0:.3f} {left}, {account.cost * 1e6:.2f} µs a tuple"
            statistics.append(f"{o}: {shares[o]:.1%} of tickets, {measured}")
        lines = [f"{name} visits its {self.first()} first ({'; '.join(statistics)})"]
        return lines + [f"  {line}" for line in describe_index(self.matcher.index)]

"""Routes: the changes of one input probe the SteMs of the others, one SteM after the other.

Probing is breadth-first: all partial results probe the next SteM together, over all its segments. A partial result is a
row number for each input joined so far; a column is gathered when a key or a condition needs it, and the others at the
end. Partial results are built in portions of bounded size. Intervals intersect; signs are those of the probing changes.
Cost: O(partial results) per step of the route. (Document 1, section 3.3; document 2, section 3.2.)
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Container, Iterator, Sequence, Set
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline.arrays import Ints, Mask
from eddyline.index.keys import sorted_runs
from eddyline.index.keys.sorted_runs import portions
from eddyline.operators.base import Step
from eddyline.operators.evaluate import evaluate, holds
from eddyline.operators.joins.route_counts import RouteCounts
from eddyline.operators.joins.stem import Matches, Retracting, Search, Stem
from eddyline.operators.room import row_bytes
from eddyline.plan.expressions import calls_functions, columns_of, may_overflow
from eddyline.plan.physical import ProbeStep
from eddyline.sql.bound import Expr
from eddyline.state.delta import Delta
from eddyline.state.store.stream_log import LogView


@dataclass(frozen=True)
class Layout:
    """The inputs of a join: their SteMs, and the first column of each in joined rows, with the number of columns."""

    stems: Sequence[Stem | LogView]  # a view of a log, if rows are read later
    starts: Sequence[int]


@dataclass(frozen=True)
class Partial:
    """Partial results: for each input joined so far, the number of a row in its SteM; for the origin, in `changes`."""

    layout: Layout
    origin: int
    changes: Delta
    rows: dict[int, Ints]
    ts: Ints
    exp: Ints
    first: Ints
    last: Ints
    query: Ints | None

    @classmethod
    def of(cls, layout: Layout, origin: int, changes: Delta) -> Partial:
        every = np.arange(len(changes))
        numbers = changes.ts, changes.exp, changes.first, changes.last
        return cls(layout, origin, changes, {origin: every}, *numbers, changes.query)

    def __len__(self) -> int:
        return len(self.ts)

    def take(self, which: npt.NDArray[np.int64] | npt.NDArray[np.bool_]) -> Partial:
        return replace(
            self,
            rows={i: r[which] for i, r in self.rows.items()},
            ts=self.ts[which],
            exp=self.exp[which],
            first=self.first[which],
            last=self.last[which],
            query=None if self.query is None else self.query[which],
        )

    def tuples(self) -> Ints:
        """The positions of the changes that have results, each once."""
        present = np.zeros(len(self.changes), np.bool_)
        present[self.rows[self.origin]] = True
        return np.nonzero(present)[0]

    def column(self, i: int) -> pa.Array:
        """A column of the joined rows."""
        of = bisect_right(self.layout.starts, i) - 1
        own = i - self.layout.starts[of]
        if of != self.origin:
            return self.layout.stems[of].column(own, self.rows[of])
        return self.changes.columns[own].take(pa.array(self.rows[of]))

    def columns(self, used: Container[int]) -> list[pa.Array | None]:
        """Some columns of the joined rows; the others are None."""
        return [self.column(i) if i in used else None for i in range(self.layout.starts[-1])]

    def identity(self, used: Set[int]) -> Ints:
        """Numbers of the results: those with equal numbers have the same rows of all inputs with used columns."""
        numbers: Ints = np.zeros(len(self), np.int64)
        for i in sorted({bisect_right(self.layout.starts, c) - 1 for c in used}):
            rows, place = np.unique(self.rows[i], return_inverse=True)
            numbers = numbers * len(rows) + place
        return numbers

    def arrivals(self, used: Set[int]) -> Ints | None:
        """By result, the arrival number of the tuple in the log of a stream that the used columns belong to; None: they
        belong to an arriving tuple, or to several."""
        inputs = {bisect_right(self.layout.starts, c) - 1 for c in used}
        if len(inputs) != 1 or self.origin in inputs:
            return None
        (i,) = inputs
        return self.layout.stems[i].arrivals_at(self.rows[i])

    def values(self, step: Step, exprs: Sequence[Expr]) -> list[pa.Array]:
        """The values of expressions over inputs joined so far."""
        columns = self.columns({c for e in exprs for c in columns_of(e)})
        return [evaluate(e, columns, (), len(self), step.functions) for e in exprs]

    def joined(self, used: Container[int] | None = None) -> Delta:
        """Its changes, with all columns or only those that are used."""
        columns = self.columns(range(self.layout.starts[-1]) if used is None else used)
        sign = self.changes.sign[self.rows[self.origin]]
        return Delta(tuple(columns), None, self.ts, self.exp, sign, self.first, self.last, self.query)

    def meets(self, matches: Matches) -> Mask:
        """Which matches have an instant in common with the partial result that probes."""
        after = np.maximum(self.ts[matches.probing], matches.ts)
        meets: Mask = after <= np.minimum(self.exp[matches.probing], matches.exp)
        return meets

    def paired(self, i: int, matches: Matches, used: Set[int]) -> list[pa.Array | None]:
        """Some columns of the partial results joined with rows of another input."""
        inputs = {bisect_right(self.layout.starts, c) - 1 for c in used}
        rows = {j: matches.rows if j == i else self.rows[j][matches.probing] for j in inputs}
        return replace(self, rows=rows).columns(used)

    def extended(self, i: int, matches: Matches) -> Partial:
        """The partial results joined with rows of another input; those without a common instant are dropped."""
        ts = np.maximum(self.ts[matches.probing], matches.ts)
        exp = np.minimum(self.exp[matches.probing], matches.exp)
        kept = ts <= exp
        if not kept.all():
            ts, exp, matches = ts[kept], exp[kept], matches.take(kept)
        probing, query = matches.probing, self.query
        return replace(
            self,
            rows={**{j: r[probing] for j, r in self.rows.items()}, i: matches.rows},
            ts=ts,
            exp=exp,
            first=np.minimum(self.first[probing], matches.first),
            last=np.maximum(self.last[probing], matches.last),
            query=matches.query if query is None else query[probing],
        )


def follow(
    step: Step,
    partial: Partial,
    route: Sequence[ProbeStep],
    counts: RouteCounts,
    *,
    retracting: bool = False,
    all_needed: bool = False,
) -> Iterator[Partial]:
    """The results of a route, in portions; `counts` counts what its steps do.

    `retracting`: the changes are retractions, and others retract too. `all_needed`: the caller needs all results, so
    that the memory limit can be checked before any is built.
    """
    if not len(partial):
        return
    if not route:
        yield partial
        return
    probe, stem = route[0], partial.layout.stems[route[0].input]
    assert not isinstance(stem, LogView), "a view is not searched"
    values = partial.values(step, probe.exprs)
    wanted = stem.wanted(step, probe.key, values, partial.query, len(partial))
    search = stem.search(step, probe.key, wanted, int(partial.ts.min()))
    if all_needed and len(route) == 1 and probe.conditions is None:
        _require_room(step, partial, search)
    inputs = (*partial.rows, probe.input)
    counts.probed(inputs, len(partial))
    for start, stop in portions(search.counts):
        part = partial if stop - start == len(partial) else partial.take(np.arange(start, stop))
        leaving = None
        if retracting:
            leaves = partial.changes.ts[part.rows[partial.origin]]
            leaving = Retracting(leaves, precedes=partial.origin < probe.input)
        for matches in search.matches(start, stop, leaving).pieces():
            conditions, compared = probe.conditions, None
            if (
                probe.scans
                and conditions is not None
                and not calls_functions(conditions)
                and not may_overflow(conditions)
            ):
                # Most pairs fail the condition: it is evaluated before anything else is gathered for them.
                inside = part.meets(matches)
                compared = int(np.count_nonzero(inside))
                columns = part.paired(probe.input, matches, columns_of(conditions))
                true = holds(conditions, columns, (), len(matches.rows), step.functions)
                matches, conditions = matches.take(true & inside), None
            extended = part.extended(probe.input, matches)
            compared = len(extended) if compared is None else compared
            if conditions is not None and len(extended):
                columns = extended.columns(columns_of(conditions))
                true = holds(conditions, columns, (), len(extended), step.functions)
                extended = extended if true.all() else extended.take(true)
            counts.joined(inputs, probe, compared, len(extended))
            yield from follow(step, extended, route[1:], counts, retracting=retracting, all_needed=all_needed)


def _require_room(step: Step, partial: Partial, search: Search) -> None:
    """Checks the memory limit before results are built, if all pairs certainly have an instant in common."""
    total = int(search.counts.sum())
    if total <= sorted_runs.PAIRS_AT_ONCE:
        return
    latest, earliest = search.times()
    if partial.ts.max() <= earliest and latest <= partial.exp.min():
        step.room.require(total, row_bytes(partial.changes))

"""The table of a family's queries as grouped filters: which queries' conditions does a row satisfy?

The table is indexed in runs of positions, each at least four times as long as the next. New queries make a run of their
own, and runs are joined where they have become too alike: n queries that come one by one cost O(n log² n) together, and
a row looks into O(log n) runs. A run never changes; dropped queries are passed over, and a run of which half is gone is
made anew. Whoever holds the runs of an earlier moment finds what was there then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from eddyline.families.queries import QueryRows
from eddyline.index.bitmaps import Bitmaps
from eddyline.index.domains import Codes, ValueColumn
from eddyline.index.grouped_filter import GroupedFilter, Matches, grouped_filter, search
from eddyline.index.parallel import LARGEST
from eddyline.index.upkeep import give_back
from eddyline.operators.condition import Condition
from eddyline.operators.evaluate import Functions
from eddyline.routing.eddy import Eddy

Ints = npt.NDArray[np.int64]
Numbers32 = npt.NDArray[np.int32]
Flags = npt.NDArray[np.bool_]

GROWTH = 4
LARGE = 100_000  # queries of a run
SAMPLE = 128  # rows of a batch from which the eddy learns
ALL_ALIVE = np.empty(0, np.bool_)


class RoutedFilter:
    """A grouped filter with an eddy, which says in which order rows visit the attributes of its bitmaps."""

    def __init__(self, filter_: GroupedFilter) -> None:
        self.filter = filter_
        self.eddy = Eddy()

    @property
    def blocks(self) -> int:
        """How many blocks of bitmaps it has: what listing takes for a row."""
        return sum(m.blocks for m in self.filter.maps)

    def search(self, columns: Sequence[ValueColumn], rows: int, alive: Flags, what: str) -> Matches:
        """What some rows satisfy; they visit the attributes of bitmaps in the eddy's order."""
        matches = search(self.filter, columns, rows, alive, self._order, what)
        for maps, entered in zip(self.filter.maps, matches.entered, strict=True):
            for attribute, times in zip(maps.attributes.tolist(), entered.tolist(), strict=True):
                self.eddy.entered(attribute, times)
        return matches

    def _order(self, maps: Bitmaps, codes: Codes) -> Ints:
        """The order for some rows, learnt from a few of them."""
        some = codes[:, :: max(1, codes.shape[1] // SAMPLE)]
        attributes = maps.attributes.tolist()
        for a, predicates, accepted in zip(
            attributes, maps.predicates.tolist(), maps.accepted(some).tolist(), strict=True
        ):
            self.eddy.learn(a, some.shape[1], predicates * some.shape[1], accepted, codes.shape[1])
        return np.array(self.eddy.order(attributes), np.int64)


@dataclass(frozen=True)
class Run:
    """The queries at positions start … stop; `positions` has those that are indexed, None if all are."""

    start: int
    stop: int
    positions: Numbers32 | None
    routed: RoutedFilter

    def __len__(self) -> int:
        return self.stop - self.start

    def position_of(self, numbers: Numbers32) -> Numbers32:
        return numbers + np.int32(self.start) if self.positions is None else self.positions[numbers]

    def alive(self, queries: QueryRows) -> Flags:
        """By number, whether its query stands; empty if all do."""
        flags = queries.alive[self.start : self.stop] if self.positions is None else queries.alive[self.positions]
        return ALL_ALIVE if flags.all() else flags


class _HasFilter(Protocol):
    @property
    def routed(self) -> RoutedFilter: ...


def rows_to_list(runs: Sequence[_HasFilter]) -> int:
    """How many rows to list at once, so that the room for their sets stays moderate."""
    return LARGEST // (1 + max((r.routed.blocks for r in runs), default=0) // 4)


class QueryIndex:
    def __init__(self, condition: Condition) -> None:
        self.condition = condition
        self.eddy = Eddy()  # among the clauses that are evaluated
        self._runs: tuple[Run, ...] = ()
        self._cleared = -1

    def runs(self, queries: QueryRows, functions: Functions) -> tuple[Run, ...]:
        """The runs that cover a table, made longer by what is new in it."""
        if queries.version < 0:
            return (self._run(queries, 0, len(queries), functions),)  # some queries only, this once
        if queries.cleared != self._cleared:  # positions have moved
            self._runs, self._cleared = (), queries.cleared
        runs = list(self._runs)
        size = len(queries)
        start = runs[-1].stop if runs else 0
        while runs and start < size and len(runs[-1]) < GROWTH * (size - start):
            start = runs.pop().start
        if start < size:
            runs.append(self._run(queries, start, size, functions))
        for i, r in enumerate(runs):
            if 2 * int(np.count_nonzero(queries.alive[r.start : r.stop])) < r.routed.filter.size:
                runs[i] = self._run(queries, r.start, r.stop, functions)
        self._runs = tuple(runs)
        return self._runs

    def _run(self, queries: QueryRows, start: int, stop: int, functions: Functions) -> Run:
        live = start + np.nonzero(queries.alive[start:stop])[0]
        found = grouped_filter(self.condition.terms(queries, live, functions))
        if len(live) >= LARGE:
            give_back()
        return Run(start, stop, None if len(live) == stop - start else live.astype(np.int32), RoutedFilter(found))

    @property
    def known_runs(self) -> tuple[Run, ...]:
        """The runs made so far."""
        return self._runs

    # the clauses that are evaluated

    def check_order(self) -> list[int]:
        """In which order the clauses of the condition are evaluated."""
        return self.eddy.order(range(len(self.condition.checks)))

    def learn_check(self, clause: int, pairs: int, held: int, seconds: float) -> None:
        self.eddy.learn(clause, pairs, pairs, held)
        self.eddy.learn_cost(clause, seconds / pairs)
        self.eddy.entered(clause, pairs)

"""Indexes over the table of a family's queries, in runs of positions, each at least four times as long as the next.

New queries form a new run, which is merged with runs that are less than four times as long: registering n queries one
by one costs O(n log² n) in all, and a search visits O(log n) runs. A run never changes; a search skips dropped queries,
and a run is rebuilt once half of its queries are dropped. The runs of an earlier moment stay valid for that moment.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from eddyline.arrays import Ints, Ints32, Mask
from eddyline.index.runtime.garbage import return_memory
from eddyline.operators.evaluate import Functions
from eddyline.state.query_table import QueryRows

GROWTH = 4
LARGE = 100_000  # queries of a run, after which unused memory is returned
ALL_ALIVE = np.empty(0, np.bool_)

Index = TypeVar("Index")


@dataclass(frozen=True)
class Run(Generic[Index]):
    """The queries at positions start … stop; `positions` has those that are indexed, None if all are."""

    start: int
    stop: int
    positions: Ints32 | None
    index: Index

    def __len__(self) -> int:
        return self.stop - self.start

    @property
    def size(self) -> int:
        """The number of indexed queries."""
        return len(self) if self.positions is None else len(self.positions)

    def position_of(self, slots: Ints32) -> Ints32:
        """The positions, in the query table, of queries given by their slots in the index."""
        return slots + np.int32(self.start) if self.positions is None else self.positions[slots]

    def alive(self, queries: QueryRows) -> Mask:
        """By slot, whether the query is registered; empty if all are."""
        flags = queries.alive[self.start : self.stop] if self.positions is None else queries.alive[self.positions]
        return ALL_ALIVE if flags.all() else flags


class QueryRuns(Generic[Index]):
    """`make` builds the index of the queries at some positions; the first of them has slot 0, and so on."""

    def __init__(self, make: Callable[[QueryRows, Ints, Functions], Index]) -> None:
        self._make = make
        self._runs: tuple[Run[Index], ...] = ()
        self._removed = -1

    def __call__(self, queries: QueryRows, functions: Functions) -> tuple[Run[Index], ...]:
        """The runs that cover a query table, extended by its new queries."""
        if queries.version < 0:
            return (self._run(queries, 0, len(queries), functions),)  # a view of some queries: not cached
        if queries.removed != self._removed:  # positions have changed
            self._runs, self._removed = (), queries.removed
        runs = list(self._runs)
        size = len(queries)
        start = runs[-1].stop if runs else 0
        while runs and start < size and len(runs[-1]) < GROWTH * (size - start):
            start = runs.pop().start
        if start < size:
            runs.append(self._run(queries, start, size, functions))
        for i, r in enumerate(runs):
            if 2 * int(np.count_nonzero(queries.alive[r.start : r.stop])) < r.size:
                runs[i] = self._run(queries, r.start, r.stop, functions)
        self._runs = tuple(runs)
        return self._runs

    def _run(self, queries: QueryRows, start: int, stop: int, functions: Functions) -> Run[Index]:
        live = start + np.nonzero(queries.alive[start:stop])[0]
        index = self._make(queries, live, functions)
        if len(live) >= LARGE:
            return_memory()
        return Run(start, stop, None if len(live) == stop - start else live.astype(np.int32), index)

    @property
    def known(self) -> tuple[Run[Index], ...]:
        """The runs built so far."""
        return self._runs

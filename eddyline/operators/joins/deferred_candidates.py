"""The changes of a join whose candidates come from shared routes: built when they are read."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np

from eddyline.index.runtime.row_sets import lists
from eddyline.operators.base import Step
from eddyline.operators.deferred import Deferred
from eddyline.operators.joins.candidates import Candidates
from eddyline.operators.matcher import Portion, once
from eddyline.state.delta import Delta, query_of


class DeferredCandidates(Deferred):
    def __init__(self, step: Step, arrived: Delta, candidates: Candidates, build: Callable[[], Delta]) -> None:
        """`arrived` are the tuples of the step; `build` checks the candidates and makes the changes."""
        super().__init__(step, arrived, None)
        self._candidates, self._build = candidates, build

    @property
    def counted(self) -> bool:
        """Whether the number of changes is known without building them."""
        return self._candidates.changes is not None

    def count(self) -> int:
        return len(self._rows) if self._candidates.changes is None else self._candidates.changes

    def rows(self) -> Delta:
        return self._rows

    @cached_property
    def _rows(self) -> Delta:
        return self._build()

    @cached_property
    def _affected(self) -> int:
        return sum(int(p.counts.sum()) for p in self.sets)

    @cached_property
    def sets(self) -> list[Portion]:
        """The last tuple of a joined row is the one that arrived."""
        rows, queries = self._rows, self.step.queries
        place = np.searchsorted(self.arrived.first, rows.last)
        place, position = once(place, queries.positions(query_of(rows)), max(1, len(queries)))
        parts = (lists(len(self.arrived), place.astype(np.int32), position.astype(np.int32)),)
        return [Portion(0, len(self.arrived), parts)]

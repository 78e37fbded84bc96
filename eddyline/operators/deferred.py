"""Deferred changes: computed when they are read. Counting, listing queries and building rows differ in cost.

An operator whose node is `deferrable` can compute the changes of a batch later, from the rows and the queries as they
were when the batch arrived (`Matching`, `Probing`): both are immutable. The first read decides what is computed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from eddyline.arrays import Ints
from eddyline.index.runtime.row_sets import mark
from eddyline.operators.matcher import Matching, Portion, paired
from eddyline.state.delta import Delta

if TYPE_CHECKING:
    from eddyline.operators.base import Step
    from eddyline.operators.joins.ranged import Probing
    from eddyline.operators.pool import FamilyMatching


class Deferred:
    """The changes of one batch; `arrived` are its rows, before they are matched with queries."""

    def __init__(self, step: Step, arrived: Delta, matches: Matching | FamilyMatching | Probing | None) -> None:
        self.step = step
        self.arrived = arrived
        self.matches = matches
        self._after: list[Callable[[Delta], Delta]] = []

    def count(self) -> int:
        """The number of changes."""
        raise TypeError(f"{type(self).__name__} does not say what it counts")

    def rows(self) -> Delta:
        """The changes as the operator itself makes them."""
        raise TypeError(f"{type(self).__name__} does not say what it makes")

    @cached_property
    def delta(self) -> Delta:
        """The changes, after all later projections."""
        delta = self.rows()
        for apply in self._after:
            delta = apply(delta)
        return delta

    def then(self, apply: Callable[[Delta], Delta]) -> Deferred:
        """Adds a projection, which is applied when the changes are built."""
        self._after.append(apply)
        return self

    def affected(self) -> int:
        """The number of pairs (arriving row, query)."""
        return sum(int(p.counts.sum()) for p in self.sets) if "sets" in self.__dict__ else self._affected

    @cached_property
    def _affected(self) -> int:
        assert self.matches is not None
        return self.matches.count()

    @cached_property
    def sets(self) -> list[Portion]:
        """For each arriving row, the set of queries whose answer it changes."""
        assert self.matches is not None
        return self.matches.sets()

    def changed(self, queries: int) -> Ints:
        """The positions of the queries whose answer changed; `queries` is the number of positions."""
        flags = np.zeros(queries, np.bool_)
        for portion in self.sets:
            for part in portion.parts:
                mark(part, flags)
        return np.nonzero(flags)[0]

    @cached_property
    def pairs(self) -> tuple[Ints, Ints]:
        """(arriving row, query position), in that order."""
        return paired(self.sets, self.step.room)


Outcome = Delta | Deferred  # the changes of a step, built or not yet


def delta_of(outcome: Outcome) -> Delta:
    return outcome if isinstance(outcome, Delta) else outcome.delta


def count_of(outcome: Outcome) -> int:
    return len(outcome) if isinstance(outcome, Delta) else outcome.count()

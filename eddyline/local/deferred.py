"""Filters answered when somebody asks: how many, whom, or which rows are different amounts of work.

A family that only selects and projects keeps nothing, so what a batch does to its answers can be found out later,
against the queries as they were when it arrived (`Matching`). Whatever is asked first decides what is computed; it is
counted before the family takes its next batch at the latest.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from eddyline.index.sets import mark
from eddyline.operators.attach import Attach
from eddyline.operators.base import Operator, Step
from eddyline.operators.condition import calls_functions, may_overflow
from eddyline.operators.matcher import Matching, Portion, paired
from eddyline.operators.pool import FamilyMatching
from eddyline.operators.project import Project
from eddyline.operators.scan import StreamScan
from eddyline.state.delta import Delta, Ints


class FilterChain:
    """Projections over a selection over a stream: the operators of a family that can wait."""

    def __init__(self, attach: Attach, projections: Sequence[Project]) -> None:
        self.attach = attach
        self.projections = tuple(projections)  # the first is applied first

    @classmethod
    def of(cls, root: Operator) -> FilterChain | None:
        """The chain of a family's operators; None if they are something else, or call functions of the user's."""
        projections: list[Project] = []
        while isinstance(root, Project):
            projections.insert(0, root)
            (root,) = root.children
        if not isinstance(root, Attach) or root.matcher.pending or root.matcher.condition.calls_functions:
            return None
        (scan,) = root.children
        if not isinstance(scan, StreamScan) or any(calls_functions(e) for p in projections for e in p.exprs):
            return None
        return cls(root, projections)

    @property
    def cannot_fail(self) -> bool:
        """Whether no arithmetic of its condition can overflow."""
        return not any(may_overflow(c) for c in self.attach.matcher.condition.checks)

    def defer(self, step: Step, pooled: FamilyMatching | None) -> Deferred:
        """The changes of a step, matched with the family's own index if they have not been in a pool."""
        (scan,) = self.attach.children
        arrived = scan.pull(step)
        return Deferred(self, step, arrived, pooled or self.attach.matcher.prepare(step, arrived))


class Deferred:
    """The changes of one batch, made when asked for."""

    def __init__(self, chain: FilterChain, step: Step, arrived: Delta, matching: Matching | FamilyMatching) -> None:
        self._chain = chain
        self._step = step
        self._matching = matching
        self.arrived = arrived  # what came, before it was matched

    def count(self) -> int:
        """The number of changes."""
        return sum(int(p.counts.sum()) for p in self.sets) if "sets" in self.__dict__ else self._count

    @cached_property
    def _count(self) -> int:
        return self._matching.count()

    @cached_property
    def sets(self) -> list[Portion]:
        """For every change the set of queries it belongs to."""
        return self._matching.sets()

    def changed(self, queries: int) -> Ints:
        """The positions, among so many, of the queries that some change belongs to."""
        flags = np.zeros(queries, np.bool_)
        for portion in self.sets:
            for part in portion.parts:
                mark(part, flags)
        return np.nonzero(flags)[0]

    @cached_property
    def pairs(self) -> tuple[Ints, Ints]:
        """(change, query position), in that order."""
        return paired(self.sets)

    @cached_property
    def delta(self) -> Delta:
        found = self._chain.attach.matcher.attached(self._step, self.arrived, *self.pairs)
        for projection in self._chain.projections:
            found = projection.apply(self._step, found)
        return found


Found = Delta | Deferred


def delta_of(found: Found) -> Delta:
    return found if isinstance(found, Delta) else found.delta


def count_of(found: Found) -> int:
    return len(found) if isinstance(found, Delta) else found.count()

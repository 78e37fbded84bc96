"""Changes found when somebody asks: how many, whom, or which rows are different amounts of work.

What a batch does to the answers of selections and of joins over ranges can be found out later, against the rows and the
queries as they were when it arrived (`Matching`, `Probing`). Whatever is asked first decides what is computed. Changes
of selections are counted before the family takes its next batch at the latest; those of joins only if somebody asks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np

from eddyline.index.sets import mark
from eddyline.operators.attach import Attach
from eddyline.operators.base import Operator, Step
from eddyline.operators.condition import calls_functions, may_overflow
from eddyline.operators.join import Join
from eddyline.operators.matcher import Matching, Portion, paired
from eddyline.operators.pool import FamilyMatching
from eddyline.operators.project import Project
from eddyline.operators.ranged_join import Probing
from eddyline.operators.scan import StreamScan
from eddyline.state.delta import Delta, Ints, concat


class FilterChain:
    """Projections over a selection over a stream."""

    def __init__(self, attach: Attach, projections: Sequence[Project]) -> None:
        self.attach = attach
        self.projections = tuple(projections)  # the first is applied first

    @classmethod
    def of(cls, root: Operator) -> FilterChain | None:
        """The chain of a family's operators; None if they are something else, or call functions of the user's."""
        root, projections = _projected(root)
        if not isinstance(root, Attach) or root.matcher.pending or root.matcher.condition.calls_functions:
            return None
        (scan,) = root.children
        return None if not isinstance(scan, StreamScan) or _call_functions(projections) else cls(root, projections)

    @property
    def cannot_fail(self) -> bool:
        """Whether no arithmetic of its condition can overflow."""
        return not any(may_overflow(c) for c in self.attach.matcher.condition.checks)

    def defer(self, step: Step, pooled: FamilyMatching | None) -> Deferred:
        """The changes of a step, matched with the family's own index if they have not been in a pool."""
        (scan,) = self.attach.children
        arrived = scan.pull(step)
        return DeferredFilter(self, step, arrived, pooled or self.attach.matcher.prepare(step, arrived))


class JoinChain:
    """Projections over a join that may be processed by groups of ranges."""

    def __init__(self, join: Join, projections: Sequence[Project]) -> None:
        self.join = join
        self.projections = tuple(projections)

    @classmethod
    def of(cls, root: Operator) -> JoinChain | None:
        root, projections = _projected(root)
        if not isinstance(root, Join) or not any(root.ranged) or _call_functions(projections):
            return None
        return cls(root, projections)

    def defer(self, step: Step, counted: Callable[[int], None]) -> Found:
        """The changes of a step; those that are found by groups of ranges, later: `counted` is told how many, once
        somebody asks."""
        pieces = self.join.pieces(step)
        if len(pieces) == 1 and not isinstance(pieces[0], Delta):
            return DeferredJoin(self, step, *pieces[0], counted)
        return self.projected(step, self.join.together(step, pieces))

    def projected(self, step: Step, found: Delta) -> Delta:
        for projection in self.projections:
            found = projection.apply(step, found)
        return found


class Deferred:
    """The changes of one batch, made when asked for; `arrived` is what came, before it met queries."""

    def __init__(self, step: Step, arrived: Delta, found: Matching | FamilyMatching | Probing) -> None:
        self.step = step
        self.arrived = arrived
        self.found = found

    def count(self) -> int:
        """The number of changes."""
        raise TypeError(f"{type(self).__name__} does not say what it counts")

    def affected(self) -> int:
        """The number of pairs (arriving row, query)."""
        return sum(int(p.counts.sum()) for p in self.sets) if "sets" in self.__dict__ else self._affected

    @cached_property
    def _affected(self) -> int:
        return self.found.count()

    @cached_property
    def sets(self) -> list[Portion]:
        """For every arriving row the set of queries whose answer it changes."""
        return self.found.sets()

    def changed(self, queries: int) -> Ints:
        """The positions, among so many, of the queries whose answer changed."""
        flags = np.zeros(queries, np.bool_)
        for portion in self.sets:
            for part in portion.parts:
                mark(part, flags)
        return np.nonzero(flags)[0]

    @cached_property
    def pairs(self) -> tuple[Ints, Ints]:
        """(arriving row, query position), in that order."""
        return paired(self.sets, self.step.room)

    @cached_property
    def delta(self) -> Delta:
        raise TypeError(f"{type(self).__name__} does not say what it makes")


class DeferredFilter(Deferred):
    """Every arriving row makes one change for each query it belongs to."""

    def __init__(self, chain: FilterChain, step: Step, arrived: Delta, matching: Matching | FamilyMatching) -> None:
        super().__init__(step, arrived, matching)
        self._chain = chain

    def count(self) -> int:
        return self.affected()

    @cached_property
    def delta(self) -> Delta:
        found = self._chain.attach.matcher.attached(self.step, self.arrived, *self.pairs)
        for projection in self._chain.projections:
            found = projection.apply(self.step, found)
        return found


class DeferredJoin(Deferred):
    """An arriving row makes a change for each query it affects and each partner within that query's range."""

    def __init__(
        self, chain: JoinChain, step: Step, arriving: int, probing: Probing, counted: Callable[[int], None]
    ) -> None:
        super().__init__(step, probing.delta, probing)
        self._chain = chain
        self._arriving = arriving
        self._probing = probing
        self._counted = counted

    def count(self) -> int:
        return self._count

    @cached_property
    def _count(self) -> int:
        found = int(self._probing.rows_given().sum())
        self._counted(found)
        return found

    @cached_property
    def delta(self) -> Delta:
        join = self._chain.join
        found = concat(join.given(self.step, self._arriving, self._probing), join.types, attached=True)
        if "_count" not in self.__dict__:
            self._counted(len(found))
            self.__dict__["_count"] = len(found)
        return self._chain.projected(self.step, found)


Found = Delta | Deferred


def delta_of(found: Found) -> Delta:
    return found if isinstance(found, Delta) else found.delta


def count_of(found: Found) -> int:
    return len(found) if isinstance(found, Delta) else found.count()


def _projected(root: Operator) -> tuple[Operator, list[Project]]:
    """What is below projections, and the projections, the lowest first."""
    projections: list[Project] = []
    while isinstance(root, Project):
        projections.insert(0, root)
        (root,) = root.children
    return root, projections


def _call_functions(projections: Sequence[Project]) -> bool:
    return any(calls_functions(e) for p in projections for e in p.exprs)

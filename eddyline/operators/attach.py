"""Attaching: changes shared by a family become changes of the queries whose condition with parameters they satisfy."""

from __future__ import annotations

from collections.abc import Sequence

from eddyline.operators.base import Operator, Step
from eddyline.operators.deferred import Deferred
from eddyline.operators.describe import describe_index
from eddyline.operators.matcher import Matcher
from eddyline.operators.query_index import QueryIndex
from eddyline.plan import physical
from eddyline.plan.expressions import may_overflow
from eddyline.state.delta import Delta


class Attach(Operator):
    """Attaches the changes of its child to the queries whose condition they satisfy."""

    def __init__(self, node: physical.Attach, children: Sequence[Operator]) -> None:
        super().__init__(node, children)
        self.matcher = Matcher(node.condition, node.input.pending, self.types)

    def details(self) -> list[str]:
        return describe_index(self.matcher.index)

    def indexes(self) -> Sequence[QueryIndex]:
        return (self.matcher.index,)

    def pull(self, step: Step) -> Delta:
        return self.matcher.match(step, self.children[0].pull(step))

    def defer(self, step: Step) -> Delta | Deferred:
        if not self.deferrable:
            return self.pull(step)
        arrived = self.children[0].pull(step)
        return DeferredMatches(self.matcher, step, arrived)

    def pool_filter(self) -> Attach | None:
        return self if self.deferrable else None

    @property
    def cannot_fail(self) -> bool:
        """Whether no arithmetic of its condition can overflow."""
        return not any(may_overflow(c) for c in self.matcher.condition.checks)


class DeferredMatches(Deferred):
    """Every arriving row makes one change for each query that it matches."""

    def __init__(self, matcher: Matcher, step: Step, arrived: Delta) -> None:
        super().__init__(step, arrived, step.pooled or matcher.prepare(step, arrived))
        self._matcher = matcher

    def count(self) -> int:
        return self.affected()

    def rows(self) -> Delta:
        return self._matcher.attached(self.step, self.arrived, *self.pairs)

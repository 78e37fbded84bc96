"""Selection: keeps the changes whose row satisfies the condition."""

from __future__ import annotations

from collections.abc import Sequence

from eddyline.operators.base import Operator, Step, columns_for
from eddyline.operators.evaluate import holds
from eddyline.operators.matcher import Matcher
from eddyline.plan import physical
from eddyline.plan.expressions import columns_of, params_of
from eddyline.state.delta import Delta


class Filter(Operator):
    """A condition with parameters requires an attached child; one without is shared by all queries."""

    def __init__(self, node: physical.Filter, children: Sequence[Operator]) -> None:
        super().__init__(node, children)
        self.condition = node.condition
        self.matcher = Matcher(node.condition, (), self.types) if params_of(node.condition) else None

    def pull(self, step: Step) -> Delta:
        delta = self.children[0].pull(step)
        if not len(delta):
            return delta
        if self.matcher is not None:
            return self.matcher.filter(step, delta)
        columns = columns_for(delta, columns_of(self.condition))
        return delta.take(holds(self.condition, columns, (), len(delta), step.functions))

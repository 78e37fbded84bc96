"""Selection: keeps the changes whose row satisfies the condition."""

from __future__ import annotations

from eddyline.operators.base import Operator, Step, columns_for
from eddyline.operators.evaluate import holds
from eddyline.operators.matcher import Matcher
from eddyline.plan.expressions import columns_of, params_of
from eddyline.sql.bound import Expr
from eddyline.state.delta import Delta


class Filter(Operator):
    """A condition with parameters needs an attached child; without, it is common to the family."""

    def __init__(self, child: Operator, condition: Expr) -> None:
        super().__init__((child,))
        self.types, self.attached, self.pending = child.types, child.attached, child.pending
        self.condition = condition
        self.matcher = Matcher(condition, (), child.types) if params_of(condition) else None

    def pull(self, step: Step) -> Delta:
        delta = self.children[0].pull(step)
        if not len(delta):
            return delta
        if self.matcher is not None:
            return self.matcher.filter(step, delta)
        columns = columns_for(delta, columns_of(self.condition))
        return delta.take(holds(self.condition, columns, (), len(delta), step.functions))

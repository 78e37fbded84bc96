"""Attaching: changes common to a family become changes of the queries that satisfy a condition with parameters."""

from __future__ import annotations

from eddyline.operators.base import Operator, Step
from eddyline.operators.describe import describe_index
from eddyline.operators.matcher import Matcher
from eddyline.sql.bound import Expr
from eddyline.state.delta import Delta


class Attach(Operator):
    """Gives the changes of its child to the queries that satisfy the condition."""

    def __init__(self, child: Operator, condition: Expr | None = None) -> None:
        super().__init__((child,))
        self.types = child.types
        self.attached = True
        self.matcher = Matcher(condition, child.pending, child.types)

    def details(self) -> list[str]:
        return describe_index(self.matcher.index)

    def pull(self, step: Step) -> Delta:
        return self.matcher.match(step, self.children[0].pull(step))


def attached(child: Operator) -> Operator:
    return child if child.attached else Attach(child)

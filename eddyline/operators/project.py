"""Projection: new columns from old. Without parameters it works once per row, however many queries a row is of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from eddyline.operators.base import Operator, Step
from eddyline.operators.evaluate import evaluate
from eddyline.plan.expressions import params_of
from eddyline.sql.bound import Expr
from eddyline.state.delta import Delta, query_of


class Project(Operator):
    def __init__(self, child: Operator, exprs: tuple[Expr, ...]) -> None:
        super().__init__((child,))
        self.attached = child.attached
        self.exprs = exprs
        self.types = tuple(e.type for e in exprs)
        self.params_used = {p for e in exprs for p in params_of(e)}
        self.by_query = bool(self.params_used)

    def pull(self, step: Step) -> Delta:
        return self.apply(step, self.children[0].pull(step))

    def apply(self, step: Step, delta: Delta) -> Delta:
        """The projection of some changes."""
        if not len(delta):
            return self.none()
        params: Sequence[Any] = ()
        if self.by_query or len(delta) < len(delta.columns[0]):
            delta = delta.spread()
        if self.by_query:
            params = step.queries.params_at(self.params_used, step.queries.positions(query_of(delta)))
        height = len(delta) if delta.rows is None else len(delta.columns[0])
        owners = delta.query if delta.rows is None else None
        columns = tuple(evaluate(e, delta.columns, params, height, step.functions, owners) for e in self.exprs)
        return replace(delta, columns=columns)

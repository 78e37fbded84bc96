"""Projection: new columns from old. Without parameters it works once per row, however many queries a row is of."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

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
        self.by_query = any(params_of(e) for e in exprs)

    def pull(self, step: Step) -> Delta:
        return self.apply(step, self.children[0].pull(step))

    def apply(self, step: Step, delta: Delta) -> Delta:
        """The projection of some changes."""
        if not len(delta):
            return self.none()
        params: tuple[pa.Array, ...] = ()
        if self.by_query or len(delta) < len(delta.columns[0]):
            delta = delta.spread()
        if self.by_query:
            params = tuple(step.queries.all_params_at(step.queries.positions(query_of(delta))))
        height = len(delta) if delta.rows is None else len(delta.columns[0])
        owners = delta.query if delta.rows is None else None
        columns = tuple(evaluate(e, delta.columns, params, height, step.functions, owners) for e in self.exprs)
        return replace(delta, columns=columns)

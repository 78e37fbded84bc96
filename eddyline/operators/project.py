"""Projection. Without parameters, a row is computed once, however many queries share it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from eddyline.operators.attach import Attach
from eddyline.operators.base import Operator, Step
from eddyline.operators.deferred import Deferred
from eddyline.operators.evaluate import evaluate
from eddyline.plan import physical
from eddyline.plan.expressions import params_of
from eddyline.state.delta import Delta, query_of


class Project(Operator):
    def __init__(self, node: physical.Project, children: Sequence[Operator]) -> None:
        super().__init__(node, children)
        self.exprs = tuple(o.expr for o in node.outputs)
        self.params_used = {p for e in self.exprs for p in params_of(e)}
        self.per_query = bool(self.params_used)

    def pull(self, step: Step) -> Delta:
        return self.apply(step, self.children[0].pull(step))

    def defer(self, step: Step) -> Delta | Deferred:
        if not self.deferrable:
            return self.pull(step)
        below = self.children[0].defer(step)
        if isinstance(below, Deferred):
            return below.then(lambda delta: self.apply(step, delta))
        return self.apply(step, below)

    def pool_filter(self) -> Attach | None:
        return self.children[0].pool_filter() if self.deferrable else None

    def apply(self, step: Step, delta: Delta) -> Delta:
        """The projection of these changes."""
        if not len(delta):
            return self.none()
        params: Sequence[Any] = ()
        if self.per_query or len(delta) < len(delta.columns[0]):
            delta = delta.spread()
        if self.per_query:
            params = step.queries.params_at(self.params_used, step.queries.positions(query_of(delta)))
        height = len(delta) if delta.rows is None else len(delta.columns[0])
        owners = delta.query if delta.rows is None else None
        columns = tuple(evaluate(e, delta.columns, params, height, step.functions, owners) for e in self.exprs)
        return replace(delta, columns=columns)

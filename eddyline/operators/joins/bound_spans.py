"""Minimum and maximum of the bounds of a family's queries; used to prove that sums of a range join cannot overflow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from eddyline.arrays import Ints, Mask
from eddyline.index.filters.domains import as_integers
from eddyline.index.ranges.probes import INTEGERS
from eddyline.operators.evaluate import Functions, evaluate
from eddyline.operators.joins.placed_axes import span
from eddyline.operators.query_runs import QueryRuns
from eddyline.plan.differences import Span
from eddyline.plan.expressions import params_of
from eddyline.sql.bound import Expr
from eddyline.state.query_table import QueryRows


@dataclass(frozen=True)
class Bound:
    """The values of one bound by query; `known` is False where a value is NULL."""

    values: Ints
    known: Mask
    span: Span  # of all queries

    def span_of(self, alive: Mask) -> Span:
        """The span over registered queries; empty flags mean that all are."""
        return self.span if not len(alive) else span(INTEGERS, self.values[self.known & alive])


class BoundSpans:
    def __init__(self, exprs: Sequence[Expr]) -> None:
        """`exprs` use no columns."""
        self.exprs = tuple(exprs)
        self.runs = QueryRuns(self._bounds)

    def __call__(self, queries: QueryRows, functions: Functions) -> dict[Expr, Span]:
        """The least and largest value of each bound."""
        if not self.exprs:
            return {}
        runs = [(r.index, r.alive(queries)) for r in self.runs(queries, functions)]
        spans_by_bound = {}
        for i, expr in enumerate(self.exprs):
            spans = [bounds[i].span_of(alive) for bounds, alive in runs]
            spans_by_bound[expr] = min((s[0] for s in spans), default=0), max((s[1] for s in spans), default=0)
        return spans_by_bound

    def _bounds(self, queries: QueryRows, positions: Ints, functions: Functions) -> list[Bound]:
        bounds = []
        for expr in self.exprs:  # failures are not recorded here: the ranges use the same expressions and record them
            values, missing = as_integers(
                evaluate(expr, (), queries.params_at(params_of(expr), positions), len(positions))
            )
            bounds.append(Bound(values, ~missing, span(INTEGERS, values[~missing])))
        return bounds

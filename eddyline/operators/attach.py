"""Attaching: an arriving batch is a query over the table of queries.

Changes common to a family are joined with its query table under the conditions that hold parameters, giving changes
that belong to single queries. An access path (`access.py`) gives the candidates; all conditions are checked on these.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline import types as t
from eddyline.operators.access import AccessPaths, Comparison, comparison, param_values, params_at
from eddyline.operators.base import Operator, PendingWindow, Step, columns_for
from eddyline.operators.evaluate import evaluate, holds
from eddyline.plan.expressions import all_of, columns_of, conjuncts, params_of
from eddyline.sql.bound import Call, Column, Expr
from eddyline.state.delta import MAX, Delta, Ints, concat, micros, query_of, take

Mask = npt.NDArray[np.bool_]


class Matcher:
    """Finds the queries that changes belong to, under a condition with parameters and pending windows."""

    def __init__(self, condition: Expr | None, pending: Sequence[PendingWindow], types: Sequence[pa.DataType]) -> None:
        self.types = tuple(types)
        self.pending = tuple(pending)
        self.comparisons: list[Comparison] = []
        rest: list[Expr] = []
        for part in conjuncts(condition):
            found = comparison(part)
            if found is None:
                rest.append(part)
            else:
                self.comparisons.append(found)
        self.rest = all_of(rest)
        self.access = AccessPaths(self.comparisons)

    def match(self, step: Step, delta: Delta) -> Delta:
        """Changes common to the family, as changes of the queries they satisfy."""
        queries = step.queries
        if not len(delta) or not queries.alive.any():
            return concat([], self.types, attached=True)
        rows = [
            evaluate(c.row, columns_for(delta, columns_of(c.row)), (), len(delta), step.functions)
            for c in self.comparisons
        ]
        parts = []
        for change, position in self.access.candidates(step, rows, len(delta)):
            kept = (delta.first[change] >= queries.since[position]) & queries.alive[position]
            for c, row in zip(self.comparisons, rows, strict=True):
                kept[kept] = _compare(c, row.take(pa.array(change[kept])), param_values(c, step, position[kept]))
            parts.append(self._apply(step, delta, *_in_order(change[kept], position[kept], len(queries.ids))))
        return concat(parts, self.types, attached=True)

    def filter(self, step: Step, delta: Delta) -> Delta:
        """Changes already attached, under the same condition."""
        position = step.queries.positions(query_of(delta))
        kept = step.queries.alive[position] & (delta.first >= step.queries.since[position])
        for c in self.comparisons:
            kept &= _holds(Call(c.op, (c.row, c.param), t.BOOLEAN), step, delta, position)
        return self._apply(step, delta, np.nonzero(kept)[0], position[kept])

    def _apply(self, step: Step, delta: Delta, change: Ints, position: Ints) -> Delta:
        """Checks what is left of the condition, ends rows by the query's windows, and names the query."""
        found = replace(delta.take(change), query=step.queries.ids[position])
        if self.rest is not None and len(found):
            kept = _holds(self.rest, step, found, position)
            found, position = found.take(kept), position[kept]
        for window in self.pending:
            if not len(found):
                break
            params = params_at(step.queries, params_of(window.size), position)
            size = evaluate(window.size, (), params, len(found), step.functions, query_of(found)).cast(pa.int64())
            width = size.fill_null(-1).to_numpy(zero_copy_only=False)
            time = found.columns[window.time]
            begin = micros(time if found.rows is None else take(time, found.rows))
            end = np.where(begin > MAX - np.maximum(width, 0), MAX, begin + width)
            found = replace(found, exp=np.minimum(found.exp, end)).take(width >= 0)
            position = position[width >= 0]
        return found.take(found.ts <= found.exp)


def _in_order(change: Ints, position: Ints, queries: int) -> tuple[Ints, Ints]:
    """Pairs by change, then by query: the order of results must not tell how the queries are indexed."""
    pairs = np.sort(change * queries + position)
    return pairs // queries, pairs % queries


def _compare(c: Comparison, row: pa.Array, param: pa.Array) -> Mask:
    sides = Column(0, row.type, "row"), Column(1, param.type, "param")
    return holds(Call(c.op, sides, t.BOOLEAN), (row, param), (), len(row))


def _holds(condition: Expr, step: Step, delta: Delta, position: Ints) -> Mask:
    columns = columns_for(delta, columns_of(condition))
    params = params_at(step.queries, params_of(condition), position)
    return holds(condition, columns, params, len(delta), step.functions, step.queries.ids[position])


class Attach(Operator):
    """Gives the changes of its child to the queries that satisfy the condition."""

    def __init__(self, child: Operator, condition: Expr | None = None) -> None:
        super().__init__((child,))
        self.types = child.types
        self.attached = True
        self.matcher = Matcher(condition, child.pending, child.types)

    def pull(self, step: Step) -> Delta:
        return self.matcher.match(step, self.children[0].pull(step))


def attached(child: Operator) -> Operator:
    return child if child.attached else Attach(child)

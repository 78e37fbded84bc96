"""Attaching: an arriving batch is a query over the table of queries.

Changes common to a family are joined with its query table under the conditions that hold parameters, giving changes
that belong to single queries. One comparison of a column expression with a parameter serves as access path: the
parameter's values are sorted, and each change finds its range of candidates; whichever comparison leaves the fewest
candidates is taken, and the others are checked on these.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline import types as t
from eddyline.families.queries import QueryRows
from eddyline.index.ranges import spread
from eddyline.index.strings import StringTable
from eddyline.operators.base import Operator, PendingWindow, Step, columns_for
from eddyline.operators.evaluate import evaluate, holds
from eddyline.plan.expressions import all_of, columns_of, conjuncts, params_of
from eddyline.sql.bound import Call, Column, Expr
from eddyline.sql.functions import MIRRORED
from eddyline.state.delta import MAX, Delta, Ints, concat, micros, query_of, take

PAIRS_AT_ONCE = 1 << 20
Values = npt.NDArray[Any]


@dataclass(frozen=True)
class Comparison:
    """`row op param`: the left side sees columns only, the right side parameters only."""

    op: str
    row: Expr
    param: Expr


@dataclass(frozen=True)
class Sorted:
    """The values of a comparison's parameter side: by query position, and sorted without NULLs."""

    order: Ints  # query positions in ascending order of value
    values: Values
    strings: StringTable | None


class Matcher:
    """Finds the queries that changes belong to, under a condition with parameters and pending windows."""

    def __init__(self, condition: Expr | None, pending: Sequence[PendingWindow], types: Sequence[pa.DataType]) -> None:
        self.types = tuple(types)
        self.pending = tuple(pending)
        self.comparisons: list[Comparison] = []
        rest: list[Expr] = []
        for part in conjuncts(condition):
            found = _comparison(part)
            if found is None:
                rest.append(part)
            else:
                self.comparisons.append(found)
        self.rest = all_of(rest)
        self._cache: dict[int, Sorted] = {}
        self._cached = -1

    def match(self, step: Step, delta: Delta) -> Delta:
        """Changes common to the family, as changes of the queries they satisfy."""
        queries = step.queries
        live = queries.live()
        if not len(delta) or not len(live):
            return concat([], self.types, attached=True)
        rows = [_row_values(c, delta, step) for c in self.comparisons]
        parts = []
        for change, position in self._candidates(step, delta, rows, live):
            kept = delta.first[change] >= queries.since[position]
            kept &= queries.alive[position]
            for i, c in enumerate(self.comparisons):
                kept[kept] = self._check(c, step, rows[i], change[kept], position[kept])
            parts.append(self._apply(step, delta, change[kept], position[kept]))
        return concat(parts, self.types, attached=True)

    def filter(self, step: Step, delta: Delta) -> Delta:
        """Changes already attached, under the same condition."""
        position = step.queries.positions(query_of(delta))
        kept = step.queries.alive[position] & (delta.first >= step.queries.since[position])
        for c in self.comparisons:
            expr = Call(c.op, (c.row, c.param), t.BOOLEAN)
            kept &= _holds(expr, step, delta, position)
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
            params = _params(step.queries, params_of(window.size), position)
            size = evaluate(window.size, (), params, len(found), step.functions).cast(pa.int64())
            width = size.fill_null(-1).to_numpy(zero_copy_only=False)
            time = found.columns[window.time]
            begin = micros(time if found.rows is None else take(time, found.rows))
            end = np.where(begin > MAX - np.maximum(width, 0), MAX, begin + width)
            found = replace(found, exp=np.minimum(found.exp, end)).take(width >= 0)
            position = position[width >= 0]
        return found.take(found.ts <= found.exp)

    def _candidates(self, step: Step, delta: Delta, rows: list[pa.Array], live: Ints) -> Iterator[tuple[Ints, Ints]]:
        """Pairs (change, query position) that include all matches, some at a time."""
        n = len(delta)
        order, low, high = live, np.zeros(n, np.int64), np.full(n, len(live), np.int64)
        for i, c in enumerate(self.comparisons):
            found = self._ranges(i, c, step, rows[i], live)
            if found is not None and (found[2] - found[1]).sum() < (high - low).sum():
                order, low, high = found
        total = np.cumsum(high - low)
        start = 0
        while start < n:
            done = total[start - 1] if start else 0
            stop = max(start + 1, int(np.searchsorted(total, done + PAIRS_AT_ONCE)))
            change, place = spread(low[start:stop], high[start:stop])
            if len(change):
                yield change + start, order[place]
            start = stop

    def _ranges(
        self, i: int, c: Comparison, step: Step, values: pa.Array, live: Ints
    ) -> tuple[Ints, Ints, Ints] | None:
        """For each change the range of the sorted parameter values that satisfies the comparison."""
        if c.op == "ne" or c.row.type == t.BOOLEAN or (c.row.type == t.STRING and c.op != "eq"):
            return None
        index = self._sorted(i, c, step, live)
        if index.strings is not None:
            wanted: Values = index.strings.find(values)
            missing = wanted < 0
        else:
            wanted, missing = _numbers(values)
        left = np.searchsorted(index.values, wanted, side="left")
        right = np.searchsorted(index.values, wanted, side="right")
        n = len(index.values)
        low, high = {
            "eq": (left, right),
            "gt": (np.zeros_like(left), left),
            "ge": (np.zeros_like(left), right),
            "lt": (right, np.full_like(right, n)),
            "le": (left, np.full_like(left, n)),
        }[c.op]
        return index.order, low.astype(np.int64), np.where(missing, low, high).astype(np.int64)

    def _sorted(self, i: int, c: Comparison, step: Step, live: Ints) -> Sorted:
        queries = step.queries
        if queries.version != self._cached or queries.version < 0:
            self._cache.clear()
            self._cached = queries.version
        if i not in self._cache:
            values = evaluate(c.param, (), _params(queries, params_of(c.param), live), len(live), step.functions)
            strings = None
            if c.row.type == t.STRING:
                strings = StringTable()
                numbers: Values = strings.intern(values)
                missing = numbers < 0
            else:
                numbers, missing = _numbers(values)
            kept = np.nonzero(~missing)[0]
            order = kept[np.argsort(numbers[kept], kind="stable")]
            self._cache[i] = Sorted(live[order], numbers[order], strings)
        return self._cache[i]

    def _check(self, c: Comparison, step: Step, rows: pa.Array, change: Ints, position: Ints) -> npt.NDArray[np.bool_]:
        row = rows.take(pa.array(change))
        params = _params(step.queries, params_of(c.param), position)
        param = evaluate(c.param, (), params, len(position), step.functions)
        sides = Column(0, row.type, "row"), Column(1, param.type, "param")
        return holds(Call(c.op, sides, t.BOOLEAN), (row, param), (), len(row))


def _row_values(c: Comparison, delta: Delta, step: Step) -> pa.Array:
    columns = columns_for(delta, columns_of(c.row))
    return evaluate(c.row, columns, (), len(delta), step.functions)


def _holds(condition: Expr, step: Step, delta: Delta, position: Ints) -> npt.NDArray[np.bool_]:
    columns = columns_for(delta, columns_of(condition))
    params = _params(step.queries, params_of(condition), position)
    return holds(condition, columns, params, len(delta), step.functions)


def _params(queries: QueryRows, used: set[int], position: Ints) -> list[pa.Array | None]:
    where = pa.array(position)
    return [p.take(where) if i in used else None for i, p in enumerate(queries.params)]


def _numbers(values: pa.Array) -> tuple[Values, npt.NDArray[np.bool_]]:
    """Values in sortable form, and which are NULL. NaN sorts last and equals itself, as in SQL here."""
    missing = values.is_null().to_numpy(zero_copy_only=False)
    if not t.is_float(values.type):
        values = values.cast(pa.int32() if values.type == t.DATE else pa.int64())
    return values.fill_null(0).to_numpy(zero_copy_only=False), missing


def _comparison(part: Expr) -> Comparison | None:
    if not isinstance(part, Call) or part.function not in MIRRORED:
        return None
    a, b = part.args
    if columns_of(a) and not params_of(a) and params_of(b) and not columns_of(b):
        return Comparison(part.function, a, b)
    if columns_of(b) and not params_of(b) and params_of(a) and not columns_of(a):
        return Comparison(MIRRORED[part.function], b, a)
    return None


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

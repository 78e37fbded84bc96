"""Comparisons across the two inputs of a join, as comparisons of a difference with a bound of the query's own.

    s.b >= r.b + :lo                        s.b - r.b >= :lo
    s.ts <= r.ts + INTERVAL :w SECONDS      s.ts - r.ts <= INTERVAL :w SECONDS
    r.ts <= s.ts                            r.ts - s.ts <= 0

Whole numbers, times and intervals can be moved from one side to the other exactly, as long as nothing overflows. So
the sums that the condition computes as it was written come along: whoever knows the values sees whether they fit.
Doubles would be rounded elsewhere; of them, and of dates and truth values, only plain comparisons are taken.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta

import pyarrow as pa

from eddyline import types as t
from eddyline.operators.casts import CALENDAR
from eddyline.operators.condition import calls_functions, may_overflow
from eddyline.plan.bands import unwidened
from eddyline.plan.expressions import columns_of, params_of
from eddyline.sql.bound import Call, Constant, Expr
from eddyline.sql.functions import MIRRORED

COMPARED = ("lt", "le", "gt", "ge", "eq")
ORDER = "order"  # the difference of what is only compared; its sign is what counts

Span = tuple[float, float]  # the least and the largest
Inputs = Callable[[Expr], set[int]]  # which inputs of the join an expression sees
Terms = tuple[tuple[int, Expr], ...]  # signed parts of a sum


@dataclass(frozen=True)
class Sum:
    """left * a + right * b + bounds, where a - b is the difference; it is NULL where its type has no room for it."""

    left: int
    right: int
    bounds: Terms  # they see no columns
    type: pa.DataType

    def fits(self, left: Span, right: Span, bounds: Mapping[Expr, Span]) -> bool:
        """Whether it has a value for all a and b of some spans, and all bounds of theirs."""
        parts = [(self.left, left), (self.right, right), *((sign, bounds[e]) for sign, e in self.bounds)]
        low = sum(sign * int(span[sign < 0]) for sign, span in parts)
        high = sum(sign * int(span[sign > 0]) for sign, span in parts)
        least, largest = _room(self.type)
        return least <= low and high <= largest

    def mirrored(self) -> Sum:
        return replace(self, left=self.right, right=self.left)


@dataclass(frozen=True)
class Difference:
    """`left - right op bounds`; left and right see one input each, and no parameters."""

    left: Expr
    right: Expr
    op: str
    bounds: Terms
    sums: tuple[Sum, ...]

    def mirrored(self) -> Difference:
        """The same, with the difference taken the other way round."""
        bounds = tuple((-sign, e) for sign, e in self.bounds)
        sums = tuple(s.mirrored() for s in self.sums)
        return Difference(self.right, self.left, MIRRORED[self.op], bounds, sums)

    @property
    def type(self) -> pa.DataType:
        if self.left.type in (t.TIMESTAMP, t.INTERVAL):
            return t.INTERVAL
        return t.DOUBLE if t.is_float(self.left.type) else t.BIGINT

    @property
    def attribute(self) -> Call:
        if not _movable(self.left.type):
            return Call(ORDER, (self.left, self.right), self.type)
        sides = self.left, self.right
        return Call("sub", tuple(_as(e, t.BIGINT) if t.is_integer(e.type) else e for e in sides), self.type)

    @property
    def bound(self) -> Expr:
        total: Expr = Constant({t.INTERVAL: timedelta(0), t.DOUBLE: 0.0}.get(self.type, 0), self.type)
        for sign, e in self.bounds:
            total = Call("add" if sign > 0 else "sub", (total, _as(e, self.type)), self.type)
        return total

    @property
    def all_sums(self) -> tuple[Sum, ...]:
        """Those of the condition as written, and those of the bound."""
        return *self.sums, *(Sum(0, 0, self.bounds[: i + 1], self.type) for i in range(len(self.bounds)))


def difference(expr: Expr, inputs: Inputs) -> Difference | None:
    """What a condition says about a difference; None if it is of another kind."""
    if not isinstance(expr, Call) or expr.function not in COMPARED or calls_functions(expr):
        return None
    a, b = expr.args
    if not _movable(a.type):
        plain = sorted([*inputs(a), *inputs(b)]) == [0, 1] and len(inputs(a)) == 1 and a.type != t.STRING
        usable = plain and not any(params_of(x) or may_overflow(x) for x in (a, b))
        return Difference(a, b, expr.function, (), ()) if usable else None
    opened: list[tuple[Terms, pa.DataType]] = []
    lesser, greater = _terms(a, inputs, opened), _terms(b, inputs, opened)
    if lesser is None or greater is None:
        return None
    terms = lesser + tuple((-sign, e) for sign, e in greater)
    columns = [(sign, e) for sign, e in terms if inputs(e)]
    bounds = tuple((-sign, e) for sign, e in terms if not inputs(e))
    if sorted(min(inputs(e)) for _, e in columns) != [0, 1] or columns[0][0] == columns[1][0]:
        return None
    (_, left), (_, right) = columns if columns[0][0] > 0 else columns[::-1]
    if any(e.type == t.TIMESTAMP for _, e in bounds) or (left.type == t.TIMESTAMP) != (right.type == t.TIMESTAMP):
        return None

    def share(of: Expr, parts: Terms) -> int:
        return sum(sign for sign, e in parts if e is of)

    sums = tuple(
        Sum(share(left, parts), share(right, parts), tuple((s, e) for s, e in parts if not inputs(e)), type_)
        for parts, type_ in opened
    )
    return Difference(left, right, expr.function, bounds, sums)


def _terms(expr: Expr, inputs: Inputs, opened: list[tuple[Terms, pa.DataType]]) -> Terms | None:
    """An expression as a sum, opened until its parts see one input or none; None if it is no such sum.

    What was opened is added to `opened`. Parts that see an input must not overflow by themselves: a row without a
    partner would be a query's fault.
    """
    expr = unwidened(expr)
    if not columns_of(expr):
        return ((1, expr),)
    if isinstance(expr, Call) and expr.function in ("add", "sub"):
        a, b = (_terms(arg, inputs, opened) for arg in expr.args)
        if a is None or b is None:
            return None
        found = a + (b if expr.function == "add" else tuple((-sign, e) for sign, e in b))
        opened.append((found, expr.type))
        return found
    plain = len(inputs(expr)) == 1 and not params_of(expr) and not may_overflow(expr)
    return ((1, expr),) if plain else None


def _as(expr: Expr, type_: pa.DataType) -> Expr:
    return expr if expr.type == type_ else Call("cast", (expr,), type_)


def _movable(type_: pa.DataType) -> bool:
    return t.is_integer(type_) or type_ in (t.TIMESTAMP, t.INTERVAL)


def _room(type_: pa.DataType) -> tuple[int, int]:
    if type_ == t.TIMESTAMP:
        return CALENDAR
    half: int = 1 << (type_.bit_width - 1)
    return -half, half - 1

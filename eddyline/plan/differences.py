"""The normal form of a comparison across two inputs of a join: a difference compared with the query's own bound.

    s.b >= r.b + :lo                        s.b - r.b >= :lo
    s.ts <= r.ts + INTERVAL :w SECONDS      s.ts - r.ts <= INTERVAL :w SECONDS
    abs(r.x - s.x) <= :w                    r.x - s.x <= :w   and   s.x - r.x <= :w

Partitioning (`bands.py`) and joins over ranges (`range_probes.py`) use this form.

Terms that are integers, times or intervals move from one side to the other exactly, as long as nothing overflows. So a
difference also lists the sums that the condition computes as written: a caller that knows the ranges of the values can
check that they fit. Moving doubles changes the rounding: with "exact" precision they are only compared, and with
"rounded" precision (for partitioning, which leaves a margin) their terms move too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Literal

import pyarrow as pa

from eddyline import types as t
from eddyline.plan.expressions import calls_functions, may_overflow, params_of, unwidened
from eddyline.sql.bound import Call, Constant, Expr
from eddyline.sql.columns import CALENDAR
from eddyline.sql.functions import MIRRORED

COMPARED = ("lt", "le", "gt", "ge", "eq")
ORDER = "order"  # function name of a difference of which only the sign is used

Span = tuple[float, float]  # minimum and maximum
Inputs = Callable[[Expr], set[int]]  # the inputs of the join whose columns an expression uses
Terms = tuple[tuple[int, Expr], ...]  # signed parts of a sum
Precision = Literal["exact", "rounded"]


@dataclass(frozen=True)
class Sum:
    """left * a + right * b + bounds, where a - b is the difference; NULL where it overflows its type."""

    left: int
    right: int
    bounds: Terms  # without columns
    type: pa.DataType

    def fits(self, left: Span, right: Span, bounds: Mapping[Expr, Span]) -> bool:
        """Whether the sum cannot overflow for any a, b and bounds within these spans."""
        parts = [(self.left, left), (self.right, right), *((sign, bounds[e]) for sign, e in self.bounds)]
        low = sum(sign * int(span[sign < 0]) for sign, span in parts)
        high = sum(sign * int(span[sign > 0]) for sign, span in parts)
        least, largest = _limits(self.type)
        return least <= low and high <= largest

    def mirrored(self) -> Sum:
        return replace(self, left=self.right, right=self.left)


@dataclass(frozen=True)
class Difference:
    """`left - right op bounds`; left and right have the columns of one input each, the bounds have none.

    `passes`: the inputs whose NaN satisfies the condition for any value of the other input."""

    left: Expr
    right: Expr
    op: str
    bounds: Terms
    sums: tuple[Sum, ...]
    passes: frozenset[int]

    def mirrored(self) -> Difference:
        """The same condition as `right - left`."""
        bounds = tuple((-sign, e) for sign, e in self.bounds)
        sums = tuple(s.mirrored() for s in self.sums)
        return replace(self, left=self.right, right=self.left, op=MIRRORED[self.op], bounds=bounds, sums=sums)

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
        """The sums of the condition as written, and the partial sums of the bound."""
        return *self.sums, *(Sum(0, 0, self.bounds[: i + 1], self.type) for i in range(len(self.bounds)))


def differences(expr: Expr, inputs: Inputs, precision: Precision) -> list[Difference]:
    """A condition as conditions on differences; none if it has another form.

    Exact ones are true for the same rows as the condition, wherever all sums fit. Rounded ones are implied by it."""
    if not isinstance(expr, Call) or expr.function not in COMPARED or calls_functions(expr):
        return []
    op, (a, b) = expr.function, expr.args
    if not inputs(a):
        op, a, b = MIRRORED[op], b, a
    distance = unwidened(a)
    if isinstance(distance, Call) and distance.function == "abs":
        if op not in ("le", "lt") or precision == "exact":
            return []
        both = (_difference(op, distance.args[0], b, inputs, precision, flip) for flip in (1, -1))
        return [d for d in both if d is not None]
    difference = _difference(op, a, b, inputs, precision)
    return [] if difference is None else [difference]


def _difference(op: str, a: Expr, b: Expr, inputs: Inputs, precision: Precision, flip: int = 1) -> Difference | None:
    """`flip * a op b` as a difference."""
    opened: list[tuple[Terms, pa.DataType]] = []
    lesser: Terms = ((1, a),)
    greater: Terms = ((1, b),)
    if precision == "rounded" or _movable(a.type):
        lesser, greater = _terms(a, inputs, opened), _terms(b, inputs, opened)
    terms = tuple((flip * sign, e) for sign, e in lesser) + tuple((-sign, e) for sign, e in greater)
    columns = [(sign, e) for sign, e in terms if inputs(e)]
    bounds = tuple((-sign, e) for sign, e in terms if not inputs(e))
    seen = sorted(sorted(inputs(e)) for _, e in columns)
    if seen != [[0], [1]] or columns[0][0] == columns[1][0]:
        return None
    (_, left), (_, right) = columns if columns[0][0] > 0 else columns[::-1]
    if precision == "exact":
        # A side that may overflow is refused: evaluated on its own, it would fail for rows without a partner.
        plain = not any(params_of(e) or may_overflow(e) or e.type == t.STRING for e in (left, right))
        times = {left.type == t.TIMESTAMP, right.type == t.TIMESTAMP}
        if not plain or len(times) > 1 or any(e.type == t.TIMESTAMP for _, e in bounds):
            return None
    sums = tuple(_sum(parts, left, right, inputs, type_) for parts, type_ in opened)
    on_the_left = set[int]().union(*(inputs(e) for _, e in lesser))
    passes = frozenset(i for i in (0, 1) if op in (("ge", "gt") if i in on_the_left else ("le", "lt")))
    return Difference(left, right, op, bounds, sums, passes)


def _terms(expr: Expr, inputs: Inputs, opened: list[tuple[Terms, pa.DataType]]) -> Terms:
    """An expression as a sum of terms. Each addition that is split into terms is added to `opened`.

    A part over one input alone is not split: computed in another order, it could overflow where the condition does not.
    """
    inner = unwidened(expr)
    if isinstance(inner, Call) and inner.function in ("add", "sub") and inputs(inner.args[0]) != inputs(inner.args[1]):
        a, b = (_terms(arg, inputs, opened) for arg in inner.args)
        terms = a + (b if inner.function == "add" else tuple((-sign, e) for sign, e in b))
        opened.append((terms, inner.type))
        return terms
    return ((1, inner if _movable(expr.type) else expr),)


def _sum(parts: Terms, left: Expr, right: Expr, inputs: Inputs, type_: pa.DataType) -> Sum:
    of_left, of_right = (sum(sign for sign, e in parts if e is of) for of in (left, right))
    return Sum(of_left, of_right, tuple((sign, e) for sign, e in parts if not inputs(e)), type_)


def _as(expr: Expr, type_: pa.DataType) -> Expr:
    return expr if expr.type == type_ else Call("cast", (expr,), type_)


def _movable(type_: pa.DataType) -> bool:
    return t.is_integer(type_) or type_ in (t.TIMESTAMP, t.INTERVAL)


def _limits(type_: pa.DataType) -> tuple[int, int]:
    if type_ == t.TIMESTAMP:
        least, largest = CALENDAR[type_]
        return least, largest
    half: int = 1 << (type_.bit_width - 1)
    return -half, half - 1

"""Bands: join conditions that bound the difference of two numbers, one from each input (`differences.py`).

    s.b - r.b BETWEEN :lo AND :hi        abs(r.x - s.x) <= :w        s.b >= r.b - 3 AND s.b <= r.b + :hi

Invariant: every pair of rows that satisfies the conditions has low <= left - right <= high, or NaN on both sides, or a
bound that is not finite. Callers must allow for rounding (a few units in the last place of the values and of each
bound); the rounding of a bound that is a sum of several terms is already included.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from eddyline import types as t
from eddyline.plan.differences import Inputs, Terms, differences
from eddyline.plan.equalities import bare
from eddyline.plan.expressions import conjuncts, unwidened
from eddyline.sql.bound import Call, Constant, Expr

MOST_TERMS = 4  # of one bound, so that few roundings add up
ROUNDING = 2.0**-48  # relative rounding error of a sum of so many terms

End = Literal["low", "high"]

_ENDS: dict[str, tuple[End, ...]] = {
    "le": ("high",), "lt": ("high",), "ge": ("low",), "gt": ("low",), "eq": ("low", "high"),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Band:
    """low <= left - right <= high; the bounds have no columns and are DOUBLE."""

    left: Expr
    right: Expr
    low: Expr
    high: Expr


@dataclass(frozen=True, slots=True)
class _Limit:
    """One end of a band. `passes` has the sides whose NaN satisfies the condition for any value of the other side."""

    left: Expr
    right: Expr
    end: End
    bound: Expr
    passes: frozenset[int]


def bands(condition: Expr | None, side: Inputs) -> Iterator[Band]:
    """The two-sided bands of a condition."""
    limits = [limit for part in conjuncts(condition) for limit in _limits(part, side)]
    for low in limits:
        for high in limits:
            same = (low.left, low.right) == (high.left, high.right)
            if same and (low.end, high.end) == ("low", "high") and not _lets_nan_through(low, high):
                yield Band(low.left, low.right, low.bound, high.bound)


def bounds(condition: Expr | None, side: Inputs) -> Iterator[Expr]:
    """The upper and lower bounds of differences in a condition."""
    yield from (limit.bound for part in conjuncts(condition) for limit in _limits(part, side))


def _lets_nan_through(low: _Limit, high: _Limit) -> bool:
    sides = {i for i, e in enumerate((low.left, low.right)) if t.is_float(e.type)}
    return bool(low.passes & high.passes & sides)


def _limits(part: Expr, side: Inputs) -> Iterator[_Limit]:
    """The limits that one conjunct puts on a difference of numbers."""
    for difference in differences(part, side, "rounded"):
        d = difference if side(difference.left) == {0} else difference.mirrored()
        left, right = bare(unwidened(d.left)), bare(unwidened(d.right))
        if len(d.bounds) <= MOST_TERMS and all(_is_number(e) for e in (left, right, *(b for _, b in d.bounds))):
            for end in _ENDS[d.op]:
                yield _Limit(left, right, end, _sum(d.bounds, end), d.passes)


def _is_number(expr: Expr) -> bool:
    return t.is_integer(expr.type) or expr.type == t.DOUBLE


def _sum(bounds: Terms, end: End) -> Expr:
    """The sum of bounds in DOUBLE, moved outwards by its possible rounding error."""
    parts = [_double(e, sign) for sign, e in bounds]
    if len(parts) < 2:
        return parts[0] if parts else Constant(0.0, t.DOUBLE)
    size: Expr = Constant(0.0, t.DOUBLE)
    total: Expr = size
    for p in parts:
        total = Call("add", (total, p), t.DOUBLE)
        size = Call("add", (size, Call("abs", (p,), t.DOUBLE)), t.DOUBLE)
    error = Call("mul", (Constant(ROUNDING, t.DOUBLE), size), t.DOUBLE)
    return Call("sub" if end == "low" else "add", (total, error), t.DOUBLE)


def _double(expr: Expr, sign: int) -> Expr:
    if isinstance(expr, Constant):
        return Constant(None if expr.value is None else sign * float(expr.value) + 0.0, t.DOUBLE)
    converted = expr if expr.type == t.DOUBLE else Call("cast", (expr,), t.DOUBLE)
    return converted if sign > 0 else Call("neg", (converted,), t.DOUBLE)

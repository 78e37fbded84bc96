"""Bands: conditions that keep the difference of two numbers, one from each side of a join, between two bounds.

    s.b - r.b BETWEEN :lo AND :hi        abs(r.x - s.x) <= :w        s.b >= r.b - 3 AND s.b <= r.b + :hi

A band says no more than the conditions do: every pair of rows that satisfies them has low <= left - right <= high, or
NaN on both sides, or a bound that is not finite. What rounding may add is left to whoever uses the bounds (a few units
in the last place of the values and of each bound); where several terms make up a bound, their own is added here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from eddyline import types as t
from eddyline.plan.equalities import bare, calls_user
from eddyline.plan.expressions import conjuncts
from eddyline.sql.bound import Call, Constant, Expr
from eddyline.sql.functions import MIRRORED

MOST_TERMS = 4  # of one bound, so that few roundings add up
ROUNDING = 2.0**-48  # what a sum of so many terms can be off by, against their sizes

Side = Callable[[Expr], set[int]]  # which sides of the join an expression sees: 0 is left, 1 is right
Terms = list[tuple[int, Expr]]  # signed parts of a sum
End = Literal["low", "high"]

_ENDS: dict[str, tuple[End, ...]] = {
    "le": ("high",), "lt": ("high",), "ge": ("low",), "gt": ("low",), "eq": ("low", "high"),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Band:
    """low <= left - right <= high; the bounds see no columns and are DOUBLE."""

    left: Expr
    right: Expr
    low: Expr
    high: Expr


@dataclass(frozen=True, slots=True)
class _Limit:
    """One end of a band. `passes` says for which side a NaN satisfies the condition whatever the other side holds."""

    left: Expr
    right: Expr
    end: End
    bound: Expr
    passes: frozenset[int]


def bands(condition: Expr | None, side: Side) -> Iterator[Band]:
    """The two-sided bands of a condition."""
    limits = [limit for part in conjuncts(condition) for limit in _limits(part, side)]
    for low in limits:
        for high in limits:
            same = (low.left, low.right) == (high.left, high.right)
            if same and (low.end, high.end) == ("low", "high") and not _lets_nan_through(low, high):
                yield Band(low.left, low.right, low.bound, high.bound)


def bounds(condition: Expr | None, side: Side) -> Iterator[Expr]:
    """What a condition keeps differences above or below."""
    yield from (limit.bound for part in conjuncts(condition) for limit in _limits(part, side))


def _lets_nan_through(low: _Limit, high: _Limit) -> bool:
    sides = {i for i, e in enumerate((low.left, low.right)) if t.is_float(e.type)}
    return bool(low.passes & high.passes & sides)


def _limits(part: Expr, side: Side) -> Iterator[_Limit]:
    """What one condition says about a difference; nothing if it is of another kind."""
    if not isinstance(part, Call) or part.function not in _ENDS or calls_user(part):
        return
    op, (a, b) = part.function, part.args
    if not side(a):
        op, a, b = MIRRORED[op], b, a
    a = unwidened(a)
    flips: tuple[int, ...] = (1,)
    if isinstance(a, Call) and a.function == "abs":  # within both: the difference and its negative
        if op not in ("le", "lt"):
            return
        a, flips = a.args[0], (1, -1)
    lesser, greater = _terms(a, side), _terms(b, side)
    if lesser is None or greater is None:
        return
    passes = frozenset(i for i in (0, 1) if _passes(op, _sees(lesser, i, side)))
    for flip in flips:
        found = _difference([(flip * sign, e) for sign, e in lesser] + [(-sign, e) for sign, e in greater], side)
        if found is not None:
            left, right, sign, constants = found  # sign * (left - right) + constants op 0
            for end in _ENDS[op] if sign > 0 else _ENDS[MIRRORED[op]]:
                yield _Limit(left, right, end, _sum(constants, -sign, end), passes)


def _terms(expr: Expr, side: Side) -> Terms | None:
    """An expression as a sum, opened as far as its parts mix sides or bounds; None if a part is no plain number.

    What stands on one side alone stays whole: computed otherwise, it could overflow where the condition does not.
    """
    if not (t.is_integer(expr.type) or expr.type == t.DOUBLE):
        return None
    if side(expr) and isinstance(expr, Call):
        if unwidened(expr) != expr:
            return _terms(unwidened(expr), side)
        if expr.function in ("add", "sub") and side(expr.args[0]) != side(expr.args[1]):
            a, b = (_terms(arg, side) for arg in expr.args)
            minus = -1 if expr.function == "sub" else 1
            return None if a is None or b is None else a + [(minus * sign, e) for sign, e in b]
    return [(1, bare(expr))]


def unwidened(expr: Expr) -> Expr:
    """The expression below conversions of an integer to a type that holds no fewer values in the same order."""
    while isinstance(expr, Call) and expr.function == "cast" and t.is_integer(expr.args[0].type):
        below = expr.args[0]
        if not (expr.type == t.DOUBLE or (t.is_integer(expr.type) and below.type.bit_width <= expr.type.bit_width)):
            break
        expr = below
    return expr


def _difference(terms: Terms, side: Side) -> tuple[Expr, Expr, int, Terms] | None:
    """The terms as sign * (left - right) + constants, if that is what they are."""
    columns = sorted(((side(e), sign, e) for sign, e in terms if side(e)), key=lambda x: sorted(x[0]))
    constants = [(sign, e) for sign, e in terms if not side(e)]
    if [x[0] for x in columns] != [{0}, {1}] or len(constants) > MOST_TERMS:
        return None
    (_, sign, left), (_, other, right) = columns
    return (left, right, sign, constants) if sign == -other else None


def _sees(terms: Terms, i: int, side: Side) -> bool:
    return any(i in side(e) for _, e in terms)


def _passes(op: str, nan_on_the_left: bool) -> bool:
    """Whether a comparison holds with NaN, which is above all numbers, on one of its sides."""
    return op in ("ge", "gt") if nan_on_the_left else op in ("le", "lt")


def _sum(terms: Terms, sign: int, end: End) -> Expr:
    """The sum of bounds in DOUBLE, times `sign`; moved outwards by what its roundings may be off."""
    parts = [_double(e, sign * own) for own, e in terms]
    if len(parts) < 2:
        return parts[0] if parts else Constant(0.0, t.DOUBLE)
    size: Expr = Constant(0.0, t.DOUBLE)
    total: Expr = size
    for p in parts:
        total = Call("add", (total, p), t.DOUBLE)
        size = Call("add", (size, Call("abs", (p,), t.DOUBLE)), t.DOUBLE)
    off = Call("mul", (Constant(ROUNDING, t.DOUBLE), size), t.DOUBLE)
    return Call("sub" if end == "low" else "add", (total, off), t.DOUBLE)


def _double(expr: Expr, sign: int) -> Expr:
    if isinstance(expr, Constant):
        return Constant(None if expr.value is None else sign * float(expr.value) + 0.0, t.DOUBLE)
    converted = expr if expr.type == t.DOUBLE else Call("cast", (expr,), t.DOUBLE)
    return converted if sign > 0 else Call("neg", (converted,), t.DOUBLE)

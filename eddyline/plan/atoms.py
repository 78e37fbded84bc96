"""Atoms: comparisons of an attribute with a query's own value, which an index can evaluate for many queries at once.

An attribute is an expression over columns only; the other side of the comparison is an expression over parameters only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from eddyline import types as t
from eddyline.plan.expressions import calls_functions, columns_of, params_of
from eddyline.sql.bound import Call, Constant, Expr
from eddyline.sql.functions import COMPARISONS, MIRRORED

_TRUE = Constant(True, t.BOOLEAN)


@dataclass(frozen=True)
class Atom:
    """`attribute op value`, negated only where no operator has the opposite meaning. `is_null` has no value."""

    op: Literal["eq", "ne", "lt", "le", "gt", "ge", "same", "like", "is_null", "in_list"]
    attribute: Expr
    value: Expr
    negated: bool = False


def atom(expr: Expr) -> Atom | None:
    """The expression as an atom; None if it is not one."""
    negated = isinstance(expr, Call) and expr.function == "not"
    inner = expr.args[0] if negated and isinstance(expr, Call) else expr
    if not params_of(inner) and columns_of(inner):
        if isinstance(inner, Call) and inner.function == "is_null" and _is_attribute(inner.args[0]):
            return Atom("is_null", inner.args[0], _TRUE, negated)
        return Atom("eq", expr, _TRUE) if _is_attribute(expr) else None  # a condition that is the same for all queries
    if not isinstance(inner, Call) or len(inner.args) != 2:
        return None
    left, right = inner.args
    if inner.function == "in_list":
        return Atom("in_list", left, right, negated) if _is_attribute(left) else None
    if inner.function in COMPARISONS or inner.function == "same":
        op = inner.function
        if columns_of(right):
            left, right, op = right, left, MIRRORED.get(op, op)
        negated_comparison = negated and op in COMPARISONS  # the normal form has none
        if negated_comparison or not _is_attribute(left) or columns_of(right) or not params_of(right):
            return None
        return Atom(op, left, right, negated)  # type: ignore[arg-type]
    if inner.function == "like" and _is_attribute(left) and not columns_of(right):
        return Atom("like", left, right, negated)
    return None


def is_constant(expr: Expr) -> bool:
    """Whether an expression has no columns, so that it has one value per query."""
    return not columns_of(expr)


def _is_attribute(expr: Expr) -> bool:
    return bool(columns_of(expr)) and not params_of(expr) and not calls_functions(expr)

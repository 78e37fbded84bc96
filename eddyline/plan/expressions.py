"""Helper functions over bound expressions, shared by all of planning."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from eddyline import types as t
from eddyline.sql.bound import Call, Column, Constant, Expr, Param, walk
from eddyline.sql.constant_lists import ConstantList

MAY_OVERFLOW = frozenset(("add", "sub", "mul", "neg"))


def conjuncts(condition: Expr | None) -> list[Expr]:
    """The conjuncts of a condition; none if there is no condition."""
    if condition is None:
        return []
    if isinstance(condition, Call) and condition.function == "and":
        return [part for arg in condition.args for part in conjuncts(arg)]
    return [condition]


def all_of(parts: Iterable[Expr]) -> Expr | None:
    parts = tuple(parts)
    if not parts:
        return None
    return parts[0] if len(parts) == 1 else Call("and", parts, t.BOOLEAN)


def columns_of(expr: Expr) -> set[int]:
    return {e.index for e in walk(expr) if isinstance(e, Column)}


def params_of(expr: Expr) -> set[int]:
    return {e.index for e in walk(expr) if isinstance(e, Param)}


def calls_functions(expr: Expr) -> bool:
    """Whether an expression calls a function registered by the user."""
    return any(isinstance(e, Call) and e.function.startswith("udf:") for e in walk(expr))


def may_overflow(expr: Expr) -> bool:
    """Whether evaluating an expression may overflow; doubles do not, because they have infinity."""
    return any(isinstance(e, Call) and e.function in MAY_OVERFLOW and not t.is_float(e.type) for e in walk(expr))


def unwidened(expr: Expr) -> Expr:
    """The expression without outer casts that widen an integer, which keep the order of values."""
    while isinstance(expr, Call) and expr.function == "cast" and t.is_integer(expr.args[0].type):
        below = expr.args[0]
        if not (expr.type == t.DOUBLE or (t.is_integer(expr.type) and below.type.bit_width <= expr.type.bit_width)):
            break
        expr = below
    return expr


def with_columns(expr: Expr, of: Callable[[Column], Expr]) -> Expr:
    """An expression with each column replaced."""
    if isinstance(expr, Column):
        return of(expr)
    return replace(expr, args=tuple(with_columns(a, of) for a in expr.args)) if isinstance(expr, Call) else expr


def move_columns(expr: Expr, to: Callable[[int], int]) -> Expr:
    """An expression with its columns moved to other positions."""
    return with_columns(expr, lambda column: replace(column, index=to(column.index)))


def anonymous(expr: Expr) -> Expr:
    """An expression without the names of its columns, so that equal expressions of different queries are equal."""
    return with_columns(expr, lambda column: replace(column, name=""))


_INFIX = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "mod": "%", "eq": "=", "ne": "<>", "lt": "<", "le": "<=",
    "gt": ">", "ge": ">=", "same": "<=>", "and": "AND", "or": "OR", "like": "LIKE",
}  # fmt: skip


def text(expr: Expr) -> str:
    """An expression as stable text: parameters by name, without casts."""
    match expr:
        case Column():
            return expr.name
        case Param():
            return f":{expr.name}"
        case Constant(value=ConstantList()):
            return repr(expr.value)
        case Constant():
            return (
                "NULL" if expr.value is None else repr(expr.value) if isinstance(expr.value, str) else str(expr.value)
            )
        case Call(function="cast"):
            return text(expr.args[0])
        case Call(function="is_null"):
            return f"{_inside(expr.args[0])} IS NULL"
        case Call(function="not"):
            return f"NOT {_inside(expr.args[0])}"
        case Call(function="neg"):
            return f"-{_inside(expr.args[0])}"
        case Call(function="in"):
            return f"{_inside(expr.args[0])} IN ({', '.join(text(a) for a in expr.args[1:])})"
        case Call(function="in_list"):
            return f"{_inside(expr.args[0])} IN ({text(expr.args[1])})"
        case Call(function="interval"):
            return f"INTERVAL {text(expr.args[0])} * {text(expr.args[1])} us"
    if expr.function in _INFIX:
        return f" {_INFIX[expr.function]} ".join(_inside(a) for a in expr.args)
    return f"{expr.function.removeprefix('udf:')}({', '.join(text(a) for a in expr.args)})"


def _inside(expr: Expr) -> str:
    compound = isinstance(expr, Call) and expr.function in _INFIX
    return f"({text(expr)})" if compound else text(expr)

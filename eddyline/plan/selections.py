"""What rules that move selections share: which conditions may move, and a selection of what is left.

A condition with a parameter stays where it is: further down it would split state that queries share. So does one that
calls a user's function or may overflow: further down it would be evaluated for more rows, and a call or an overflow is
an event that users see.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from eddyline.plan.equalities import inlined
from eddyline.plan.expressions import all_of, calls_functions, columns_of, conjuncts, may_overflow, params_of
from eddyline.plan.nodes import Node, Select
from eddyline.sql.bound import Column, Expr, Field


def is_silent(expr: Expr) -> bool:
    """Whether an expression can be evaluated for other rows, or once more, and nobody notices."""
    return not calls_functions(expr) and not may_overflow(expr)


def may_move(condition: Expr) -> bool:
    return bool(columns_of(condition)) and not params_of(condition) and is_silent(condition)


def split(condition: Expr | None, moves: Callable[[Expr], bool]) -> tuple[list[Expr], list[Expr]]:
    """The conjuncts that move, and those that stay."""
    parts = [(part, moves(part)) for part in conjuncts(condition)]
    return [part for part, moving in parts if moving], [part for part, moving in parts if not moving]


def selected(node: Node, parts: Sequence[Expr]) -> Node:
    condition = all_of(parts)
    return node if condition is None else Select(node, condition)


def named(expr: Expr, fields: Sequence[Field]) -> Expr:
    """The expression with the names that its columns have in another relation of the same types."""
    return inlined(expr, [Column(i, f.type, f.name) for i, f in enumerate(fields)])

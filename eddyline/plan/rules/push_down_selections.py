"""Moves conditions on one input of a join below the join, if they have no parameters.

A condition with a parameter stays above: below the join it would make the shared state per-query.
"""

from __future__ import annotations

from eddyline.plan.expressions import all_of, columns_of, conjuncts, move_columns, params_of
from eddyline.plan.nodes import Join, Node, Select, TableJoin
from eddyline.sql.bound import Expr


def push_down_selections(node: Node) -> Node:
    if isinstance(node, TableJoin):
        above, below = _split(node.condition, 0, len(node.input.fields))
        if not below:
            return node
        return TableJoin(_select(node.input, below), node.table, all_of(above))
    if not isinstance(node, Join):
        return node
    inputs: list[Node] = []
    rest, start = node.condition, 0
    for child in node.inputs:
        above, below = _split(rest, start, start + len(child.fields))
        inputs.append(_select(child, below))
        rest = all_of(above)
        start += len(child.fields)
    return Join(tuple(inputs), rest)


def _split(condition: Expr | None, start: int, stop: int) -> tuple[list[Expr], list[Expr]]:
    above: list[Expr] = []
    below: list[Expr] = []
    for part in conjuncts(condition):
        used = columns_of(part)
        inside = bool(used) and all(start <= i < stop for i in used) and not params_of(part)
        if inside:
            below.append(move_columns(part, lambda i: i - start))
        else:
            above.append(part)
    return above, below


def _select(node: Node, parts: list[Expr]) -> Node:
    condition = all_of(parts)
    return node if condition is None else Select(node, condition)

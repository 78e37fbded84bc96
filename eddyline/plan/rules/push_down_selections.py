"""Moves conditions on one input of a join below the join, if they have no parameters.

A condition with a parameter stays above: below the join it would make the shared state per-query. So does a condition
on a stream that calls functions: the physical plan decides where they are called.
"""

from __future__ import annotations

from eddyline.plan.expressions import all_of, calls_functions, columns_of, conjuncts, move_columns, params_of
from eddyline.plan.nodes import Join, Node, Select, Stream, TableJoin
from eddyline.sql.bound import Expr


def push_down_selections(node: Node) -> Node:
    if isinstance(node, TableJoin):
        above, below = _split(node.condition, node.input, 0)
        if not below:
            return node
        return TableJoin(_select(node.input, below), node.table, all_of(above))
    if not isinstance(node, Join):
        return node
    inputs: list[Node] = []
    rest, start = node.condition, 0
    for child in node.inputs:
        above, below = _split(rest, child, start)
        inputs.append(_select(child, below))
        rest = all_of(above)
        start += len(child.fields)
    return Join(tuple(inputs), rest)


def _split(condition: Expr | None, child: Node, start: int) -> tuple[list[Expr], list[Expr]]:
    """The conditions that stay above, and those over the child alone, whose columns begin at `start`."""
    above: list[Expr] = []
    below: list[Expr] = []
    stop, over_stream = start + len(child.fields), isinstance(child, Stream) and child.window.kind != "rows"
    for part in conjuncts(condition):
        used = columns_of(part)
        inside = bool(used) and all(start <= i < stop for i in used) and not params_of(part)
        if inside and not (over_stream and calls_functions(part)):
            below.append(move_columns(part, lambda i: i - start))
        else:
            above.append(part)
    return above, below


def _select(node: Node, parts: list[Expr]) -> Node:
    condition = all_of(parts)
    return node if condition is None else Select(node, condition)

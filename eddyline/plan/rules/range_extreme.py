"""SELECT MIN(x) FROM table WHERE y BETWEEN low AND high: a range-extreme subscription (document 5, chapter 5)."""

from __future__ import annotations

from eddyline.plan.expressions import columns_of, conjuncts
from eddyline.plan.nodes import GroupBy, Node, RangeExtreme, Select, Table
from eddyline.sql.bound import Call, Expr


def range_extreme(node: Node) -> Node:
    if not (isinstance(node, GroupBy) and not node.keys and len(node.aggregates) == 1):
        return node
    (aggregate,) = node.aggregates
    below = node.input
    if aggregate.function not in ("min", "max") or not isinstance(below, Select) or not isinstance(below.input, Table):
        return node
    bounds: dict[str, tuple[Expr, Expr]] = {}
    parts = conjuncts(below.condition)
    for part in parts:
        if isinstance(part, Call) and part.function in ("ge", "le") and not columns_of(part.args[1]):
            bounds[part.function] = (part.args[0], part.args[1])
    if len(parts) != 2 or len(bounds) != 2 or bounds["ge"][0] != bounds["le"][0]:
        return node
    return RangeExtreme(below.input, bounds["ge"][0], bounds["ge"][1], bounds["le"][1], aggregate)

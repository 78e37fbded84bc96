"""Merges a projection over a projection into one: SELECT a + 1 FROM (SELECT b * 2 AS a FROM s)."""

from __future__ import annotations

from eddyline.plan.equalities import inlined
from eddyline.plan.nodes import Node, Project
from eddyline.sql.bound import Column, Output, walk


def merge_projections(node: Node) -> Node:
    if not (isinstance(node, Project) and isinstance(node.input, Project)):
        return node
    inner = node.input
    used = [e.index for o in node.outputs for e in walk(o.expr) if isinstance(e, Column)]
    repeated = any(used.count(i) > 1 and not isinstance(inner.outputs[i].expr, Column) for i in set(used))
    if repeated:  # merged, the inner column would be computed several times
        return node
    exprs = [o.expr for o in inner.outputs]
    return Project(inner.input, tuple(Output(o.name, inlined(o.expr, exprs)) for o in node.outputs))

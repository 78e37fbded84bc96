"""Projection over projection becomes one: SELECT a + 1 FROM (SELECT b * 2 AS a FROM s)."""

from __future__ import annotations

from eddyline.plan.nodes import Node, Project
from eddyline.sql.bound import Call, Column, Expr, Output


def merge_projections(node: Node) -> Node:
    if not (isinstance(node, Project) and isinstance(node.input, Project)):
        return node
    inner = node.input
    used = [e for o in node.outputs for e in _columns(o.expr)]
    repeated = any(used.count(i) > 1 and not isinstance(inner.outputs[i].expr, Column) for i in set(used))
    if repeated:  # computing an inner column once is worth the second pass
        return node
    return Project(inner.input, tuple(Output(o.name, _inline(o.expr, inner.outputs)) for o in node.outputs))


def _columns(expr: Expr) -> list[int]:
    if isinstance(expr, Column):
        return [expr.index]
    return [i for a in expr.args for i in _columns(a)] if isinstance(expr, Call) else []


def _inline(expr: Expr, outputs: tuple[Output, ...]) -> Expr:
    if isinstance(expr, Column):
        return outputs[expr.index].expr
    if isinstance(expr, Call):
        return Call(expr.function, tuple(_inline(a, outputs) for a in expr.args), expr.type)
    return expr

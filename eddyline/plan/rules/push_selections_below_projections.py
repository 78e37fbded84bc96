"""Moves conditions below a projection, over the expressions that compute their columns: σ(π(A)) = π(σ(A)).

The expressions are then evaluated for fewer rows. A column that a condition uses is computed twice for the rows that
are left, so conditions over columns that call functions or may overflow stay.
"""

from __future__ import annotations

from eddyline.plan.equalities import inlined
from eddyline.plan.nodes import Node, Project, Select
from eddyline.plan.selections import may_move, selected, split


def push_selections_below_projections(node: Node) -> Node:
    if not (isinstance(node, Select) and isinstance(node.input, Project)):
        return node
    exprs = [o.expr for o in node.input.outputs]
    moved, kept = split(node.condition, lambda part: may_move(inlined(part, exprs)))
    if not moved:
        return node
    below = selected(node.input.input, [inlined(part, exprs) for part in moved])
    return selected(Project(push_selections_below_projections(below), node.input.outputs), kept)

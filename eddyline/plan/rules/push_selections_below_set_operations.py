"""Moves conditions below UNION ALL, DISTINCT, INTERSECT ALL and EXCEPT ALL, to every input: σ(A − B) = σ(A) − σ(B).

All but the union count equal rows as one value, so a condition moves only if it cannot tell equal rows apart: 0.0 and
-0.0 are equal and print differently. By multiplicity, a condition keeps all copies of a row or none, on both sides.
"""

from __future__ import annotations

from collections.abc import Sequence

from eddyline.plan.equalities import respects_equality
from eddyline.plan.nodes import Distinct, Intersect, Negation, Node, Select, Union
from eddyline.plan.selections import may_move, named, selected, split
from eddyline.sql.bound import Expr


def push_selections_below_set_operations(node: Node) -> Node:
    if not isinstance(node, Select):
        return node
    match node.input:
        case Union():
            moved, kept = split(node.condition, may_move)
        case Distinct() | Intersect() | Negation():
            moved, kept = split(node.condition, lambda part: may_move(part) and respects_equality(part))
        case _:
            return node
    if not moved:
        return node
    inputs = tuple(_pushed(i, moved) for i in node.input.inputs)
    match node.input:
        case Union():
            return selected(Union(inputs), kept)
        case Distinct():
            return selected(Distinct(inputs[0]), kept)
        case Intersect():
            return selected(Intersect(*inputs), kept)
        case Negation():
            return selected(Negation(*inputs), kept)


def _pushed(node: Node, parts: Sequence[Expr]) -> Node:
    return push_selections_below_set_operations(selected(node, [named(part, node.fields) for part in parts]))

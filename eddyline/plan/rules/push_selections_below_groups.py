"""Moves conditions on grouping keys below the grouping: a group is kept whole or not at all.

A group without keys exists even over no rows, so nothing moves below it. Equal keys form one group, so a condition
moves only if it cannot tell equal keys apart (0.0 and -0.0).
"""

from __future__ import annotations

from eddyline.plan.equalities import inlined, respects_equality
from eddyline.plan.expressions import columns_of
from eddyline.plan.nodes import GroupBy, Node, Select
from eddyline.plan.selections import may_move, selected, split
from eddyline.sql.bound import Expr


def push_selections_below_groups(node: Node) -> Node:
    if not (isinstance(node, Select) and isinstance(node.input, GroupBy)):
        return node
    group = node.input

    def moves(part: Expr) -> bool:
        over_keys = all(i < len(group.keys) for i in columns_of(part))
        return over_keys and respects_equality(part) and may_move(inlined(part, group.keys))

    moved, kept = split(node.condition, moves)
    if not moved:
        return node
    below = selected(group.input, [inlined(part, group.keys) for part in moved])
    return selected(GroupBy(push_selections_below_groups(below), group.keys, group.aggregates), kept)

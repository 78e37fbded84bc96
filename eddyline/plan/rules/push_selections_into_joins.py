"""Makes conditions above a join part of its own, where they can be a key or move to one of its inputs."""

from __future__ import annotations

from dataclasses import replace

from eddyline.plan.expressions import all_of, conjuncts
from eddyline.plan.nodes import Join, Node, Select, TableJoin
from eddyline.plan.selections import may_move, selected, split


def push_selections_into_joins(node: Node) -> Node:
    if not (isinstance(node, Select) and isinstance(node.input, Join | TableJoin)):
        return node
    moved, kept = split(node.condition, may_move)
    if not moved:
        return node
    join = node.input
    return selected(replace(join, condition=all_of([*conjuncts(join.condition), *moved])), kept)

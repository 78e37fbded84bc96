"""Merges a selection over a selection into one, so that the physical plan orders all conditions together."""

from __future__ import annotations

from eddyline.plan.expressions import conjuncts
from eddyline.plan.nodes import Node, Select
from eddyline.plan.selections import selected


def merge_selections(node: Node) -> Node:
    if not (isinstance(node, Select) and isinstance(node.input, Select)):
        return node
    return selected(node.input.input, [*conjuncts(node.input.condition), *conjuncts(node.condition)])

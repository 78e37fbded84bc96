"""Rewrite rules, in the order they run. A rule maps a node to an equivalent node and is applied bottom-up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from eddyline.plan.nodes import (
    Distinct,
    GroupBy,
    Intersect,
    Join,
    Negation,
    Node,
    Project,
    Select,
    Stream,
    Table,
    TableJoin,
    Union,
)
from eddyline.plan.rules.merge_projections import merge_projections
from eddyline.plan.rules.push_down_selections import push_down_selections

RULES: tuple[Callable[[Node], Node], ...] = (
    merge_projections,
    push_down_selections,
)


def optimize(node: Node) -> Node:
    for rule in RULES:
        node = apply(rule, node)
    return node


def apply(rule: Callable[[Node], Node], node: Node) -> Node:
    """Applies a rule to every node, inputs first."""
    inputs = tuple(apply(rule, i) for i in node.inputs)
    return rule(node if inputs == node.inputs else with_inputs(node, inputs))


def with_inputs(node: Node, inputs: tuple[Node, ...]) -> Node:
    match node:
        case Join() | Union():
            return replace(node, inputs=inputs)
        case Intersect() | Negation():
            return replace(node, left=inputs[0], right=inputs[1])
        case TableJoin() | Select() | Project() | Distinct() | GroupBy():
            return replace(node, input=inputs[0])
        case Stream() | Table():
            return node

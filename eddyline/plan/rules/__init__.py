"""Rewrite rules, in the order they run. A rule maps a node to an equivalent node and is applied bottom-up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from eddyline.plan import nodes
from eddyline.plan.nodes import Node
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
        case nodes.Join() | nodes.Union():
            return replace(node, inputs=inputs)
        case nodes.Intersect() | nodes.Negation():
            return replace(node, left=inputs[0], right=inputs[1])
        case nodes.TableJoin() | nodes.Select() | nodes.Project() | nodes.Distinct() | nodes.GroupBy():
            return replace(node, input=inputs[0])
        case nodes.Stream() | nodes.Table():
            return node

"""Rewrite rules. A rule maps a node to an equivalent node, and is applied bottom-up.

The rules of `RULES` always pay. They are applied in turn until nothing changes, which happens because conditions only
move down, and neighbouring projections or selections only merge. Then each rule of `CHOSEN` is applied in one pass,
where the cost model finds the new form clearly cheaper. The result depends on the arguments of `optimize` alone.

The operators of a family must not change while it has state, so a family keeps the generation of rules that it was
planned with. A rule, a default of the cost model or a margin that changes plans of families that may exist starts a
new generation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from eddyline.plan import nodes
from eddyline.plan.costs import Lookup, estimate, waits
from eddyline.plan.nodes import Node
from eddyline.plan.rules.merge_projections import merge_projections
from eddyline.plan.rules.merge_selections import merge_selections
from eddyline.plan.rules.pull_up_negation import pull_up_negation
from eddyline.plan.rules.push_down_duplicate_elimination import push_down_duplicate_elimination
from eddyline.plan.rules.push_down_negation import push_down_negation
from eddyline.plan.rules.push_down_selections import push_down_selections
from eddyline.plan.rules.push_selections_below_groups import push_selections_below_groups
from eddyline.plan.rules.push_selections_below_projections import push_selections_below_projections
from eddyline.plan.rules.push_selections_below_set_operations import push_selections_below_set_operations
from eddyline.plan.rules.push_selections_into_joins import push_selections_into_joins
from eddyline.plan.statistics import Statistics

Rule = Callable[[Node], Node]
Generation = Literal[1, 2]
LATEST: Generation = 2
MARGIN = 2.0  # how many times cheaper a chosen form must be: estimates from guesses are rough

RULES: tuple[Rule, ...] = (
    merge_projections,
    merge_selections,
    push_down_selections,
    push_selections_below_projections,
    push_selections_below_set_operations,
    push_selections_below_groups,
    push_selections_into_joins,
)
CHOSEN: tuple[Rule, ...] = (
    push_down_duplicate_elimination,
    push_down_negation,
    pull_up_negation,
)
FIRST_GENERATION: tuple[Rule, ...] = (merge_projections, push_down_selections)


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A plan after all rewrites, and the rewrites that changed it, each described in one line."""

    plan: Node
    rewrites: tuple[str, ...]


def optimize(
    node: Node,
    statistics: Statistics | None = None,
    *,
    generation: Generation = LATEST,
    joins: Literal["free", "as written"] = "free",
    lookup: Lookup = "key",
) -> Rewritten:
    """`joins`: whether joins may be moved past other operators, or are as the options of the family want them."""
    if generation == 1:
        return _in_turn(Rewritten(node, ()), FIRST_GENERATION)
    rewritten = _until_stable(Rewritten(node, ()))
    for rule in CHOSEN if joins == "free" else ():
        choice = _Choice(rule, statistics or Statistics(), lookup)
        plan = choice.apply(rewritten.plan)
        if choice.notes:
            rewritten = _until_stable(Rewritten(plan, (*rewritten.rewrites, *choice.notes)))
    return rewritten


def _until_stable(before: Rewritten) -> Rewritten:
    after = _in_turn(before, RULES)
    return after if after.plan == before.plan else _until_stable(after)


def _in_turn(rewritten: Rewritten, rules: tuple[Rule, ...]) -> Rewritten:
    for rule in rules:
        plan = apply(rule, rewritten.plan)
        if plan != rewritten.plan:
            rewritten = Rewritten(plan, tuple(dict.fromkeys([*rewritten.rewrites, name_of(rule)])))
    return rewritten


class _Choice:
    """Applies a rule to the nodes, inputs first, where the new form is estimated to be cheaper by the margin."""

    def __init__(self, rule: Rule, statistics: Statistics, lookup: Lookup) -> None:
        self.rule, self.statistics, self.lookup = rule, statistics, lookup
        self.notes: list[str] = []

    def apply(self, node: Node, *, below_waiting: bool = False) -> Node:
        inside = below_waiting or waits(node)
        inputs = tuple(self.apply(i, below_waiting=inside) for i in node.inputs)
        node = node if inputs == node.inputs else with_inputs(node, inputs)
        other = self.rule(node)
        if other == node:
            return node
        # Below an operator that waits, both forms run once per class of queries.
        known = replace(self.statistics, queries=1.0) if below_waiting else self.statistics
        before, after = (estimate(n, known, self.lookup).cost for n in (node, other))
        if after * MARGIN >= before:
            return node
        self.notes.append(
            f"{name_of(self.rule)}, for an estimated cost of {after:,.0f} a second instead of {before:,.0f}"
        )
        return other


def name_of(rule: Rule) -> str:
    return rule.__name__.replace("_", " ")


def apply(rule: Rule, node: Node) -> Node:
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

"""EXPLAIN of a partitioning: how a family's input is split over buckets, where the tuples of each stream go, and why a
plan runs in one place.

The reason is that of the lowest operators whose input cannot be split, although the inputs of each of them can.
"""

from __future__ import annotations

from collections.abc import Sequence

from eddyline.plan import nodes
from eddyline.plan import routings as route
from eddyline.plan.equalities import Equalities, inlined
from eddyline.plan.expressions import calls_functions, conjuncts, text
from eddyline.plan.nodes import Node
from eddyline.plan.partitioning import (
    Partitioning,
    assignments_of,
    computed,
    join_seeds,
    keyed_input,
    starts_of,
    stream_inputs,
    streams_of,
)
from eddyline.plan.routings import Routing
from eddyline.sql.bound import Call, Column, Expr


def explain_partitioning(plan: Node, split: Partitioning) -> str:
    """The kind of a partitioning, with the routing of each stream, or the reason why there is none."""
    match split.kind:
        case "stateless":
            return "stateless"
        case "by queries":
            return "by queries (all tuples go to all buckets, each with a part of the queries)"
        case "one place":
            reasons = dict.fromkeys(_reasons(plan, Equalities()))
            return f"one place ({'; '.join(reasons)})" if reasons else "one place"
    return f"{split.kind} ({', '.join(f'{s} {_routing(r)}' for s, r in split.routings)})"


def _routing(routing: Routing) -> str:
    match routing:
        case route.ByKey():
            return "by " + " and ".join(text(k) for k in routing.key)
        case route.Home():
            return f"in the cell of {text(routing.value)}"
        case route.Reach():
            low, high = text(routing.low), text(routing.high)
            return f"copied to the cells from {text(routing.value)} plus {low} to {text(routing.value)} plus {high}"
        case route.OnePlace():
            return "in one bucket"
        case route.Everywhere():
            return "in all buckets"
        case route.Anywhere():
            return "anywhere"


def _reasons(node: Node, known: Equalities) -> list[str]:
    """Why the input of a plan cannot be split."""
    if isinstance(node, nodes.Table) or not streams_of(node):
        return ["it reads tables only, which every bucket has"]
    if assignments_of(node, known):
        return []
    match node:
        case nodes.Stream():
            return [f"the count window over {node.source.alias} counts the tuples of the whole stream"]
        case nodes.Select():
            return _reasons(node.input, known.having(node.condition))
        case nodes.Project():
            return _reasons(node.input, known.below(computed(node)))
        case nodes.Union():
            below = [r for i in node.inputs for r in _reasons(i, known)]
            return below or ["the inputs of the union need different routings of a stream"]
        case nodes.Join() | nodes.TableJoin():
            return _join_reasons(node, known.having(node.condition))
        case nodes.GroupBy():
            if not node.keys:
                return [*_reasons(node.input, Equalities()), "without keys all rows are in one group"]
            keys = ", ".join(text(k) for k in node.keys)
            return _reasons(node.input, Equalities()) or [
                f"groups by {keys} are not by columns that streams are routed by"
            ]
        case nodes.Distinct() | nodes.Intersect() | nodes.Negation():
            below = [r for i in node.inputs for r in _reasons(i, Equalities())]
            name = {nodes.Distinct: "DISTINCT", nodes.Intersect: "INTERSECT", nodes.Negation: "EXCEPT"}[type(node)]
            return below or [f"equal rows of {name} are not in streams that are routed by a common column"]


def _join_reasons(node: nodes.Join | nodes.TableJoin, known: Equalities) -> list[str]:
    inputs = stream_inputs(node)
    if len(inputs) == 1:
        ((start, child),) = inputs
        return _reasons(child, known.within(start, start + len(child.fields)))
    below = [r for start, i in inputs for r in _reasons(i, known.within(start, start + len(i.fields)))]
    if below:
        return below
    names = _named(node)
    key: Expr | None = None  # of most inputs
    having: list[int] = []
    for seed in join_seeds(node, known):
        of_seed = [n for n, (start, i) in enumerate(inputs) if keyed_input(i, start, seed, known)]
        if len(of_seed) > len(having):
            key, having = seed, of_seed
    if key is not None and len(having) == len(inputs):
        return [f"the join of {_listed([_name(i) for _, i in inputs])} needs one stream routed by different keys"]
    of = f"the join of {_listed([_name(i) for _, i in inputs])} has no common key"
    if key is None or len(having) < 2:
        calls = any(calls_functions(c) for c in conjuncts(node.condition) if isinstance(c, Call) and c.function == "eq")
        remark = " without a user function" if calls else ""
        return [f"{of}: no equality of its conditions{remark} relates two of its inputs"]
    forms = [next(iter(known.forms(key, s, s + len(i.fields)))) for s, i in (inputs[n] for n in having)]
    equal = " = ".join(text(inlined(f, names)) for f in forms)
    lacking = [_name(i) for n, (_, i) in enumerate(inputs) if n not in having]
    return [f"{of}: {_listed(lacking)} {'has' if len(lacking) == 1 else 'have'} nothing equal to {equal}"]


def _named(node: nodes.Join | nodes.TableJoin) -> list[Expr]:
    """The columns of a join with the names that their inputs give them."""
    return [
        Column(start + n, f.type, f"{_name(i)}.{f.name}")
        for start, i in starts_of(node)
        for n, f in enumerate(i.fields)
    ]


def _name(node: Node) -> str:
    """The alias of an input, or what it is made of."""
    if isinstance(node, nodes.Select):
        return _name(node.input)
    if isinstance(node, nodes.Stream | nodes.Table):
        return node.source.alias
    return f"the subquery over {_listed(sorted(streams_of(node)))}"


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"

"""Plan nodes to operators, one short function per node.

Changes stay common to the family as long as they can; they are attached to queries where a parameter is first needed,
below operators that keep an answer per query, and at the latest at the root. Operators that wait for the clock run once
per class of queries (`cluster.py`), with all that is below them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial, singledispatch
from operator import add

from eddyline import types as t
from eddyline.operators.attach import Attach, attached
from eddyline.operators.base import Operator
from eddyline.operators.cluster import Cluster
from eddyline.operators.condition import calls_functions, may_overflow
from eddyline.operators.counting import Counting
from eddyline.operators.filter import Filter
from eddyline.operators.group_by import GroupBy
from eddyline.operators.join import Join
from eddyline.operators.project import Project
from eddyline.operators.rows_window import RowsWindow
from eddyline.operators.scan import StreamScan, TableScan
from eddyline.operators.union import Union
from eddyline.plan import nodes
from eddyline.plan.expressions import all_of, conjuncts, move_columns, params_of
from eddyline.sql.bound import Call, Expr, Window

Lower = Callable[[nodes.Node], Operator]
Waiting = nodes.Distinct | nodes.Negation | nodes.Intersect | nodes.GroupBy | nodes.RangeExtreme


def lower_family(plan: nodes.Node, strategy: str = "auto") -> Operator:
    """The operators of a family; `strategy` is how its joins over ranges find the queries that a tuple affects."""
    root = attached(lower(plan))
    for operator in root.walk():
        if isinstance(operator, Join):
            operator.follow(strategy)
    return root


def lower(node: nodes.Node) -> Operator:
    """The operators of a node; those that wait, with all below them, in a cluster."""
    counts = isinstance(node, nodes.Stream) and node.window.kind == "rows"
    if not (counts or isinstance(node, Waiting)):
        return operator(node, lower)
    return Cluster(operator(node, inside), _params(node), shows_itself=shows_itself(node))


def inside(node: nodes.Node) -> Operator:
    """The operators of a node inside a cluster: one copy per class, and no cluster within."""
    return operator(node, inside)


def _params(node: nodes.Node) -> set[int]:
    own = {i for e in nodes.expressions(node) for i in params_of(e)}
    return own.union(*(_params(i) for i in node.inputs))


def shows_itself(node: nodes.Node) -> bool:
    """Whether it may have an answer before any tuple arrives."""
    always = isinstance(node, nodes.Table | nodes.RangeExtreme) or (isinstance(node, nodes.GroupBy) and not node.keys)
    return always or any(shows_itself(i) for i in node.inputs)


@singledispatch
def operator(node: nodes.Node, lower: Lower) -> Operator:
    """The operator of one node; `lower` is how its inputs are lowered."""
    raise TypeError(f"{type(node).__name__} has no operator")


@operator.register
def _(node: nodes.Stream, lower: Lower) -> Operator:
    types = [f.type for f in node.fields]
    if node.window.kind != "rows":
        return StreamScan(node.source.stream, node.source.time, node.window, types)
    assert node.window.size is not None
    return RowsWindow(StreamScan(node.source.stream, node.source.time, Window("unbounded"), types), node.window.size)


@operator.register
def _(node: nodes.Table, lower: Lower) -> Operator:
    return TableScan(node.source.table, [f.type for f in node.fields])


@operator.register
def _(node: nodes.Select, lower: Lower) -> Operator:
    child = lower(node.input)
    parts = conjuncts(node.condition)
    by_query = all_of(c for c in parts if params_of(c))
    if by_query is not None and not (child.attached or isinstance(child, Cluster)):
        # functions are called for what the other conditions leave
        by_query = all_of(c for c in parts if params_of(c) or calls_functions(c))
        parts = [c for c in parts if not calls_functions(c)]
    static = all_of(c for c in parts if not params_of(c))
    if by_query is not None and isinstance(child, Cluster):
        child.where(by_query)
        by_query = None
    if static is not None:
        child = Filter(child, static)
    if by_query is None:
        return child
    return Filter(child, by_query) if child.attached else Attach(child, by_query)


@operator.register
def _(node: nodes.Project, lower: Lower) -> Operator:
    child = lower(node.input)
    exprs = tuple(o.expr for o in node.outputs)
    if child.pending or any(params_of(e) for e in exprs):
        child = attached(child)
    return Project(child, exprs)


@operator.register
def _(node: nodes.Union, lower: Lower) -> Operator:
    children = [lower(i) for i in node.inputs]
    if any(c.attached or c.pending for c in children):
        children = [attached(c) for c in children]
    return Union(children)


@operator.register
def _(node: nodes.Join, lower: Lower) -> Operator:
    return Join([lower(i) for i in node.inputs], node.condition)


@operator.register
def _(node: nodes.TableJoin, lower: Lower) -> Operator:
    frozen = 1 if node.kind == "non-retroactive" else None
    inputs, lifted = _with_lifted((node.input, node.table))
    if lifted:  # what queries ask of one input alone is taken into the join, if it can process groups of queries then
        together = Join([lower(i) for i in inputs], all_of([*conjuncts(node.condition), *lifted]), frozen_table=frozen)
        if any(together.ranged):
            return together
    return Join([lower(node.input), lower(node.table)], node.condition, frozen_table=frozen)


def _with_lifted(inputs: Sequence[nodes.Node]) -> tuple[list[nodes.Node], list[Expr]]:
    """Inputs of a join without their selections by parameters, and these, over the columns of the join."""
    bare: list[nodes.Node] = []
    lifted: list[Expr] = []
    start = 0
    for node in inputs:
        if isinstance(node, nodes.Select):
            parts = conjuncts(node.condition)
            mine = [p for p in parts if params_of(p) and not calls_functions(p) and not may_overflow(p)]
            lifted += [move_columns(p, partial(add, start)) for p in mine]
            rest = all_of(p for p in parts if not any(p is m for m in mine))
            node = node.input if rest is None else replace(node, condition=rest)
        bare.append(node)
        start += len(node.fields)
    return bare, lifted


@operator.register
def _(node: nodes.Distinct, lower: Lower) -> Operator:
    return Counting("distinct", [attached(lower(node.input))])


@operator.register
def _(node: nodes.Negation, lower: Lower) -> Operator:
    return Counting("negation", [attached(lower(node.left)), attached(lower(node.right))])


@operator.register
def _(node: nodes.Intersect, lower: Lower) -> Operator:
    return Counting("intersect", [attached(lower(node.left)), attached(lower(node.right))])


@operator.register
def _(node: nodes.GroupBy, lower: Lower) -> Operator:
    return GroupBy(attached(lower(node.input)), node.keys, node.aggregates)


@operator.register
def _(node: nodes.RangeExtreme, lower: Lower) -> Operator:
    low = Call("ge", (node.position, node.low), t.BOOLEAN)
    high = Call("le", (node.position, node.high), t.BOOLEAN)
    within = nodes.Select(node.table, Call("and", (low, high), t.BOOLEAN))
    return operator(nodes.GroupBy(within, (), (node.aggregate,)), lower)

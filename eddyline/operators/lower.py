"""Plan nodes to operators, one short function per node.

Changes stay common to the family as long as they can; they are attached to queries where a parameter is first needed,
below operators that keep an answer per query, and at the latest at the root.
"""

from __future__ import annotations

from functools import singledispatch

from eddyline import types as t
from eddyline.operators.attach import Attach, attached
from eddyline.operators.base import Operator
from eddyline.operators.counting import Counting
from eddyline.operators.filter import Filter
from eddyline.operators.group_by import GroupBy
from eddyline.operators.join import Join
from eddyline.operators.project import Project
from eddyline.operators.rows_window import RowsWindow
from eddyline.operators.scan import StreamScan, TableScan
from eddyline.operators.union import Union
from eddyline.plan import nodes
from eddyline.plan.expressions import all_of, conjuncts, params_of
from eddyline.sql.bound import Call, Window


def lower_family(plan: nodes.Node) -> Operator:
    return attached(lower(plan))


@singledispatch
def lower(node: nodes.Node) -> Operator:
    raise TypeError(f"{type(node).__name__} has no operator")


@lower.register
def _(node: nodes.Stream) -> Operator:
    types = [f.type for f in node.fields]
    if node.window.kind != "rows":
        return StreamScan(node.source.stream, node.source.time, node.window, types)
    assert node.window.size is not None
    return RowsWindow(StreamScan(node.source.stream, node.source.time, Window("unbounded"), types), node.window.size)


@lower.register
def _(node: nodes.Table) -> Operator:
    return TableScan(node.source.table, [f.type for f in node.fields])


@lower.register
def _(node: nodes.Select) -> Operator:
    child = lower(node.input)
    static = all_of(c for c in conjuncts(node.condition) if not params_of(c))
    by_query = all_of(c for c in conjuncts(node.condition) if params_of(c))
    if static is not None:
        child = Filter(child, static)
    if by_query is None:
        return child
    return Filter(child, by_query) if child.attached else Attach(child, by_query)


@lower.register
def _(node: nodes.Project) -> Operator:
    child = lower(node.input)
    exprs = tuple(o.expr for o in node.outputs)
    if child.pending or any(params_of(e) for e in exprs):
        child = attached(child)
    return Project(child, exprs)


@lower.register
def _(node: nodes.Union) -> Operator:
    children = [lower(i) for i in node.inputs]
    if any(c.attached or c.pending for c in children):
        children = [attached(c) for c in children]
    return Union(children)


@lower.register
def _(node: nodes.Join) -> Operator:
    return Join([lower(i) for i in node.inputs], node.condition)


@lower.register
def _(node: nodes.TableJoin) -> Operator:
    children = [lower(node.input), lower(node.table)]
    return Join(children, node.condition, frozen_table=1 if node.kind == "non-retroactive" else None)


@lower.register
def _(node: nodes.Distinct) -> Operator:
    return Counting("distinct", [attached(lower(node.input))])


@lower.register
def _(node: nodes.Negation) -> Operator:
    return Counting("negation", [attached(lower(node.left)), attached(lower(node.right))])


@lower.register
def _(node: nodes.Intersect) -> Operator:
    return Counting("intersect", [attached(lower(node.left)), attached(lower(node.right))])


@lower.register
def _(node: nodes.GroupBy) -> Operator:
    return GroupBy(attached(lower(node.input)), node.keys, node.aggregates)


@lower.register
def _(node: nodes.RangeExtreme) -> Operator:
    low = Call("ge", (node.position, node.low), t.BOOLEAN)
    high = Call("le", (node.position, node.high), t.BOOLEAN)
    within = nodes.Select(node.table, Call("and", (low, high), t.BOOLEAN))
    return lower(nodes.GroupBy(within, (), (node.aggregate,)))

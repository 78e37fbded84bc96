"""The physical planner: one pass over the logical plan that chooses the algorithm of every node.

Changes stay shared by all queries as long as possible. They are attached to queries where a parameter is first needed,
below operators that keep an answer per query, and at the latest at the root. Operators that wait for the clock run once
per class of queries, together with everything below them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import add
from typing import Literal

from eddyline import types as t
from eddyline.aggregates import AGGREGATES
from eddyline.aggregates.description import Counted, Extreme
from eddyline.plan import nodes, physical
from eddyline.plan.atoms import atom
from eddyline.plan.expressions import all_of, calls_functions, conjuncts, may_overflow, move_columns, params_of
from eddyline.plan.normal_form import clauses
from eddyline.plan.patterns import Pattern, label
from eddyline.plan.physical import PhysicalNode
from eddyline.plan.range_probes import inputs_of
from eddyline.plan.stem_joins import stem_join
from eddyline.sql.bound import Aggregate, Expr, Window

RANGE_OPERATORS = ("eq", "lt", "le", "gt", "ge")
Waiting = nodes.Distinct | nodes.Negation | nodes.Intersect | nodes.GroupBy


def physical_plan(
    plan: nodes.Node,
    emit: str = "changes",
    strategy: str = "auto",
    method: physical.JoinMethod = "hash",
    order: tuple[int, ...] | None = None,
    *,
    many_queries: bool = True,
) -> PhysicalNode:
    """The physical plan of a family.

    `emit`: "all" adds a `-` for every expiration. `strategy`: how joins over ranges find the queries a tuple affects.
    `method`: how joins find partners. `order`: that of the inputs of its join of several streams; None: it follows the
    data. `many_queries`: whether joins by ranges pay, where functions could be routed instead.
    """
    tables = Counter(n.source.table.lower() for n in _nodes(plan) if isinstance(n, nodes.Table))
    repeated = frozenset(table for table, times in tables.items() if times > 1)
    keep_ranges = strategy != "by row" and (many_queries or strategy != "auto")
    root = _attached(_Planner(strategy, repeated, method, order, keep_ranges, many_queries).plan(plan))
    return physical.Expirations(Pattern.STR, (root,)) if emit == "all" else root


@dataclass(frozen=True)
class _Planner:
    strategy: str
    repeated: frozenset[str]  # tables that are read several times: one change of them is several changes of a step
    method: physical.JoinMethod = "hash"
    order: tuple[int, ...] | None = None
    keep_ranges: bool = True
    many_queries: bool = True
    clustered: bool = False  # whether the node is inside a cluster; clusters are not nested

    def plan(self, node: nodes.Node) -> PhysicalNode:
        counts = isinstance(node, nodes.Stream) and node.window.kind == "rows"
        if self.clustered or not (counts or isinstance(node, Waiting)):
            return self._node(node)
        below = replace(self, clustered=True)._node(node)
        return physical.Cluster(label(node), (below,), tuple(sorted(_params(node))), None)

    def _node(self, node: nodes.Node) -> PhysicalNode:
        pattern = label(node)
        match node:
            case nodes.Stream():
                return _stream(pattern, node)
            case nodes.Table():
                return physical.TableScan(pattern, (), node.source)
            case nodes.Select():
                return _selected(pattern, self.plan(node.input), node.condition)
            case nodes.Project():
                child = self.plan(node.input)
                if child.pending or any(params_of(o.expr) for o in node.outputs):
                    child = _attached(child)
                return physical.Project(pattern, (child,), node.outputs)
            case nodes.Union():
                children = [self.plan(i) for i in node.inputs]
                if any(c.attached or c.pending for c in children):
                    children = [_attached(c) for c in children]
                return physical.UnionAll(pattern, tuple(children))
            case nodes.Join():
                inputs = [self.plan(i) for i in node.inputs]
                return self._joined(self._stem_join(pattern, inputs, node.condition, order=self.order))
            case nodes.TableJoin():
                return self._joined(self._table_join(pattern, node))
            case nodes.Distinct():
                sides = self._sides(node)
                if sides[0].retracts or sides[0].pattern is Pattern.STR:
                    return physical.SetOperation(pattern, sides, "distinct")
                return physical.DuplicateElimination(pattern, sides)
            case nodes.Negation():
                return physical.SetOperation(pattern, self._sides(node), "negation")
            case nodes.Intersect():
                return physical.SetOperation(pattern, self._sides(node), "intersect")
            case nodes.GroupBy():
                child = _attached(self.plan(node.input))
                arguments = None if node.keys else _range_arguments(child, node.aggregates)
                buffers = tuple(physical.Buffer() if isinstance(_form(a), Extreme) else None for a in node.aggregates)
                ends = _ends(child, node) if self.many_queries else "stored"
                return physical.GroupBy(pattern, (child,), node.keys, node.aggregates, arguments, buffers, ends)

    def _sides(self, node: nodes.Node) -> tuple[PhysicalNode, ...]:
        return tuple(_attached(self.plan(i)) for i in node.inputs)

    def _table_join(self, pattern: Pattern, node: nodes.TableJoin) -> physical.StemJoin:
        """A table that is joined with a join becomes one more input of it, so that no joined rows are kept. Selections
        by parameters below become part of the join, so that no rows are kept per query; with a non-retroactive table,
        which the others only probe, if the join can then process groups of queries. A join of streams by ranges
        alone stays below: as an input of a larger join, each of its streams would be scanned."""
        of_streams = self.plan(node.input) if isinstance(node.input, nodes.Join) else None
        if isinstance(of_streams, physical.StemJoin) and of_streams.ranged and not of_streams.probes[0][0].exprs:
            frozen = None if node.kind == "retroactive" else 1
            return self._stem_join(pattern, [of_streams, self.plan(node.table)], node.condition, frozen)
        if node.kind == "retroactive":
            below, parts = _flattened(node)
            below, lifted = _with_lifted(below)
            streams = sum(not isinstance(i, nodes.Table) for i in below)
            order = None if self.order is None or streams < 2 else (*self.order, *range(streams, len(below)))
            planned, condition = [self.plan(i) for i in below], all_of([*parts, *lifted])
            return self._stem_join(pattern, planned, condition, order=order)
        flowing = self.plan(node.input)
        assert not flowing.retracts, "a retraction would meet another state of a non-retroactive table"
        inputs, lifted = _with_lifted(node.inputs)
        if lifted:
            condition = all_of([*conjuncts(node.condition), *lifted])
            join = self._stem_join(pattern, [self.plan(i) for i in inputs], condition, 1)
            if join.ranged:
                return join
        return self._stem_join(pattern, [flowing, self.plan(node.table)], node.condition, 1)

    def _stem_join(
        self,
        pattern: Pattern,
        inputs: Sequence[PhysicalNode],
        condition: Expr | None,
        frozen: int | None = None,
        order: tuple[int, ...] | None = None,
    ) -> physical.StemJoin:
        return stem_join(
            pattern, inputs, condition, frozen, method=self.method, order=order, keep_ranges=self.keep_ranges
        )

    def _joined(self, join: physical.StemJoin) -> physical.StemJoin:
        """The join with the requested strategy. Of a table that is read several times, it keeps the rows itself."""
        shared = (None if x and x.scan.source.table.lower() in self.repeated else x for x in join.tables)
        join = replace(join, tables=tuple(shared))
        if self.strategy == "by row":
            return replace(join, ranges=(None,) * len(join.inputs))
        return join if self.strategy == "auto" else replace(join, strategy=self.strategy)


def _attached(node: PhysicalNode) -> PhysicalNode:
    return node if node.attached else physical.Attach(node.pattern, (node,), None)


def _stream(pattern: Pattern, node: nodes.Stream) -> PhysicalNode:
    if node.window.kind != "rows":
        return physical.StreamScan(pattern, (), node.source)
    assert node.window.size is not None
    every = physical.StreamScan(Pattern.MONOTONIC, (), replace(node.source, window=Window("unbounded")))
    return physical.CountWindow(pattern, (every,), node.window.size)


def _selected(pattern: Pattern, child: PhysicalNode, condition: Expr) -> PhysicalNode:
    """Filters by the conditions shared by all queries first, then by those with parameters."""
    parts = conjuncts(condition)
    with_params = [c for c in parts if params_of(c)]
    if with_params:  # users' functions are called only for rows that pass the other conditions
        with_params = [c for c in parts if params_of(c) or calls_functions(c)]
        parts = [c for c in parts if not calls_functions(c)]
    per_query, shared = all_of(with_params), all_of(c for c in parts if not params_of(c))
    if per_query is not None and isinstance(child, physical.Cluster):
        child = replace(child, where=all_of([*conjuncts(child.where), *with_params]))
        per_query = None
    if shared is not None:
        child = physical.Filter(pattern, (child,), shared)
    if per_query is None:
        return child
    return (physical.Filter if child.attached else physical.Attach)(pattern, (child,), per_query)


def _flattened(node: nodes.Node) -> tuple[list[nodes.Node], list[Expr]]:
    """The inputs of joins with each other and with tables, if a change of any of them revises earlier results; and the
    conditions over all their columns."""
    match node:
        case nodes.Join():
            return list(node.inputs), conjuncts(node.condition)
        case nodes.TableJoin() if node.kind == "retroactive":
            inputs, parts = _flattened(node.input)
            return [*inputs, node.table], [*parts, *conjuncts(node.condition)]
        case nodes.Select() if isinstance(node.input, nodes.Join | nodes.TableJoin):
            inputs, parts = _flattened(node.input)
            return (inputs, [*parts, *conjuncts(node.condition)]) if len(inputs) > 1 else ([node], [])
    return [node], []


def _with_lifted(inputs: Sequence[nodes.Node]) -> tuple[list[nodes.Node], list[Expr]]:
    """The inputs of a join without selections by parameters, and those conditions over the columns of the join."""
    bare: list[nodes.Node] = []
    lifted: list[Expr] = []
    start = 0
    for node in inputs:
        if isinstance(node, nodes.Select):
            parts = conjuncts(node.condition)
            own = [p for p in parts if params_of(p) and not calls_functions(p) and not may_overflow(p)]
            lifted += [move_columns(p, partial(add, start)) for p in own]
            rest = all_of(p for p in parts if not any(p is o for o in own))
            node = node.input if rest is None else replace(node, condition=rest)
        bare.append(node)
        start += len(node.fields)
    return bare, lifted


def _range_arguments(
    child: PhysicalNode, aggregates: Sequence[Aggregate]
) -> tuple[physical.RangeArgument | None, ...] | None:
    """The arguments of aggregates without keys over a join by ranges; None if they need the joined rows."""
    if not isinstance(child, physical.StemJoin) or not child.ranged:
        return None
    arguments: list[physical.RangeArgument | None] = []
    for a in aggregates:
        if child.retracts and isinstance(_form(a), Extreme):
            return None
        if a.argument is None:
            arguments.append(None)
            continue
        # It is evaluated for rows without a partner too, so it must not overflow.
        computed = params_of(a.argument) or calls_functions(a.argument) or may_overflow(a.argument)
        inputs = inputs_of(a.argument, child.starts[:-1])
        if computed or len(inputs) != 1:
            return None
        (side,) = inputs
        moved = move_columns(a.argument, partial(add, -child.starts[side]))
        arguments.append(physical.RangeArgument(side, moved))
    return tuple(arguments)


def _ends(child: PhysicalNode, node: nodes.GroupBy) -> Literal["stored", "in log"]:
    """The rows that leave the windows of a grouping can be read from the log of its stream if it has no keys, its
    aggregates only count, and its conditions are ranges of numbers."""
    if node.keys or not isinstance(child, physical.Attach) or not isinstance(child.input, physical.StreamScan):
        return "stored"
    arguments = [a.argument for a in node.aggregates if a.argument is not None]
    counted = all(isinstance(_form(a), Counted) for a in node.aggregates)
    if child.input.source.window.kind != "range" or not counted or any(map(_is_computed, arguments)):
        return "stored"
    compared = [atom(clause[0]) if len(clause) == 1 else None for clause in clauses(child.condition)]
    ranged = all(a is not None and a.op in RANGE_OPERATORS and a.attribute.type != t.STRING for a in compared)
    return "in log" if ranged else "stored"


def _is_computed(argument: Expr) -> bool:
    """Whether its value depends on more than the columns of a row."""
    return bool(params_of(argument)) or calls_functions(argument)


def _form(aggregate: Aggregate) -> Counted | Extreme:
    argument = aggregate.argument
    return AGGREGATES[aggregate.function].form(None if argument is None else argument.type)


def _nodes(node: nodes.Node) -> Iterator[nodes.Node]:
    yield node
    for i in node.inputs:
        yield from _nodes(i)


def _params(node: nodes.Node) -> set[int]:
    own = {i for e in nodes.expressions(node) for i in params_of(e)}
    return own.union(*(_params(i) for i in node.inputs))

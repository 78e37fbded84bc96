"""Builds the logical plan of a bound query: a block becomes joins, table joins, grouping and projection, in that order.

Streams are joined first, then non-retroactive tables (their partners must never retract a row), then other tables.
Every condition is placed at the lowest node that has all its columns.
"""

from __future__ import annotations

from eddyline.plan.expressions import all_of, columns_of, conjuncts, move_columns
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
from eddyline.plan.rules import optimize
from eddyline.sql.bound import Expr, Query, SelectBlock, SetQuery, Source, StreamSource, TableSource, sources


def plan(query: Query) -> Node:
    """The plan of a bound query, after all rewrites."""
    return optimize(build(query))


def build(query: Query) -> Node:
    """The plan as written, before rewrites."""
    if isinstance(query, SelectBlock):
        return _block(query)
    left, right = build(query.left), build(query.right)
    match query.kind:
        case "union":
            return Union((*_flat(left, query), right))
        case "intersect":
            return Intersect(left, right)
        case "except":
            return Negation(left, right)


def _flat(left: Node, query: SetQuery) -> tuple[Node, ...]:
    return left.inputs if isinstance(left, Union) and isinstance(query.left, SetQuery) else (left,)


def _block(block: SelectBlock) -> Node:
    node, to = _joined(block)
    if block.keys is not None:
        keys = tuple(move_columns(k, to.__getitem__) for k in block.keys)
        aggregates = tuple(
            a if a.argument is None else type(a)(a.function, move_columns(a.argument, to.__getitem__), a.type)
            for a in block.aggregates
        )
        node = GroupBy(node, keys, aggregates)
        if block.having is not None:
            node = Select(node, block.having)
        outputs = block.outputs
    else:
        outputs = tuple(type(o)(o.name, move_columns(o.expr, to.__getitem__)) for o in block.outputs)
    node = Project(node, outputs)
    return Distinct(node) if block.distinct else node


def _joined(block: SelectBlock) -> tuple[Node, dict[int, int]]:
    """The join of all sources under WHERE, and the new position of each source column."""
    starts = []
    total = 0
    for s in block.sources:
        starts.append(total)
        total += len(s.fields)
    order = sorted(range(len(block.sources)), key=lambda i: (_rank(block.sources[i]), i))
    to: dict[int, int] = {}
    for i in order:
        for j in range(len(block.sources[i].fields)):
            to[starts[i] + j] = len(to)
    waiting = [move_columns(c, to.__getitem__) for c in conjuncts(block.where)]

    def ready(width: int) -> Expr | None:
        """Removes from `waiting` and returns the conditions over the first `width` columns."""
        now: list[Expr] = []
        later: list[Expr] = []
        for c in waiting:
            (now if all(i < width for i in columns_of(c)) else later).append(c)
        waiting[:] = later
        return all_of(now)

    nodes = [_source(block.sources[i]) for i in order]
    if not any(isinstance(s, StreamSource) for s in sources(block)):
        first = nodes  # without streams, tables are joined like any other input
    else:
        first = [n for n in nodes if not isinstance(n, Table)]
    tables = nodes[len(first) :]
    width = sum(len(n.fields) for n in first)
    if len(first) > 1:
        node: Node = Join(tuple(first), ready(width))
    else:
        node = first[0]
        condition = ready(width)
        node = node if condition is None else Select(node, condition)
    for table in tables:
        assert isinstance(table, Table)
        width += len(table.fields)
        node = TableJoin(node, table, ready(width))
    return node, to


def _rank(source: Source) -> int:
    return 0 if not isinstance(source, TableSource) else 2 if source.retroactive else 1


def _source(source: Source) -> Node:
    if isinstance(source, StreamSource):
        return Stream(source)
    if isinstance(source, TableSource):
        return Table(source)
    return build(source.query)

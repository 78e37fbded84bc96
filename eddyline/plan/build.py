"""Builds the logical plan of a bound query: a block becomes joins, table joins, grouping and projection, in that order.

Streams are joined first, then non-retroactive tables (their partners must never retract a row), then other tables.
Every condition is placed at the lowest node that has all its columns.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate

from eddyline.plan import nodes
from eddyline.plan.expressions import all_of, columns_of, conjuncts, move_columns
from eddyline.plan.nodes import Node
from eddyline.plan.rules import optimize
from eddyline.plan.statistics import Statistics
from eddyline.sql.bound import Expr, Query, SelectBlock, SetQuery, Source, StreamSource, TableSource, sources


def plan(query: Query, statistics: Statistics | None = None) -> Node:
    """The plan of a bound query, after all rewrites."""
    return optimize(build(query), statistics).plan


def build(query: Query) -> Node:
    """The plan as written, before rewrites."""
    if isinstance(query, SelectBlock):
        return _block(query)
    left, right = build(query.left), build(query.right)
    match query.kind:
        case "union":
            return nodes.Union((*_flat(left, query), right))
        case "intersect":
            return nodes.Intersect(left, right)
        case "except":
            return nodes.Negation(left, right)


def _flat(left: Node, query: SetQuery) -> tuple[Node, ...]:
    return left.inputs if isinstance(left, nodes.Union) and isinstance(query.left, SetQuery) else (left,)


def _block(block: SelectBlock) -> Node:
    node, to = _joined(block)
    if block.keys is not None:
        keys = tuple(move_columns(k, to.__getitem__) for k in block.keys)
        arguments = (None if a.argument is None else move_columns(a.argument, to.__getitem__) for a in block.aggregates)
        aggregates = (replace(a, argument=e) for a, e in zip(block.aggregates, arguments, strict=True))
        node = nodes.GroupBy(node, keys, tuple(aggregates))
        if block.having is not None:
            node = nodes.Select(node, block.having)
        outputs = block.outputs
    else:
        outputs = tuple(replace(o, expr=move_columns(o.expr, to.__getitem__)) for o in block.outputs)
    node = nodes.Project(node, outputs)
    return nodes.Distinct(node) if block.distinct else node


def _joined(block: SelectBlock) -> tuple[Node, dict[int, int]]:
    """The join of all sources under WHERE, and the new position of each source column."""
    starts = list(accumulate((len(s.fields) for s in block.sources), initial=0))
    order = sorted(range(len(block.sources)), key=lambda i: _rank(block.sources[i]))
    moved = (column for i in order for column in range(starts[i], starts[i + 1]))
    to = {column: position for position, column in enumerate(moved)}
    waiting = [move_columns(c, to.__getitem__) for c in conjuncts(block.where)]

    def ready(width: int) -> Expr | None:
        """Removes from `waiting` and returns the conditions over the first `width` columns."""
        now = [c for c in waiting if all(i < width for i in columns_of(c))]
        waiting[:] = [c for c in waiting if not all(i < width for i in columns_of(c))]
        return all_of(now)

    inputs = [_source(block.sources[i]) for i in order]
    has_stream = any(isinstance(s, StreamSource) for s in sources(block))
    # Without streams, tables are joined like any other input.
    tables = [n for n in inputs if has_stream and isinstance(n, nodes.Table)]
    first = inputs[: len(inputs) - len(tables)]
    width = sum(len(n.fields) for n in first)
    condition = ready(width)
    if len(first) > 1:
        node: Node = nodes.Join(tuple(first), condition)
    else:
        node = first[0] if condition is None else nodes.Select(first[0], condition)
    for table in tables:
        width += len(table.fields)
        node = nodes.TableJoin(node, table, ready(width))
    return node, to


def _rank(source: Source) -> int:
    return 0 if not isinstance(source, TableSource) else 2 if source.retroactive else 1


def _source(source: Source) -> Node:
    if isinstance(source, StreamSource):
        return nodes.Stream(source)
    if isinstance(source, TableSource):
        return nodes.Table(source)
    return build(source.query)

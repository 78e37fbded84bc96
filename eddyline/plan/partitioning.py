"""Partitioning: how the input of a plan is split over buckets that run the same operators and do not communicate.

Invariant of a `Partitioning`: if every tuple of a stream is sent to the buckets of its routing, every change of a table
is sent to all buckets, and all buckets step with the same clocks and arrival numbers, then the changes of all buckets
together are the changes of a single bucket with the whole input.

    stateless   selections, projections and unions of streams: no state, so a tuple may be sent to any bucket
    anywhere    each tuple is stored in any one bucket: streams joined with tables, which every bucket stores
    by key      tuples that can join or group have equal keys: joins by equality, groups, DISTINCT, EXCEPT, INTERSECT
    by range    one join within a band: the tuples of one stream are stored in the cell of their number, those of the
                other are copied to all cells in reach; further streams, in other branches of a union, are routed by key
    one place   all other plans
    by queries  any plan of a family with parameters: every bucket sees every tuple and has a part of the queries

The search goes from the root to the streams: an operator that must see certain rows together requires its output to be
partitioned by some key, and the key is rewritten to the columns of its inputs until it reaches the streams. Keys that
are correct alone are correct together, so a tuple is routed by all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, combinations
from typing import Literal

from eddyline.plan import nodes
from eddyline.plan import routings as route
from eddyline.plan.bands import bands, bounds
from eddyline.plan.differences import Inputs
from eddyline.plan.equalities import Equalities, bare, distinct, equalities, inlined, outward, respects_equality
from eddyline.plan.expressions import calls_functions, columns_of, move_columns, params_of
from eddyline.plan.nodes import Node
from eddyline.plan.routings import Assignment, Assignments, Routing
from eddyline.sql.bound import Call, Column, Constant, Expr, Field

Kind = Literal["stateless", "anywhere", "by key", "by range", "one place", "by queries"]


@dataclass(frozen=True, slots=True)
class Partitioning:
    kind: Kind
    routings: tuple[tuple[str, Routing], ...]  # by stream, in lower case and in order

    def routing(self, stream: str) -> Routing:
        return dict(self.routings)[stream.lower()]

    @property
    def keeps_state(self) -> bool:
        return self.kind != "stateless"


def partitioning(plan: Node, *, keeps_tuples: bool = False) -> Partitioning:
    """How to split the input of a plan. `keeps_tuples`: whether the family has state even if its plan has none, because
    of its options: the expirations of its rows (`emit = 'all'`), or tuples that it collects (`evaluate = …`)."""
    assignments = assignments_of(plan, Equalities())
    if not assignments:
        return Partitioning("one place", tuple((s, route.OnePlace()) for s in sorted(streams_of(plan))))
    routings = tuple(sorted(route.with_all_keys(assignments).items()))
    kinds = {type(r) for _, r in routings}
    if route.Home in kinds:
        return Partitioning("by range", routings)
    if route.ByKey in kinds:
        return Partitioning("by key", routings)
    return Partitioning("stateless" if _is_stateless(plan) and not keeps_tuples else "anywhere", routings)


def by_queries(plan: Node) -> Partitioning:
    """Splits any plan by its queries, which are independent of each other."""
    return Partitioning("by queries", tuple((s, route.Everywhere()) for s in sorted(streams_of(plan))))


def joins_over_ranges(node: Node) -> bool:
    """Whether some join bounds a difference of two of its inputs by a parameter."""
    if isinstance(node, nodes.Join | nodes.TableJoin):
        for pair in combinations(starts_of(node), 2):
            if any(params_of(bound) for bound in bounds(node.condition, _side(pair))):
                return True
    return any(joins_over_ranges(i) for i in node.inputs)


def assignments_of(node: Node, known: Equalities) -> Assignments:
    """Assignments of the streams below so that the outputs of all buckets together are the node's output.

    `known` holds in all rows that can reach a result; other rows do not matter.
    """
    if isinstance(node, nodes.Table) or not streams_of(node):
        return []  # every bucket would emit the same rows
    match node:
        case nodes.Stream():
            return [{node.source.stream.lower(): route.Anywhere()}] if node.window.kind != "rows" else []
        case nodes.Select():
            return assignments_of(node.input, known.having(node.condition))
        case nodes.Project():
            return assignments_of(node.input, known.below(computed(node)))
        case nodes.Union():
            return route.merged(assignments_of(i, known) for i in node.inputs)
        case nodes.Join() | nodes.TableJoin():
            known = known.having(node.condition)
            inputs = stream_inputs(node)
            if len(inputs) == 1:
                ((start, child),) = inputs
                return assignments_of(child, known.within(start, start + len(child.fields)))
            return _by_keys(node, join_seeds(node, known), known) or list(_by_range(node))
        case nodes.Distinct() | nodes.Intersect() | nodes.Negation():
            return _by_keys(node, distinct([*_columns(node.fields), *_hints(node)]), known)
        case nodes.GroupBy():
            return _by_keys(node, distinct([*_columns(node.fields[: len(node.keys)]), *_hints(node)]), known)


def join_seeds(node: nodes.Join | nodes.TableJoin, known: Equalities) -> tuple[Expr, ...]:
    """The keys that a join could be partitioned by."""
    return distinct([*(c[0] for c in known.classes), *_hints(node)])


def _by_keys(node: Node, keys: Iterable[Expr], known: Equalities) -> Assignments:
    assignments: Assignments = []
    for key in keys:
        assignments += [a for a in _keyed(node, key, known) if a not in assignments]
    return assignments[: route.MOST_ASSIGNMENTS]


def _keyed(node: Node, key: Expr, known: Equalities) -> Assignments:
    """As `assignments_of`, where also each row of the node's output is in the bucket of its key."""
    if isinstance(node, nodes.Table) or not streams_of(node):
        return []
    match node:
        case nodes.Stream():
            refused = node.window.kind == "rows" or not _routable(key)
            return [] if refused else [{node.source.stream.lower(): route.ByKey((_named(key, node.fields),))}]
        case nodes.Select():
            return _keyed(node.input, key, known.having(node.condition))
        case nodes.Project():
            return _keyed(node.input, inlined(key, computed(node)), known.below(computed(node)))
        case nodes.Union():
            return route.merged(_keyed(i, key, known) for i in node.inputs)
        case nodes.Join() | nodes.TableJoin():
            known = known.having(node.condition)
            return route.merged(keyed_input(i, start, key, known) for start, i in stream_inputs(node))
        case nodes.Distinct() | nodes.Intersect() | nodes.Negation():
            return route.merged(_keyed(i, key, known) for i in node.inputs) if respects_equality(key) else []
        case nodes.GroupBy():
            if not respects_equality(key) or any(i >= len(node.keys) for i in columns_of(key)):
                return []
            return _keyed(node.input, inlined(key, computed(node)), known.below(computed(node)))


def keyed_input(node: Node, start: int, key: Expr, known: Equalities) -> Assignments:
    """As `_keyed`, for an input of a join whose columns begin at `start`, by any equal form of the key."""
    stop = start + len(node.fields)
    forms = [_shifted(f, -start) for f in known.forms(key, start, stop)]
    return [a for f in forms for a in _keyed(node, f, known.within(start, stop))][: route.MOST_ASSIGNMENTS]


def _by_range(node: nodes.Join | nodes.TableJoin) -> Iterator[Assignment]:
    """Assignments for a join of two streams within a band; best first: an unbounded stream should not be copied."""
    inputs = stream_inputs(node)
    if len(inputs) != 2:
        return
    (start, left), (middle, right) = inputs
    for band in bands(node.condition, _side(inputs)):
        x = _number_of_stream(left, _shifted(band.left, -start))
        y = _number_of_stream(right, _shifted(band.right, -middle))
        if x is None or y is None or x[0].source.stream.lower() == y[0].source.stream.lower():
            continue
        (a, value), (b, other) = x, y
        from_right = route.Reach(other, band.low, band.high)
        from_left = route.Reach(value, _negative(band.high), _negative(band.low))
        assignments: Assignments = [
            {a.source.stream.lower(): route.Home(value), b.source.stream.lower(): from_right},
            {a.source.stream.lower(): from_left, b.source.stream.lower(): route.Home(other)},
        ]
        left_home = b.window.kind != "unbounded" or a.window.kind == "unbounded"
        yield from assignments if left_home else assignments[::-1]


def _side(inputs: Sequence[tuple[int, Node]]) -> Inputs:
    """A function that maps an expression to the inputs it uses: 0 and 1 for these two, 2 for any other."""
    spans = [(start, start + len(i.fields)) for start, i in inputs]

    def side(expr: Expr) -> set[int]:
        return {next((k for k, (a, b) in enumerate(spans) if a <= i < b), 2) for i in columns_of(expr)}

    return side


def _number_of_stream(node: Node, value: Expr) -> tuple[nodes.Stream, Expr] | None:
    """The stream below selections and projections, and the value over its columns. None for a value of event time,
    because all tuples of one instant would be in one cell."""
    while isinstance(node, nodes.Select | nodes.Project):
        value = inlined(value, computed(node)) if isinstance(node, nodes.Project) else value
        node = node.input
    if not isinstance(node, nodes.Stream) or node.window.kind == "rows":
        return None
    if not _routable(value) or node.source.time in columns_of(value):
        return None
    return node, _named(value, node.fields)


def _negative(bound: Expr) -> Expr:
    if isinstance(bound, Call) and bound.function == "neg":
        return bound.args[0]
    if isinstance(bound, Constant) and bound.value is not None:
        return Constant(-bound.value, bound.type)
    return Call("neg", (bound,), bound.type)


# Keys.


def _hints(node: Node) -> list[Expr]:
    """Expressions over a node's columns by which joins below it could be partitioned."""
    below = [_hints(i) for i in node.inputs]
    match node:
        case nodes.Join() | nodes.TableJoin():
            sides = [e for pair in equalities(node.condition) for e in pair if columns_of(e)]
            for (start, _), hints in zip(starts_of(node), below, strict=True):
                sides += [_shifted(h, start) for h in hints]
            return sides
        case nodes.Project() | nodes.GroupBy():
            rewritten = [outward(h, computed(node)) for h in below[0]]
            return [h for h in rewritten if h is not None]
        case _:
            return [h for hints in below for h in hints]


def _routable(expr: Expr) -> bool:
    """Whether a source can route by the expression: it has columns, and neither parameters nor users' functions."""
    return bool(columns_of(expr)) and not params_of(expr) and not calls_functions(expr)


def _columns(fields: Sequence[Field]) -> list[Expr]:
    return [Column(i, f.type, "") for i, f in enumerate(fields)]


def _named(expr: Expr, fields: Sequence[Field]) -> Expr:
    """The expression with the column names of the stream, so that two readers of a stream compare equal."""
    return inlined(expr, [Column(i, f.type, f.name) for i, f in enumerate(fields)])


# The plan.


def computed(node: nodes.Project | nodes.GroupBy) -> list[Expr]:
    """The expressions that compute the output columns of a projection, or the keys of a group, from the input."""
    return [bare(e) for e in (node.keys if isinstance(node, nodes.GroupBy) else (o.expr for o in node.outputs))]


def starts_of(node: Node) -> list[tuple[int, Node]]:
    """The inputs of a join, each with the position of its first column."""
    starts = accumulate((len(i.fields) for i in node.inputs), initial=0)
    return list(zip(starts, node.inputs, strict=False))


def stream_inputs(node: Node) -> list[tuple[int, Node]]:
    """The inputs of a join that read a stream; every bucket stores the other inputs in full."""
    return [(start, i) for start, i in starts_of(node) if streams_of(i)]


def _shifted(expr: Expr, start: int) -> Expr:
    return move_columns(expr, lambda i: i + start)


def streams_of(node: Node) -> set[str]:
    own = {node.source.stream.lower()} if isinstance(node, nodes.Stream) else set()
    return own.union(*(streams_of(i) for i in node.inputs))


def _is_stateless(node: Node) -> bool:
    plain = isinstance(node, nodes.Stream | nodes.Select | nodes.Project | nodes.Union)
    return plain and all(_is_stateless(i) for i in node.inputs)

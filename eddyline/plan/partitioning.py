"""How the input of a plan can be split over buckets that run the same operators and never talk to each other.

Invariant of a `Partitioning`: give every tuple of a stream to the buckets its routing names, every change of a table to
all buckets, and step all of them with the same clocks and arrival numbers; then the changes of all buckets together
are those of one place that holds everything.

    stateless   selections, projections and unions of streams: nothing is remembered, tuples may go through anywhere
    anywhere    each tuple lives in some one bucket: streams joined with tables, which every bucket holds
    by key      tuples that can meet have equal keys: joins by equality, groups, DISTINCT, EXCEPT, INTERSECT
    by range    one join within a band: one stream is at home in the cell of its number, another reaches for it; more
                streams, in other branches of a union, are routed as by key
    one place   all the rest
    by queries  of a family with parameters, whatever its plan: every bucket sees every tuple and has queries of its own

It is found from the top down: an operator that must see certain rows together asks for its output to be in the bucket
of some key, and the wish is said by the columns of its inputs until it reaches the streams. A key that is right alone
is right together with others, so a tuple is routed by all that were found.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

from eddyline.plan.bands import bands, bounds
from eddyline.plan.differences import Inputs
from eddyline.plan.equalities import (
    Equalities,
    bare,
    distinct,
    equalities,
    inlined,
    outward,
    respects_equality,
)
from eddyline.plan.expressions import calls_functions, columns_of, move_columns, params_of
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
from eddyline.plan.routings import (
    MOST_WAYS,
    Anywhere,
    ByKey,
    Everywhere,
    Home,
    OnePlace,
    Reach,
    Routing,
    Way,
    Ways,
    merged,
    together,
)
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


def partitioning(plan: Node, emit: str = "changes") -> Partitioning:
    """How to split the input of a plan; under `emit = 'all'` ends of rows are remembered, whatever the plan."""
    ways = _ways(plan, Equalities())
    if not ways:
        return Partitioning("one place", tuple((s, OnePlace()) for s in sorted(_streams(plan))))
    routings = tuple(sorted(together(ways).items()))
    kinds = {type(r) for _, r in routings}
    if Home in kinds:
        return Partitioning("by range", routings)
    if ByKey in kinds:
        return Partitioning("by key", routings)
    return Partitioning("stateless" if _is_stateless(plan) and emit != "all" else "anywhere", routings)


def by_queries(plan: Node) -> Partitioning:
    """How to split any plan by its queries, for they know nothing of one another."""
    return Partitioning("by queries", tuple((s, Everywhere()) for s in sorted(_streams(plan))))


def joins_over_ranges(node: Node) -> bool:
    """Whether some join keeps a difference of two of its inputs above or below what a query says."""
    if isinstance(node, Join | TableJoin):
        for pair in combinations(_starts(node), 2):
            if any(params_of(bound) for bound in bounds(node.condition, _side(pair))):
                return True
    return any(joins_over_ranges(i) for i in node.inputs)


def _ways(node: Node, known: Equalities) -> Ways:
    """Ways to split the streams below so that the outputs of all buckets together are the node's output.

    `known` holds in all rows that count; what becomes of others does not matter.
    """
    if not _streams(node):
        return []  # every bucket would tell it
    match node:
        case Stream():
            return [{node.source.stream.lower(): Anywhere()}] if node.window.kind != "rows" else []
        case Table():
            return []
        case Select():
            return _ways(node.input, known.having(node.condition))
        case Project():
            return _ways(node.input, known.below(_makers(node)))
        case Union():
            return merged(_ways(i, known) for i in node.inputs)
        case Join() | TableJoin():
            known = known.having(node.condition)
            flowing = _flowing(node)
            if len(flowing) == 1:
                ((start, child),) = flowing
                return _ways(child, known.within(start, start + len(child.fields)))
            seeds = distinct([*(c[0] for c in known.classes), *_hints(node)])
            return _by_keys(node, seeds, known) or list(_by_range(node))
        case Distinct() | Intersect() | Negation():
            return _by_keys(node, distinct([*_columns(node.fields), *_hints(node)]), known)
        case GroupBy():
            return _by_keys(node, distinct([*_columns(node.fields[: len(node.keys)]), *_hints(node)]), known)


def _by_keys(node: Node, keys: Iterable[Expr], known: Equalities) -> Ways:
    ways: Ways = []
    for key in keys:
        ways += [w for w in _keyed(node, key, known) if w not in ways]
    return ways[:MOST_WAYS]


def _keyed(node: Node, key: Expr, known: Equalities) -> Ways:
    """Ways to split the streams below so that besides each row of the node is in the bucket of its key."""
    if not _streams(node):
        return []
    match node:
        case Stream():
            stops = node.window.kind == "rows" or not _routable(key)
            return [] if stops else [{node.source.stream.lower(): ByKey((_named(key, node.fields),))}]
        case Table():
            return []
        case Select():
            return _keyed(node.input, key, known.having(node.condition))
        case Project():
            return _keyed(node.input, inlined(key, _makers(node)), known.below(_makers(node)))
        case Union():
            return merged(_keyed(i, key, known) for i in node.inputs)
        case Join() | TableJoin():
            known = known.having(node.condition)
            return merged(_keyed_input(i, start, key, known) for start, i in _flowing(node))
        case Distinct() | Intersect() | Negation():
            return merged(_keyed(i, key, known) for i in node.inputs) if respects_equality(key) else []
        case GroupBy():
            if not respects_equality(key) or any(i >= len(node.keys) for i in columns_of(key)):
                return []
            return _keyed(node.input, inlined(key, _makers(node)), known.below(_makers(node)))


def _keyed_input(node: Node, start: int, key: Expr, known: Equalities) -> Ways:
    """As `_keyed`, for an input of a join whose columns begin at `start`, by any form of the key."""
    stop = start + len(node.fields)
    forms = [_shifted(f, -start) for f in known.forms(key, start, stop)]
    return [w for f in forms for w in _keyed(node, f, known.within(start, stop))][:MOST_WAYS]


def _by_range(node: Join | TableJoin) -> Iterator[Way]:
    """Ways to split a join of two streams within a band. The stream that remembers for ever is best at home."""
    if len(_flowing(node)) != 2:
        return
    (start, left), (middle, right) = _flowing(node)

    for band in bands(node.condition, _side(_flowing(node))):
        x = _number_of_stream(left, _shifted(band.left, -start))
        y = _number_of_stream(right, _shifted(band.right, -middle))
        if x is None or y is None or x[0].source.stream.lower() == y[0].source.stream.lower():
            continue
        (a, value), (b, other) = x, y
        from_right = Reach(other, band.low, band.high)
        from_left = Reach(value, _negative(band.high), _negative(band.low))
        ways: Ways = [
            {a.source.stream.lower(): Home(value), b.source.stream.lower(): from_right},
            {a.source.stream.lower(): from_left, b.source.stream.lower(): Home(other)},
        ]
        yield from ways if b.window.kind != "unbounded" or a.window.kind == "unbounded" else ways[::-1]


def _side(inputs: Sequence[tuple[int, Node]]) -> Inputs:
    """Which of two inputs of a join an expression sees; 2 for any other."""
    spans = [(start, start + len(i.fields)) for start, i in inputs]

    def side(expr: Expr) -> set[int]:
        return {next((k for k, (a, b) in enumerate(spans) if a <= i < b), 2) for i in columns_of(expr)}

    return side


def _number_of_stream(node: Node, value: Expr) -> tuple[Stream, Expr] | None:
    """The stream below selections and projections, and a value said by its columns; not by its event time, because all
    tuples of one moment would sit in one cell."""
    while isinstance(node, Select | Project):
        value = inlined(value, _makers(node)) if isinstance(node, Project) else value
        node = node.input
    if not isinstance(node, Stream) or node.window.kind == "rows":
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


# --- what can be a key ------------------------------------------------------------------------------------------------


def _hints(node: Node) -> list[Expr]:
    """Expressions over a node's columns by which joins below could be split."""
    below = [_hints(i) for i in node.inputs]
    match node:
        case Join() | TableJoin():
            found = [e for pair in equalities(node.condition) for e in pair if columns_of(e)]
            for (start, _), hints in zip(_starts(node), below, strict=True):
                found += [_shifted(h, start) for h in hints]
            return found
        case Project() | GroupBy():
            said = [outward(h, _makers(node)) for h in below[0]]
            return [h for h in said if h is not None]
        case _:
            return [h for hints in below for h in hints]


def _routable(expr: Expr) -> bool:
    """Whether the source can compute it, and it tells tuples apart."""
    return bool(columns_of(expr)) and not params_of(expr) and not calls_functions(expr)


def _columns(fields: Sequence[Field]) -> list[Expr]:
    return [Column(i, f.type, "") for i, f in enumerate(fields)]


def _named(expr: Expr, fields: Sequence[Field]) -> Expr:
    """Over columns with the names they have in the stream, so that two readers of a stream agree."""
    return inlined(expr, [Column(i, f.type, f.name) for i, f in enumerate(fields)])


# --- the plan ---------------------------------------------------------------------------------------------------------


def _makers(node: Project | GroupBy) -> list[Expr]:
    """What makes the output columns of a projection, or the keys of a group, from the input."""
    return [bare(e) for e in (node.keys if isinstance(node, GroupBy) else (o.expr for o in node.outputs))]


def _starts(node: Node) -> list[tuple[int, Node]]:
    """The inputs of a join, each with the position of its first column."""
    found, start = [], 0
    for i in node.inputs:
        found.append((start, i))
        start += len(i.fields)
    return found


def _flowing(node: Node) -> list[tuple[int, Node]]:
    """Those that read a stream; the others every bucket has in full."""
    return [(start, i) for start, i in _starts(node) if _streams(i)]


def _shifted(expr: Expr, start: int) -> Expr:
    return move_columns(expr, lambda i: i + start)


def _streams(node: Node) -> set[str]:
    own = {node.source.stream.lower()} if isinstance(node, Stream) else set()
    return own.union(*(_streams(i) for i in node.inputs))


def _is_stateless(node: Node) -> bool:
    return isinstance(node, Stream | Select | Project | Union) and all(_is_stateless(i) for i in node.inputs)

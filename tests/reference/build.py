"""Small bound queries by hand, and a reference to run them: streams s and r of (a, ts), a table t of (k, v)."""

from collections import Counter
from datetime import timedelta
from typing import Any

from eddyline import types as t
from eddyline.reference import Reference
from eddyline.sql.bound import (
    Aggregate,
    BoundQuery,
    Call,
    Column,
    Constant,
    DerivedSource,
    Expr,
    Field,
    Output,
    Query,
    SelectBlock,
    Source,
    StreamSource,
    TableSource,
    Window,
)

FIELDS = (Field("a", t.BIGINT), Field("ts", t.TIMESTAMP))
TABLE_FIELDS = (Field("k", t.BIGINT), Field("v", t.STRING))
UNBOUNDED = Window("unbounded")
A = Column(0, t.BIGINT, "a")
COUNT = Aggregate("count", None, t.BIGINT)


def last(us: int | None) -> Window:
    return Window("range", Constant(None if us is None else timedelta(microseconds=us), t.INTERVAL))


def rows(n: int | None) -> Window:
    return Window("rows", Constant(n, t.BIGINT))


def stream(window: Window, name: str = "s") -> StreamSource:
    return StreamSource(name, name, FIELDS, 1, window)


def table(retroactive: bool = True, name: str = "t") -> TableSource:
    return TableSource(name, name, TABLE_FIELDS, retroactive)


def derived(query: Query) -> DerivedSource:
    return DerivedSource(query, "d", query.fields)


def select(
    *sources: Source, outputs: tuple[Expr, ...] = (A,), where: Expr | None = None, distinct: bool = False
) -> SelectBlock:
    return SelectBlock(sources, where, None, (), None, tuple(Output("o", e) for e in outputs), distinct)


def group(
    *sources: Source, keys: tuple[Expr, ...], aggregates: tuple[Aggregate, ...], having: Expr | None = None
) -> SelectBlock:
    types = [k.type for k in keys] + [a.type for a in aggregates]
    outputs = tuple(Output(f"o{i}", Column(i, x, f"o{i}")) for i, x in enumerate(types))
    return SelectBlock(sources, None, keys, aggregates, having, outputs, False)


def eq(a: Expr, b: Expr) -> Call:
    return Call("eq", (a, b), t.BOOLEAN)


def reference(query: Query | None = None, *, clock: Any = "min", delay: int = 0) -> Reference:
    """Streams s and r, table t, and the query q if it is given."""
    ref = Reference(clock)
    for name in ("s", "r"):
        ref.create_stream(name, FIELDS, 1, delay)
    ref.create_table("t")
    if query is not None:
        ref.register("q", BoundQuery(query, ()))
    return ref


def bag(*values: Any) -> Counter[Any]:
    return Counter(v if isinstance(v, tuple) else (v,) for v in values)

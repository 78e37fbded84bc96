"""Bound queries: names are resolved, types are known, conversions are explicit.

A query is a `SelectBlock` or a `SetQuery`, as the user wrote it. Columns are positions: inside a block, `where`, `keys`
and aggregate arguments see the concatenated columns of all sources; `having` and `outputs` see the keys followed by
the aggregates if the block groups, and the source columns otherwise.

The constants of a query registered as text are `Param`s, so that queries that differ only in constants have the same
bound form. A `Constant` is part of the shape itself, such as the constants of a declared family.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Column:
    index: int
    type: pa.DataType
    name: str


@dataclass(frozen=True, slots=True)
class Param:
    index: int
    type: pa.DataType
    name: str


@dataclass(frozen=True, slots=True)
class Constant:
    value: Any  # bool, int, float, str, datetime, date, timedelta or None
    type: pa.DataType


@dataclass(frozen=True, slots=True)
class Call:
    """A function of `functions.py` (or `udf:name`) applied to arguments of the types it expects.

    The result is NULL where an argument is NULL, unless the function specifies otherwise, and where the function has
    no value (division by zero, overflow, a text that is not a number).
    """

    function: str
    args: tuple[Expr, ...]
    type: pa.DataType


Expr = Column | Param | Constant | Call


@dataclass(frozen=True, slots=True)
class Field:
    name: str
    type: pa.DataType


@dataclass(frozen=True, slots=True)
class Window:
    """`range`: size is an INTERVAL; `rows`: size is a BIGINT; `unbounded`: size is None. Sizes see no columns."""

    kind: Literal["unbounded", "range", "rows"]
    size: Expr | None = None


@dataclass(frozen=True, slots=True)
class StreamSource:
    stream: str
    alias: str
    fields: tuple[Field, ...]
    time: int  # position of the event-time column
    window: Window


@dataclass(frozen=True, slots=True)
class TableSource:
    table: str
    alias: str
    fields: tuple[Field, ...]
    retroactive: bool


@dataclass(frozen=True, slots=True)
class DerivedSource:
    query: Query
    alias: str
    fields: tuple[Field, ...]


Source = StreamSource | TableSource | DerivedSource


@dataclass(frozen=True, slots=True)
class Aggregate:
    function: str  # a name in `eddyline/aggregates`
    argument: Expr | None  # None for COUNT(*)
    type: pa.DataType


@dataclass(frozen=True, slots=True)
class Output:
    name: str
    expr: Expr


@dataclass(frozen=True, slots=True)
class SelectBlock:
    sources: tuple[Source, ...]
    where: Expr | None
    keys: tuple[Expr, ...] | None  # None: no grouping; (): one group that always exists
    aggregates: tuple[Aggregate, ...]
    having: Expr | None
    outputs: tuple[Output, ...]
    distinct: bool

    @property
    def fields(self) -> tuple[Field, ...]:
        return tuple(Field(o.name, o.expr.type) for o in self.outputs)


@dataclass(frozen=True, slots=True)
class SetQuery:
    """A bag operation: UNION ALL, INTERSECT ALL or EXCEPT ALL. Both sides have the same types."""

    kind: Literal["union", "intersect", "except"]
    left: Query
    right: Query

    @property
    def fields(self) -> tuple[Field, ...]:
        return self.left.fields


Query = SelectBlock | SetQuery


@dataclass(frozen=True, slots=True)
class BoundQuery:
    """A query and its parameters; `values` are the constants of a query registered as text."""

    query: Query
    params: tuple[Field, ...]
    values: tuple[Any, ...] = ()


def walk(expr: Expr) -> Iterator[Expr]:
    yield expr
    if isinstance(expr, Call):
        for arg in expr.args:
            yield from walk(arg)


def parts(query: Query) -> Iterator[SelectBlock | StreamSource | TableSource]:
    """The blocks of a query, at any depth, each followed by its sources in the order of the text."""
    if isinstance(query, SetQuery):
        yield from parts(query.left)
        yield from parts(query.right)
        return
    yield query
    for s in query.sources:
        if isinstance(s, DerivedSource):
            yield from parts(s.query)
        else:
            yield s


def blocks(query: Query) -> Iterator[SelectBlock]:
    return (p for p in parts(query) if isinstance(p, SelectBlock))


def sources(query: Query) -> Iterator[StreamSource | TableSource]:
    """The streams and tables a query reads, at any depth, in the order of the text."""
    return (p for p in parts(query) if not isinstance(p, SelectBlock))


def expressions(query: Query) -> Iterator[Expr]:
    """All expressions of a query, at any depth."""
    for block in blocks(query):
        own = [block.where, block.having, *(block.keys or ()), *(a.argument for a in block.aggregates)]
        for e in (*own, *(o.expr for o in block.outputs)):
            if e is not None:
                yield from walk(e)


def groups(query: Query) -> bool:
    """Whether any block of the query groups."""
    return any(block.keys is not None for block in blocks(query))

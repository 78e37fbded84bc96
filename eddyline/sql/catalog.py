"""The catalog: streams, tables, views, sinks and functions by name. Names are not case-sensitive.

Families and their queries are not in it, because there may be millions of queries (`engine/`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeVar

import pyarrow as pa

from eddyline.errors import CatalogError, did_you_mean
from eddyline.sql.bound import Field, Query


@dataclass(frozen=True, slots=True)
class External:
    """`USING format OPTIONS (…)`: where a host reads a stream or table, or writes a sink."""

    format: str
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Stream:
    name: str
    fields: tuple[Field, ...]
    time: int
    delay: int  # microseconds
    idle: int | None = None  # microseconds without input after which the stream no longer holds back the clock
    external: External | None = None
    sql: str = ""
    future: int | None = None  # microseconds that a tuple may be ahead of the wall clock; None: no limit


@dataclass(frozen=True, slots=True)
class Table:
    name: str
    fields: tuple[Field, ...]
    key: tuple[int, ...]
    retroactive: bool
    external: External | None = None
    sql: str = ""


@dataclass(frozen=True, slots=True)
class View:
    name: str
    query: Query
    refresh_within: int | None  # microseconds
    sql: str = ""


@dataclass(frozen=True, slots=True)
class Sink:
    name: str
    external: External
    targets: tuple[str, ...]
    sql: str = ""


@dataclass(frozen=True, slots=True)
class Function:
    name: str
    takes: tuple[pa.DataType, ...]
    gives: pa.DataType
    kind: str = "scalar"  # scalar, arrow or pandas: the type of its arguments (`operators/user_functions.py`)


RelationKind = Literal["stream", "table", "view", "sink"]
T = TypeVar("T", Stream, Table, View, Sink, Function)


class Namespace(Generic[T]):
    """Catalog entries of one kind by name. Lookups ignore case; errors name the kind."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._by_key: dict[str, T] = {}

    def add(self, entry: T) -> None:
        self._by_key[entry.name.lower()] = entry

    def get(self, name: str) -> T | None:
        return self._by_key.get(name.lower())

    def __getitem__(self, name: str) -> T:
        entry = self.get(name)
        if entry is None:
            raise CatalogError(f"There is no {self.kind} {name!r}.", hint=did_you_mean(name, self.names()))
        return entry

    def remove(self, name: str) -> None:
        self._by_key.pop(name.lower())

    def names(self) -> list[str]:
        return [x.name for x in self._by_key.values()]

    def __iter__(self) -> Any:
        return iter(list(self._by_key.values()))

    def __len__(self) -> int:
        return len(self._by_key)


KINDS: dict[type, RelationKind] = {Stream: "stream", Table: "table", View: "view", Sink: "sink"}


class Catalog:
    """Everything a statement can refer to. `version` increases with every change, so that caches can be invalidated."""

    def __init__(self) -> None:
        self.streams: Namespace[Stream] = Namespace("stream")
        self.tables: Namespace[Table] = Namespace("table")
        self.views: Namespace[View] = Namespace("materialized view")
        self.sinks: Namespace[Sink] = Namespace("sink")
        self.functions: Namespace[Function] = Namespace("function")
        self.version = 0

    def relation_names(self) -> list[str]:
        return self.streams.names() + self.tables.names() + self.views.names()

    def require_new_relation(self, name: str) -> None:
        for space in (self.streams, self.tables, self.views):
            taken = space.get(name)
            if taken is not None:
                raise CatalogError(
                    f"The name {name!r} is taken by a {space.kind}.",
                    hint=f"Choose another name, or DROP {taken.name} first.",
                )

    def add(self, entry: Stream | Table | View | Sink | Function) -> None:
        self.version += 1
        space: Namespace[Any] = self.functions if isinstance(entry, Function) else self.space(KINDS[type(entry)])
        space.add(entry)

    def space(self, kind: RelationKind) -> Namespace[Any]:
        spaces: dict[RelationKind, Namespace[Any]] = {
            "stream": self.streams, "table": self.tables, "view": self.views, "sink": self.sinks,
        }  # fmt: skip
        return spaces[kind]

    def undefine(self, kind: RelationKind, name: str) -> None:
        self.version += 1
        self.space(kind).remove(name)

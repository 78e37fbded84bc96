"""Parsed statements. Queries and expressions inside them are sqlglot trees; windows are kept beside the trees.

CREATE STREAM, TABLE and SINK are parsed into entries of the catalog (`catalog.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from sqlglot import exp

from eddyline.sql.bound import Field


@dataclass(frozen=True)
class WindowText:
    """A window as written after a source; `size` is a sqlglot expression without columns."""

    kind: Literal["range", "rows"]
    size: exp.Expr
    span: tuple[int, int]


@dataclass(frozen=True)
class QueryText:
    """The sqlglot tree of a query, and its windows by the position of the token they follow."""

    tree: exp.Expr
    windows: Mapping[int, WindowText]
    sql: str


@dataclass(frozen=True)
class CreateQuery:
    name: str
    options: Mapping[str, str]
    query: QueryText
    text: str


@dataclass(frozen=True)
class CreateFamily:
    name: str
    params: tuple[Field, ...]
    options: Mapping[str, str]
    query: QueryText
    text: str


@dataclass(frozen=True)
class CreateView:
    name: str
    refresh_within: int | None
    query: QueryText
    text: str


@dataclass(frozen=True)
class Drop:
    kind: Literal["stream", "table", "query", "family", "view", "sink"]
    name: str
    if_exists: bool


@dataclass(frozen=True)
class Insert:
    target: str
    columns: tuple[str, ...]
    values: exp.Expr | None  # a VALUES tree
    query: QueryText | None


@dataclass(frozen=True)
class Update:
    target: str
    assignments: tuple[tuple[exp.Expr, exp.Expr], ...]
    where: exp.Expr | None


@dataclass(frozen=True)
class Delete:
    target: str
    where: exp.Expr | None


@dataclass(frozen=True)
class Show:
    what: str


@dataclass(frozen=True)
class Explain:
    name: str
    analyze: bool


@dataclass(frozen=True)
class SelectOnce:
    query: QueryText


@dataclass(frozen=True)
class Statement:
    """A parsed statement with its text, and its span in the whole SQL, for errors raised when it runs."""

    body: Any
    text: str
    sql: str
    span: tuple[int, int] = field(default=(0, 1))

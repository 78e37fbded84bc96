"""What a scenario declares before its first event: streams, tables, families and user functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.oracle import queries


@dataclass(frozen=True)
class Function:
    body: Callable[..., Any]
    takes: tuple[str, ...]
    gives: str


@dataclass(frozen=True)
class Schema:
    streams: Mapping[str, str]  # by name: the columns before `ts`
    tables: Mapping[str, tuple[str, str]]  # by name: the columns, and what follows them
    families: Mapping[str, tuple[str, str]]  # by name: the parameters, and the query
    functions: Mapping[str, Function] = field(default_factory=dict)

    def parameters(self, family: str) -> list[tuple[str, str]]:
        """(name, type) of each parameter."""
        return [(name, kind) for name, kind in (p.split() for p in self.families[family][0].split(", "))]


SMALL = Schema(queries.STREAMS, queries.TABLES, queries.FAMILIES)


@dataclass(frozen=True)
class Lazy:
    """Seconds between two re-evaluations, and between two expirations, of a family or a query."""

    evaluate: float
    expire: float

    @property
    def options(self) -> str:
        return f"evaluate = '{self.evaluate:g} seconds', expire = '{self.expire:g} seconds'"

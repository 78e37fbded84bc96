"""What the files say: worlds, their steps, and cases."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import pyarrow as pa

from eddyline.reference import MIN, micros
from tests.sql.cases.text import Grid, Values


@dataclass(frozen=True)
class Stream:
    name: str
    schema: pa.Schema
    time: str
    delay: int  # microseconds

    def times(self, rows: pa.Table) -> list[int]:
        return [micros(moment) for moment in rows[self.time].to_pylist()]


@dataclass(frozen=True)
class Step:
    """What one micro-batch brings: changes of tables first, then rows, streams in the order of their declaration."""

    number: int
    changes: tuple[str, ...] = ()
    rows: Mapping[str, pa.Table] = field(default_factory=dict)
    advance: datetime | None = None


@dataclass(frozen=True)
class World:
    """Invariant: whatever the order of rows within a step, the same ones are late."""

    path: Path
    start: datetime
    until: int  # answers are compared up to this instant, which the clock of every query has passed at the end
    only_in_process: bool
    functions: tuple[str, ...]
    statements: tuple[str, ...]
    streams: Mapping[str, Stream]
    steps: tuple[Step, ...] = ()
    late: Mapping[str, pa.Table] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.path.parent.name

    @property
    def values(self) -> Values:
        return Values(self.start)

    def watermark(self, stream: Stream, before: int) -> int:
        """The watermark of a stream before a step."""
        passed = [s for s in self.steps if s.number < before]
        seen = [ts for s in passed if stream.name in s.rows for ts in stream.times(s.rows[stream.name])]
        set_to = [micros(s.advance) for s in passed if s.advance is not None]
        return max([MIN, *set_to, *(ts - stream.delay for ts in seen)])

    def latest(self, before: int) -> int:
        """The latest event time that any stream had brought before a step."""
        passed = [(self.streams[name], rows) for s in self.steps if s.number < before for name, rows in s.rows.items()]
        return max(max(stream.times(rows)) for stream, rows in passed)

    def sure(self, case: Case, query: str) -> int:
        """Up to where a query is compared: one that was dropped has been told what the watermarks had passed."""
        if query not in case.dropped:
            return self.until
        return min(self.until, *(self.watermark(s, case.dropped[query]) for s in self.streams.values()))


@dataclass(frozen=True)
class Case:
    """A query, or a family with its queries, and what is expected of them."""

    path: Path
    line: int
    name: str
    declare: str  # CREATE CONTINUOUS QUERY …, or CREATE QUERY FAMILY …
    register: pa.Table | None  # of a family: `query`, and a column per parameter
    added: Mapping[str, int]  # by query: before which step it comes
    dropped: Mapping[str, int]  # by query: before which step it goes, if it does
    emits_all: bool
    together: str | None  # the query whose family it shares
    expected: Grid | None
    answers: Mapping[int, Grid] = field(default_factory=dict)  # by instant

    @property
    def place(self) -> str:
        return f"{self.path.parent.name}/{self.path.name}:{self.line}"

    @property
    def queries(self) -> list[str]:
        return list(self.added)

    @property
    def first(self) -> int:
        """The step before which it is declared."""
        return min(self.added.values())

    def coming(self, step: int) -> pa.Table | None:
        """The rows of a family to register before a step."""
        which = [at == step for at in self.added.values()]
        return self.register.filter(pa.array(which)) if self.register is not None and any(which) else None

    def going(self, step: int) -> list[str]:
        """The queries to drop before a step."""
        return [query for query, at in self.dropped.items() if at == step]

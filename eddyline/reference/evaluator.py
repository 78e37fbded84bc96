"""Continuous queries by definition: the answer at an instant is a one-time query over the contents at that instant.

All arrivals are kept, and every answer is computed from scratch. The order of arrival decides which tuples are late and
which version of a table a query sees.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal

from eddyline.errors import DataError
from eddyline.reference.relational import Item, evaluate
from eddyline.reference.scalar import value
from eddyline.reference.values import MAX, MIN, Row, canonical, comparable, micros, native
from eddyline.sql.bound import BoundQuery, Field, StreamSource, TableSource, Window, sources


@dataclass(frozen=True, slots=True)
class _Arrival:
    seq: int
    ts: int
    row: Row


@dataclass(slots=True)
class _Stream:
    fields: tuple[Field, ...]
    time: int
    delay: int
    largest: int | None = None
    arrived: list[_Arrival] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Version:
    """The rows of a table from change number `seq` on."""

    seq: int
    rows: tuple[Row, ...]


@dataclass(slots=True)
class _Registered:
    """A registered query: it sees arrivals after number `seq`, and its answer starts at time `start`."""

    bound: BoundQuery
    values: Row
    seq: int
    start: int
    streams: frozenset[str]
    unseen: set[int] = field(default_factory=set)  # numbers of tuples that arrived behind its clock
    changes: list[tuple[int, int]] = field(default_factory=list)  # (its clock, number) of each change of a table


class Reference:
    """The streams, tables and registered queries of one connection."""

    def __init__(
        self, clock: Literal["min", "max"] = "min", udfs: Mapping[str, Callable[..., Any]] | None = None
    ) -> None:
        self.late: dict[str, list[Row]] = {}
        self._policy = clock
        self._udfs = dict(udfs or {})
        self._streams: dict[str, _Stream] = {}
        self._tables: dict[str, list[_Version]] = {}
        self._queries: dict[str, _Registered] = {}
        self._seq = 0  # the number of the last arrival or change
        self._advanced = MIN

    # Statements and arrivals.

    def create_stream(self, name: str, fields: Sequence[Field], time_index: int, delay_us: int) -> None:
        self._streams[name] = _Stream(tuple(fields), time_index, delay_us)
        self.late[name] = []

    def create_table(self, name: str) -> None:
        self._tables[name] = [_Version(self._seq, ())]

    def register(self, name: str, bound: BoundQuery, values: Row | None = None) -> None:
        streams = frozenset(s.stream for s in sources(bound.query) if isinstance(s, StreamSource))
        given = bound.values if values is None else values
        self._queries[name] = _Registered(bound, tuple(given), self._seq, self._clock_of(streams), streams)

    def drop(self, name: str) -> None:
        del self._queries[name]

    def push(self, stream: str, rows: Iterable[Row]) -> None:
        declared = self._streams[stream]
        given = [tuple(native(v, f.type) for v, f in zip(row, declared.fields, strict=True)) for row in rows]
        if any(row[declared.time] is None for row in given):
            raise DataError(f"A row of {stream!r} has no event time.")
        for row in given:
            self._arrive(stream, declared, row)

    def _arrive(self, name: str, stream: _Stream, row: Row) -> None:
        ts = micros(row[stream.time])
        if ts < self.watermark(name):
            self.late[name].append(row)
            return
        self._seq += 1
        behind = [q for q in self._queries.values() if name in q.streams and ts < self._clock_of(q.streams)]
        for query in behind:
            query.unseen.add(self._seq)
        if behind:
            self.late[name].append(row)
        stream.arrived.append(_Arrival(self._seq, ts, row))
        stream.largest = ts if stream.largest is None else max(stream.largest, ts)

    def advance(self, t: datetime | int) -> None:
        self._advanced = max(self._advanced, micros(t))

    def change_table(self, name: str, inserts: Iterable[Row] = (), deletes: Iterable[Row] = ()) -> None:
        """One atomic change: each delete removes one equal row, then the inserts are added."""
        rows = list(self._tables[name][-1].rows)
        for deleted in deletes:
            equal = [row for row in rows if comparable(row) == comparable(deleted)]
            if equal:
                rows.remove(equal[0])
        self._seq += 1
        self._tables[name].append(_Version(self._seq, (*rows, *inserts)))
        for query in self._queries.values():
            query.changes.append((self._clock_of(query.streams), self._seq))

    # Clocks, answers and changes.

    def watermark(self, stream: str) -> int:
        s = self._streams[stream]
        return max(self._advanced, MIN if s.largest is None else s.largest - s.delay)

    def clock(self, name: str) -> int:
        return self._clock_of(self._queries[name].streams)

    def answer(self, name: str, at: datetime | int | None = None) -> Counter[Row]:
        """Q(at), by default at the query's clock."""
        query = self._queries[name]
        t = self.clock(name) if at is None else micros(at)
        return evaluate(
            query.bound.query, lambda s, newest: self._contents(query, t, s, newest), query.values, self._udfs
        )

    def changes(self, name: str) -> dict[tuple[Row, int], int]:
        """The change of each row's multiplicity in the answer at each instant up to the query's clock."""
        changed: dict[tuple[Row, int], int] = {}
        before: Counter[Row] = Counter()
        for t in self._instants(name):
            now = self.answer(name, t)
            for row in before.keys() | now.keys():
                if now[row] != before[row]:
                    changed[row, t] = now[row] - before[row]
            before = now
        return changed

    # The contents that a query sees.

    def _clock_of(self, streams: frozenset[str]) -> int:
        marks = [self.watermark(s) for s in streams]
        if not marks:
            return max([self._advanced, *map(self.watermark, self._streams)])
        return min(marks) if self._policy == "min" else max(marks)

    def _contents(
        self, query: _Registered, t: int, source: StreamSource | TableSource, newest: int | None
    ) -> Iterator[Item]:
        if isinstance(source, StreamSource):
            for a in self._in_window(query, t, source):
                yield a.row, a.seq
            return
        current = max([query.seq, *(seq for at, seq in query.changes if at <= t)])
        last = current if source.retroactive or newest is None else newest
        for row in [version.rows for version in self._tables[source.table] if version.seq <= last][-1]:
            yield tuple(native(v, f.type) for v, f in zip(row, source.fields, strict=True)), None

    def _in_window(self, query: _Registered, t: int, source: StreamSource) -> list[_Arrival]:
        arrived = [a for a in self._visible(query, source.stream) if a.ts <= t]
        if source.window.kind == "unbounded":
            return arrived
        size = self._size(query, source.window)
        if size is None or size < 0:
            return []
        if source.window.kind == "range":
            return [a for a in arrived if t - size <= a.ts]
        return sorted(arrived, key=lambda a: (a.ts, a.seq), reverse=True)[:size]

    def _size(self, query: _Registered, window: Window) -> int | None:
        assert window.size is not None
        size: timedelta | int | None = value(window.size, (), query.values, self._udfs)
        return None if size is None else micros(size)

    def _visible(self, query: _Registered, stream: str) -> list[_Arrival]:
        return [a for a in self._streams[stream].arrived if a.seq > query.seq and a.seq not in query.unseen]

    def _instants(self, name: str) -> list[int]:
        """The instants at which the answer may change: its start, arrivals, expirations and changes of tables."""
        query = self._queries[name]
        instants = {query.start} | {at for at, _ in query.changes}
        for source in sources(query.bound.query):
            if isinstance(source, StreamSource):
                instants |= {a.ts for a in self._visible(query, source.stream)}
                size = self._size(query, source.window) if source.window.kind == "range" else None
                if size is not None:
                    instants |= {a.ts + size + 1 for a in self._visible(query, source.stream)}
        return sorted(t for t in instants if query.start <= t <= self.clock(name))


def normalise(
    changes: Iterable[tuple[Literal["+", "-"], int | None, int | None, Row]], upto: int
) -> dict[tuple[Row, int], int]:
    """A log of signed intervals [ts, exp], up to an instant, in the form that `Reference.changes` returns."""
    total: Counter[tuple[Row, int]] = Counter()
    for op, ts, exp, row in changes:
        first, last = MIN if ts is None else ts, MAX if exp is None else exp
        sign = 1 if op == "+" else -1
        if first <= last:
            total[canonical(row), first] += sign
            if exp is not None:
                total[canonical(row), last + 1] -= sign
    return {(row, t): n for (row, t), n in total.items() if n and t <= upto}

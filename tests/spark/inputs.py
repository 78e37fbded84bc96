"""The oracle's streams, tables and families as a pipeline over files, and micro-batches of random rows for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa

from tests.oracle import queries
from tests.oracle.bands import band_queries
from tests.oracle.deep import deep_query
from tests.oracle.scenario import START, at, stream_row, table_change
from tests.oracle.schema import SMALL, Schema

Row = tuple[Any, ...]
Event = tuple[Any, ...]  # as in the oracle: ("register", …), ("family", …), ("drop", …), ("table", …)

_NUMBERS = [("a", pa.int32()), ("b", pa.int64()), ("c", pa.float64())]
STREAM = pa.schema([*_NUMBERS, ("n", pa.string()), ("f", pa.bool_()), ("ts", pa.timestamp("us"))])
CHANGES = {
    "t": pa.schema([("op", pa.string()), ("id", pa.int32()), ("a", pa.int32()), ("n", pa.string())]),
    "u": pa.schema([("op", pa.string()), ("a", pa.int32()), ("n", pa.string()), ("x", pa.float64())]),
    **dict.fromkeys("meko", pa.schema([("op", pa.string()), ("id", pa.int32()), *_NUMBERS, ("n", pa.string())])),
}
WIDE: dict[str, dict[str, Any]] = {  # parameters for which there is a lot to tell
    "fa": {"lo": -1.0, "hi": 2.25},
    "fb": {"lo": -1, "hi": 1},
    "fd": {"p": "%"},
    "fg": {"w": 4, "k": 0},
    "fj": {"a1": -2, "a2": 4, "c1": -1.0},
    "fn": {"m": 3},
    "fu": {"k": -1},
    "fw": {"w": 3},
}
KINDS = [*queries.CLASSES, "deep", "band", "family"]


@dataclass
class Batch:
    """A micro-batch: the catalog changes first, then tables, then all streams together."""

    events: list[Event] = field(default_factory=list)  # of the catalog
    changes: list[Event] = field(default_factory=list)  # of tables, a source partition each
    rows: dict[str, list[list[Row]]] = field(default_factory=dict)  # by stream: its source partitions
    now: int = 0  # wall clock, milliseconds

    def tables(self) -> dict[str, list[pa.Table]]:
        """By stream or table: its source partitions, as sources give them."""
        found = {s: [stream_table(p) for p in parts] for s, parts in self.rows.items()}
        for _, table, inserts, deletes in self.changes:
            found.setdefault(table, []).append(changes_table(table, inserts, deletes))
        return found

    def lasting_events(self) -> list[Event]:
        """The changes of the catalog without queries that are registered and dropped again: these are never started."""
        registered = {q for e in self.events for q in _registered(e)}
        dropped = {e[1] for e in self.events if e[0] == "drop"} & registered
        found: list[Event] = []
        for e in self.events:
            if e[0] == "family":
                e = e[0], e[1], [row for row in e[2] if row["query"] not in dropped]
            if (e[0] == "family" and e[2]) or (e[0] != "family" and e[1] not in dropped):
                found.append(e)
        return found


def _registered(event: Event) -> list[str]:
    match event:
        case ("register", name, _):
            return [name]
        case ("family", _, rows):
            return [row["query"] for row in rows]
    return []


def families_of(batches: Iterable[Batch]) -> list[str]:
    return sorted({e[1] for batch in batches for e in batch.events if e[0] == "family"})


def stream_table(rows: Sequence[Row]) -> pa.Table:
    return _table(STREAM, rows)


def changes_table(table: str, inserts: Sequence[Row], deletes: Sequence[Row]) -> pa.Table:
    return _table(CHANGES[table], [*(("-", *r) for r in deletes), *(("+", *r) for r in inserts)])


def _table(schema: pa.Schema, rows: Sequence[Row]) -> pa.Table:
    return pa.table([pa.array([r[i] for r in rows], f.type) for i, f in enumerate(schema)], schema=schema)


def script(
    folder: Path,
    delays: Mapping[str, int],
    families: Iterable[str] | None = None,
    streams: str = "",
    sinks: Sequence[str] = (),
    idle: int | None = None,
    schema: Schema = SMALL,
) -> str:
    """A pipeline of these families, or of all. `streams` are options of the streams' sources; `sinks` precede `out`.

    `idle` is the silence, in milliseconds, after which a stream no longer holds back the others.
    Of a table one file is taken at a time, for files of one micro-batch have no order, and changes need theirs.
    """
    statements = []
    limit = "" if idle is None else f" IDLE AFTER INTERVAL {idle} MILLISECONDS"
    for name in (*schema.streams, *schema.tables):
        (folder / "in" / name).mkdir(parents=True, exist_ok=True)
        more = ", maxFilesPerTrigger '1'" if name in schema.tables else streams
        using = f"USING parquet OPTIONS (path '{folder}/in/{name}'{more})"
        if name in schema.tables:
            columns, kind = schema.tables[name]
            statements.append(f"CREATE TABLE {name} ({columns}) {kind} {using}")
        else:
            delay = f"WATERMARK ts DELAY OF INTERVAL {delays[name]} SECONDS{limit}"
            statements.append(f"CREATE STREAM {name} ({schema.streams[name]}, ts TIMESTAMP) {delay} {using}")
    for name in schema.families if families is None else families:
        params, text = schema.families[name]
        statements.append(f"CREATE QUERY FAMILY {name} ({params}) AS {text}")
    return ";\n".join([*statements, *sinks, f"CREATE SINK out USING parquet OPTIONS (path '{folder}/out')"])


def carry_out(target: Any, event: Event, schema: Schema = SMALL) -> None:
    """A change of the catalog, on a pipeline or its PipelineCatalog."""
    match event:
        case ("register", name, text):
            target.execute(f"CREATE CONTINUOUS QUERY {name} AS {text}")
        case ("family", family, rows):
            target.register(family, parameters(family, rows, schema))
        case ("drop", name):
            target.execute(f"DROP CONTINUOUS QUERY {name}")


def parameters(family: str, rows: Sequence[Mapping[str, Any]], schema: Schema = SMALL) -> pa.Table:
    kinds = {"INT": pa.int32(), "DOUBLE": pa.float64(), "STRING": pa.string()}
    types = {"query": pa.string()} | {name: kinds[kind] for name, kind in schema.parameters(family)}
    return pa.table({name: pa.array([r[name] for r in rows], type_) for name, type_ in types.items()})


class World:
    """Makes up what happens: queries of every kind come and go, tables change, rows come, some of them late."""

    def __init__(self, rnd: Random, kinds: Sequence[str] = KINDS) -> None:
        self.rnd = rnd
        self.kinds = kinds
        self.delays = {s: rnd.choice([0, 1, 3]) for s in queries.STREAMS}
        self.standing: list[str] = []
        self._made = 0
        self._contents: dict[str, list[Row]] = {t: [] for t in queries.TABLES}
        self._now = 0.0

    def batch(self, most_rows: int = 6) -> Batch:
        rnd, made = self.rnd, Batch()
        for _ in range(rnd.choice([0, 0, 1, 1, 2])):
            made.events += self.come()
        if self.standing and rnd.random() < 0.2:
            made.events.append(self.go())
        for _ in range(rnd.choice([0, 0, 1, 2])):
            made.changes.append(self.change())
        for stream in queries.STREAMS:
            if rnd.random() < 0.8:
                made.rows[stream] = [self.rows(rnd.randint(0, most_rows)) for _ in range(rnd.choice([1, 1, 2]))]
        return made

    def full_batch(self, rows: int = 8) -> Batch:
        """Rows of every stream, in one source partition each, and a change of some table."""
        return Batch(changes=[self.change()], rows={stream: [self.rows(rows)] for stream in queries.STREAMS})

    def come(self, kind: str | None = None) -> list[Event]:
        """Some queries that differ only in constants."""
        rnd = self.rnd
        kind = kind or rnd.choice(self.kinds)
        if kind == "family":
            return [self.members(rnd.choice(list(queries.FAMILIES)), rnd.randint(1, 3))]
        make = {"band": band_queries, "deep": lambda r: [deep_query(r)]}.get(kind, lambda r: [queries.CLASSES[kind](r)])
        return [("register", self._name(), text) for text in make(rnd)]

    def members(self, family: str, count: int) -> Event:
        params = [p.split() for p in queries.FAMILIES[family][0].split(", ")]
        rows = [
            {"query": self._name()} | {name: queries.parameter(self.rnd, name, type_) for name, type_ in params}
            for _ in range(count)
        ]
        return "family", family, rows

    def wide(self, *families: str) -> list[Event]:
        """A query of each of these families that has a lot to tell."""
        return [("family", family, [{"query": self._name()} | WIDE[family]]) for family in families]

    def go(self) -> Event:
        return "drop", self.standing.pop(self.rnd.randrange(len(self.standing)))

    def change(self) -> Event:
        return table_change(self.rnd, self._contents)

    def rows(self, count: int) -> list[Row]:
        found = []
        for _ in range(count):
            self._now += self.rnd.choice([0, 0, 0.5, 1])
            late = self.rnd.choice([0, 0, 0, 0, 1, 2, 5])
            found.append(stream_row(self.rnd, at(max(0, self._now - late))))
        return found

    def late_rows(self, count: int) -> list[Row]:
        """Rows far behind all others."""
        return [stream_row(self.rnd, at(max(0, self._now - self.rnd.randint(6, 20)))) for _ in range(count)]

    def leap(self, moment: datetime) -> None:
        """The rows to come are not behind a moment."""
        self._now = max(self._now, (moment - START).total_seconds())

    def _name(self) -> str:
        self._made += 1
        self.standing.append(f"q{self._made}")
        return self.standing[-1]

"""What a pipeline must deliver for given micro-batches, by the in-process host, and what its sink holds.

Within a micro-batch the catalog changes first, then tables, then the rows of all streams together. A query that is
registered and dropped again before the micro-batch is never started and gets no answer. A row is late if it is behind
the watermark at the start of the micro-batch; rows of one micro-batch have no order among them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from eddyline.reference import Change, Reference, canonical, normalise, unmatched
from tests.oracle import queries
from tests.oracle.scenario import Player, Scenario, micros, tell
from tests.oracle.schema import SMALL, Schema
from tests.spark.inputs import Batch, Row

Fold = dict[tuple[Row, int], int]


@dataclass(frozen=True)
class Expected:
    """Of every query that ever stood, what it changes up to its clock, and that clock; late rows of every stream."""

    changes: dict[str, Fold]
    clocks: dict[str, int]
    late: dict[str, list[Row]]


class Arrivals:
    """Which rows of a micro-batch are on time; they are put in the order of time, in which no host finds them late."""

    def __init__(self, delays: Mapping[str, int]) -> None:
        self.delays = {s: timedelta(seconds=d) for s, d in delays.items()}
        self.high: dict[str, datetime] = {}

    def take(self, stream: str, partitions: Iterable[list[Row]]) -> tuple[list[Row], list[Row]]:
        """Rows on time, and late ones."""
        on_time: list[Row] = []
        late: list[Row] = []
        before = self.high.get(stream, datetime.min + self.delays[stream])
        for row in (r for rows in partitions for r in rows):
            (late if row[-1] < before - self.delays[stream] else on_time).append(row)
            self.high[stream] = max(self.high.get(stream, row[-1]), row[-1])
        return sorted(on_time, key=lambda row: row[-1]), late


class InProcess(Player):
    """The in-process host; keeps the logs of dropped queries too."""

    def __init__(self, delays: Mapping[str, int], schema: Schema = SMALL) -> None:
        super().__init__(Scenario(dict(delays), [("family", name, []) for name in schema.families], schema=schema))
        self.db.function("held", lambda a, where: a, ["INT", "STRING"], "INT")  # as `job.py` has it
        self.ended: dict[str, Fold] = {}
        self.clocks: dict[str, int] = {}  # of dropped queries, when they were dropped

    def play(self, event: tuple[Any, ...]) -> None:
        if event[0] == "drop":
            self.end(event[1])
        super().play(event)

    def change_table(self, table: str, inserts: list[Row], deletes: list[Row]) -> None:
        """Spark may find a file before one that came earlier, while it lists them: to delete what is not there yet does
        nothing."""
        there = Counter(map(canonical, self._contents(table)))
        wanted: Counter[Row] = Counter()
        found = []
        for row in deletes:
            wanted[key := canonical(row)] += 1
            if wanted[key] <= there[key]:
                found.append(row)
        super().change_table(table, inserts, found)

    def by_key(self, event: tuple[Any, ...]) -> tuple[Any, ...]:
        """A change of a table with a primary key, as a source applies it: whatever has one of its keys is replaced."""
        if event[0] != "table" or not (key := self.db.catalog.tables[event[1]].key):
            return event
        _, table, inserts, deletes = event
        keys = {tuple(row[i] for i in key) for row in (*inserts, *deletes)}
        return "table", table, inserts, [row for row in self._contents(table) if tuple(row[i] for i in key) in keys]

    def _contents(self, table: str) -> list[Row]:
        return [tuple(r.values()) for r in self.db.definitions.tables[table].to_arrow().to_pylist()]

    def end(self, name: str) -> None:
        family, _ = self.db.registry.query(name)
        self.clocks[name] = self.db.engine.clocks.of(self.db.engine.running[family.number].streams)
        log = [(op, micros(ts), micros(exp), row) for op, ts, exp, row in self.logs[name]]
        self.ended[name] = fold(log, self.clocks[name])


def expected(delays: Mapping[str, int], batches: Iterable[Batch]) -> Expected:
    player, arrivals, late = InProcess(delays), Arrivals(delays), {s: [] for s in delays}
    for batch in batches:
        for event in (*batch.lasting_events(), *batch.changes):
            player.play(event)
        arrived = {s: arrivals.take(s, parts) for s, parts in batch.rows.items()}
        for stream, (_, behind) in arrived.items():
            late[stream] += behind
        player.push([(s, row) for s, (on_time, _) in arrived.items() for row in on_time])
    assert not any(player.db.late(s).num_rows for s in delays), "rows were taken in an order that made some late"
    for name in player.logs:
        player.end(name)
    return Expected(player.ended, player.clocks, late)


def told(delays: Mapping[str, int], batches: Iterable[Batch]) -> tuple[Reference, InProcess]:
    """The reference, told the same; and the connection whose catalog it was told of."""
    player, arrivals = InProcess(delays), Arrivals(delays)
    ref = Reference()
    for name, declared in ((s, player.db.catalog.streams[s]) for s in queries.STREAMS):
        ref.create_stream(name, declared.fields, declared.time, declared.delay)
    for name in queries.TABLES:
        ref.create_table(name)
    for batch in batches:
        for event in (*batch.lasting_events(), *batch.changes):
            tell(ref, player, event)
        for stream, parts in batch.rows.items():
            ref.push(stream, arrivals.take(stream, parts)[0])
    return ref, player


def fold(changes: Iterable[Change], upto: int) -> Fold:
    return normalise(changes, upto)


@dataclass(frozen=True)
class Delivered:
    """What a sink of one folder per family holds."""

    changes: dict[str, list[Change]]
    places: dict[tuple[str, int, int], Row]  # by folder, batch and position: query, op, ts, exp and row

    @property
    def rows(self) -> Counter[Row]:
        """All rows as a bag, without batches and positions."""
        return Counter((folder, *row) for (folder, _, _), row in self.places.items())


def delivered(out: Path) -> Delivered:
    """Raises if a (batch, position) is there twice in a family, or if some file's name has another batch."""
    changes: dict[str, list[Change]] = {}
    places: dict[tuple[str, int, int], Row] = {}
    for file in sorted(out.glob("*/part-*.parquet")):
        for query, op, ts, exp, batch, position, *row in tuples(pq.read_table(file)):
            assert f"part-{batch:09}-" in file.name, f"{file} has rows of batch {batch}"
            place = file.parent.name, batch, position
            assert place not in places, f"{place} is there twice"
            places[place] = canonical((query, op, ts, exp, *row))
            changes.setdefault(query, []).append((op, micros(ts), micros(exp), tuple(row)))
    return Delivered(changes, places)


def dead_letters(checkpoint: Path, stream: str) -> Counter[Row]:
    """The late rows that were set apart; raises if a (batch, position) is there twice."""
    found: Counter[Row] = Counter()
    places: set[tuple[int, int]] = set()
    for file in (checkpoint / "eddyline" / "dead_letter" / stream).glob("part-*.parquet"):
        for *row, reason, _, _, batch, position in tuples(pq.read_table(file)):
            assert reason == "late"
            assert (batch, position) not in places, f"{(batch, position)} is there twice"
            places.add((batch, position))
            found[canonical(tuple(row))] += 1
    return found


def tuples(table: pa.Table) -> list[Row]:
    columns = [c.cast(pa.timestamp("us")) if pa.types.is_timestamp(c.type) else c for c in table.columns]
    return list(zip(*(c.to_pylist() for c in columns), strict=True))


def check(expects: Expected, folder: Path) -> Delivered:
    """Raises unless the sink and the dead-letter table below a folder hold what is expected, whole and once."""
    found = check_rows(expects, folder)
    check_clean(folder)
    return found


def check_rows(expects: Expected, folder: Path) -> Delivered:
    found = delivered(folder / "out")
    unknown = found.changes.keys() - expects.changes.keys()
    assert not unknown, f"changes of {unknown}, which never stood"
    for name, want in expects.changes.items():
        log = found.changes.get(name, [])
        got = fold(log, expects.clocks[name])
        assert got == want, f"{name}: {differences(got, want)}"
        assert not (wrong := unmatched(log)), f"{name}: these name no `+` that stands: {wrong}"
    for stream, late in expects.late.items():
        wanted = Counter(canonical(row) for row in late)
        assert dead_letters(folder / "ck", stream) == wanted, f"late rows of {stream}"
    return found


def check_clean(folder: Path) -> None:
    """Nothing is left of interrupted attempts."""
    for place in (folder / "out", folder / "ck" / "eddyline" / "dead_letter"):
        staged = list((place / "_staged").glob("*"))
        assert not staged, f"left behind: {staged}"


def differences(got: Fold, want: Fold) -> str:
    keys = [k for k in got.keys() | want.keys() if got.get(k) != want.get(k)]
    lines = [f"{row} at {t}: found {got.get((row, t))}, expected {want.get((row, t))}" for row, t in keys[:10]]
    return "\n".join([f"{len(keys)} differences", *lines])

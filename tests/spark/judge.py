"""What a pipeline must have delivered, by the reference evaluator, micro-batch by micro-batch.

`expected` plays micro-batches to the in-process host; the judge plays them to the reference as well, and both must say
the same of every query. It also knows streams that fall silent: their watermarks go on by the wall clock of the
micro-batches, and at least to where the slowest of the others is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path

from eddyline.reference import Reference
from tests.oracle.scenario import micros, tell
from tests.oracle.schema import SMALL, Schema
from tests.spark.expected import Delivered, Expected, Fold, InProcess, check, differences
from tests.spark.inputs import Batch, Row

EVER = -(2**63)
EPOCH = datetime(1970, 1, 1)


class Marks:
    """The watermarks of streams, in microseconds; `idle` is the silence in milliseconds that they allow themselves."""

    def __init__(self, delays: Mapping[str, int], idle: int | None) -> None:
        self.delays = {s: d * 1_000_000 for s, d in delays.items()}
        self.idle = idle
        self.high: dict[str, int] = {}
        self.floor: dict[str, int] = {}
        self.heard: dict[str, int] = {}

    def of(self, stream: str) -> int:
        seen = self.high[stream] - self.delays[stream] if stream in self.high else EVER
        return max(seen, self.floor.get(stream, EVER))

    def hear(self, stream: str, rows: Sequence[Row], now: int) -> None:
        if rows:
            latest = max(micros(row[-1]) or 0 for row in rows)
            self.high[stream] = max(self.high.get(stream, latest), latest)
            self.heard[stream] = now

    def pass_time(self, now: int) -> None:
        """After the rows of a micro-batch; the first one begins the silence of all streams."""
        silence = {s: now - self.heard.setdefault(s, now) for s in self.delays}
        silent = {s: ms - self.idle for s, ms in silence.items() if self.idle is not None and ms >= self.idle}
        others = [self.of(s) for s in self.delays if s not in silent]
        for stream, over in silent.items():
            if stream in self.high:
                self._raise(stream, self.high[stream] - self.delays[stream] + over * 1000)
            if others:
                self._raise(stream, min(others))

    def _raise(self, stream: str, to: int) -> None:
        self.floor[stream] = max(self.floor.get(stream, EVER), to)


class Timed(Reference):
    """The reference, with watermarks that are given to it."""

    def __init__(self, marks: Marks, schema: Schema) -> None:
        super().__init__(udfs={name: f.body for name, f in schema.functions.items()})
        self.marks = marks

    def watermark(self, stream: str) -> int:
        return max(super().watermark(stream), self.marks.floor.get(stream, EVER))


class Judge:
    def __init__(self, delays: Mapping[str, int], idle: int | None = None, schema: Schema = SMALL) -> None:
        self.marks = Marks(delays, idle)
        self.host = InProcess(delays, schema)
        self.reference = Timed(self.marks, schema)
        for name in schema.streams:
            declared = self.host.db.catalog.streams[name]
            self.reference.create_stream(name, declared.fields, declared.time, declared.delay)
        for name in schema.tables:
            self.reference.create_table(name)
        self.late: dict[str, list[Row]] = {s: [] for s in delays}
        self.taken = 0
        self.compared: Counter[str] = Counter()  # what was held against the reference, and how often

    def take(self, batch: Batch) -> None:
        for event in (*batch.lasting_events(), *batch.changes):
            if event[0] == "drop":
                self._hold(event[1])
            event = self.host.by_key(event)
            tell(self.reference, self.host, event)
            self.host.play(event)
        on_time = {s: self._on_time(s, parts) for s, parts in batch.rows.items()}
        for stream, rows in on_time.items():
            self.reference.push(stream, rows)
        self.host.push([(s, row) for s, rows in on_time.items() for row in rows])
        for stream, parts in batch.rows.items():
            self.marks.hear(stream, [row for part in parts for row in part], batch.now)
        self.marks.pass_time(batch.now)
        for stream, floor in self.marks.floor.items():
            self.host.db.engine.clocks.streams[stream].advance(floor)
        self.host.take(self.host.db.push({s: [] for s in self.late}))  # for the clocks alone
        self.taken += 1

    def _on_time(self, stream: str, partitions: Sequence[Sequence[Row]]) -> list[Row]:
        """In the order of time, in which no host finds them late."""
        mark, found = self.marks.of(stream), []
        for row in (r for part in partitions for r in part):
            (self.late[stream] if (micros(row[-1]) or 0) < mark else found).append(row)
        return sorted(found, key=lambda row: row[-1])

    def expects(self) -> Expected:
        """Of all queries that ever stood; both hosts say the same of those that stand now."""
        for name in self.host.logs:
            self._hold(name)
        assert not any(self.host.db.late(s).num_rows for s in self.late), "rows came in an order that made some late"
        assert not any(self.reference.late.values()), "rows came in an order that made some late"
        return Expected(self.host.ended, self.host.clocks, self.late)

    def _hold(self, name: str) -> None:
        """The in-process host against the reference."""
        self.host.end(name)
        want, got = self.reference.changes(name), self.host.ended[name]
        clocks = self.reference.clock(name), self.host.clocks[name]
        assert clocks[0] == clocks[1] or max(clocks) <= EVER + 1, f"the clock of {name}: {clocks}"
        assert got == want, f"{name}, in-process and by the reference: {differences(got, want)}"
        self.compared["queries"] += 1
        self.compared["changes"] += size(want)

    def check(self, batches: Sequence[Batch], folder: Path) -> Delivered:
        """Holds what stands below a folder against what these micro-batches, of which some were known, have to give."""
        for batch in batches[self.taken :]:
            self.take(batch)
        found = check(self.expects(), folder)
        self.compared["checks"] += 1
        self.compared["rows"] += sum(map(len, found.changes.values()))
        return found

    def latest(self) -> datetime:
        """The watermark that is furthest."""
        furthest = max(self.marks.of(s) for s in self.marks.delays)
        return EPOCH + timedelta(microseconds=max(furthest, 0))


def size(fold: Fold) -> int:
    return sum(map(abs, fold.values()))

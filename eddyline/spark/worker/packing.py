"""Packing: the processing of rows in the task of their source partition, before they are sent to buckets.

A packer checks rows, sets late rows apart, runs stateless families, and routes rows to buckets: once for each distinct
route of a stream, however many families share it. Every partition also sends a note to every bucket, so that all
buckets have the same watermarks, arrival numbers and catalog version.

A tuple is late if it is behind the watermark at the start of the micro-batch. The rows of one micro-batch have no
order: their positions in a source do not reflect arrival times, and may differ in a replay.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from eddyline import types as t
from eddyline.arrays import Ints, Mask
from eddyline.engine.clocks import StreamClock
from eddyline.engine.definitions import Definitions, from_the_start
from eddyline.engine.running_family import arrived
from eddyline.errors import DataError
from eddyline.spark.catalog.following import Follower
from eddyline.spark.catalog.trust import ApprovedBodies
from eddyline.spark.input.bad_files import unreadable
from eddyline.spark.input.checking import Checked, checked, first_problem
from eddyline.spark.input.file_rows import FileReader, Unread, local
from eddyline.spark.input.listing import fields_of, operations_of, root_of
from eddyline.spark.input.seen import Spans, joined, spans
from eddyline.spark.output.outputs import Stager
from eddyline.spark.run.settings import Moment, Settings
from eddyline.spark.worker import blocks
from eddyline.spark.worker.bucket import worker_engine
from eddyline.spark.worker.guard import FailedQueries, WorkerGuard, live_queries
from eddyline.spark.worker.placement import Placement
from eddyline.spark.worker.routes import Routes
from eddyline.sql.catalog import Stream, Table
from eddyline.sql.columns import in_type
from eddyline.state.delta import MIN, micros

Sent = tuple[int, bytes]  # bucket, block


@dataclass
class SourcePartition:
    """A source partition of a stream or table in one micro-batch; a large one is packed in several pieces."""

    moment: Moment
    relation: str
    number: int  # among all partitions of the micro-batch
    stager: Stager
    rows: int = 0  # read so far
    count: int = 0  # rows that are neither late nor bad
    high: int | None = None
    late: int = 0
    bad: int = 0
    first_bad: str = ""
    files: list[str] = field(default_factory=list)  # that were read, if the source is a folder of files
    unread: list[Unread] = field(default_factory=list)
    spans: Spans = field(default_factory=dict)  # min and max of its numeric columns
    matches: dict[int, int] = field(default_factory=dict)
    failures: list[dict[str, Any]] = field(default_factory=list)
    functions: list[dict[str, Any]] = field(default_factory=list)  # functions whose calls failed
    seconds: float = 0.0

    def report(self) -> dict[str, Any]:
        names = ("relation", "rows", "late", "bad", "first_bad", "files", "spans", "matches", "failures", "functions")
        unread = [asdict(u) for u in self.unread]
        known = {n: getattr(self, n) for n in (*names, "seconds")}
        return known | {"unread": unread, "staged": self.stager.report()}


class Packer:
    """An engine for the stateless families, and the routes of all others."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.placement = Placement("packer", settings.buckets, settings.clock_policy)
        self.definitions = Definitions(self.placement, ApprovedBodies(settings.approvals()))
        self.catalog = self.definitions.catalog
        self.guard = WorkerGuard(settings.on_error)
        self.engine = worker_engine(self.definitions, self.guard, self.placement)
        self.engine.since = from_the_start
        self.follower = Follower(settings.log(), self.definitions)
        self.routes = Routes(self.follower, self.placement)

    def open(self, moment: Moment, relation: str, number: int) -> SourcePartition:
        self.follower.move_to(moment.version, self.engine.apply, amended=moment.amended > 0)
        self.guard.take()  # families that cannot start are reported by every partition instead
        self.routes.refresh()
        writer = self.settings.buckets + number
        stager = Stager(self.catalog, self.settings, moment.batch, writer, moment.amended)
        return SourcePartition(moment, relation, number, stager, failures=[f.report() for f in self._unstarted()])

    def _unstarted(self) -> list[FailedQueries]:
        """The queries of families that cannot start; every partition reports them until they are in quarantine."""
        failed = [(n, live_queries(self.definitions.families[n]), f.error) for n, f in self.engine.failed.items()]
        return [FailedQueries(number, ids, error) for number, ids, error in failed if len(ids)]

    def pack(self, partition: SourcePartition, rows: pa.Table) -> list[Sent]:
        """Packs a piece of a source partition."""
        started = time.perf_counter()
        is_stream = self.catalog.streams.get(partition.relation) is not None
        sent = self._stream(partition, rows) if is_stream else self._table(partition, rows)
        partition.seconds += time.perf_counter() - started
        return sent

    def pack_files(self, partition: SourcePartition, addresses: Sequence[str]) -> Iterator[list[Sent]]:
        """Packs files that Spark has listed, piece by piece. The report names unreadable files."""
        relation = self.catalog.streams.get(partition.relation) or self.catalog.tables[partition.relation]
        reader = FileReader(fields_of(relation), root_of(relation, self.settings.base), operations_of(relation))
        partition.files += [local(a) for a in addresses]
        for piece in reader.pieces(partition.files):
            if sent := self.pack(partition, piece):
                yield sent
        partition.unread = reader.unread
        if reader.unread and self.settings.on_bad_rows == "stop":
            raise unreadable(relation, reader.unread[0])

    def _stream(self, partition: SourcePartition, rows: pa.Table) -> list[Sent]:
        stream = self.catalog.streams[partition.relation]
        key = stream.name.lower()
        columns, numbers = self._good_rows(stream, rows, partition)
        columns, ts, numbers = self._without_late(stream, columns, numbers, partition)
        if self.settings.clock_policy == "max":
            self._set_behind_apart(stream, columns, ts, numbers, partition)
        partition.spans = joined(partition.spans, spans(stream.fields, columns))
        delta = arrived(columns, ts, partition.count)
        for part in self.engine.arrive(key, delta):
            number = part.family.number
            partition.matches[number] = partition.matches.get(number, 0) + part.count()
            partition.stager.stage_part(part)
        failed, _ = self.guard.take()
        partition.failures += [f.report() for f in failed]
        sent = list(self.routes.route(stream, delta, partition.number))
        partition.count += len(delta)
        return sent

    def _table(self, partition: SourcePartition, rows: pa.Table) -> list[Sent]:
        """Sends the changes of a table to every bucket."""
        table = self.catalog.tables[partition.relation]
        columns, numbers = self._good_rows(table, rows, partition)
        packed = pa.table(columns, names=["op", *(f"c{i}" for i in range(len(table.fields)))])
        header = {"kind": "table", "table": table.name.lower()}
        partition.count += len(numbers)
        return [(b, p) for p in blocks.encode_parts(header, packed) for b in range(self.settings.buckets)]

    def close(self, partition: SourcePartition) -> list[Sent]:
        """The notes of a partition that is packed completely, and its report as the last block."""
        partition.functions += [asdict(w) for w in self.definitions.functions.take_noted()]
        header = {"kind": "note", "version": partition.moment.version, "now": partition.moment.now}
        header |= {"relation": partition.relation.lower(), "count": partition.count, "high": partition.high}
        header |= {"amended": partition.moment.amended} if partition.moment.amended else {}
        note = blocks.encode(header)
        report = blocks.encode({"kind": "report", "report": partition.report()})
        return [*((b, note) for b in range(self.settings.buckets)), (partition.number % self.settings.buckets, report)]

    def _good_rows(
        self, relation: Stream | Table, rows: pa.Table, partition: SourcePartition
    ) -> tuple[list[pa.Array], Ints]:
        """The declared columns and the numbers of the valid rows.

        Bad rows are set apart or stop the run, as `on_bad_rows` says.
        """
        types = [*([] if isinstance(relation, Stream) else [t.STRING]), *(f.type for f in relation.fields)]
        columns = [in_type(rows.column(i), type_) for i, type_ in enumerate(types)]
        malformed, places = (rows.column(len(types) + i).combine_chunks() for i in range(2))
        start, partition.rows = partition.rows, partition.rows + rows.num_rows
        numbers = np.arange(start, partition.rows)
        rows_checked = checked(relation, columns, malformed, places, partition.moment.now)
        if not rows_checked.bad.any():
            return columns, numbers
        problem = first_problem(rows_checked, partition.number, start)
        if self.settings.on_bad_rows == "stop":
            raise DataError(problem, hint="Mend the source, or run with on_bad_rows = 'set apart'.")
        partition.bad += int(rows_checked.bad.sum())
        partition.first_bad = partition.first_bad or problem
        partition.stager.set_apart(rows_checked, numbers)
        return rows_checked.taken(~rows_checked.bad), numbers[~rows_checked.bad]

    def _without_late(
        self, stream: Stream, columns: list[pa.Array], numbers: Ints, partition: SourcePartition
    ) -> tuple[list[pa.Array], Ints, Ints]:
        ts = micros(columns[stream.time])
        late = ts < self._watermark(stream.name.lower(), partition)
        if len(ts):
            partition.high = max(int(ts.max()), MIN if partition.high is None else partition.high)
        if not late.any():
            return columns, ts, numbers
        late_rows = _set_apart(stream, columns, late, "late", numbers, partition)
        return late_rows.taken(~late), ts[~late], numbers[~late]

    def _set_behind_apart(
        self, stream: Stream, columns: list[pa.Array], ts: Ints, numbers: Ints, partition: SourcePartition
    ) -> None:
        """Under clock = 'max', sets tuples apart that are behind the clock of a query that another stream advanced."""
        key = stream.name.lower()
        live = [f for f in self.definitions.families.values() if self.definitions.live[f.number]]
        read = [dict(self.placement.of(f, self.definitions.splits.get(f.number)).routings) for f in live]
        leading = {name for streams in read if key in streams for name in streams}
        behind = ts < max((self._watermark(name, partition) for name in leading), default=MIN)
        if behind.any():
            _set_apart(stream, columns, behind, "behind the clock of a query", numbers, partition)

    def _watermark(self, stream: str, partition: SourcePartition) -> int:
        """The watermark of a stream before the micro-batch."""
        return StreamClock(self.catalog.streams[stream].delay, **partition.moment.clocks.get(stream, {})).watermark


def _set_apart(
    stream: Stream, columns: list[pa.Array], which: Mask, reason: str, numbers: Ints, partition: SourcePartition
) -> Checked:
    """Counts some tuples as late and stages them for the dead-letter table."""
    partition.late += int(which.sum())
    nulls = pa.nulls(len(which), pa.string())
    rows_apart = Checked(stream, columns, nulls, nulls, which, pa.repeat(reason, len(which)))
    partition.stager.set_apart(rows_apart, numbers)
    return rows_apart

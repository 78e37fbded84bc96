"""The two Python stages of the plan, which only pass blocks between Spark and the residents.

`pack` runs in the tasks of source partitions; `Process` runs once per bucket and holds its state. The catalog commit of
a micro-batch is read from Spark's own offset log and from amendments, so that a replay uses the same one.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import Row, SparkSession
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from pyspark.sql.types import BinaryType, StringType, StructField, StructType
from pyspark.sql.utils import is_remote

from eddyline.errors import StateError
from eddyline.spark.catalog.amendments import in_force
from eddyline.spark.input.offsets import read_offset
from eddyline.spark.run.settings import Moment, Settings
from eddyline.spark.worker.calling import call, slot_of_bucket, slot_of_partition

PACKED = "bucket int, source int, partition int, number int, body binary"
REPORTS = "report string"
REPORT = -1  # the number of a block for the driver, which is not input of the bucket
BATCH_TAG = "eddyline-batch-"
PIECE = 64 * 2**20  # bytes of rows that are sent to a resident at once

_packed_schema = pa.schema(
    [(n, pa.int32()) for n in ("bucket", "source", "partition", "number")] + [("body", pa.binary())]
)


def pack(
    settings: Settings, keys: list[int], source: int, relation: str, given: Literal["rows", "files"] = "rows"
) -> Callable[[Any], Any]:
    """The function for `mapInArrow` over the rows of one stream or table, or over the names of its files."""

    def packed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        task = _task()
        moment = moment_of(settings, batch_of(task))
        number = task.partitionId()
        sent = 0
        with call(slot_of_partition(number)) as resident:
            about = settings, moment, relation, number
            answers = _files(resident, batches, about) if given == "files" else _rows(resident, batches, about)
            for blocks in answers:
                yield from (_row(keys[b], source, number, sent + i, body) for i, (b, body) in enumerate(blocks))
                sent += len(blocks)
            *notes, report = _answer(resident)
            yield from (_row(keys[b], source, number, sent + i, body) for i, (b, body) in enumerate(notes))
            yield _row(keys[report[0]], source, number, REPORT, report[1])

    return packed


def nothing(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yields nothing; its purpose is that Spark's workers import this module before a micro-batch needs it."""
    for _ in batches:
        yield from ()


def _rows(resident: Connection, batches: Iterator[pa.RecordBatch], about: tuple[Any, ...]) -> Iterator[Any]:
    """Sends rows to the resident piece by piece; yields the blocks of each piece."""
    resident.send(("pack", *about))
    for piece in _pieces(batches, about[2]):
        resident.send_bytes(piece)
        yield _answer(resident)
    resident.send_bytes(b"")


def _files(resident: Connection, batches: Iterator[pa.RecordBatch], about: tuple[Any, ...]) -> Iterator[Any]:
    """Sends file names to the resident; yields the blocks of their rows."""
    resident.send(("pack files", *about, [name for b in batches for name in b.column(0).to_pylist()]))
    while blocks := _answer(resident):
        yield blocks


def _pieces(batches: Iterator[pa.RecordBatch], relation: str) -> Iterator[bytes]:
    """The rows in pieces; none for the control source, whose rows are read because Spark ends a worker with unread
    input, and starting another takes seconds."""
    pending: list[pa.RecordBatch] = []
    size = 0
    for b in batches:
        pending.append(b)
        size += b.nbytes
        if size >= PIECE:
            yield _stream(pending)
            pending, size = [], 0
    if relation and sum(b.num_rows for b in pending):
        yield _stream(pending)


def _stream(batches: list[pa.RecordBatch]) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batches[0].schema) as writer:
        for b in batches:
            writer.write_batch(b)
    return bytes(sink.getvalue())


def _row(*values: Any) -> pa.RecordBatch:
    return pa.record_batch(
        [pa.array([v], t) for v, t in zip(values, _packed_schema.types, strict=True)], _packed_schema
    )


class Process(StatefulProcessor):
    """One bucket: its state is a head and segments; the resident computes their updates."""

    def __init__(self, settings: Settings, keys: list[int]) -> None:
        self.settings = settings
        self.keys = keys

    def init(self, handle: Any) -> None:
        binary = StructType([StructField("value", BinaryType())])
        self.head = handle.getValueState("head", binary)
        self.segments = handle.getMapState("segments", StructType([StructField("name", StringType())]), binary)

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        started = time.perf_counter()
        placed = sorted(((r.source, r.partition, r.number), bytes(r.body)) for r in rows)
        saved = self.head.get()
        head = None if saved is None else bytes(saved[0])
        bucket = self.keys.index(int(key[0]))
        loaded = time.perf_counter()
        read = 0
        with call(slot_of_bucket(self.settings.checkpoint, bucket)) as resident:
            resident.send(("step", self.settings, bucket, batch_of(_task()), head, placed))
            kind, *answer = _checked(resident.recv())
            while kind == "need":
                segment = self.segments.getValue((answer[0],))
                if segment is None:
                    raise StateError(f"Spark's state of bucket {bucket} lacks the segment {answer[0]}.")
                read += len(segment[0])
                resident.send_bytes(bytes(segment[0]))
                kind, *answer = _checked(resident.recv())
        stepped = time.perf_counter()
        head, put, removed, report = answer
        for name, content in put.items():
            self.segments.updateValue((name,), (content,))
        for name in removed:
            self.segments.removeKey((name,))
        self.head.update((head,))
        done = time.perf_counter()
        report |= {"input_seconds": loaded - started, "call_seconds": stepped - loaded, "state_seconds": done - stepped}
        yield Row(report=json.dumps(report | {"read": read}))

    def close(self) -> None:
        pass


def _answer(resident: Connection) -> Any:
    return _checked(resident.recv())[1]


def _checked(answer: Any) -> Any:
    if answer[0] == "error":
        raise answer[1]
    return answer


def _task() -> TaskContext:
    task = TaskContext.get()
    assert task is not None, "this runs inside a Spark task"
    return task


@contextmanager
def as_batch(spark: SparkSession, batch: int) -> Iterator[None]:
    """Tags the jobs inside with their micro-batch over Spark Connect, where delivery, and not the streaming query,
    starts the job."""
    tag = f"{BATCH_TAG}{batch}"
    if is_remote():
        spark.addTag(tag)
    try:
        yield
    finally:
        if is_remote():
            spark.removeTag(tag)


def batch_of(task: TaskContext) -> int:
    batch = task.getLocalProperty("streaming.sql.batchId")
    if batch is not None:
        return int(batch)
    tag = re.search(rf"{BATCH_TAG}(\d+)", task.getLocalProperty("spark.job.tags") or "")
    assert tag is not None, "Spark or delivery says which micro-batch a task belongs to"
    return int(tag[1])


def moment_of(settings: Settings, batch: int) -> Moment:
    """The commit and the time of a micro-batch from Spark's offset log, and the clocks before it."""
    offset = read_offset(Path(settings.checkpoint), batch)
    before = settings.clocks_file(batch - 1)
    clocks = json.loads(before.read_text()) if batch else {}
    commit, amended = in_force(settings.own, batch, offset["commit"])
    return Moment(batch, commit, offset["now"], clocks, amended)

"""Keeping: a bucket's state in Spark's state store, as a head and segments named by their content.

State is a snapshot and a log of the input of every step since. Restoring a bucket loads the snapshot and replays the
logged steps. A step writes its own input; when the log is as large as the snapshot, a new snapshot replaces both, so
the bytes written stay proportional to the input.

A segment's name is the digest of its content: segments that did not change between snapshots are not written again,
and a local copy can be verified. `chain` is the digest of all input: two buckets with the same chain have the same
state.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa

from eddyline.engine.parts import Part
from eddyline.errors import StateError
from eddyline.spark.run.settings import Settings
from eddyline.spark.worker import blocks
from eddyline.spark.worker.bucket import Bucket, Placed

FORMAT = 1
SMALLEST_LOG = 8 * 2**20  # bytes: a smaller log causes no snapshot
LONGEST_LOG = 64  # steps
_SEGMENT = re.compile(r"[0-9a-f]{32}")


@dataclass
class Head:
    """The root of a bucket's state: its metadata and the names of its segments."""

    chain: str = ""
    steps: int = 0
    meta: dict[str, Any] | None = None  # of the snapshot; None: there is no snapshot yet
    parts: dict[str, list[list[str]]] = field(default_factory=dict)  # segments of each chunk of the snapshot's tables
    log: list[list[str]] = field(default_factory=list)  # segments of the input of each step after the snapshot
    broke: dict[str, list[int]] = field(default_factory=dict)  # by position in the log: families that failed
    snapshot_bytes: int = 0
    log_bytes: int = 0
    format: int = FORMAT

    def segments(self) -> set[str]:
        chunks = (chunk for part in self.parts.values() for chunk in part)
        return {s for group in (*chunks, *self.log) for s in group}

    def encode(self) -> bytes:
        return json.dumps(asdict(self)).encode()


def decode_head(saved: bytes | None) -> Head:
    if saved is None:
        return Head()
    fields = json.loads(saved)
    if fields.get("format") != FORMAT:
        raise StateError(
            f"The state has format {fields.get('format')}, this version reads {FORMAT}.",
            hint="Use the version of Eddyline that wrote it.",
        )
    head = Head(**fields)
    if not all(map(_SEGMENT.fullmatch, head.segments())):  # names are used as file names
        raise StateError("The state names a segment that cannot be one.", hint="Restore the whole checkpoint.")
    return head


@dataclass(frozen=True)
class Kept:
    """The updates of Spark's state that a step makes."""

    head: bytes
    put: dict[str, bytes]
    removed: list[str]


class Keeper:
    """A bucket in memory, its head, and the local copies of its segments."""

    def __init__(self, number: int, settings: Settings) -> None:
        self.settings = settings
        self.bucket = Bucket(number, settings)
        self.head = Head()
        self.folder = local_folder(settings, number)

    def restore(self, head: Head, fetch: Callable[[str], bytes]) -> None:
        """Rebuilds the bucket that a head describes; `fetch` reads a segment from Spark's state."""
        self.bucket = Bucket(self.bucket.number, self.settings)
        if head.meta is not None:
            tables = {
                name: pa.concat_tables([blocks.decode(self._read(chunk, fetch))[1] for chunk in chunks])
                for name, chunks in head.parts.items()
            }
            self.bucket.load(head.meta, tables)
        for i, segments in enumerate(head.log):
            self.bucket.replay(_blocks_of_entry(self._read(segments, fetch)), head.broke.get(str(i), []))
        self.head = head

    def step(self, placed: Sequence[Placed]) -> tuple[list[Part], Kept]:
        parts = self.bucket.step(placed)
        before = self.head.segments()
        new = Head(**asdict(self.head))
        new.chain = blocks.digest(self.head.chain.encode(), *(b for _, b in placed))
        new.steps += 1
        put: dict[str, bytes] = {}
        entry = _log_entry(placed)
        new.log.append(self._write(entry, put))
        new.log_bytes += len(entry)
        if self.bucket.failed_families:
            new.broke[str(len(new.log) - 1)] = list(self.bucket.failed_families)
        if len(new.log) >= LONGEST_LOG or new.log_bytes > max(SMALLEST_LOG, new.snapshot_bytes):
            put.clear()
            self._snapshot(new, put)
        put = {name: content for name, content in put.items() if name not in before}
        removed = sorted(before - new.segments())
        for name, content in put.items():
            _write_local(self.folder / name, content)
        for name in removed:
            (self.folder / name).unlink(missing_ok=True)
        self.head = new
        return parts, Kept(new.encode(), put, removed)

    def _snapshot(self, head: Head, put: dict[str, bytes]) -> None:
        head.meta, tables = self.bucket.save()
        self.bucket.reload(head.meta, tables)
        contents = {name: [blocks.encode({}, t) for t in _chunks(table)] for name, table in tables.items()}
        head.parts = {name: [self._write(c, put) for c in chunks] for name, chunks in contents.items()}
        head.snapshot_bytes = sum(len(c) for chunks in contents.values() for c in chunks)
        head.log, head.broke, head.log_bytes = [], {}, 0

    def _write(self, content: bytes, put: dict[str, bytes]) -> list[str]:
        names = []
        for start in range(0, len(content), blocks.LARGEST):
            piece = content[start : start + blocks.LARGEST]
            name = blocks.digest(piece)
            put[name] = piece
            names.append(name)
        return names

    def _read(self, segments: Sequence[str], fetch: Callable[[str], bytes]) -> bytes:
        return b"".join(self._segment(s, fetch) for s in segments)

    def _segment(self, name: str, fetch: Callable[[str], bytes]) -> bytes:
        """Reads the local copy if it exists and is intact, else Spark's state."""
        file = self.folder / name
        if file.exists():
            with pa.memory_map(str(file)) as mapped:
                content = bytes(mapped.read_buffer())
            if blocks.digest(content) == name:
                return content
        content = fetch(name)
        _write_local(file, content)
        return content


def _log_entry(placed: Sequence[Placed]) -> bytes:
    places = json.dumps([place for place, _ in placed]).encode()
    return blocks.join([places, *(b for _, b in placed)])


def _blocks_of_entry(entry: bytes) -> list[Placed]:
    places, *bodies = blocks.split(entry)
    return [((a, b, c), body) for (a, b, c), body in zip(json.loads(places), bodies, strict=True)]


def _chunks(table: pa.Table) -> list[pa.Table]:
    """The chunks of a table; chunks that are equal in two snapshots are written once."""
    parts = [pa.Table.from_batches([b]) for b in table.to_batches() if b.num_rows]
    return parts or [table]


def local_folder(settings: Settings, bucket: int) -> Path:
    """The folder with this machine's copies of a bucket's segments; it persists between runs."""
    from eddyline.spark.worker.calling import machine_folder

    return machine_folder() / "segments" / blocks.digest(settings.checkpoint.encode()) / str(bucket)


def _write_local(file: Path, content: bytes) -> None:
    """Writes a local copy without fsync: a lost or damaged copy only makes a restart slower."""
    temporary = file.with_name(f".{uuid4().hex}")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_bytes(content)
        os.replace(temporary, file)
    except OSError:  # for example no space: the segment is read from Spark's state instead
        with suppress(OSError):
            temporary.unlink(missing_ok=True)

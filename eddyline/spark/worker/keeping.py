"""Keeping: a bucket's state in Spark's state store, as a head and segments named by their content.

State is a snapshot and a log of the input of every step since. Restoring a bucket loads the snapshot and replays the
logged steps. A step writes its own input; when the log is as large as the snapshot, a new snapshot replaces both, so
the bytes written stay proportional to the input.

A segment's name is the digest of its content: segments that did not change between snapshots are not written again,
and a local copy can be verified. State that is handed over as pages (`state/pages.py`) is recognized by identity: a
page that the last snapshot had is neither encoded nor hashed again, so a snapshot costs what changed. `chain` is the
digest of all input: two buckets with the same chain have the same state.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import pyarrow as pa

from eddyline.engine.parts import Part
from eddyline.errors import StateError
from eddyline.spark.run.settings import Settings
from eddyline.spark.worker import blocks
from eddyline.spark.worker.bucket import Bucket, Placed
from eddyline.state.pages import Pages, Saved

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
    snapshot_seconds: float = 0.0


class StoredPage(NamedTuple):
    """A page of the last snapshot; the reference to it ensures that no other page gets its id."""

    page: pa.RecordBatch
    segments: list[str]
    size: int  # bytes


class Keeper:
    """A bucket in memory, its head, and the local copies of its segments."""

    def __init__(self, number: int, settings: Settings) -> None:
        self.settings = settings
        self.bucket = Bucket(number, settings)
        self.head = Head()
        self._stored: dict[int, StoredPage] = {}  # by the id of the page
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
        self._stored = {}
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
        began = time.perf_counter()
        if len(new.log) >= LONGEST_LOG or new.log_bytes > max(SMALLEST_LOG, new.snapshot_bytes):
            put.clear()
            self._snapshot(new, put)
        snapshot_seconds = time.perf_counter() - began
        put = {name: content for name, content in put.items() if name not in before}
        removed = sorted(before - new.segments())
        for name, content in put.items():
            _write_local(self.folder / name, content)
        for name in removed:
            (self.folder / name).unlink(missing_ok=True)
        self.head = new
        return parts, Kept(new.encode(), put, removed, snapshot_seconds)

    def _snapshot(self, head: Head, put: dict[str, bytes]) -> None:
        head.meta, tables = self.bucket.save()
        self.bucket.reload(head.meta, tables)
        stored: dict[int, StoredPage] = {}
        head.parts, head.snapshot_bytes = {}, 0
        for name, saved in tables.items():
            chunks = [self._stored_page(page, put) for page in _pages(saved)]
            stored |= {id(c.page): c for c in chunks} if isinstance(saved, Pages) else {}
            head.parts[name] = [c.segments for c in chunks]
            head.snapshot_bytes += sum(c.size for c in chunks)
        self._stored = stored
        head.log, head.broke, head.log_bytes = [], {}, 0

    def _stored_page(self, page: pa.RecordBatch, put: dict[str, bytes]) -> StoredPage:
        """The segments of a page: those of the last snapshot if it had the page, else written now."""
        known = self._stored.get(id(page))
        if known is not None:
            return known
        content = blocks.encode({}, pa.Table.from_batches([page]))
        return StoredPage(page, self._write(content, put), len(content))

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


def _pages(saved: Saved) -> Sequence[pa.RecordBatch]:
    """The pages of saved state, at least one, so that its schema is stored; the chunks of a table are new pages."""
    if isinstance(saved, Pages):
        return saved.pages or (pa.RecordBatch.from_pylist([], schema=saved.schema),)
    return [b for b in saved.to_batches() if b.num_rows] or [pa.RecordBatch.from_pylist([], schema=saved.schema)]


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

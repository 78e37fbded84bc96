"""Compaction: the files of old micro-batches, five or more of each, become few larger ones, folder by folder.

Adjacent files are merged into one that takes the name of the last of them: whoever has seen that name (a file stream
of Spark's goes by names) does not take it for new rows. The merged file replaces the last one in one step, and only
then the others are removed, so a listing always has every row; between the two steps some rows are there twice, which
readers can tell by (batch, position). `.eddyline.compaction` is written before the first step and after the second: a
reader that finds it changed, or in the middle, drops the repeats, and after a crash the next compaction ends what it
says.

Files are merged while the older one is at most `FACTOR` times as large as what it is merged with, so a row is written a
logarithmic number of times, and never beyond `TARGET` bytes.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from eddyline.delivery.durable import HIDDEN, fsync_file, fsync_folder, replace_file
from eddyline.delivery.marks import PartFile, folders_of, parts_of
from eddyline.errors import StateError

LOG, LOCK = ".eddyline.compaction", ".eddyline.lock"
TARGET = 128 * 2**20  # bytes of a file that is merged no further
SMALL = 2**20  # bytes below which files are always merged
FACTOR = 4
_ROWS = 131_072  # of a row group


class BeingCompacted(StateError):
    """Another process is compacting the folder."""


@dataclass(frozen=True)
class Merge:
    """What the log says: the last merge of a sink's folder, done or not."""

    number: int
    state: Literal["merging", "done"]
    folder: str = ""  # below the sink's
    merged: str = ""  # the name of the merged file before it takes its place
    into: str = ""  # the name that it takes
    size: int = 0  # bytes of the merged file
    replaces: tuple[str, ...] = ()  # names of files that it stands for, without `into`


@dataclass(frozen=True)
class Compacted:
    before: int  # files
    after: int


def read_log(place: Path) -> Merge:
    """The last merge; number 0 if there was none."""
    try:
        said = json.loads((place / LOG).read_text(encoding="utf-8"))
        return Merge(**said | {"replaces": tuple(said["replaces"])})
    except FileNotFoundError:
        return Merge(0, "done")
    except (ValueError, KeyError, TypeError):
        raise StateError(f"{str(place / LOG)!r} is damaged.", hint="Restore it, or use another path.") from None


def compact(place: Path, upto: int, how: Literal["tiered", "full"] = "tiered") -> Compacted:
    """Merges the files of micro-batches up to one, which must never be done again. Raises if another compacts."""
    before = after = 0
    with locked(place):
        recover(place)
        for folder in folders_of(place):
            parts = [p for p in parts_of(folder) if p.batch <= upto]
            before += len(parts)
            after += len(parts)
            for run in list(_runs(parts, how)):
                _merge(place, run)
                after -= len(run) - 1
    return Compacted(before, after)


@contextmanager
def locked(place: Path) -> Iterator[None]:
    """One compaction of a folder at a time. Other users cannot open the lock, so they cannot hold it."""
    handle = os.open(place / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise BeingCompacted(f"{str(place)!r} is being compacted.", hint="Wait until that has ended.") from None
        yield
    finally:
        os.close(handle)


def end_compaction(place: Path) -> None:
    """Ends a merge that was broken off, if there is one, and unless another is at it."""
    if read_log(place).state == "merging":
        with suppress(BeingCompacted), locked(place):
            recover(place)


def recover(place: Path) -> None:
    """Ends a merge that was broken off. The lock must be held, or no compaction be running."""
    log = read_log(place)
    if log.state == "done":
        return
    folder = place / log.folder
    merged, into = folder / log.merged, folder / log.into
    if merged.exists():
        os.replace(merged, into)
        fsync_folder(folder)
    elif not into.exists() or into.stat().st_size != log.size:
        raise StateError(
            f"A compaction of {str(folder)!r} was broken off, and its file {log.merged!r} is gone.",
            hint=f"If {log.into!r} holds only its own micro-batch, remove {str(place / LOG)!r}: nothing was lost then.",
        )
    _end(place, log)


def _merge(place: Path, run: Sequence[PartFile]) -> None:
    folder, last = run[0].path.parent, run[-1].path
    merged = folder / f"{HIDDEN}{uuid4().hex}"
    try:
        _write_merged(run, merged)
        fsync_file(merged)
    except BaseException:
        merged.unlink(missing_ok=True)
        raise
    below = "" if folder == place else folder.name
    replaces = tuple(p.path.name for p in run[:-1])
    number = read_log(place).number + 1
    log = Merge(number, "merging", below, merged.name, last.name, merged.stat().st_size, replaces)
    _write_log(place, log)
    os.replace(merged, last)
    fsync_folder(folder)
    _end(place, log)


def _end(place: Path, log: Merge) -> None:
    for name in log.replaces:
        (place / log.folder / name).unlink(missing_ok=True)
    fsync_folder(place / log.folder)
    _write_log(place, Merge(log.number, "done"))


def _write_log(place: Path, log: Merge) -> None:
    replace_file(place / LOG, json.dumps(asdict(log)))
    fsync_folder(place)


def _runs(parts: Sequence[PartFile], how: Literal["tiered", "full"]) -> Iterator[list[PartFile]]:
    """Adjacent files to merge, from the newest on; each run in the order of its files."""
    run: list[PartFile] = []
    size, columns = 0, None
    for part in reversed(parts):
        own, mine = part.path.stat().st_size, _columns(part)
        too_large = size + own > TARGET or (how == "tiered" and own > FACTOR * max(size, SMALL))
        if run and (too_large or mine != columns):
            if len(run) > 1:
                yield run[::-1]
            run, size = [], 0
        run.append(part)
        size, columns = size + own, mine
    if len(run) > 1:
        yield run[::-1]


def _columns(part: PartFile) -> tuple[str, pa.Schema | None]:
    """What files must agree in to be merged: the format, and the columns."""
    return part.format, None if part.format == "json" else pq.read_schema(part.path).remove_metadata()


def _write_merged(run: Sequence[PartFile], to: Path) -> None:
    if run[0].format == "json":
        with to.open("wb") as out:
            for part in run:
                with part.path.open("rb") as lines:
                    shutil.copyfileobj(lines, out)
        return
    schema = pq.read_schema(run[0].path)
    with pq.ParquetWriter(to, schema, compression="zstd") as out:
        waiting: list[pa.RecordBatch] = []
        for part in run:
            with pq.ParquetFile(part.path) as file:
                for rows in file.iter_batches(_ROWS):
                    waiting.append(rows)
                    if sum(r.num_rows for r in waiting) >= _ROWS:
                        out.write_table(pa.Table.from_batches(waiting).cast(schema))
                        waiting = []
        if waiting:
            out.write_table(pa.Table.from_batches(waiting).cast(schema))


def limit_size(place: Path, limit: int, batch: int) -> None:
    """Removes the oldest files of each folder below one until it has at most so many bytes; those of `batch` stay."""
    for folder in folders_of(place):
        parts = [p for p in parts_of(folder) if p.batch < batch]
        size = sum(p.path.stat().st_size for p in parts)
        for part in parts:
            if size <= limit:
                break
            size -= part.path.stat().st_size
            part.path.unlink()

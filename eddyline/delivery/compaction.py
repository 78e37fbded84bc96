"""Compaction: merges the files of old micro-batches into a few larger ones, folder by folder.

Adjacent files are merged into one that gets the name of the last of them: a reader that knows files by name (a file
stream of Spark) does not read it as new rows. The merged file atomically replaces the last one; then the others are
removed. A listing therefore always has every row; between the two steps some rows are duplicated, with the same (batch,
position). `.eddyline.compaction` is written before the first step and after the second: a reader that sees it change,
or in state "merging", drops the repeats. After a crash, the next compaction completes the logged merge.

Files are merged while the older one is at most `FACTOR` times as large as the newer ones together, so a row is written
a logarithmic number of times, and never beyond `TARGET` bytes.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal
from uuid import uuid4

from eddyline.delivery.durable import HIDDEN, fsync_file, fsync_folder, replace_file
from eddyline.delivery.marks import PartFile, folders_of, parts_of
from eddyline.errors import StateError

LOG, LOCK = ".eddyline.compaction", ".eddyline.lock"
TARGET = 128 * 2**20  # bytes: the largest size of a merged file
SMALL = 2**20  # bytes below which files are always merged
FACTOR = 4


class BeingCompacted(StateError):
    """Another process is compacting the folder."""


@dataclass(frozen=True)
class Merge:
    """The content of the log: the last merge of a sink's folder, completed or not."""

    number: int
    state: Literal["merging", "done"]
    folder: str = ""  # below the sink's
    merged: str = ""  # the temporary name of the merged file
    into: str = ""  # its final name
    size: int = 0  # bytes of the merged file
    replaces: tuple[str, ...] = ()  # names of the other files that it replaces


@dataclass(frozen=True)
class Compacted:
    before: int  # files
    after: int


def read_log(place: Path) -> Merge:
    """The last merge; number 0 if there was none."""
    try:
        fields = json.loads((place / LOG).read_text(encoding="utf-8"))
        return Merge(**fields | {"replaces": tuple(fields["replaces"])})
    except FileNotFoundError:
        return Merge(0, "done")
    except (ValueError, KeyError, TypeError):
        raise StateError(f"{str(place / LOG)!r} is damaged.", hint="Restore it, or use another path.") from None


def compact(place: Path, upto: int, how: Literal["tiered", "full"] = "tiered") -> Compacted:
    """Merges the files of micro-batches up to `upto`, which are never replayed. Raises if another process compacts."""
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
    """Completes an interrupted merge, if there is one, unless another process is compacting."""
    if read_log(place).state == "merging":
        with suppress(BeingCompacted), locked(place):
            recover(place)


def recover(place: Path) -> None:
    """Completes the merge in the log. The lock must be held, or no compaction be running."""
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
    for name in log.replaces:
        (folder / name).unlink(missing_ok=True)
    fsync_folder(folder)
    _write_log(place, Merge(log.number, "done"))


def _merge(place: Path, run: Sequence[PartFile]) -> None:
    folder, last = run[0].path.parent, run[-1].path
    merged = folder / f"{HIDDEN}{uuid4().hex}"
    try:
        run[0].kind.merge([p.path for p in run], merged)
        fsync_file(merged)
    except BaseException:
        merged.unlink(missing_ok=True)
        raise
    below = "" if folder == place else folder.name
    replaces = tuple(p.path.name for p in run[:-1])
    number = read_log(place).number + 1
    _write_log(place, Merge(number, "merging", below, merged.name, last.name, merged.stat().st_size, replaces))
    recover(place)


def _write_log(place: Path, log: Merge) -> None:
    replace_file(place / LOG, json.dumps(asdict(log)))
    fsync_folder(place)


def _runs(parts: Sequence[PartFile], how: Literal["tiered", "full"]) -> Iterator[list[PartFile]]:
    """Adjacent files to merge, from the newest on; each run in the order of its files."""
    run: list[PartFile] = []
    size, columns = 0, None
    for part in reversed(parts):
        own, mine = part.path.stat().st_size, (part.kind, part.kind.columns(part.path))
        too_large = size + own > TARGET or (how == "tiered" and own > FACTOR * max(size, SMALL))
        if run and (too_large or mine != columns):
            if len(run) > 1:
                yield run[::-1]
            run, size = [], 0
        run.append(part)
        size, columns = size + own, mine
    if len(run) > 1:
        yield run[::-1]


def limit_size(place: Path, limit: int, batch: int) -> None:
    """Removes the oldest files of each folder of a sink until it has at most `limit` bytes; keeps those of `batch`."""
    for folder in folders_of(place):
        parts = [p for p in parts_of(folder) if p.batch < batch]
        size = sum(p.path.stat().st_size for p in parts)
        for part in parts:
            if size <= limit:
                break
            size -= part.path.stat().st_size
            part.path.unlink()

"""Backups of a checkpoint: a consistent copy of it while no run is at work, with the digest of every file.

A backup is a folder with `backup.json`, which is written last, and the copy in `checkpoint`. The rows of sinks are not
part of it: after a restore, sinks are rewound to where the checkpoint is.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

from eddyline.delivery.durable import fsync_all, make_folder, replace_file
from eddyline.delivery.marks import STAGED
from eddyline.errors import StateError
from eddyline.spark.catalog.commits import CommitLog
from eddyline.spark.output.epochs import committed, planned
from eddyline.spark.run.checkpoint import Alone, fixed
from eddyline.spark.run.private import make_private
from eddyline.spark.run.relocating import relocate

FORMAT = 1
MANIFEST, COPY = "backup.json", "checkpoint"
_PIECE = 2**20
_LEFT_OUT = {"eddyline/run.lock", "eddyline/catalog/lock"}


@dataclass(frozen=True)
class Backup:
    """What `backup.json` says."""

    checkpoint: str
    identity: str
    taken: str
    planned: int
    committed: int
    files: dict[str, tuple[int, str]]  # by path below the checkpoint: bytes and digest
    format: int = FORMAT

    @property
    def bytes(self) -> int:
        return sum(size for size, _ in self.files.values())


def files_below(checkpoint: Path) -> Iterator[str]:
    """The files of a checkpoint that belong to it, by their paths below it."""
    for file in sorted(checkpoint.rglob("*")):
        below = file.relative_to(checkpoint)
        staged = below.parts[:2] == ("eddyline", "sinks") or STAGED in below.parts
        if file.is_file() and not staged and below.as_posix() not in _LEFT_OUT:
            yield below.as_posix()


def back_up(checkpoint: Path, target: Path) -> Backup:
    """Copies a checkpoint; raises while a run is at work on it."""
    known = fixed(checkpoint)
    if known is None:
        raise StateError(f"{str(checkpoint)!r} is not the checkpoint of a pipeline.")
    _require_free(target, "backup")
    if target.absolute().is_relative_to(checkpoint):
        raise StateError("A backup cannot lie inside of its checkpoint.", hint="Choose another folder.")
    with Alone(checkpoint), CommitLog(checkpoint / "eddyline" / "catalog").lock(), _told(target):
        target.mkdir(mode=0o700, parents=True, exist_ok=True)
        files = _copy(checkpoint, list(files_below(checkpoint)), target / COPY)
        taken = datetime.now(UTC).isoformat(timespec="seconds")
        backup = Backup(str(checkpoint), known.identity, taken, planned(checkpoint), committed(checkpoint), files)
        replace_file(target / MANIFEST, json.dumps(asdict(backup)))
        fsync_all([], [target, target.absolute().parent])
    return backup


def read_backup(folder: Path) -> Backup:
    try:
        said = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        if said["format"] != FORMAT:
            raise StateError(
                f"The backup {str(folder)!r} has format {said['format']}, this version reads {FORMAT}.",
                hint="Use the version of Eddyline that wrote it.",
            )
        return Backup(**said | {"files": {name: tuple(f) for name, f in said["files"].items()}})
    except FileNotFoundError:
        raise StateError(
            f"{str(folder)!r} is no whole backup: it has no {MANIFEST}.", hint="`eddyline checkpoint backup` makes one."
        ) from None
    except (ValueError, KeyError, TypeError):
        raise StateError(f"{str(folder / MANIFEST)!r} is damaged.", hint="Use another backup.") from None


def unpack(folder: Path, checkpoint: Path) -> Path:
    """Copies a backup to a folder beside where the checkpoint is to be, and returns it; every file is checked."""
    backup = read_backup(folder)
    beside = checkpoint.with_name(f"{checkpoint.name}.restoring-{uuid4().hex[:8]}")
    try:
        with _told(beside):
            found = _copy(folder / COPY, list(backup.files), beside)
        wrong = [name for name, known in backup.files.items() if found[name] != known]
        if wrong:
            raise StateError(
                f"The backup {str(folder)!r} does not hold what was written to it: {', '.join(wrong[:5])}.",
                hint="Use another backup.",
            )
    except BaseException:
        shutil.rmtree(beside, ignore_errors=True)
        raise
    return beside


def put_in_place(beside: Path, checkpoint: Path) -> Path | None:
    """Makes what was unpacked the checkpoint; returns where the one lies that was there before."""
    before = None
    if checkpoint.exists():
        with Alone(checkpoint):
            before = checkpoint.with_name(f"{checkpoint.name}.before-restore-{uuid4().hex[:8]}")
            checkpoint.rename(before)
    beside.rename(checkpoint)
    relocate(checkpoint)
    fsync_all([], [checkpoint.parent])
    return before


def move(checkpoint: Path, target: Path) -> None:
    """Moves a checkpoint, to another file system too; raises while a run is at work on it."""
    if fixed(checkpoint) is None:
        raise StateError(f"{str(checkpoint)!r} is not the checkpoint of a pipeline.")
    _require_free(target, "checkpoint")
    if target.is_relative_to(checkpoint):
        raise StateError("A checkpoint cannot be moved into itself.", hint="Choose another folder.")
    with Alone(checkpoint), CommitLog(checkpoint / "eddyline" / "catalog").lock(), _told(target):
        make_folder(target.parent)
        if target.exists():
            target.rmdir()
        if checkpoint.stat().st_dev == target.parent.stat().st_dev:
            checkpoint.rename(target)
        else:
            _copy(checkpoint, list(files_below(checkpoint)), target)
            shutil.rmtree(checkpoint)
        relocate(target)
        fsync_all([], {checkpoint.parent, target.parent})


def _require_free(target: Path, what: str) -> None:
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise StateError(f"{str(target)!r} exists already.", hint=f"Choose a new folder for the {what}.")


def _copy(source: Path, names: list[str], target: Path) -> dict[str, tuple[int, str]]:
    """Copies files to a folder of the owner's alone, on the disk; their sizes and digests."""
    make_private(target)
    found = {}
    for name in names:
        to = target / name
        to.parent.mkdir(parents=True, exist_ok=True)
        digest, size = hashlib.blake2b(digest_size=16), 0
        with (source / name).open("rb") as f, to.open("wb") as out:
            while piece := f.read(_PIECE):
                out.write(piece)
                digest.update(piece)
                size += len(piece)
        shutil.copymode(source / name, to)
        found[name] = size, digest.hexdigest()
    fsync_all([target / n for n in names], [f for f in (target, *target.rglob("*")) if f.is_dir()])
    return found


@contextmanager
def _told(folder: Path) -> Iterator[None]:
    """Says in words what the file system refuses."""
    try:
        yield
    except OSError as e:
        raise StateError(f"{e.filename or str(folder)!r} cannot be copied or written: {e.strerror}.") from None

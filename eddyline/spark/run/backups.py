"""Backups of a checkpoint: a consistent copy, made while no run is active, with the digest of every file.

A backup is a folder with the copy in `checkpoint`, and `backup.json`, which is written last. It does not contain the
rows of sinks: after a restore, sinks are rewound to the position of the checkpoint.
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
from eddyline.spark.run.checkpoint import Alone, require_fixed
from eddyline.spark.run.private import make_private
from eddyline.spark.run.spark_files import relocate

FORMAT = 1
MANIFEST, COPY = "backup.json", "checkpoint"
_PIECE = 2**20
_LEFT_OUT = {"eddyline/run.lock", "eddyline/catalog/lock"}


@dataclass(frozen=True)
class Backup:
    """The content of `backup.json`."""

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
    """The files of a checkpoint that a backup copies, as relative paths."""
    for file in sorted(checkpoint.rglob("*")):
        below = file.relative_to(checkpoint)
        staged = below.parts[:2] == ("eddyline", "sinks") or STAGED in below.parts
        if file.is_file() and not staged and below.as_posix() not in _LEFT_OUT:
            yield below.as_posix()


def back_up(checkpoint: Path, target: Path) -> Backup:
    """Copies a checkpoint; raises if a run is active on it."""
    known = require_fixed(checkpoint)
    _require_free(target, "backup")
    if target.absolute().is_relative_to(checkpoint):
        raise StateError("A backup cannot lie inside of its checkpoint.", hint="Choose another folder.")
    with Alone(checkpoint), CommitLog(checkpoint / "eddyline" / "catalog").lock(), _file_errors(target):
        target.mkdir(mode=0o700, parents=True, exist_ok=True)
        files = _copy(checkpoint, list(files_below(checkpoint)), target / COPY)
        taken = datetime.now(UTC).isoformat(timespec="seconds")
        backup = Backup(str(checkpoint), known.identity, taken, planned(checkpoint), committed(checkpoint), files)
        replace_file(target / MANIFEST, json.dumps(asdict(backup)))
        fsync_all([], [target, target.absolute().parent])
    return backup


def read_backup(folder: Path) -> Backup:
    try:
        fields = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        if fields["format"] != FORMAT:
            raise StateError(
                f"The backup {str(folder)!r} has format {fields['format']}, this version reads {FORMAT}.",
                hint="Use the version of Eddyline that wrote it.",
            )
        return Backup(**fields | {"files": {name: tuple(f) for name, f in fields["files"].items()}})
    except FileNotFoundError:
        raise StateError(
            f"{str(folder)!r} is no whole backup: it has no {MANIFEST}.", hint="`eddyline checkpoint backup` makes one."
        ) from None
    except (ValueError, KeyError, TypeError):
        raise StateError(f"{str(folder / MANIFEST)!r} is damaged.", hint="Use another backup.") from None


def unpack(folder: Path, checkpoint: Path) -> Path:
    """Copies a backup to a temporary folder beside the checkpoint, verifies every file, and returns the folder."""
    backup = read_backup(folder)
    unpacked = checkpoint.with_name(f"{checkpoint.name}.restoring-{uuid4().hex[:8]}")
    try:
        with _file_errors(unpacked):
            copied = _copy(folder / COPY, list(backup.files), unpacked)
        wrong = [name for name, known in backup.files.items() if copied[name] != known]
        if wrong:
            raise StateError(
                f"The backup {str(folder)!r} does not hold what was written to it: {', '.join(wrong[:5])}.",
                hint="Use another backup.",
            )
    except BaseException:
        shutil.rmtree(unpacked, ignore_errors=True)
        raise
    return unpacked


def put_in_place(unpacked: Path, checkpoint: Path) -> Path | None:
    """Renames the unpacked folder to the checkpoint; returns the new path of the previous checkpoint, if any."""
    before = None
    if checkpoint.exists():
        with Alone(checkpoint):
            before = checkpoint.with_name(f"{checkpoint.name}.before-restore-{uuid4().hex[:8]}")
            checkpoint.rename(before)
    unpacked.rename(checkpoint)
    relocate(checkpoint)
    fsync_all([], [checkpoint.parent])
    return before


def move(checkpoint: Path, target: Path) -> None:
    """Moves a checkpoint, also to another file system; raises if a run is active on it."""
    require_fixed(checkpoint)
    _require_free(target, "checkpoint")
    if target.is_relative_to(checkpoint):
        raise StateError("A checkpoint cannot be moved into itself.", hint="Choose another folder.")
    with Alone(checkpoint), CommitLog(checkpoint / "eddyline" / "catalog").lock(), _file_errors(target):
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
    """Copies files to a folder that only the owner can access, synced to disk; returns sizes and digests."""
    make_private(target)
    copied = {}
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
        copied[name] = size, digest.hexdigest()
    fsync_all([target / n for n in names], [f for f in (target, *target.rglob("*")) if f.is_dir()])
    return copied


@contextmanager
def _file_errors(folder: Path) -> Iterator[None]:
    """Turns errors of the file system into StateError."""
    try:
        yield
    except OSError as e:
        raise StateError(f"{e.filename or str(folder)!r} cannot be copied or written: {e.strerror}.") from None

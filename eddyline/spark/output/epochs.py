"""The epochs of a checkpoint: every run draws one, and sinks are marked with it.

They are lines of `eddyline/epochs`, each on the disk before its run writes anything elsewhere, so that a checkpoint
knows every run that wrote to its sinks, unless it is a copy or was restored: then it knows those up to the copy.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

from eddyline.delivery.durable import fsync_folder
from eddyline.delivery.marks import Epoch, Mark

FILE = "epochs"


@dataclass(frozen=True)
class RunStart:
    """What a run has left in the list of epochs."""

    epoch: Epoch
    started: str
    base: str  # where relative paths of its sinks began


def begin_epoch(checkpoint: Path, base: str) -> Epoch:
    """Draws the epoch of a run, and puts it on the disk."""
    file = checkpoint / "eddyline" / FILE
    epoch = Epoch(f"{time.time_ns():016x}-{uuid4().hex[:16]}", committed(checkpoint) + 1)  # later ones sort later
    started = datetime.now(UTC).isoformat(timespec="seconds")
    line = json.dumps({"id": epoch.id, "first": epoch.first, "started": started, "base": base})
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a+b") as f:
        whole = not f.tell() or _last_byte(f.fileno(), f.tell()) == b"\n"
        f.write((b"" if whole else b"\n") + line.encode() + b"\n")
        f.flush()
        os.fsync(f.fileno())
    fsync_folder(file.parent)
    return epoch


def _last_byte(handle: int, size: int) -> bytes:
    return os.pread(handle, 1, size - 1)


def is_last(checkpoint: Path, epoch: Epoch) -> bool:
    """Whether no run has begun since the one with this epoch."""
    lines = (checkpoint / "eddyline" / FILE).read_text(encoding="utf-8").splitlines()
    return f'"{epoch.id}"' in lines[-1]


def run_starts(checkpoint: Path) -> list[RunStart]:
    """Of all runs, in their order; none for a checkpoint of a version that drew no epochs."""
    file = checkpoint / "eddyline" / FILE
    found = []
    for line in file.read_text(encoding="utf-8").splitlines() if file.exists() else ():
        try:
            said = json.loads(line)
            found.append(RunStart(Epoch(said["id"], said["first"]), said["started"], said["base"]))
        except (ValueError, KeyError, TypeError):
            continue  # half a line: its run was broken off before it wrote anything else
    return found


def planned(checkpoint: Path) -> int:
    """The last micro-batch that Spark has planned; -1 if none."""
    return _last(checkpoint / "offsets")


def committed(checkpoint: Path) -> int:
    """The last micro-batch that Spark has committed; -1 if none."""
    return _last(checkpoint / "commits")


def _last(log: Path) -> int:
    return max((int(f.name) for f in log.glob("*") if f.name.isdigit()), default=-1)


def foreign_from(mark: Mark, known: Sequence[Epoch]) -> int | None:
    """The first micro-batch in a sink's folder that may be of another history; None if there is none."""
    ids = {e.id for e in known}
    return next((e.first for e in mark.epochs if e.id not in ids), None)

"""The epochs of a checkpoint: every run has one, and marks its sinks with it.

Epochs are lines of `eddyline/epochs`. Each is on disk before its run writes anything else, so a checkpoint knows every
run that wrote to its sinks. A copied or restored checkpoint knows only the runs before the copy.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

from eddyline.delivery.durable import fsync_folder
from eddyline.delivery.marks import Epoch, Mark
from eddyline.spark.input.offsets import last_batch

FILE = "epochs"


@dataclass(frozen=True)
class RunStart:
    """A line of the list of epochs."""

    epoch: Epoch
    started: str
    base: str  # the base of relative paths of its sinks


def begin_epoch(checkpoint: Path, base: str) -> Epoch:
    """Creates the epoch of a run, and writes it to disk."""
    file = checkpoint / "eddyline" / FILE
    epoch = Epoch(f"{time.time_ns():016x}-{uuid4().hex[:16]}", committed(checkpoint) + 1)  # later ones sort later
    started = datetime.now(UTC).isoformat(timespec="seconds")
    line = json.dumps({"id": epoch.id, "first": epoch.first, "started": started, "base": base})
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a+b") as f:
        whole = not f.tell() or os.pread(f.fileno(), 1, f.tell() - 1) == b"\n"
        f.write((b"" if whole else b"\n") + line.encode() + b"\n")
        f.flush()
        os.fsync(f.fileno())
    fsync_folder(file.parent)
    return epoch


def is_last(checkpoint: Path, epoch: Epoch) -> bool:
    """Whether the run with this epoch was the last to start."""
    lines = (checkpoint / "eddyline" / FILE).read_text(encoding="utf-8").splitlines()
    return f'"{epoch.id}"' in lines[-1]


def run_starts(checkpoint: Path) -> list[RunStart]:
    """All runs in order; empty for a checkpoint of a version without epochs."""
    file = checkpoint / "eddyline" / FILE
    starts = []
    for line in file.read_text(encoding="utf-8").splitlines() if file.exists() else ():
        try:
            fields = json.loads(line)
            starts.append(RunStart(Epoch(fields["id"], fields["first"]), fields["started"], fields["base"]))
        except (ValueError, KeyError, TypeError):
            continue  # half a line: its run was killed before it wrote anything else
    return starts


def planned(checkpoint: Path) -> int:
    """The last micro-batch that Spark has planned; -1 if none."""
    return -1 if (batch := last_batch(checkpoint / "offsets")) is None else batch


def committed(checkpoint: Path) -> int:
    """The last micro-batch that Spark has committed; -1 if none."""
    return -1 if (batch := last_batch(checkpoint / "commits")) is None else batch


def foreign_from(mark: Mark | None, checkpoint: Path) -> int | None:
    """The first micro-batch in a sink's folder that a run unknown to the checkpoint may have written; None if none."""
    known = {s.epoch.id for s in run_starts(checkpoint)}
    return next((e.first for e in (() if mark is None else mark.epochs) if e.id not in known), None)

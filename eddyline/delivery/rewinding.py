"""Rewinds a sink: removes the rows from a micro-batch on, so that they can be written again.

A rewind can be interrupted anywhere and repeated: the mark is written last.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from uuid import uuid4

from eddyline.delivery.compaction import locked, recover
from eddyline.delivery.durable import HIDDEN, fsync_file, fsync_folder
from eddyline.delivery.marks import Epoch, PartFile, folders_of, parts_of, read_mark, write_mark


@dataclass(frozen=True)
class Rewind:
    """The files of a sink that have rows to remove."""

    place: Path
    first: int  # micro-batches from this one on
    files: tuple[PartFile, ...]


def rewind_of(place: Path, first: int) -> Rewind:
    """Plans a rewind, after completing an interrupted compaction."""
    if place.is_dir():
        with locked(place):
            recover(place)
    files = [p for folder in folders_of(place) for p in parts_of(folder) if p.batch >= first]
    return Rewind(place, first, tuple(files))


def rewind_files(rewind: Rewind) -> None:
    for part in rewind.files:
        _cut(part, rewind.first)
    for folder in {p.path.parent for p in rewind.files}:
        fsync_folder(folder)


def rewind_mark(rewind: Rewind, known: set[str]) -> None:
    """Records the rewind in the mark of the folder; `known` are the epochs of the checkpoint."""
    mark = read_mark(rewind.place)
    if mark is None:
        return
    last, kept = rewind.first - 1, list[Epoch]()
    for epoch in mark.epochs:
        if epoch.id not in known:
            break
        kept.append(epoch)
    if rewind.files:
        mark = replace(mark, rewinds=(*mark.rewinds, last))
    write_mark(rewind.place, replace(mark, epochs=tuple(kept), complete=min(mark.complete, last)), "fsync")
    fsync_folder(rewind.place)


def _cut(part: PartFile, first: int) -> None:
    """Removes the rows from micro-batch `first` on; earlier rows of a compacted file are kept under another name."""
    temporary = part.path.with_name(f"{HIDDEN}{uuid4().hex}")
    last = part.kind.copy_before(part.path, first, temporary)
    if last >= 0:
        fsync_file(temporary)
        os.replace(temporary, part.path.with_name(f"part-{last:09}-{part.rest}{part.path.suffix}"))
    else:
        temporary.unlink(missing_ok=True)
    part.path.unlink()

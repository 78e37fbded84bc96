"""Rewinds a sink: removes the rows from a micro-batch on, so that they can be written again.

A rewind can be interrupted anywhere and repeated: the mark is written last.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, replace
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from eddyline.delivery.compaction import locked, recover
from eddyline.delivery.durable import HIDDEN, fsync_file, fsync_folder
from eddyline.delivery.marks import Epoch, PartFile, folders_of, parts_of, read_mark, write_mark


@dataclass(frozen=True)
class Rewind:
    """The files of a sink that have rows to remove."""

    place: Path
    first: int  # micro-batches from this one on
    files: tuple[PartFile, ...]

    @property
    def last(self) -> int:
        return max(f.batch for f in self.files)


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
    if first_batch_in(part) < first:
        temporary = part.path.with_name(f"{HIDDEN}{uuid4().hex}")
        last = _copy_before(part, first, temporary)
        fsync_file(temporary)
        os.replace(temporary, part.path.with_name(f"part-{last:09}-{part.rest}{part.path.suffix}"))
    part.path.unlink()


def first_batch_in(part: PartFile) -> int:
    """The first micro-batch of a file, whose rows are in the order of micro-batches."""
    if part.format == "json":
        with part.path.open(encoding="utf-8") as lines:
            return min(int(json.loads(line)["batch"]) for line in [next(lines)])
    with pq.ParquetFile(part.path) as file:
        column = next((b.column(0) for b in file.iter_batches(1, columns=["batch"])), None)
    return part.batch if column is None else int(column[0].as_py())


def _copy_before(part: PartFile, first: int, to: Path) -> int:
    """Copies the rows of micro-batches before one; returns the last of them."""
    if part.format == "json":
        last = -1
        with part.path.open(encoding="utf-8") as lines, to.open("w", encoding="utf-8") as out:
            for line in lines:
                if (batch := int(json.loads(line)["batch"])) < first:
                    out.write(line)
                    last = max(last, batch)
        return last
    with pq.ParquetFile(part.path) as file, pq.ParquetWriter(to, file.schema_arrow, compression="zstd") as out:
        last = -1
        for rows in file.iter_batches():
            kept = rows.filter(pc.less(rows.column("batch"), pa.scalar(first)))
            if kept.num_rows:
                last = max(last, pc.max(kept.column("batch")).as_py())
                out.write_batch(kept)
    return last

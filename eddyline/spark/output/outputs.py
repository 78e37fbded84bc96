"""What leaves the pipeline: changes staged as files by whoever computed them, and committed by the driver by batch.

A writer (a bucket, or a source partition for what is stateless) puts each family's changes of a micro-batch into one
file under a name nobody reads, and reports it. When the whole batch has been computed, the driver moves the reported
files to names made of batch and writer. A batch that is replayed replaces its files by the same rows; files that an
interrupted attempt left behind are never reported, and removed.

Every row carries `query, op, ts, exp, batch, position` before the query's own columns; (batch, position) is unique
within a family and the same after a replay, so that any consumer can drop repeats.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from eddyline.delivery.changes import as_table
from eddyline.delivery.durable import Durability, fsync_all, make_folder
from eddyline.delivery.marks import FORMAT, STAGED, folders_of, parts_of
from eddyline.delivery.names import folder_name
from eddyline.engine.failures import FamilyFailure
from eddyline.engine.family import Family
from eddyline.engine.parts import Part
from eddyline.errors import StateError
from eddyline.spark.input.checking import Checked
from eddyline.spark.output.json_rows import json_rows
from eddyline.spark.output.places import place_of
from eddyline.spark.run.settings import Settings
from eddyline.sql.catalog import Catalog, Sink, Stream
from eddyline.state.delta import Delta, Ints, query_of
from eddyline.state.query_table import QueryRows

HEAD = ("query", "op", "ts", "exp", "batch", "position")
PER_WRITER = 2**40  # positions of one writer in one batch
PER_ATTEMPT = 2**32  # of them, those of one attempt at it, where amendments make attempts differ
DEAD_LETTER = ""  # the name that rows set apart are staged under: no sink has it


@dataclass(frozen=True)
class Staged:
    """A file with the changes of one family in one batch, for one sink."""

    sink: str
    declared: str  # the statement that declares the sink: it may be another by the time of delivery
    folder: str  # below the sink's path; empty: the path itself
    file: str
    writer: int
    part: int  # counts the files of one writer for one folder
    rows: int


class Stager:
    """Stages the changes that one writer has in one batch."""

    def __init__(self, catalog: Catalog, settings: Settings, batch: int, writer: int, amended: int = 0) -> None:
        """`amended`: how often the micro-batch was amended; its rows then have positions that no attempt before had."""
        self.catalog = catalog
        self.settings = settings
        self.batch = batch
        self.writer = writer
        self.first = writer * PER_WRITER + amended % (PER_WRITER // PER_ATTEMPT) * PER_ATTEMPT
        self.staged: list[Staged] = []
        self._synced = 0  # how many of them are on the disk
        self._written: dict[int, int] = {}  # rows so far, by family

    def stage(self, family: Family, queries: QueryRows, delta: Delta) -> None:
        """Writes the changes of a family for every sink that wants them."""
        wanting = [(s, name) for s in self.catalog.sinks for name in self._wanted(s, family, queries)]
        if not wanting or not len(delta):
            return
        start = self._written.get(family.number, 0)
        self._written[family.number] = start + len(delta)
        position = self.first + np.arange(start, start + len(delta))
        whole = output_table(family, queries, delta, self.batch, position)
        for sink, query in wanting:
            rows = whole if query is None else whole.filter(pc.equal(whole.column("query"), query))
            name = query if query is not None else family.name
            if rows.num_rows:
                folder = "" if len(sink.targets) == 1 else folder_name(name)
                self._write(sink, place_of(sink, self.settings), folder, rows)

    def stage_part(self, part: Part) -> None:
        """Writes what a step gave; a family that failed gave nothing."""
        if not isinstance(part.outcome, FamilyFailure):
            self.stage(part.family, part.queries, part.delta)

    def set_apart(self, found: Checked, numbers: Ints) -> None:
        """Writes the bad rows of a stream or table to its dead-letter table, with the reason and the place."""
        where = pa.array(np.nonzero(found.bad)[0])
        first = [] if isinstance(found.relation, Stream) else ["op"]
        names = [*first, *(f.name for f in found.relation.fields)]
        beside = {"reason": found.reasons, "text": found.malformed, "place": found.place}
        position = pa.array(self.writer * PER_WRITER + numbers)
        columns = [
            *found.columns,
            *beside.values(),
            pa.repeat(pa.scalar(self.batch, pa.int64()), len(numbers)),
            position,
        ]
        rows = pa.table([in_utc(c.take(where)) for c in columns], names=unique([*names, *beside, "batch", "position"]))
        self._write(None, self.settings.own / "dead_letter", folder_name(found.relation.name.lower()), rows)

    def _wanted(self, sink: Sink, family: Family, queries: QueryRows) -> list[str | None]:
        """None: the sink takes the whole family; a name: it takes that query of the family."""
        if not sink.targets or family.name.lower() in (x.lower() for x in sink.targets):
            return [] if family.kind == "view" and not sink.targets else [None]
        return [t for t in sink.targets if pc.index(queries.names, t).as_py() >= 0]

    def _write(self, sink: Sink | None, place: Path, folder: str, rows: pa.Table) -> None:
        file = place / STAGED / uuid4().hex
        file.parent.mkdir(parents=True, exist_ok=True)
        if sink is not None and sink.external.format.lower() == "json":
            with file.open("w", encoding="utf-8") as f:
                f.writelines(f"{line}\n" for part in rows.to_batches() for line in json_rows(part).to_pylist())
        else:
            marked = rows.replace_schema_metadata({"eddyline.format": str(FORMAT)})
            pq.write_table(marked, file, compression="zstd", compression_level=1)
        name, declared = (DEAD_LETTER, "") if sink is None else (sink.name, sink.sql)
        part = sum(s.sink == name and s.folder == folder for s in self.staged)
        self.staged.append(Staged(name, declared, folder, str(file), self.writer, part, rows.num_rows))

    def report(self) -> list[dict[str, Any]]:
        """What was staged; files that stay where they are put are on the disk."""
        if self.settings.durability == "fsync":
            sent_on = self.settings.own / "sinks"  # these go elsewhere, and are removed
            staying = [Path(s.file) for s in self.staged[self._synced :]]
            fsync_all([f for f in staying if not f.is_relative_to(sent_on)])
            self._synced = len(self.staged)
        return [asdict(s) for s in self.staged]


def output_table(family: Family, queries: QueryRows, delta: Delta, batch: int, position: Any) -> pa.Table:
    found = as_table(family, delta.spread())
    names = queries.name_of(query_of(delta))
    op, ts, exp, *own = found.columns
    head = [names, op, ts, exp, pa.repeat(pa.scalar(batch, pa.int64()), len(names)), pa.array(position, pa.int64())]
    return pa.table([in_utc(c) for c in (*head, *own)], names=[*HEAD, *own_names(family)])


def own_names(family: Family) -> list[str]:
    """The family's columns by names that are not taken yet: a second `ts` is `ts_2`."""
    return unique([*HEAD, *(f.name for f in family.fields)])[len(HEAD) :]


def unique(names: Sequence[str]) -> list[str]:
    """Names as they are, but numbered where one has been taken before."""
    taken: set[str] = set()
    found = []
    for wanted in names:
        name, n = wanted, 1
        while name.lower() in taken:
            n += 1
            name = f"{wanted}_{n}"
        taken.add(name.lower())
        found.append(name)
    return found


def in_utc(column: pa.Array | pa.ChunkedArray) -> Any:
    """Times are moments for whoever reads them, whatever the zone of their session."""
    return column.cast(pa.timestamp("us", "UTC")) if column.type == pa.timestamp("us") else column


def commit_files(
    path: Path,
    staged: Sequence[Staged],
    batch: int,
    suffix: str,
    durability: Durability = "fsync",
) -> set[Path]:
    """Moves the files of a batch into place under one sink's path, and returns them; they outlive a loss of power."""
    folders = {path / s.folder for s in staged}
    for folder in folders:
        if durability == "fsync":
            make_folder(folder)
        else:
            folder.mkdir(parents=True, exist_ok=True)
    committed = set()
    for s in staged:
        file = path / s.folder / f"part-{batch:09}-{s.writer:05}-{s.part:03}.{suffix}"
        try:
            Path(s.file).rename(file)
            committed.add(file)
        except FileNotFoundError:
            raise StateError(
                f"The staged file {s.file!r} of micro-batch {batch} is gone.",
                hint="Start the pipeline again: the micro-batch is computed anew.",
            ) from None
    if durability == "fsync":
        fsync_all([], folders)
    return committed


def remove_files(path: Path, batch: int, kept: Collection[Path] = ()) -> None:
    """Removes what an earlier attempt at a batch has put under one sink's path, without what this one has put there."""
    for part in (p for folder in folders_of(path) for p in parts_of(folder) if p.batch == batch):
        if part.path not in kept:
            part.path.unlink()

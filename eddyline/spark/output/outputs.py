"""Staging and committing of output files: writers stage changes, and the driver commits them per micro-batch.

A writer (a bucket, or a source partition for stateless families) writes each family's changes of a micro-batch to one
file in a folder that readers ignore, and reports it. When all writers have reported, the driver renames the reported
files to names made of batch and writer. A replayed batch replaces its files by the same rows. Files of an interrupted
attempt are never reported, and are removed.

Every row has `query, op, ts, exp, batch, position` before the query's own columns; (batch, position) is unique within a
family and the same after a replay, so that any consumer can drop repeats.
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

from eddyline.arrays import Ints
from eddyline.delivery.changes import as_table
from eddyline.delivery.durable import Durability, fsync_all, make_folder
from eddyline.delivery.marks import STAGED, folders_of, parts_of
from eddyline.delivery.names import folder_name
from eddyline.delivery.sinks.parquet import PARQUET
from eddyline.engine.failures import FamilyFailure
from eddyline.engine.family import Family
from eddyline.engine.parts import Part
from eddyline.errors import StateError
from eddyline.spark.input.checking import Checked
from eddyline.spark.output.places import place_of
from eddyline.spark.output.sinks import kind_of
from eddyline.spark.run.settings import Settings
from eddyline.sql.catalog import Catalog, Sink, Stream, Table
from eddyline.state.delta import Delta, query_of
from eddyline.state.query_table import QueryRows

HEAD = ("query", "op", "ts", "exp", "batch", "position")
PER_WRITER = 2**40  # positions of one writer in one batch
PER_ATTEMPT = 2**32  # positions of one attempt at a batch: amended attempts differ
DEAD_LETTER = ""  # the sink name of staged dead-letter rows: no sink has it


@dataclass(frozen=True)
class Staged:
    """A file with the changes of one family in one batch, for one sink."""

    sink: str
    declared: str  # the statement that declares the sink; it may be redeclared before delivery
    folder: str  # below the sink's path; empty: the path itself
    file: str
    writer: int
    part: int  # counts the files of one writer for one folder
    rows: int

    def name(self, batch: int, suffix: str) -> str:
        """The name of the committed file."""
        return f"part-{batch:09}-{self.writer:05}-{self.part:03}.{suffix}"


class Stager:
    """Stages the changes of one writer in one batch."""

    def __init__(self, catalog: Catalog, settings: Settings, batch: int, writer: int, amended: int = 0) -> None:
        """`amended`: how often the micro-batch was amended; each amendment uses new positions."""
        self.catalog = catalog
        self.settings = settings
        self.batch = batch
        self.writer = writer
        self.first = writer * PER_WRITER + amended % (PER_WRITER // PER_ATTEMPT) * PER_ATTEMPT
        self.staged: list[Staged] = []
        self._synced = 0  # how many of them were synced to disk
        self._written: dict[int, int] = {}  # rows so far, by family

    def stage(self, family: Family, queries: QueryRows, delta: Delta) -> None:
        """Writes the changes of a family for every sink that takes them."""
        targets = [(s, name) for s in self.catalog.sinks for name in self._targets(s, family, queries)]
        if not targets or not len(delta):
            return
        start = self._written.get(family.number, 0)
        self._written[family.number] = start + len(delta)
        position = self.first + np.arange(start, start + len(delta))
        whole = output_table(family, queries, delta, self.batch, position)
        for sink, query in targets:
            rows = whole if query is None else whole.filter(pc.equal(whole.column("query"), query))
            name = query if query is not None else family.name
            if rows.num_rows:
                folder = "" if len(sink.targets) == 1 else folder_name(name)
                self._write(sink, place_of(sink, self.settings), folder, rows)

    def stage_part(self, part: Part) -> None:
        """Writes the result of a step, unless the family failed."""
        if not isinstance(part.outcome, FamilyFailure):
            self.stage(part.family, part.queries, part.delta)

    def set_apart(self, checked: Checked, numbers: Ints) -> None:
        """Writes the bad rows of a stream or table to its dead-letter table, with the reason and the place."""
        bad = pa.array(np.nonzero(checked.bad)[0])
        columns = [*checked.columns, checked.reasons, checked.malformed, checked.place]
        position = self.writer * PER_WRITER + numbers
        rows = dead_letters(checked.relation, [*columns, pa.array(position)], self.batch).take(bad)
        self._write(None, self.settings.own / "dead_letter", folder_name(checked.relation.name.lower()), rows)

    def _targets(self, sink: Sink, family: Family, queries: QueryRows) -> list[str | None]:
        """None: the sink takes the whole family; a name: it takes that query of the family."""
        if not sink.targets or family.name.lower() in (x.lower() for x in sink.targets):
            return [] if family.kind == "view" and not sink.targets else [None]
        return [t for t in sink.targets if pc.index(queries.names, t).as_py() >= 0]

    def _write(self, sink: Sink | None, place: Path, folder: str, rows: pa.Table) -> None:
        file = place / STAGED / uuid4().hex
        file.parent.mkdir(parents=True, exist_ok=True)
        kind, name, declared = (PARQUET, DEAD_LETTER, "") if sink is None else (kind_of(sink), sink.name, sink.sql)
        kind.stage(rows, file)
        part = sum(s.sink == name and s.folder == folder for s in self.staged)
        self.staged.append(Staged(name, declared, folder, str(file), self.writer, part, rows.num_rows))

    def report(self) -> list[dict[str, Any]]:
        """The staged files, of which those of file sinks have been synced to disk."""
        if self.settings.durability == "fsync":
            sent_on = self.settings.own / "sinks"  # these are sent elsewhere and then removed
            staying = [Path(s.file) for s in self.staged[self._synced :]]
            fsync_all([f for f in staying if not f.is_relative_to(sent_on)])
            self._synced = len(self.staged)
        return [asdict(s) for s in self.staged]


def output_table(family: Family, queries: QueryRows, delta: Delta, batch: int, position: Any) -> pa.Table:
    table = as_table(family, delta.spread())
    names = queries.name_of(query_of(delta))
    op, ts, exp, *own = table.columns
    head = [names, op, ts, exp, pa.repeat(pa.scalar(batch, pa.int64()), len(names)), pa.array(position, pa.int64())]
    return pa.table([in_utc(c) for c in (*head, *own)], names=unique([*HEAD, *(f.name for f in family.fields)]))


def dead_letters(relation: Stream | Table, columns: Sequence[pa.Array], batch: int) -> pa.Table:
    """Rows of a dead-letter table; `columns` are those of the relation, the reason, the text, the place, and the
    position."""
    first = [] if isinstance(relation, Stream) else ["op"]
    names = [*first, *(f.name for f in relation.fields), "reason", "text", "place", "batch", "position"]
    *others, position = (in_utc(c) for c in columns)
    batches = pa.repeat(pa.scalar(batch, pa.int64()), len(position))
    return pa.table([*others, batches, position], names=unique(names))


def unique(names: Sequence[str]) -> list[str]:
    """The names, with a number appended to repeated ones: a second `ts` is `ts_2`."""
    taken: set[str] = set()
    unique_names = []
    for original in names:
        name, n = original, 1
        while name.lower() in taken:
            n += 1
            name = f"{original}_{n}"
        taken.add(name.lower())
        unique_names.append(name)
    return unique_names


def in_utc(column: pa.Array | pa.ChunkedArray) -> Any:
    """Adds the zone UTC to times, so that readers in any session zone see the same moment."""
    return column.cast(pa.timestamp("us", "UTC")) if column.type == pa.timestamp("us") else column


def commit_files(
    path: Path, staged: Sequence[Staged], batch: int, suffix: str, durability: Durability = "fsync"
) -> set[Path]:
    """Renames the staged files of a batch to their final names under one sink's path; returns those names."""
    folders = {path / s.folder for s in staged}
    for folder in folders:
        make_folder(folder)
    committed = set()
    for s in staged:
        file = path / s.folder / s.name(batch, suffix)
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
    """Removes the files of a batch under one sink's path, except `kept`."""
    for part in (p for folder in folders_of(path) for p in parts_of(folder) if p.batch == batch):
        if part.path not in kept:
            part.path.unlink()

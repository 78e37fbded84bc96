"""Reads a file sink: the rows of complete micro-batches, each once, while the pipeline writes, replays and compacts.

The mark of the folder has the last complete micro-batch; later rows are not read. A cursor is the position of a reader.
Reading from a cursor raises if the sink was rewound behind it, because rows that were read are no longer valid.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from eddyline.delivery.compaction import read_log
from eddyline.delivery.marks import Mark, folders_of, last_batch, parts_of, read_mark
from eddyline.delivery.sinks import FILE_SINKS
from eddyline.errors import DataError, StateError

TRIES = 100  # attempts to read a folder whose files are removed meanwhile


@dataclass(frozen=True)
class Cursor:
    """The position of a reader of a sink. `str` returns a text to store, which `read_sink` accepts too."""

    batch: int = -1  # the last micro-batch that was read
    rewound: int = 0  # how often the sink had been rewound before

    def __str__(self) -> str:
        return f"{self.batch}.{self.rewound}"


@dataclass(frozen=True)
class SinkRows:
    """The rows of some micro-batches, by family or query as the folders of the sink are named."""

    tables: dict[str, pa.Table]  # "" for a sink without folders
    cursor: Cursor  # the position after these rows

    def table(self, name: str = "") -> pa.Table | None:
        return self.tables.get(name)


def read_sink(
    path: str | Path, after: Cursor | str | int | None = None, *, most_batches: int | None = None
) -> SinkRows:
    """The rows of a file sink from complete micro-batches after a cursor, or after a micro-batch by its number.

    `most_batches` limits the number of micro-batches.
    """
    place = Path(path)
    for _ in range(TRIES):
        mark = require_mark(place)
        start = _start(place, mark, after)
        upto = max(mark.complete, start.batch)
        if most_batches is not None:
            upto = min(upto, start.batch + most_batches)
        tables = {}
        for folder in folders_of(place) if upto > start.batch else ():
            rows = read_folder(place, folder, start.batch, upto)
            if rows is not None and rows.num_rows:
                tables["" if folder == place else folder.name] = rows
        if require_mark(place).rewinds == mark.rewinds:
            return SinkRows(tables, Cursor(upto, len(mark.rewinds)))
    raise StateError(f"{str(place)!r} is rewound all the time.", hint="Try again later.")


def require_mark(place: Path) -> Mark:
    """The mark of a sink's folder; raises if there is none, or it does not say what is complete."""
    mark = read_mark(place)
    if mark is None:
        raise StateError(
            f"{str(place)!r} is not the folder of a sink.",
            hint=f"Give the path of a sink USING {' or '.join(FILE_SINKS)}.",
        )
    if not mark.epochs and mark.complete < 0 and last_batch(place) is not None:
        raise StateError(
            f"{str(place)!r} does not say which micro-batches are complete: an older version has written it.",
            hint="Start its pipeline once with this version.",
        )
    return mark


def _start(place: Path, mark: Mark, after: Cursor | str | int | None) -> Cursor:
    rewound = len(mark.rewinds)
    if after is None:
        return Cursor(-1, rewound)
    if isinstance(after, int):
        return Cursor(after, rewound)
    cursor = after if isinstance(after, Cursor) else _parsed(after)
    left = min(mark.rewinds[cursor.rewound :], default=cursor.batch)
    if left < cursor.batch:
        raise StateError(
            f"The sink in {str(place)!r} went back to micro-batch {left}, after rows up to {cursor.batch} were read.",
            hint=f"Drop what was read of micro-batches after {left}, and go on with after={left}.",
        )
    return cursor


def _parsed(text: str) -> Cursor:
    batch, _, rewound = text.partition(".")
    try:
        return Cursor(int(batch), int(rewound))
    except ValueError:
        raise DataError(f"{text!r} is no cursor of a sink.", hint="Give what str(rows.cursor) gave.") from None


def read_folder(place: Path, folder: Path, after: int, upto: int) -> pa.Table | None:
    """The rows of one folder below a sink's, of micro-batches after one and up to another, in their order."""
    for _ in range(TRIES):
        before = read_log(place)
        # The name of a file has the last micro-batch of its rows; a compacted file also has rows of earlier ones.
        parts = [p for p in parts_of(folder) if p.batch > after]
        try:
            tables = [t for p in parts if (t := p.kind.read(p.path, after, upto)).num_rows]
        except FileNotFoundError:
            continue  # compacted or rewound since it was listed
        if not tables:
            return None
        whole = _together(folder, tables)
        compacting = before.state == "merging" or read_log(place) != before
        return _without_repeats(whole) if compacting else whole
    raise StateError(f"The files in {str(folder)!r} are removed while they are read.", hint="Who removes them?")


def _together(folder: Path, tables: Sequence[pa.Table]) -> pa.Table:
    try:
        return pa.concat_tables(tables, promote_options="permissive")
    except pa.ArrowException as e:
        raise StateError(
            f"The rows in {str(folder)!r} have columns of different types: {str(e).splitlines()[0]}",
            hint="The family was declared anew. Read its micro-batches in parts, with most_batches.",
        ) from None


def _without_repeats(rows: pa.Table) -> pa.Table:
    """The rows with each (batch, position) once."""
    numbered = rows.select(["batch", "position"]).append_column("row", pa.array(range(rows.num_rows)))
    first = numbered.group_by(["batch", "position"]).aggregate([("row", "min")]).column("row_min")
    return rows.take(first.take(pc.sort_indices(first)))

"""Unreadable files: written to the dead-letter table of their stream or table, and reported.

Packers report files that they could not read. This module detects files that were deleted after Spark listed them:
Spark's own logs name the files of a micro-batch, and packers report the files that they got. For formats that Spark
reads itself there is no such report: a file that is missing at the end of the micro-batch may have been read before.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from eddyline.delivery.names import folder_name
from eddyline.errors import DataError
from eddyline.spark.input.file_rows import Unread
from eddyline.spark.input.listing import lists_files, local_files, option_of
from eddyline.spark.input.long_records import limit_of, long_record
from eddyline.spark.input.offsets import files_between, log_entry_of, source_offsets
from eddyline.spark.output.outputs import dead_letters
from eddyline.spark.run.settings import Settings
from eddyline.sql.catalog import Stream, Table

GONE = "it was deleted after it was listed, before it was read"
PERHAPS_GONE = "it was deleted before its micro-batch ended: its rows may not have been read"
THREADS = 4
EMPTY = "it is empty: 0 bytes"


def report_bad_files(
    settings: Settings,
    relations: Sequence[Stream | Table | None],
    packed: Sequence[Mapping[str, Any]],
    batch: int,
) -> dict[str, list[str]]:
    """Writes the unread files of a micro-batch to dead-letter tables; returns names and reasons by stream or table.

    `relations` are in the order of Spark's sources; `packed` are the reports of source partitions.
    """
    bad_files: dict[str, list[str]] = {}
    for i, relation in enumerate(relations):
        if relation is None or not local_files(relation):
            continue
        reports = [p for p in packed if p["relation"].lower() == relation.name.lower()]
        unread = [Unread(**u) for p in reports for u in p["unread"]]
        listed = files_of(Path(settings.checkpoint), i, batch)
        if lists_files(relation):
            packed_files = {file for p in reports for file in p["files"]}
            unread += [Unread(path, _absence(path)) for path in listed if path not in packed_files]
        else:
            unread += _not_read_by_spark(relation, list(listed))
        if unread and settings.on_bad_rows == "stop":
            raise unreadable(relation, unread[0])
        if unread:
            bad_files[relation.name] = [f"{u.path}: {_why(u)}" for u in unread]
            _write_dead_letters(settings, relation, unread, batch)
    return bad_files


def _not_read_by_spark(relation: Stream | Table, listed: Sequence[str]) -> list[Unread]:
    """Missing files, and files with records that Spark skipped because they are too long."""
    unread = [Unread(path, PERHAPS_GONE) for path in listed if not os.path.exists(path)]
    longest = limit_of(relation)
    if longest is None or (option_of(relation, "multiline") or "").lower() == "true":
        return unread  # Spark's own limits apply to records of several lines
    line_end = option_of(relation, "linesep")
    with ThreadPoolExecutor(THREADS) as threads:  # Arrow and the disk take most of the time
        long = threads.map(lambda path: long_record(path, longest, line_end), listed)
        return unread + [u for u in long if u is not None]


def unreadable(relation: Stream | Table, file: Unread) -> DataError:
    kind = "stream" if isinstance(relation, Stream) else "table"
    return DataError(
        f"The file {file.path!r} of {kind} {relation.name!r} cannot be read: {_why(file)}.",
        hint="Mend it or put it back, or run with on_bad_rows = 'set apart'.",
    )


def _absence(path: str) -> str:
    """Why Spark did not pass on a file that it listed."""
    return EMPTY if os.path.exists(path) and not os.path.getsize(path) else GONE


def _why(file: Unread) -> str:
    before = f"; {file.rows} rows before that were read" if file.rows else ""
    return f"{file.why}{before}"


def files_of(checkpoint: Path, source: int, batch: int) -> Iterator[str]:
    """The files that Spark listed for a source in a micro-batch."""
    both = (source_offsets(checkpoint, b) for b in (batch - 1, batch))
    before, last = (log_entry_of(offsets[source]) if source < len(offsets) else -1 for offsets in both)
    return files_between(checkpoint, source, before, last)


def _write_dead_letters(settings: Settings, relation: Stream | Table, bad: Sequence[Unread], batch: int) -> None:
    n = len(bad)
    first = [] if isinstance(relation, Stream) else [pa.nulls(n, pa.string())]
    nulls = [*first, *(pa.nulls(n, f.type) for f in relation.fields)]
    reasons, position = pa.repeat("unreadable file", n), pa.array(range(-n, 0), pa.int64())
    columns = [*nulls, reasons, pa.array([_why(f) for f in bad]), pa.array([f.path for f in bad]), position]
    table = dead_letters(relation, columns, batch)
    folder = settings.own / "dead_letter" / folder_name(relation.name.lower())
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, folder / f"part-{batch:09}-files.parquet")

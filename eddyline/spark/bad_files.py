"""Files that could not be read: found after a micro-batch, and entered in the dead-letter table of their stream.

Spark skips such files, or the rest of them, when bad rows are to be set apart, and says so only in its log. Which files
a micro-batch had stands in Spark's own logs, and how many rows in the footer of each: if as many came, all were read.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as pt

from eddyline import types as t
from eddyline.delivery.names import folder_name
from eddyline.spark.outputs import in_utc, unique
from eddyline.spark.settings import Settings
from eddyline.sql.catalog import Stream, Table

CHECKED = ("parquet",)
# What Spark reads as a declared type, beside the type itself.
_WIDENED = {
    t.SHORT: (pa.int8(), pa.uint8()),
    t.INT: (pa.int8(), pa.int16(), pa.uint8(), pa.uint16()),
    t.BIGINT: (pa.int8(), pa.int16(), pa.int32(), pa.uint8(), pa.uint16(), pa.uint32()),
    t.DOUBLE: (pa.int8(), pa.int16(), pa.int32(), pa.uint8(), pa.uint16(), pa.float32()),
    t.STRING: (pa.large_string(), pa.binary(), pa.large_binary()),
}


@dataclass(frozen=True)
class File:
    path: str
    rows: int  # as its footer says
    why: str = ""  # it could not be read, if it could not
    sure: bool = True  # whether that is known without counting


def report_bad_files(
    settings: Settings,
    relations: Sequence[Stream | Table | None],
    packed: Sequence[Mapping[str, Any]],
    batch: int,
) -> dict[str, list[str]]:
    """Enters the unreadable files of a micro-batch; what was found.

    `relations` are in the order of Spark's sources; `packed` are the reports of source partitions.
    """
    found: dict[str, list[str]] = {}
    for i, relation in enumerate(relations):
        if relation is None or relation.external is None or relation.external.format.lower() not in CHECKED:
            continue
        files = [f for path in files_of(Path(settings.checkpoint), i, batch) if (f := looked_at(path, relation))]
        came = sum(p["rows"] for p in packed if p["relation"].lower() == relation.name.lower())
        bad = unread(files, came)
        if bad:
            found[relation.name] = [f"{f.path}: {f.why}" for f in bad]
            _enter(settings, relation, bad, batch)
    return found


def files_of(checkpoint: Path, source: int, batch: int) -> Iterator[str]:
    """The files that a source brought in a micro-batch."""
    first, last = (_log_offset(checkpoint / "offsets" / str(b), source) for b in (batch - 1, batch))
    log = checkpoint / "sources" / str(source)
    seen: set[str] = set()
    for entry in range(first + 1, last + 1):
        # Every so often Spark writes one file for all entries so far, in place of the single one.
        file = next((f for f in (log / str(entry), log / f"{entry}.compact") if f.exists()), None)
        for line in file.read_text().splitlines()[1:] if file is not None else ():
            said = json.loads(line)
            if first < said["batchId"] <= last and said["path"] not in seen:
                seen.add(said["path"])
                yield unquote(urlparse(said["path"]).path)


def _log_offset(file: Path, source: int) -> int:
    if not file.exists():
        return -1
    lines = file.read_text().splitlines()[2:]
    said = json.loads(lines[source]) if source < len(lines) and lines[source].startswith("{") else {}
    return int(said.get("logOffset", -1))


def looked_at(path: str, relation: Stream | Table) -> File | None:
    """What the footer says of a file, and whether it can be read as its stream or table; None if the file has gone."""
    try:
        with pq.ParquetFile(path) as file:
            rows, schema = file.metadata.num_rows, file.schema_arrow
    except FileNotFoundError:
        return None  # gone since: it was read, or Spark has said that it was not there
    except (pa.ArrowException, OSError) as e:
        return File(path, 0, str(e).splitlines()[0])
    have = {n.lower(): given for n, given in zip(schema.names, schema.types, strict=True)}
    for f in relation.fields:
        given = have.get(f.name.lower())
        if given is not None and not _reads(given, f.type):
            return File(path, rows, f"column {f.name!r} is {given}, not {t.name_of(f.type)}", sure=False)
    return File(path, rows)


def _reads(given: pa.DataType, declared: pa.DataType) -> bool:
    if declared == t.TIMESTAMP:
        return bool(pt.is_timestamp(given))
    return given == declared or given in _WIDENED.get(declared, ())


def unread(files: Sequence[File], came: int) -> list[File]:
    """Those of which not all rows came."""
    bad = [f for f in files if f.why and f.sure]
    missing = sum(f.rows for f in files) - came
    if missing <= 0:
        return bad
    suspects = [f for f in files if f.why and not f.sure]
    missing -= sum(f.rows for f in suspects)
    if missing > 0:  # the footers are as they should be, and something after them is not
        damaged = [File(f.path, f.rows, why) for f in files if not f.why and (why := _damage(f.path))]
        suspects += damaged or [File(", ".join(f.path for f in files if not f.why), 0, f"{missing} rows were not read")]
    return bad + suspects


def _damage(path: str) -> str:
    try:
        with pq.ParquetFile(path) as file:
            for _ in file.iter_batches():
                pass
    except (pa.ArrowException, OSError) as e:
        return str(e).splitlines()[0]
    return ""


def _enter(settings: Settings, relation: Stream | Table, bad: Sequence[File], batch: int) -> None:
    n = len(bad)
    first = [] if isinstance(relation, Stream) else [pa.nulls(n, pa.string())]
    nothing = [*first, *(pa.nulls(n, f.type) for f in relation.fields)]
    names = [*(["op"] if first else []), *(f.name for f in relation.fields)]
    reasons = pa.repeat("unreadable file", n)
    columns = [*nothing, reasons, pa.array([f.why for f in bad]), pa.array([f.path for f in bad])]
    columns += [pa.array([batch] * n, pa.int64()), pa.array(range(-n, 0), pa.int64())]
    table = pa.table(
        [in_utc(c) for c in columns], names=unique([*names, "reason", "text", "place", "batch", "position"])
    )
    folder = settings.own / "dead_letter" / folder_name(relation.name.lower())
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, folder / f"part-{batch:09}-files.parquet")

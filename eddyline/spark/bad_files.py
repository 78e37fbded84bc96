"""Files that could not be read: found after a micro-batch, and entered in the dead-letter table of their stream.

Spark skips such files when bad rows are to be set apart, and says so only in its log. Which files a micro-batch had
stands in Spark's own logs; the footer of each tells whether it can be read as what was declared.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import unquote, urlparse

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as pt

from eddyline.spark.outputs import in_utc, unique
from eddyline.spark.settings import Settings
from eddyline.sql.catalog import Stream, Table

CHECKED = ("parquet",)


def report_bad_files(
    settings: Settings, relations: Sequence[Stream | Table | None], batch: int
) -> dict[str, list[str]]:
    """Enters the unreadable files of a micro-batch; `relations` in the order of Spark's sources. What was found."""
    found: dict[str, list[str]] = {}
    for i, relation in enumerate(relations):
        if relation is None or relation.external is None or relation.external.format.lower() not in CHECKED:
            continue
        bad = [(f, why) for f in files_of(Path(settings.checkpoint), i, batch) if (why := problem(f, relation))]
        if bad:
            found[relation.name] = [f"{f}: {why}" for f, why in bad]
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


def problem(file: str, relation: Stream | Table) -> str:
    """Why a file cannot be read as its stream or table; empty if it can."""
    try:
        schema = pq.read_schema(file)
    except FileNotFoundError:
        return ""  # gone since: it was read, or Spark has said that it was not there
    except (pa.ArrowException, OSError) as e:
        return str(e).splitlines()[0]
    have = {n.lower(): t for n, t in zip(schema.names, schema.types, strict=True)}
    for f in relation.fields:
        given = have.get(f.name.lower())
        if given is not None and _kind(given) != _kind(f.type):
            return f"column {f.name!r} is {given}"
    return ""


def _kind(type_: pa.DataType) -> str:
    if pt.is_integer(type_) or pt.is_floating(type_) or pt.is_decimal(type_):
        return "number"
    if pt.is_string(type_) or pt.is_large_string(type_) or pt.is_binary(type_):
        return "text"
    return "time" if pt.is_temporal(type_) else "truth" if pt.is_boolean(type_) else str(type_)


def _enter(settings: Settings, relation: Stream | Table, bad: Sequence[tuple[str, str]], batch: int) -> None:
    n = len(bad)
    first = [] if isinstance(relation, Stream) else [pa.nulls(n, pa.string())]
    nothing = [*first, *(pa.nulls(n, f.type) for f in relation.fields)]
    names = [*(["op"] if first else []), *(f.name for f in relation.fields)]
    reasons = pa.repeat("unreadable file", n)
    columns = [*nothing, reasons, pa.array([w for _, w in bad]), pa.array([f for f, _ in bad])]
    columns += [pa.array([batch] * n, pa.int64()), pa.array(range(-n, 0), pa.int64())]
    table = pa.table(
        [in_utc(c) for c in columns], names=unique([*names, "reason", "text", "place", "batch", "position"])
    )
    folder = settings.own / "dead_letter" / relation.name.lower()
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, folder / f"part-{batch:09}-files.parquet")

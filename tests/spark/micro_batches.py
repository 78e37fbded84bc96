"""Which commit and which files were in which micro-batch, by Spark's own logs in a checkpoint."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

import pyarrow.parquet as pq

from eddyline.spark.catalog.amendments import in_force
from eddyline.spark.input.offsets import offset_in
from tests.spark.expected import tuples
from tests.spark.inputs import Batch, Event


def committed(checkpoint: Path) -> int:
    """How many micro-batches have ended."""
    return len([f for f in (checkpoint / "commits").glob("*") if f.name.isdigit()])


def whole(checkpoint: Path) -> bool:
    """Whether every micro-batch that was begun has ended."""
    return committed(checkpoint) == len([f for f in (checkpoint / "offsets").glob("*") if f.name.isdigit()])


def micro_batches(checkpoint: Path, commits: Mapping[int, Sequence[Event]]) -> list[Batch]:
    """What every micro-batch was given; `commits` says what was done to the catalog by which commit.

    Each file must have been a source partition of its own.
    """
    found: list[Batch] = []
    before: list[dict[str, Any]] = []
    commit = 0
    while (file := checkpoint / "offsets" / str(len(found))).exists():
        offset = offset_in(file.read_text())
        now, _ = in_force(checkpoint / "eddyline", len(found), offset["commit"])
        batch = Batch(now=offset["now"])
        for number in range(commit + 1, now + 1):
            batch.events += commits.get(number, [])
        offsets = [json.loads(line) if line.startswith("{") else {} for line in file.read_text().splitlines()[2:]]
        for source, offset in enumerate(offsets):
            first = before[source].get("logOffset", -1) if before else -1
            for path in _files(checkpoint / "sources" / str(source), first, offset.get("logOffset", -1)):
                _put(batch, path)
        found.append(batch)
        before, commit = offsets, now
    return found


def _files(log: Path, first: int, last: int) -> list[Path]:
    """The files that came after one offset up to another, as Spark numbers partitions: by size, else as listed."""
    entries = {}
    for file in log.glob("*") if last > first else ():
        if not file.name.startswith("."):
            for line in file.read_text().splitlines()[1:]:
                said = json.loads(line)
                if first < said["batchId"] <= last:
                    entries[said["path"]] = said["batchId"], Path(unquote(urlparse(said["path"]).path))
    paths = [path for _, path in sorted(entries.values(), key=lambda entry: entry[0])]
    return sorted(paths, key=lambda path: -path.stat().st_size)


def _put(batch: Batch, file: Path) -> None:
    relation, table = file.parent.name, pq.read_table(file)
    rows = tuples(table)
    if table.column_names[0] == "op":
        inserts, deletes = ([r[1:] for r in rows if r[0] == op] for op in "+-")
        batch.changes.append(("table", relation, inserts, deletes))
    else:
        batch.rows.setdefault(relation, []).append(rows)

"""Counts: what a pipeline has read and answered since its first micro-batch, for whoever asks without Spark.

The driver writes them when a micro-batch is delivered: those of the batch before, plus what its reports say. A replayed
batch writes the same again. They inform people and decide nothing: where they are missing (a checkpoint begun by an
older version, a lost file) counting starts anew, and `since` tells from which micro-batch on.

Cost: one file a micro-batch, about 60 bytes for each stream, table, and family that has had changes.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from eddyline.spark.run.disk import writing

FORMAT = 1
KEPT = 10  # counts of so many past micro-batches stay


class RelationCounts(NamedTuple):
    """Of a stream, or of a table that has a source."""

    rows: int = 0  # read, with those set apart
    late: int = 0
    bad: int = 0  # rows, and files that could not be read at all
    batch: int | None = None  # the last micro-batch that brought rows


class FamilyCounts(NamedTuple):
    changes: int  # of all its queries
    batch: int  # the last micro-batch that had some
    at: float  # when that was delivered, in seconds since 1970


@dataclass(frozen=True)
class Counts:
    batch: int = -1  # the last micro-batch that was counted; -1: none
    since: int = 0  # the first one
    version: int = 0  # of the catalog: the last commit in force
    relations: Mapping[str, RelationCounts] = field(default_factory=dict)  # by name in lower case
    families: Mapping[int, FamilyCounts] = field(default_factory=dict)  # by number; without those that had no change
    tables: Mapping[str, int] = field(default_factory=dict)  # rows that tables hold now, by name in lower case

    @property
    def complete(self) -> bool:
        """Whether every micro-batch of the checkpoint was counted."""
        return self.since == 0


def counted(
    before: Counts, batch: int, reports: Sequence[Mapping[str, Any]], standing: Collection[int], now: float
) -> Counts:
    """The counts after a micro-batch: those before it and what its reports say, for the families that still stand."""
    packed = [p for r in reports for p in r["packed"]]
    relations = dict(before.relations)
    for p in packed:
        if p["relation"] and p["rows"]:
            old = relations.get(p["relation"].lower(), RelationCounts())
            sums = RelationCounts(old.rows + p["rows"], old.late + p["late"], old.bad + p["bad"], batch)
            relations[p["relation"].lower()] = sums
    for relation, files in (item for r in reports for item in r.get("bad_files", {}).items()):
        old = relations.get(relation.lower(), RelationCounts())
        relations[relation.lower()] = old._replace(bad=old.bad + len(files))
    families = {n: f for n, f in before.families.items() if n in standing}
    for number, changes in sum_by_number(r["matches"] for r in (*reports, *packed)).items():
        if changes and number in standing:
            earlier = families[number].changes if number in families else 0
            families[number] = FamilyCounts(earlier + changes, batch, now)
    since = before.since if before.batch == batch - 1 else batch
    version = min(r["version"] for r in reports)
    return Counts(batch, since, version, relations, families, dict(reports[0].get("table_rows", {})))


def sum_by_number(counts: Iterable[Mapping[Any, int]]) -> dict[int, int]:
    """Counts by the number of a family, which JSON has made text."""
    found: dict[int, int] = {}
    for given in counts:
        for number, count in given.items():
            found[int(number)] = found.get(int(number), 0) + count
    return found


def write_counts(own: Path, batch: int, reports: Sequence[Mapping[str, Any]], standing: Collection[int]) -> None:
    """`own` is the folder of Eddyline's files in the checkpoint."""
    before = (_read(_file(own, batch - 1)) if batch else None) or Counts()
    new = counted(before, batch, reports, standing, time.time())
    said = {
        "format": FORMAT,
        "batch": new.batch,
        "since": new.since,
        "version": new.version,
        "relations": new.relations,
        "families": new.families,
        "tables": new.tables,
    }
    file = _file(own, batch)
    file.parent.mkdir(parents=True, exist_ok=True)
    beside = file.with_name(f".{file.name}")
    with writing(f"The file {str(file)!r}"):
        beside.write_text(json.dumps(said))
        os.replace(beside, file)
    _file(own, batch - KEPT).unlink(missing_ok=True)


def read_counts(own: Path) -> Counts | None:
    """Of the last micro-batch that was counted; None if there is none."""
    for file in sorted((own / "counts").glob("[0-9]*.json"), reverse=True):
        found = _read(file)
        if found is not None:
            return found
    return None


def _file(own: Path, batch: int) -> Path:
    return own / "counts" / f"{batch:09}.json"


def _read(file: Path) -> Counts | None:
    try:
        said = json.loads(file.read_text())
        if said["format"] != FORMAT:
            return None
        relations = {name: RelationCounts(*r) for name, r in said["relations"].items()}
        families = {int(n): FamilyCounts(*f) for n, f in said["families"].items()}
        return Counts(said["batch"], said["since"], said["version"], relations, families, said["tables"])
    except (OSError, ValueError, KeyError, TypeError):
        return None

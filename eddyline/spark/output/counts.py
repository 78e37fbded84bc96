"""Counts of rows and changes since the first micro-batch, readable without Spark.

The driver writes them when a micro-batch is delivered: the counts before it plus those in its reports. A replay writes
the same counts. They only inform: where they are missing (a checkpoint of an older version, a lost file), counting
restarts, and `since` is the first micro-batch counted.

Cost: one file a micro-batch, about 60 bytes for each stream, table, and family that has had changes.
"""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from eddyline.spark.run.settings import write_whole

FORMAT = 1
KEPT = 10  # past micro-batches whose counts are kept


class RelationCounts(NamedTuple):
    """The counts of a stream, or of a table that has a source."""

    rows: int = 0  # read, including rows set apart
    late: int = 0
    bad: int = 0  # rows, and unreadable files
    batch: int | None = None  # the last micro-batch with rows


class FamilyCounts(NamedTuple):
    changes: int  # of all its queries
    batch: int  # the last micro-batch with changes
    at: float  # when that was delivered, in seconds since 1970


@dataclass(frozen=True)
class Counts:
    batch: int = -1  # the last micro-batch that was counted; -1: none
    since: int = 0  # the first one
    version: int = 0  # of the catalog: the last commit in force
    relations: Mapping[str, RelationCounts] = field(default_factory=dict)  # by name in lower case
    families: Mapping[int, FamilyCounts] = field(default_factory=dict)  # by number; only families with changes
    tables: Mapping[str, int] = field(default_factory=dict)  # current number of rows, by name in lower case

    @property
    def complete(self) -> bool:
        """Whether every micro-batch of the checkpoint was counted."""
        return self.since == 0


def counted(
    before: Counts, batch: int, reports: Sequence[Mapping[str, Any]], registered: Collection[int], now: float
) -> Counts:
    """The counts after a micro-batch: the counts before it plus its reports; `registered` are the existing families."""
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
    families = {n: f for n, f in before.families.items() if n in registered}
    for number, changes in sum_by_number(r["matches"] for r in (*reports, *packed)).items():
        if changes and number in registered:
            earlier = families[number].changes if number in families else 0
            families[number] = FamilyCounts(earlier + changes, batch, now)
    since = before.since if before.batch == batch - 1 else batch
    version = min(r["version"] for r in reports)
    return Counts(batch, since, version, relations, families, dict(reports[0].get("table_rows", {})))


def sum_by_number(counts: Iterable[Mapping[Any, int]]) -> dict[int, int]:
    """Sums counts by family number; JSON has the numbers as text."""
    sums: dict[int, int] = {}
    for part in counts:
        for number, count in part.items():
            sums[int(number)] = sums.get(int(number), 0) + count
    return sums


def write_counts(own: Path, batch: int, reports: Sequence[Mapping[str, Any]], registered: Collection[int]) -> None:
    """`own` is the folder of Eddyline's files in the checkpoint."""
    before = (_read(_file(own, batch - 1)) if batch else None) or Counts()
    new = counted(before, batch, reports, registered, time.time())
    write_whole(_file(own, batch), json.dumps({"format": FORMAT, **asdict(new)}), "none")
    _file(own, batch - KEPT).unlink(missing_ok=True)


def read_counts(own: Path) -> Counts | None:
    """The counts of the last micro-batch that has some; None if there are none."""
    for file in sorted((own / "counts").glob("[0-9]*.json"), reverse=True):
        counts = _read(file)
        if counts is not None:
            return counts
    return None


def _file(own: Path, batch: int) -> Path:
    return own / "counts" / f"{batch:09}.json"


def _read(file: Path) -> Counts | None:
    try:
        content = json.loads(file.read_text())
        if content["format"] != FORMAT:
            return None
        relations = {name: RelationCounts(*r) for name, r in content["relations"].items()}
        families = {int(n): FamilyCounts(*f) for n, f in content["families"].items()}
        return Counts(content["batch"], content["since"], content["version"], relations, families, content["tables"])
    except (OSError, ValueError, KeyError, TypeError):
        return None

"""The pipeline under test: its script, its input, and what is known of it from outside.

Rows have unique ids. The queries `all_r` and `all_s` select every row, so that the sink itself tells which rows were
processed in which micro-batch; the other queries are recounted from these rows (`recount.py`).
"""

from __future__ import annotations

import json
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

STREAMS = ("r", "s")
KEYS = 20
ROWS = 100  # in a file
STEP = 1_000_000  # microseconds of event time from one file of a stream to the next
DELAY, PAIR, BUSY = 5, 2, 10  # seconds: of the watermark, of the windows of `pairs` and of `busy`
PERMANENT = 50  # queries of the family `above` that are never dropped
SCRIPT = f"""
CREATE STREAM r (id BIGINT, k INT, x DOUBLE, ts TIMESTAMP) WATERMARK ts DELAY OF INTERVAL {DELAY} SECONDS
  USING parquet OPTIONS (path '{{folder}}/in/r', maxFilesPerTrigger '20');
CREATE STREAM s (id BIGINT, k INT, x DOUBLE, ts TIMESTAMP) WATERMARK ts DELAY OF INTERVAL {DELAY} SECONDS
  USING parquet OPTIONS (path '{{folder}}/in/s', maxFilesPerTrigger '20');
CREATE CONTINUOUS QUERY all_r AS SELECT id FROM r;
CREATE CONTINUOUS QUERY all_s AS SELECT id FROM s WHERE k IS NOT NULL;
CREATE QUERY FAMILY above (lo DOUBLE, hi DOUBLE) AS SELECT id, x FROM r WHERE x BETWEEN :lo AND :hi;
CREATE CONTINUOUS QUERY pairs AS SELECT a.id AS r, b.id AS s
  FROM r [RANGE {PAIR} SECONDS] a, s [RANGE {PAIR} SECONDS] b WHERE a.k = b.k;
CREATE CONTINUOUS QUERY busy AS SELECT k, COUNT(*) AS n, SUM(x) AS total FROM r [RANGE {BUSY} SECONDS] GROUP BY k;
CREATE SINK out USING parquet OPTIONS (path '{{folder}}/disk/out');
"""


@dataclass
class World:
    """The folder: `in` holds the input, `raw` a copy of it that nobody deletes, `disk` what the pipeline writes."""

    folder: Path
    rnd: Random
    files: int = 0  # of each stream, written so far
    deleted: list[str] = field(default_factory=list)  # names of input files that were deleted
    restores: list[tuple[float, int]] = field(default_factory=list)  # when, and to which version of the catalog
    amended: dict[int, int] = field(default_factory=dict)  # versions of the catalog, by micro-batch

    @property
    def checkpoint(self) -> Path:
        return self.folder / "disk" / "ck"

    @property
    def out(self) -> Path:
        return self.folder / "disk" / "out"

    @property
    def script(self) -> Path:
        return self.folder / "pipeline.sql"

    def prepare(self) -> None:
        for name in ("disk", "operations", *(f"{kind}/{s}" for kind in ("in", "raw") for s in STREAMS)):
            (self.folder / name).mkdir(parents=True)
        self.script.write_text(SCRIPT.format(folder=self.folder))

    def give(self) -> None:
        """One more file of each stream. Times ascend within a file up to ties; few rows are late."""
        rng = np.random.default_rng(self.rnd.randrange(2**32))
        for number, stream in enumerate(STREAMS):
            first = (2 * self.files + number) * ROWS
            ts = self.files * STEP + np.sort(rng.integers(0, STEP // 1000, ROWS)) * 1000
            table = pa.table(
                {
                    "id": pa.array(np.arange(first, first + ROWS)),
                    "k": pa.array(rng.integers(0, KEYS, ROWS), pa.int32()),
                    "x": rng.normal(0, 10.0 ** rng.integers(-3, 6, ROWS)),
                    "ts": pa.array(ts, pa.timestamp("us")).cast(pa.timestamp("us", "UTC")),
                }
            )
            name = f"{self.files:06}.parquet"
            pq.write_table(table, self.folder / "raw" / stream / name)
            beside = self.folder / "in" / stream / f".{name}"
            pq.write_table(table, beside)
            beside.rename(beside.with_name(name))
        self.files += 1

    def delete_input(self) -> str:
        """Deletes one of the newest files: it may have been read, or listed, or neither."""
        stream = self.rnd.choice(STREAMS)
        name = f"{max(0, self.files - self.rnd.randint(1, 3)):06}.parquet"
        (self.folder / "in" / stream / name).unlink(missing_ok=True)
        self.deleted.append(f"{stream}/{name}")
        return f"{stream}/{name}"

    def note_amendments(self) -> None:
        """The pipeline removes amendments that are long past; the recount needs them."""
        for file in (self.checkpoint / "eddyline" / "amendments").glob("*.json"):
            with suppress(OSError, ValueError):
                said = json.loads(file.read_text())
                self.amended[said["batch"]] = said["commit"]

    def restored(self, version: int) -> None:
        """The checkpoint is an earlier one again, with this version of the catalog."""
        self.restores.append((time.time(), version))
        self.amended = {b: commit for b, commit in self.amended.items() if b <= self.committed()}
        self.note_amendments()

    def raw(self, stream: str) -> pa.Table:
        return pq.read_table(sorted((self.folder / "raw" / stream).glob("*.parquet")))

    def committed(self) -> int:
        """The number of the last micro-batch that has ended; -1 if none has."""
        return max((int(f.name) for f in (self.checkpoint / "commits").glob("*") if f.name.isdigit()), default=-1)


@dataclass(frozen=True)
class Operation:
    """One commit of a process that registers and drops queries: when, as which version of the catalog, and what."""

    at: float
    version: int
    added: dict[str, tuple[float, float]]
    dropped: list[str]


def record(file: Path, version: int, added: dict[str, tuple[float, float]], dropped: list[str]) -> None:
    with file.open("a") as f:
        f.write(json.dumps([time.time(), version, added, dropped]) + "\n")


def operations(world: World) -> list[Operation]:
    """All of them that no restore has undone, in the order of versions."""
    found = []
    for file in (world.folder / "operations").glob("*.jsonl"):
        for line in file.read_text().splitlines():
            at, version, added, dropped = json.loads(line)
            undone = any(at < when and version > kept for when, kept in world.restores)
            if not undone:
                found.append(Operation(at, version, {q: (lo, hi) for q, (lo, hi) in added.items()}, dropped))
    return sorted(found, key=lambda o: o.version)

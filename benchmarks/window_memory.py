"""Memory of a 10-minute window over 5,000,000 rows, by operator: bytes a row, at the end of each of ten windows.

One process for each operator. Its parent reads the resident set beyond that of the process before the first row, when
freed memory has been returned to the system. `stats()` says which part of it is state. Queries with two inputs have
half of the rows in each. Rows have one of 1,000,000 values, arrive in pushes of 50,000, and their changes are counted.
Memory is flat if no window takes more than 1.1 times the memory of the second; at the end of the first, nothing has
expired yet. Answers are not stored (`snapshot = 'no'`), except for one DISTINCT that shows what this takes.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks._report import Figure, report

ROWS, WINDOWS, BATCH, VALUES = 5_000_000, 10, 50_000, 1_000_000
WINDOW, BEGIN = 600_000_000, 1_800_000_000_000_000  # microseconds
FLAT = 1.1  # the largest of the later windows against the second
KILOBYTE = 1024


@dataclass(frozen=True)
class Kind:
    name: str
    select: str
    streams: str = "s"
    options: str = "snapshot = 'no'"


KINDS = (
    Kind(
        "join",
        "SELECT s.v, s.x, r.x AS y FROM s [RANGE 10 MINUTES], r [RANGE 10 MINUTES] WHERE s.v = r.v",
        "sr",
    ),
    Kind("DISTINCT", "SELECT DISTINCT v FROM s [RANGE 10 MINUTES]"),
    Kind("DISTINCT, with its answer", "SELECT DISTINCT v FROM s [RANGE 10 MINUTES]", options=""),
    Kind("GROUP BY", "SELECT v, COUNT(*) AS n, SUM(x) AS t FROM s [RANGE 10 MINUTES] GROUP BY v"),
    Kind("EXCEPT ALL", "SELECT v FROM s [RANGE 10 MINUTES] EXCEPT ALL SELECT v FROM r [RANGE 10 MINUTES]", "sr"),
    Kind("count window", f"SELECT v, x FROM s [ROWS {ROWS}]"),
)


def connection(kind: Kind) -> Any:
    import eddyline

    db = eddyline.connect()
    for stream in kind.streams:
        db.execute(f"CREATE STREAM {stream} (v INT, x INT, ts TIMESTAMP) WATERMARK ts")
    options = f"WITH ({kind.options}) " if kind.options else ""
    db.execute(f"CREATE CONTINUOUS QUERY q {options}AS {kind.select}")
    return db


def push(db: Any, kind: Kind, start: int, count: int) -> tuple[int, float]:
    """Pushes the rows from a position on; returns the number of changes, and the processor time that they took."""
    rng = np.random.default_rng(start)
    changes, seconds = 0, 0.0
    for i, stream in enumerate(kind.streams):
        position = np.arange(start + i, start + count, len(kind.streams))
        values, x = (rng.integers(0, most, len(position), np.int32) for most in (VALUES, 1000))
        ts = pa.array(BEGIN + position * (WINDOW // ROWS), pa.timestamp("us"))
        rows = pa.table({"v": values, "x": x, "ts": ts})
        began = time.process_time()
        changes += db.push(stream, rows).count()
        seconds += time.process_time() - began
    return changes, seconds


def child(kind: Kind, windows: int) -> None:
    """Says at the end of each window what `stats()` counts, and waits for the parent to read its memory."""
    pa.set_memory_pool(pa.system_memory_pool())  # it returns all that is free
    warming = connection(kind)
    push(warming, kind, 0, BATCH)
    push(warming, kind, ROWS, BATCH)
    warming.stats()
    del warming
    db = connection(kind)
    _wait({})
    for window in range(windows):
        changes, seconds = 0, 0.0
        for start in range(window * ROWS, (window + 1) * ROWS, BATCH):
            more, spent = push(db, kind, start, BATCH)
            changes, seconds = changes + more, seconds + spent
        stats = db.stats()
        rows, size = (sum(stats[f"{of}_{what}"] for of in ("state", "shared")) for what in ("rows", "bytes"))
        _wait({"changes": changes, "seconds": seconds, "rows": rows, "state": size})


def _wait(measures: dict[str, float]) -> None:
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    print(json.dumps(measures), flush=True)
    sys.stdin.readline()


def measured(kind: Kind, windows: int) -> list[dict[str, float]]:
    """By window: the bytes that are resident, those that `stats()` counts, rows of state, changes, processor time."""
    print(kind.name, file=sys.stderr)
    command = [sys.executable, "-m", "benchmarks.window_memory", "--child", kind.name, "--windows", str(windows)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None and process.stdout is not None
    points = list[dict[str, float]]()
    for line in process.stdout:
        status = Path(f"/proc/{process.pid}/status").read_text()
        resident, peak = (float(status.split(f"{of}:")[1].split()[0]) * KILOBYTE for of in ("VmRSS", "VmHWM"))
        points.append(json.loads(line) | {"resident": resident, "peak": peak})
        process.stdin.write("\n")
        process.stdin.flush()
    if process.wait():
        raise RuntimeError(f"{kind.name} failed with status {process.returncode}")
    empty = points[0]["resident"]
    return [p | {of: p[of] - empty for of in ("resident", "peak")} for p in points[1:]]


def figures_of(kind: Kind, points: list[dict[str, float]]) -> list[Figure]:
    later = points[1:]
    resident, state, peak = (max(p[of] for p in later) for of in ("resident", "state", "peak"))
    seconds = sum(p["seconds"] for p in later)
    return [
        Figure(f"{kind.name}, resident memory", resident / ROWS, "bytes a row"),
        Figure(f"{kind.name}, state by stats()", state / ROWS, "bytes a row"),
        Figure(f"{kind.name}, peak of resident memory", peak / ROWS, "bytes a row"),
        Figure(f"{kind.name}, the largest window against the second", resident / later[0]["resident"], "times", FLAT),
        Figure(f"{kind.name}, rows pushed", len(later) * ROWS / seconds, "rows/s"),
    ]


def main(windows: int = WINDOWS) -> bool:
    points = {kind: measured(kind, windows) for kind in KINDS}
    figures = [figure for kind in KINDS for figure in figures_of(kind, points[kind])]
    return report("window-memory", figures, {kind.name: points[kind] for kind in KINDS})


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--windows", type=int, default=WINDOWS)
    parser.add_argument("--child", choices=[kind.name for kind in KINDS], help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child is None:
        sys.exit(0 if main(given.windows) else 1)
    child(next(kind for kind in KINDS if kind.name == given.child), given.windows)

"""One row pushed while very many rows are in the answer: CPU time per push with 10,000, 100,000 and 1,000,000 rows.

Half of the pushed rows have a new value, half an old one, and each push lets the oldest row of the window end.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

import eddyline
from benchmarks._report import Figure, report
from eddyline.local.connection import Connection

SIZES = (10_000, 100_000, 1_000_000)
PUSHES, WARMING = 300, 50
HOUR, BEGIN = 3_600_000_000, 1_800_000_000_000_000  # microseconds
LIMIT = 2.0  # the largest answer against the smallest


@dataclass(frozen=True)
class Kind:
    name: str
    select: str
    options: str = ""
    two_streams: bool = False


KINDS = (
    Kind("DISTINCT", "SELECT DISTINCT v FROM s [RANGE 1 HOUR]"),
    Kind("DISTINCT over a count window", "SELECT DISTINCT v FROM s [ROWS {rows}]"),
    Kind(
        "EXCEPT ALL",
        "SELECT v FROM s [RANGE 1 HOUR] EXCEPT ALL SELECT v FROM r [RANGE 1 HOUR]",
        two_streams=True,
    ),
    Kind("GROUP BY, COUNT and SUM", "SELECT v, COUNT(*) AS n, SUM(x) AS t FROM s [RANGE 1 HOUR] GROUP BY v"),
    Kind("GROUP BY, MAX", "SELECT v, MAX(x) AS most FROM s [RANGE 1 HOUR] GROUP BY v"),
    Kind("emit = 'all'", "SELECT v FROM s [RANGE 1 HOUR]", "WITH (emit = 'all') "),
    Kind("count window", "SELECT v FROM s [ROWS {rows}]"),
)


def batch(values: np.ndarray, ts: np.ndarray) -> pa.Table:
    x = np.full(len(values), 0.25)
    return pa.table({"v": pa.array(values, pa.int32()), "x": x, "ts": pa.array(ts, pa.timestamp("us"))})


def filled(kind: Kind, rows: int) -> Connection:
    """A connection with one query that has so many rows in its answer."""
    db = eddyline.connect()
    for stream in ("s", "r"):
        db.execute(f"CREATE STREAM {stream} (v INT, x DOUBLE, ts TIMESTAMP) WATERMARK ts DELAY OF INTERVAL 0 SECONDS")
    db.execute(f"CREATE CONTINUOUS QUERY q {kind.options}AS {kind.select.format(rows=rows)}")
    values, ts = np.arange(rows), BEGIN + np.arange(rows) * (HOUR // rows)
    for part in np.array_split(np.arange(rows), rows // 10_000):
        changes = db.push("s", batch(values[part], ts[part])).count()
        if kind.two_streams:  # a value that no row of s has, so that time passes
            changes += db.push("r", batch(np.array([-1]), ts[part][-1:])).count()
        assert changes > 0
    return db


def milliseconds(kind: Kind, rows: int) -> float:
    """CPU time per pushed row."""
    db = filled(kind, rows)
    rng = np.random.default_rng(1)
    changes, spent = 0, 0.0
    for i in range(WARMING + PUSHES):
        ts = np.array([BEGIN + (rows + i) * (HOUR // rows)])
        old = rng.integers(rows // 2, rows, 2)
        new = np.array([rows + i]) if i % 2 else old[:1]
        pushed = [("s", batch(new, ts)), *([("r", batch(old[1:], ts))] if kind.two_streams else [])]
        began = time.process_time()
        count = sum(db.push(stream, table).count() for stream, table in pushed)
        if i >= WARMING:
            spent += time.process_time() - began
            changes += count
    assert changes >= PUSHES // 2
    return 1000 * spent / PUSHES


def main() -> bool:
    figures = []
    for kind in KINDS:
        milliseconds(kind, SIZES[0])  # compiles
        spent = [milliseconds(kind, rows) for rows in SIZES]
        figures += [Figure(f"{kind.name}, {n:,} rows", ms, "ms a push") for n, ms in zip(SIZES, spent, strict=True)]
        figures.append(Figure(f"{kind.name}, {SIZES[-1]:,} against {SIZES[0]:,} rows", spent[-1] / spent[0], "", LIMIT))
    return report("large-answers", figures)


if __name__ == "__main__":
    sys.exit(0 if main() else 1)

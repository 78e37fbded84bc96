"""Joins over ranges, composed: several attributes, selections on both sides, keys, windows, aggregates without rows.

100,000 queries of each shape over 100,000 rows of S, through `push` and `count_affected`, on two threads, against
looking at every joined row (`strategy = 'by row'`). Of aggregates, what is measured is taking tuples in: their answers
come when the clock passes.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pyarrow as pa

import eddyline
from benchmarks._join_workloads import KEYS, SPACE
from benchmarks._report import Figure, report
from benchmarks._workloads import best
from eddyline.arrays import Ints

QUERIES = ROWS = 100_000
TUPLES, FEW, PAIRS = 4_000, 100, 200_000  # few for who looks at every joined row, and no more than so many results
WORLD = """
CREATE STREAM r (a INT, b INT, k INT, ts TIMESTAMP) WATERMARK ts DELAY OF INTERVAL 0 SECONDS;
CREATE STREAM s (b INT, c INT, d INT, k INT, ts TIMESTAMP) WATERMARK ts DELAY OF INTERVAL 0 SECONDS;
"""
ROWS_OF = "SELECT r.a, s.c FROM r [RANGE 1 HOUR], s [RANGE 1 HOUR] WHERE "
SHAPES = {
    "one attribute of each": ROWS_OF + "r.b = s.b AND r.a BETWEEN :a1 AND :a2 AND s.c BETWEEN :c1 AND :c2",
    "two attributes of S": ROWS_OF + "r.b = s.b AND r.a BETWEEN :a1 AND :a2 AND s.c BETWEEN :c1 AND :c2 AND s.d < :d",
    "two boxes": ROWS_OF + "r.b = s.b AND r.a BETWEEN :a1 AND :a2 AND r.k >= :k AND s.c BETWEEN :c1 AND :c2 "
    "AND s.d BETWEEN :d AND :d2",
    "band, selections on both sides": ROWS_OF + "r.k = s.k AND s.b - r.b BETWEEN :lo AND :hi "
    "AND r.a BETWEEN :a1 AND :a2 AND s.c BETWEEN :c1 AND :c2",
    "band as sums, in order of time": ROWS_OF + "r.k = s.k AND s.b >= r.b + :lo AND s.b <= r.b + :hi AND s.ts <= r.ts",
    "windows of their own": "SELECT r.a, s.c FROM r [RANGE :w SECONDS], s [RANGE :w SECONDS] WHERE r.b = s.b "
    "AND r.a BETWEEN :a1 AND :a2 AND s.c BETWEEN :c1 AND :c2",
    "COUNT and SUM": "SELECT COUNT(*) AS n, SUM(s.c) AS c FROM r [RANGE 1 HOUR], s WHERE r.b = s.b "
    "AND r.a BETWEEN :a1 AND :a2 AND s.c BETWEEN :c1 AND :c2",
}
PARAMS = ("a1", "a2", "c1", "c2", "d", "d2", "k", "lo", "hi", "w")


def parameters() -> pa.Table:
    rng = np.random.default_rng(4)
    a, c, d = rng.integers(0, SPACE, (3, QUERIES))
    lo = rng.integers(-KEYS, KEYS, QUERIES)
    values = (a, a + SPACE // 10, c, c + SPACE // 21, d, d + SPACE // 5, rng.integers(0, 50, QUERIES), lo, lo + 100,
              rng.integers(0, 3_600, QUERIES))  # fmt: skip
    columns = {n: v.astype(np.int32) for n, v in zip(PARAMS, values, strict=True)}
    return pa.table({"query": [f"q{i}" for i in range(QUERIES)]} | columns)


def rows(seed: int, n: int, names: str, seconds: Ints) -> pa.Table:
    rng = np.random.default_rng(seed)
    columns = {name: rng.integers(0, SPACE, n) for name in names}
    columns |= {"b": rng.integers(0, KEYS, n), "k": rng.integers(0, 100, n)}
    ts = pa.array(seconds * 1_000_000, pa.timestamp("us"))
    return pa.table({name: v.astype(np.int32) for name, v in columns.items()} | {"ts": ts})


def connection(text: str, strategy: str) -> Any:
    db = eddyline.connect(threads=2)
    params = ", ".join(f"{p} INT" for p in PARAMS)
    db.execute(f"{WORLD} CREATE QUERY FAMILY f ({params}) WITH (snapshot = 'no', strategy = '{strategy}') AS {text}")
    db.register("f", parameters())
    db.push("s", rows(5, ROWS, "cd", np.sort(np.random.default_rng(6).integers(0, 3_000, ROWS))))
    return db


def seconds_a_tuple(text: str, strategy: str, tuples: int, times: int) -> tuple[float, float]:
    """And how many queries one affects."""
    db = connection(text, strategy)
    batches = iter([rows(7, tuples, "a", np.full(tuples, 3_000 + i)) for i in range(times + 1)])
    found = db.push("r", next(batches)).count_affected("f") / tuples
    return best(lambda: db.push("r", next(batches)).count_affected("f"), times) / tuples, found


def main() -> bool:
    figures = []
    for name, text in SHAPES.items():
        fast, found = seconds_a_tuple(text, "auto", TUPLES, 4)
        slow, _ = seconds_a_tuple(text, "by row", min(FEW, int(PAIRS // max(found, 1))), 1)
        if found:
            figures.append(Figure(f"{name}: affected queries a tuple", found, ""))
        figures += [
            Figure(f"{name}: a tuple", fast * 1e6, "µs"),
            Figure(f"{name}: times as fast as by row", slow / fast, ""),
        ]
    return report("ssi-composed", figures)


if __name__ == "__main__":
    sys.exit(0 if main() else 1)

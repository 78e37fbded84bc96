"""Many families over one stream, and many count windows: what each costs a push of 100 rows.

Families of aggregates of different shapes share no operators, so each pays the fixed cost of a step. Count windows of
one family differ in their sizes and in what they have seen; they share one log of rows.
"""

from __future__ import annotations

import sys
import time
from itertools import product

import numpy as np
import pyarrow as pa

import eddyline
from benchmarks._report import Figure, report

ROWS, PUSHES = 100, 12
KEYS = ("a", "b", "c", "a, b", "a, c", "b, c", "a, b, c", "a % 2", "b % 3", "c % 5")
AGGREGATES = ("COUNT(*)", "SUM(x)", "AVG(y)", "MIN(x)", "MAX(y)", "SUM(x), COUNT(y)", "SUM(y), MAX(x)", "COUNT(x)")
CONDITIONS = ("", "WHERE x > 1", "WHERE y < 90", "WHERE x > 1 AND y < 90", "WHERE a <> 3")
SHAPES = list(product(CONDITIONS, AGGREGATES, KEYS))
STREAM = (
    "CREATE STREAM s (a INT, b INT, c INT, x DOUBLE, y DOUBLE, ts TIMESTAMP) WATERMARK ts DELAY OF INTERVAL 0 SECONDS"
)


def rows(rng: np.random.Generator, second: int) -> pa.Table:
    ts = 1_000_000 * second + np.sort(rng.integers(0, 1_000_000, ROWS))
    ints = {c: pa.array(rng.integers(0, 20, ROWS), pa.int32()) for c in "abc"}
    floats = {c: rng.random(ROWS) * 100 for c in "xy"}
    return pa.table(ints | floats | {"ts": pa.array(ts, pa.timestamp("us"))})


def text(shape: tuple[str, str, str]) -> str:
    condition, aggregates, keys = shape
    named = ", ".join(f"{a} AS v{i}" for i, a in enumerate(aggregates.split(", ")))
    keyed = ", ".join(f"{k} AS k{i}" for i, k in enumerate(keys.split(", ")))
    return f"SELECT {keyed}, {named} FROM s [RANGE 5 SECONDS] {condition} GROUP BY {keys}"


def families(n: int) -> float:
    """Milliseconds of processor time a push, by the median, with n families of aggregates."""
    rng = np.random.default_rng(3)
    db = eddyline.connect()
    db.execute(STREAM)
    for i, shape in enumerate(SHAPES[:: len(SHAPES) // n][:n]):
        db.execute(f"CREATE CONTINUOUS QUERY q{i} AS {text(shape)}")
    return pushes(db, rng, 0)


def windows(n: int, *, one_by_one: bool) -> float:
    """Milliseconds a push with n count windows; `one_by_one`: every other one has seen one row more."""
    rng = np.random.default_rng(4)
    db = eddyline.connect()
    db.execute(STREAM)
    for i in range(n):
        db.execute(f"CREATE CONTINUOUS QUERY q{i} AS SELECT a, x FROM s [ROWS {1 + i % 100}]")
        if one_by_one and i % 2:
            db.push("s", rows(rng, i).slice(0, 1))
    return pushes(db, rng, n)


def pushes(db: eddyline.Connection, rng: np.random.Generator, second: int) -> float:
    taken = []
    for i in range(PUSHES):
        batch = rows(rng, second + i)
        began = time.process_time()
        db.push("s", batch).count()
        taken.append(1000 * (time.process_time() - began))
    return float(np.median(taken[2:]))


def main() -> bool:
    families(2), windows(2, one_by_one=True)
    by_number = {n: families(n) for n in (1, 25, 100, 400)}
    by_class = {n: windows(n, one_by_one=True) for n in (1, 25, 100, 590)}
    return report(
        "many-families",
        [
            Figure("one family of aggregates, a push of 100 rows", by_number[1], "ms"),
            Figure("400 families, a push", by_number[400], "ms"),
            Figure("400 families, each", by_number[400] / 400, "ms"),
            Figure("a family among 400, as a share of one alone", by_number[400] / 400 / by_number[1], ""),
            Figure("one count window, a push", by_class[1], "ms"),
            Figure("590 count windows registered one by one, a push", by_class[590], "ms"),
            Figure("590 count windows against one", by_class[590] / by_class[1], "times"),
        ],
        {
            "families": [{"families": n, "milliseconds": t} for n, t in by_number.items()],
            "count windows": [{"windows": n, "milliseconds": t} for n, t in by_class.items()],
        },
    )


if __name__ == "__main__":
    sys.exit(0 if main() else 1)

"""Small workloads that call every kernel of the product with the types of arrays that it is called with.

`eddyline doctor --warm` runs them so that kernels are compiled before they are needed. They go through the in-process
host, and through the routing of rows to buckets, which only Spark needs; `tests/cli/test_warming.py` compares what they
compile with what other workloads need.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from eddyline.index.keys.bucket_hash import bucket_of, reach
from eddyline.local.connection import Connection
from eddyline.local.storage import restore

BEGIN = np.datetime64("2026-01-01T00:00:00", "us")
RELATIONS = """
CREATE STREAM r (k STRING, a INT, x DOUBLE, ts TIMESTAMP) WATERMARK ts DELAY OF INTERVAL 1 SECOND;
CREATE STREAM s (k STRING, a INT, x DOUBLE, ts TIMESTAMP) WATERMARK ts DELAY OF INTERVAL 1 SECOND;
CREATE TABLE t (k STRING, a INT, x DOUBLE)
"""
PARAMS = "k STRING, lo INT, hi INT, u DOUBLE, v DOUBLE, w INT, z INT"
R, S = "r [RANGE 20 SECONDS]", "s [RANGE 20 SECONDS]"

FILTERS = (
    "SELECT a, x FROM r WHERE k = :k AND x BETWEEN :u AND :v",
    "SELECT a, x FROM r WHERE x BETWEEN :u AND :v AND a > :lo",
    "SELECT a, x FROM r WHERE a < :w OR x > :u OR a IN (:lo, :hi)",
    "SELECT k FROM s WHERE k LIKE 'k%' AND k >= :k AND x IS NOT NULL AND a <> :w",
    f"SELECT k FROM s WHERE a IN ({', '.join(map(str, range(100)))}) AND x > :u",
)
NARROW = (
    "SELECT x FROM r WHERE k = :k AND a = :lo AND x BETWEEN :u AND :u + 0.001",
)  # by the thousand: in trees of boxes
KEYS = (
    f"SELECT k, COUNT(*) AS n, AVG(x) AS m, SUM(a) AS b FROM {R} WHERE k = :k GROUP BY k HAVING COUNT(*) >= :lo",
    f"SELECT k, MIN(x) AS low, MAX(a) AS high, SUM(x) AS b FROM {R} WHERE a < :hi GROUP BY k",
    "SELECT SUM(x) AS b FROM r [RANGE :w SECONDS] WHERE a < :hi",
    "SELECT COUNT(*) AS n FROM r [RANGE :w SECONDS] WHERE a < :hi AND x > :u",
    "SELECT DISTINCT k, a FROM r [ROWS 5] WHERE a > :lo",
    "SELECT DISTINCT k, a FROM r [RANGE :w SECONDS] WHERE a > :lo",
    "SELECT k, x FROM s [ROWS 5]",
    "SELECT r.x FROM r [ROWS 5], s [ROWS 6] WHERE r.k = s.k AND r.a > :lo",
    f"SELECT k FROM {R} WHERE a > :lo EXCEPT ALL SELECT k FROM {S} WHERE a < :hi",
    f"SELECT k FROM {R} WHERE a > :lo INTERSECT ALL SELECT k FROM t WHERE a < :hi",
    f"SELECT r.x FROM (SELECT k, x, ts FROM {R} WHERE a > :lo UNION ALL SELECT k, x, ts FROM {S}) r, t WHERE r.k = t.k",
)
RANGES = (
    f"SELECT r.x FROM {R}, {S} WHERE r.k = s.k AND r.k = :k AND abs(r.ts - s.ts) <= INTERVAL :w SECONDS",
    "SELECT r.x FROM r [RANGE :w SECONDS], t WHERE r.k = t.k AND t.a < :hi",
    f"SELECT r.a, s.x FROM {R}, {S} WHERE s.x - r.x BETWEEN :u AND :v",
    f"SELECT r.a, s.x FROM {R}, s WHERE r.k = s.k AND r.a BETWEEN :lo AND :hi AND s.x >= :u AND s.x < :v",
    f"SELECT r.a, s.x FROM {R}, s WHERE s.a >= r.a + :lo AND s.a <= r.a + :hi AND r.x < :v",
    "SELECT r.a, s.x FROM r [RANGE :w SECONDS], s [RANGE :z SECONDS] WHERE r.k = s.k AND r.a >= :lo",
    f"SELECT r.a, s.x FROM r, {S} WHERE r.k = s.k AND s.a BETWEEN :lo AND :hi AND s.x > :u AND r.a <= :hi",
    "SELECT r.a, t.x FROM r [RANGE :w SECONDS], t WHERE t.x - r.x BETWEEN :u AND :v AND t.a >= :lo",
    f"SELECT COUNT(*) AS n, SUM(s.a) AS b, AVG(r.x) AS m FROM {R}, {S} WHERE r.k = s.k AND r.a BETWEEN :lo AND :hi",
    f"SELECT COUNT(*) AS n, SUM(s.a) AS b, MAX(r.x) AS m FROM {R}, {S} WHERE s.a > r.a + :lo AND s.a <= r.a + :hi",
    "SELECT MIN(s.a) AS b, MAX(s.x) AS m FROM r [RANGE :w SECONDS], s [RANGE :z SECONDS] "
    "WHERE s.x - r.x BETWEEN :u AND :v",
)
# Queries per shape, and rows per push. The slowest to compile is first.
WORKLOADS = ((RANGES, 400, 60), (KEYS, 400, 600), (FILTERS, 400, 600), (NARROW, 20_000, 60))


def run(selects: Sequence[str], queries: int, rows: int) -> None:
    """Registers queries of each shape, pushes rows, reads all results, and restores a saved connection."""
    rng = np.random.default_rng(1)
    db = Connection()
    db.execute(RELATIONS)
    for i, select in enumerate(selects):
        db.execute(f"CREATE QUERY FAMILY f{i} ({PARAMS}) AS {select}")
        db.register(f"f{i}", _queries(rng, f"f{i} ", queries))
        db.execute(f"CREATE CONTINUOUS QUERY alone{i} AS {_with_constants(select)}")
    _push(db, rng, len(selects), rows, 0)
    for i in range(len(selects)):
        db.drop(f"f{i}", [f"f{i} {n}" for n in range(queries) if n % 10])
        db.register(f"f{i}", _queries(rng, f"g{i} ", queries // 10))
    with tempfile.TemporaryDirectory() as folder:
        db.save(Path(folder) / "saved")
        db = restore(Path(folder) / "saved", None, {}, None)
    _push(db, rng, len(selects), rows, 100)


def route() -> None:
    """Sends rows to buckets, as Spark's packers do."""
    for column in (pa.array(["a", None]), pa.array([1, 2])):
        bucket_of([column, column], 2)
    reach(pa.array([1.0, 2.0]), -1.0, 1.0, 4.0, 2)


def _push(db: Connection, rng: np.random.Generator, families: int, rows: int, clock: int) -> None:
    for i, count in enumerate((1, rows, 3)):
        at = clock + 5 * i
        db.execute(f"INSERT INTO t VALUES ('k1', {i}, {i}.5), ('k2', {i}, -1.0)")
        row = f"('k1', 1, 0.5, TIMESTAMP '{BEGIN + np.timedelta64(at, 's')}')"
        db.execute(f"INSERT INTO r VALUES {row}; INSERT INTO s VALUES {row}")
        changes = [db.push("r", _rows(rng, count, at)), db.push("s", _rows(rng, count, at))]
        changes.append(db.push({"r": _rows(rng, count, at + 2), "s": _rows(rng, count, at + 2)}))
        db.execute(f"DELETE FROM t WHERE a = {i - 1}")
        for change in changes:
            change.count()
            for name in change.queries()[:1]:
                change.rows(name)
            for family in (f"f{n}" for n in range(families)):
                change.count_affected(family)
                change.sets(family)
                change.affected(family)
                change.compact(family)
    for n in range(families):
        db.snapshot(f"alone{n}")


def _rows(rng: np.random.Generator, count: int, at: float) -> pa.Table:
    ts = BEGIN + ((at + rng.uniform(0, 1, count)) * 1e6).astype("timedelta64[us]")
    return pa.table(
        {
            "k": [f"k{k}" for k in rng.integers(0, 4, count)],
            "a": pa.array(rng.integers(-15, 15, count), pa.int32()),
            "x": rng.normal(0, 5, count),
            "ts": pa.array(ts, pa.timestamp("us")),
        }
    )


def _queries(rng: np.random.Generator, prefix: str, count: int) -> pa.Table:
    lo, u = rng.integers(-20, 10, count), rng.uniform(-10, 8, count)
    w, z = rng.integers(1, 20, (2, count))
    columns = {"lo": lo, "hi": lo + 6, "w": w, "z": z}
    return pa.table(
        {
            "query": [f"{prefix}{n}" for n in range(count)],
            "k": [f"k{k}" for k in rng.integers(0, 4, count)],
            "u": u,
            "v": u + rng.choice([0.001, 0.5, 10.0], count),
            **{name: pa.array(values, pa.int32()) for name, values in columns.items()},
        }
    )


def _with_constants(select: str) -> str:
    for name, value in {"k": "'k1'", "lo": "-5", "hi": "5", "u": "-2.0", "v": "2.0", "w": "5", "z": "5"}.items():
        select = select.replace(f":{name}", value)
    return select

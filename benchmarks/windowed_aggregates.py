"""10,000 windowed aggregates over one stream, each with its own range of values, window and moment of registration.

As one family they read their windows from the log of the stream. The same queries as separate plans, one family each
(the name of a column differs), are the baseline: it has the same engine, inputs and batches. Rates are by processor
time, once all windows hold only rows that all queries have seen; the changes of both are compared by a hash. State is
the resident set of a process, beyond one that has loaded all kernels, compared with that of a single query over the
same rows, whose state is the log of the stream.

Identical aggregates that are registered one by one, with rows in between, are one class after a window.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks._report import Figure, report

QUERIES, MOMENTS, SHARE = 10_000, 100, 0.01
BATCH, PUSHES = 1_000, 5
SHORTEST, LONGEST = 2_000, 10_000  # milliseconds, and rows: there is one a millisecond
STRETCH = 20  # by which windows are longer where state is measured
IDENTICAL = 1_000
MEGABYTE = 1024.0  # kB


def constants(count: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    return rng.random(count) * (1 - SHARE), rng.integers(SHORTEST, LONGEST, count)


def rows(start: int, count: int) -> pa.Table:
    rng = np.random.default_rng(start)
    ts = pa.array((start + np.arange(count)) * 1000, pa.timestamp("us"))
    return pa.table({"v": rng.random(count), "x": rng.integers(0, 100, count), "ts": ts})


class Run:
    """One way to run the queries, in a process of its own."""

    def __init__(self, way: str, queries: int) -> None:
        import eddyline

        self.way, self.queries, self.at = way, queries, 0
        self.lo, self.width = constants(queries)
        self.db = eddyline.connect()
        self.db.execute("CREATE STREAM s (v DOUBLE, x BIGINT, ts TIMESTAMP) WATERMARK ts")
        if way == "one family":
            self.db.execute(
                "CREATE QUERY FAMILY f (lo DOUBLE, hi DOUBLE, w INT) WITH (snapshot = 'no') AS SELECT COUNT(*) AS n, "
                "SUM(x) AS t FROM s [RANGE :w MILLISECONDS] WHERE v BETWEEN :lo AND :hi"
            )

    def register(self, first: int, count: int) -> None:
        lo, width = self.lo[first : first + count], self.width[first : first + count]
        names = [f"q{i}" for i in range(first, first + count)]
        if self.way == "one family":
            given = {"query": names, "lo": lo, "hi": lo + SHARE, "w": pa.array(width, pa.int32())}
            self.db.register("f", pa.table(given))
            return
        for i, low, w in zip(range(first, first + count), lo.tolist(), width.tolist(), strict=True):
            self.db.execute(
                f"CREATE CONTINUOUS QUERY q{i} WITH (snapshot = 'no') AS SELECT COUNT(*) AS n{i}, SUM(x) AS t{i} "
                f"FROM s [RANGE {w} MILLISECONDS] WHERE v BETWEEN {low!r} AND {low + SHARE!r}"
            )

    def measure_state(self) -> float:
        self.width = self.width * STRETCH
        self.register(0, self.queries)
        while self.at < STRETCH * LONGEST * 3 // 2:
            self.push(10_000)
        gc.collect()
        pa.default_memory_pool().release_unused()
        ctypes.CDLL(None).malloc_trim(0)
        return _resident()

    def push(self, count: int) -> tuple[float, Any]:
        batch = rows(self.at, count)
        self.at += count
        began = time.process_time()
        changes = self.db.push("s", batch)
        changes.count()
        return time.process_time() - began, changes


def changes_hash(changes: Any) -> int:
    """A sum over the changes of all queries that does not depend on their order."""
    total = 0
    for name in changes.queries():
        table = changes.rows(name)
        values = [table.column(c).fill_null(-1).cast(pa.int64()).to_numpy() for c in range(1, table.num_columns)]
        words = np.where(table.column(0).to_numpy(zero_copy_only=False) == "+", 1, -1).astype(np.int64)
        words = words * 31 + int(name[1:])
        for column in values:
            words = words * np.int64(1_000_003) + column
        total += int((words * np.int64(0x5851F42D4C957F2D)).sum())
    return total % 2**64


def child(way: str, queries: int) -> dict[str, Any]:
    """Rates, once all windows hold only rows that all queries have seen."""
    run = Run(way, queries)
    moments = MOMENTS if way == "one family" else 1  # so many pushes to separate plans would take an hour
    for moment in range(moments):
        begin, end = (queries * m // moments for m in (moment, moment + 1))
        run.register(begin, end - begin)
        run.push(LONGEST // moments)
    run.push(LONGEST)
    seconds, hashed = list[float](), 0
    for _ in range(PUSHES):
        taken, changes = run.push(BATCH)
        seconds.append(taken)
        hashed = (hashed + changes_hash(changes)) % 2**64
    return {"seconds": seconds, "hash": hashed}


def state(queries: int) -> dict[str, Any]:
    """Megabytes of a process beyond one that has loaded all kernels: after queries are registered and rows pushed."""
    Run("one family", 10).measure_state()
    gc.collect()
    before = _resident()
    return {"state": Run("one family", queries).measure_state() - before}


def _resident() -> float:
    status = Path("/proc/self/status").read_text()
    return float(status.split("VmRSS:")[1].split()[0]) / MEGABYTE


def measured(way: str, queries: int) -> dict[str, Any]:
    """What a process of its own reports."""
    print(f"{way}: {queries} queries", file=sys.stderr)
    command = [sys.executable, "-m", "benchmarks.windowed_aggregates", "--way", way, "--queries", str(queries)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def identical() -> list[int]:
    """The number of classes after 1,000 identical aggregates have been registered, and a window later."""
    import eddyline
    from eddyline.operators.cluster import Cluster

    db, classes, at = eddyline.connect(), list[int](), 0
    db.execute("CREATE STREAM s (v DOUBLE, x BIGINT, ts TIMESTAMP) WATERMARK ts")
    for i in range(IDENTICAL):
        db.execute(f"CREATE CONTINUOUS QUERY q{i} AS SELECT COUNT(*), SUM(x) FROM s [RANGE 2 SECONDS] WHERE v < 0.5")
        db.push("s", rows(at, 1))
        at += 1
    for count in (1, 2_000, 100):
        db.push("s", rows(at, count))
        at += count
        clusters = [o for r in db.engine.running.values() for o in r.root.walk() if isinstance(o, Cluster)]
        classes.append(sum(len(c.classes) for c in clusters if c.classes is not None))
    return classes


def main(queries: int = QUERIES) -> bool:
    together, separate = measured("one family", queries), measured("separate plans", queries)
    shared, one = measured("state", queries)["state"], measured("state", 1)["state"]
    rates = {way: BATCH / median(m["seconds"]) for way, m in (("one", together), ("separate", separate))}
    after, later, last = identical()
    return report(
        "windowed-aggregates",
        [
            Figure(f"{queries:,} aggregates, one family", rates["one"], "rows/s"),
            Figure(f"{queries:,} aggregates, separate plans", rates["separate"], "rows/s"),
            Figure("one family against separate plans", rates["one"] / rates["separate"], "times", least=50),
            Figure("runs with other changes than the first", float(together["hash"] != separate["hash"]), "", 0),
            Figure(f"state of {queries:,} aggregates, windows up to {STRETCH * LONGEST:,} rows", shared, "MB"),
            Figure("state of one aggregate over the same rows", one, "MB"),
            Figure("state against that of one aggregate", shared / one, "times", 3.0),
            Figure(f"classes of {IDENTICAL:,} identical aggregates when the last is registered", after, ""),
            Figure("a window later", later, ""),
            Figure("and 100 rows later", last, "", 1.0),
        ],
        {"one family": together, "separate plans": separate},
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--way", choices=["one family", "separate plans", "state"])
    parser.add_argument("--queries", type=int, default=QUERIES)
    given = parser.parse_args()
    if given.way is None:
        sys.exit(0 if main(given.queries) else 1)
    print(json.dumps(state(given.queries) if given.way == "state" else child(given.way, given.queries)))

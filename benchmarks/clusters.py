"""Thresholds over one windowed count: state and time with one copy per class of queries, against one per query."""

from __future__ import annotations

import sys
import time
from unittest.mock import patch

import numpy as np
import pyarrow as pa

import eddyline
from benchmarks._report import Figure, report
from eddyline.arrays import Ints
from eddyline.operators.base import Step
from eddyline.operators.cluster import Cluster
from eddyline.state.query_table import QueryTable

QUERIES, ROWS, BATCHES = 200, 6_000, 4
FAMILY = (
    "CREATE QUERY FAMILY busy (least BIGINT) AS "
    "SELECT symbol, COUNT(*) AS n FROM trades [RANGE 10 SECONDS] GROUP BY symbol HAVING COUNT(*) >= :least"
)


def run() -> tuple[int, float]:
    """Rows of state and seconds after all batches."""
    rng = np.random.default_rng(5)
    db = eddyline.connect()
    db.execute("CREATE STREAM trades (symbol INT, ts TIMESTAMP) WATERMARK ts DELAY OF INTERVAL 0 SECONDS")
    db.execute(FAMILY)
    least = pa.array(rng.integers(20, 60, QUERIES))
    db.register("busy", pa.table({"query": [f"q{i}" for i in range(QUERIES)], "least": least}))
    began = time.perf_counter()
    for i in range(BATCHES):
        ts = i * 1_000_000 + np.sort(rng.integers(0, 1_000_000, ROWS))
        symbols = pa.array(rng.integers(0, 1000, ROWS), pa.int32())
        db.push("trades", pa.table({"symbol": symbols, "ts": pa.array(ts, pa.timestamp("us"))}))
    return db.stats()["families"]["busy"]["state_rows"], time.perf_counter() - began


def own_class(cluster: Cluster, step: Step, position: Ints, since: int, classes: QueryTable) -> Ints:
    """Gives every query a class of its own."""
    return classes.add(pa.array([""] * len(position)), step.queries.all_params_at(position), since)


def main() -> bool:
    run()
    by_class = run()
    with patch.object(Cluster, "_class_of", own_class):
        by_query = run()
    return report(
        "clusters",
        [
            Figure(f"rows of state, one copy per class, {QUERIES} queries", by_class[0], "rows"),
            Figure("rows of state, one copy per query", by_query[0], "rows"),
            Figure("state by class, as a share of state by query", by_class[0] / by_query[0], "", 0.05),
            Figure("time by class, as a share of time by query", by_class[1] / by_query[1], "", 0.5),
        ],
    )


if __name__ == "__main__":
    sys.exit(0 if main() else 1)

"""Document 1, Figure 6: throughput against the number of queries, shared and one plan per query; and of sources.

(a) Queries of workload F, registered as texts: their shapes differ, so they are of hundreds of families. Shared, all
are matched together; with one plan per query, each family is asked for itself and has one query. (b) Twenty queries
with one predicate each over a field of one of several sources.
"""

from __future__ import annotations

import sys

import numpy as np
import pyarrow as pa

import eddyline
from benchmarks._chart import Panel, draw
from benchmarks._report import Figure, report
from benchmarks._workloads import best

QUERIES = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000)
MOST_PLANS = 1000
SOURCES = (1, 2, 5, 10, 20)
ROWS = 10_000
OPERATORS = ("<", "<=", ">", ">=")


def condition(rng: np.random.Generator) -> str:
    parts = []
    for n in "abcde":
        if rng.random() < 0.5:
            parts.append(f"{n} {OPERATORS[rng.integers(4)]} {rng.integers(0, 100)}")
    return " AND ".join(parts) or "a >= 0"


def tuples(rng: np.random.Generator, rows: int = ROWS) -> pa.Table:
    columns = {n: rng.integers(0, 100, rows).astype(np.int32) for n in "abcde"}
    return pa.table(columns | {"ts": pa.array(np.zeros(rows, np.int64), pa.timestamp("us"))})


def throughput(queries: int, plans: str, rng: np.random.Generator) -> tuple[float, float]:
    """Tuples in and results out per second, on one thread."""
    import eddyline.engine.pooling as host

    host.FEWEST_FAMILIES = 1 if plans == "shared" else sys.maxsize
    db = eddyline.connect(threads=1)
    db.execute("CREATE STREAM s (a INT, b INT, c INT, d INT, e INT, ts TIMESTAMP) WATERMARK ts")
    for i in range(queries):
        text = f"SELECT a FROM s WHERE {condition(rng)}"
        if plans == "shared":
            db.execute(f"CREATE CONTINUOUS QUERY q{i} AS {text}")
        else:
            db.execute(f"CREATE QUERY FAMILY f{i} (p INT) WITH (snapshot = 'no') AS {text}")
            db.register(f"f{i}", [{"query": f"q{i}", "p": 0}])
    given = tuples(rng)
    results = db.push("s", given).count()
    seconds = best(lambda: db.push("s", given).count())
    return ROWS / seconds, results / seconds


def sources(count: int, rng: np.random.Generator) -> float:
    """Tuples per second over all sources, with twenty queries of one predicate spread over them."""
    import eddyline.engine.pooling as host

    host.FEWEST_FAMILIES = 1
    db = eddyline.connect(threads=1)
    for i in range(count):
        db.execute(f"CREATE STREAM s{i} (a INT, b INT, c INT, d INT, e INT, ts TIMESTAMP) WATERMARK ts")
    for i in range(20):
        where = f"a {OPERATORS[rng.integers(4)]} {rng.integers(0, 100)}"
        db.execute(f"CREATE CONTINUOUS QUERY q{i} AS SELECT a FROM s{rng.integers(count)} WHERE {where}")
    given = {f"s{i}": tuples(rng, 10 * ROWS // count) for i in range(count)}
    db.push(given).count()
    return 10 * ROWS / best(lambda: db.push(given).count())


def main() -> bool:
    rng = np.random.default_rng(4)
    shared = [throughput(n, "shared", rng) for n in QUERIES]
    few = [n for n in QUERIES if n <= MOST_PLANS]
    apart = [throughput(n, "one plan per query", rng) for n in few]
    by_sources = [sources(n, rng) for n in SOURCES]
    x, x_few = list(map(float, QUERIES)), list(map(float, few))
    panels = [
        Panel(
            "Tuples in per second, by number of queries (Figure 6a)",
            "queries",
            "tuples/s",
            {"shared": (x, [r for r, _ in shared]), "one plan per query": (x_few, [r for r, _ in apart])},
            "log",
        ),
        Panel(
            "Results out per second, by number of queries (Figure 6a)",
            "queries",
            "results/s",
            {"shared": (x, [r for _, r in shared]), "one plan per query": (x_few, [r for _, r in apart])},
            "log",
        ),
        Panel(
            "Tuples in per second, by number of sources (Figure 6b)",
            "sources",
            "tuples/s",
            {"20 queries": (list(map(float, SOURCES)), by_sources)},
        ),
    ]
    draw("cacq-queries", panels)
    at = few.index(MOST_PLANS)
    figures = [
        Figure(f"{MOST_PLANS} queries of hundreds of shapes: shared", shared[at][0], "tuples/s"),
        Figure(f"{MOST_PLANS} queries: one plan per query", apart[at][0], "tuples/s"),
        Figure(f"{MOST_PLANS} queries: shared, times one plan per query", shared[at][0] / apart[at][0], "", least=10),
        Figure("10,000 queries as texts: shared", shared[-1][0], "tuples/s"),
        Figure("10,000 queries as texts: results", shared[-1][1], "results/s"),
        Figure("20 sources: times slower than one", by_sources[0] / by_sources[-1], "", 3),
    ]
    series = {"queries": QUERIES, "shared": shared, "apart": apart, "sources": SOURCES, "by sources": by_sources}
    return report("cacq-queries", figures, series)


if __name__ == "__main__":
    sys.exit(0 if main() else 1)

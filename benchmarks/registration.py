"""Queries come and go: texts of known shapes, a million rows of parameters, drops, and the memory a query takes."""

from __future__ import annotations

import gc
import sys
import time
import tracemalloc

import numpy as np
import pyarrow as pa

import eddyline
from benchmarks._report import Figure, report

TEXTS = 100_000
ROWS = 1_000_000
STREAMS = {"trades": "symbol STRING, price DOUBLE, qty INT", "quotes": "symbol STRING, bid DOUBLE"}
SHAPES = (
    "SELECT symbol, COUNT(*) AS n FROM trades [RANGE {i} SECONDS] GROUP BY symbol HAVING COUNT(*) > {j}",
    "SELECT symbol, price FROM trades WHERE price BETWEEN {x} AND {y}",
    "SELECT symbol, qty FROM trades WHERE symbol = '{s}' AND qty >= {i}",
    "SELECT symbol FROM trades [RANGE {i} SECONDS] WHERE qty IN ({i}, {j}) AND price < {y}",
    "SELECT t.symbol, q.bid FROM trades t, quotes q WHERE t.symbol = q.symbol AND q.bid > {x} "
    "AND abs(t.ts - q.ts) <= INTERVAL {i} SECONDS",
)


def connection() -> eddyline.Connection:
    db = eddyline.connect()
    for stream, columns in STREAMS.items():
        db.execute(f"CREATE STREAM {stream} ({columns}, ts TIMESTAMP) WATERMARK ts DELAY OF INTERVAL 5 SECONDS")
    alert = "SELECT symbol, price FROM trades WHERE price BETWEEN :lo AND :hi"
    db.execute(f"CREATE QUERY FAMILY alert (lo DOUBLE, hi DOUBLE) AS {alert}")
    return db


def texts() -> list[str]:
    rng = np.random.default_rng(7)
    x, i = rng.random((TEXTS, 2)).round(4) * 100, rng.integers(1, 1000, (TEXTS, 2))
    return [
        f"CREATE CONTINUOUS QUERY q{n} AS "
        + SHAPES[n % len(SHAPES)].format(x=x[n, 0], y=x[n, 1], i=i[n, 0], j=i[n, 1], s=f"S{i[n, 0]}")
        for n in range(TEXTS)
    ]


def parameters(n: int) -> pa.Table:
    rng = np.random.default_rng(8)
    low = rng.random(n)
    names = pa.array(np.char.add("u", np.arange(n).astype(str)))
    return pa.table({"query": names, "lo": low, "hi": low + 0.01})


def seconds(work: object) -> float:
    start = time.perf_counter()
    work()  # type: ignore[operator]
    return time.perf_counter() - start


def main() -> bool:
    warm = connection()
    for text in texts()[:10]:
        warm.execute(text)
    warm.register("alert", parameters(10))
    warm.drop("alert", ["u1"])

    db, statements = connection(), texts()
    by_text = seconds(lambda: [db.execute(s) for s in statements])
    settle = seconds(lambda: [f.queries.rows() for f in db.registry])
    shapes = db.execute("SHOW FAMILIES").num_rows
    assert db.execute("SHOW QUERIES").num_rows == TEXTS and shapes == len(SHAPES) + 1

    table = parameters(ROWS)
    by_table = seconds(lambda: db.register("alert", table))
    dropped = [f"u{n}" for n in range(TEXTS)]
    bulk_drop = seconds(lambda: db.drop("alert", dropped))
    drop_texts = [f"DROP CONTINUOUS QUERY q{n}" for n in range(TEXTS)]
    single_drop = seconds(lambda: [db.execute(s) for s in drop_texts])
    return report(
        "registration",
        [
            Figure(f"register {TEXTS:,} texts of five shapes", by_text + settle, "s", 5.0),
            Figure(f"register {ROWS:,} rows of a table", by_table, "s", 3.0),
            Figure(f"drop {TEXTS:,} queries by name from {ROWS:,}", bulk_drop, "s", 1.0),
            Figure(f"drop {TEXTS:,} queries, one statement each", single_drop, "s", 1.0),
            Figure("memory per filter query registered by table", memory(ROWS, by_text=False), "bytes", 200.0),
            Figure("memory per filter query registered by text", memory(TEXTS, by_text=True), "bytes", 200.0),
        ],
    )


def memory(n: int, *, by_text: bool) -> float:
    """Bytes per query, of Python, NumPy and Arrow together, with the first batch already matched."""
    db = connection()
    db.execute("CREATE CONTINUOUS QUERY first AS SELECT symbol, price FROM trades WHERE price BETWEEN 1.5 AND 2.5")
    statements = [
        f"CREATE CONTINUOUS QUERY q{i} AS SELECT symbol, price FROM trades WHERE price BETWEEN {i}.5 AND {i + 1}.5"
        for i in range(n if by_text else 0)
    ]
    table = None if by_text else parameters(n)
    row = [{"symbol": "X", "price": 0.5, "qty": 1, "ts": "2026-01-01 00:00:01"}]
    gc.collect()
    tracemalloc.start()
    arrow = pa.total_allocated_bytes()
    if table is None:
        for s in statements:
            db.execute(s)
    else:
        db.register("alert", table)
        arrow -= table.nbytes  # the engine keeps the columns it was given: count them
    db.push("trades", row)
    gc.collect()
    used = tracemalloc.get_traced_memory()[0] + pa.total_allocated_bytes() - arrow
    tracemalloc.stop()
    return used / n


if __name__ == "__main__":
    sys.exit(0 if main() else 1)

"""Joins over ranges through `push` and `count_affected`, on two threads: against brute force, and against peers.

100,000 queries over 100,000 rows of S: select joins in about 30 stabbing groups, band joins in about 50. Also what a
batch gains: the same tuples in one push and one by one.
"""

from __future__ import annotations

import time
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa

from benchmarks._join_workloads import (
    Queries,
    band_joins,
    batch_of_r,
    connection,
    floor,
    rows_of_s,
    select_joins,
    tuples_of_r,
)
from benchmarks._report import Figure, report
from benchmarks._workloads import best
from eddyline.arrays import Ints
from eddyline.index.ranges.stabbing import canonical

QUERIES = ROWS = 100_000
TUPLES = 20_000
ONE_BY_ONE = 300
PEER_TUPLES, FEW_TUPLES = 500, 50  # the latter for who builds all pairs
LEAST = {"select": 25, "band": 30}


def rates(db: Any, a: Ints, b: Ints) -> tuple[float, float]:
    """Tuples per second: counting the affected queries, and listing them as sets."""
    given = batch_of_r(a, b)
    for _ in range(2):
        db.push("r", given).count_affected("f")
        db.push("r", given).sets("f")
    counted = best(lambda: db.push("r", given).count_affected("f"), 7)
    listed = best(lambda: db.push("r", given).sets("f"), 7)
    return len(a) / counted, len(a) / listed


def one_by_one(db: Any, a: Ints, b: Ints) -> float:
    """Tuples per second, each in a push of its own; they find the same."""
    given = [batch_of_r(a[i : i + 1], b[i : i + 1]) for i in range(ONE_BY_ONE)]
    begun = time.perf_counter()
    found = [db.push("r", g).count_affected("f") for g in given]
    taken = time.perf_counter() - begun
    together = db.push("r", batch_of_r(a[:ONE_BY_ONE], b[:ONE_BY_ONE])).count_affected("f")
    assert sum(found) == together, f"{sum(found)} one by one, {together} together"
    return ONE_BY_ONE / taken


def duckdb_rate(kind: str, queries: Queries, s: tuple[Ints, Ints], r: tuple[Ints, Ints]) -> float:
    """Tuples per second of a join written by hand: one statement counts the affected (tuple, query) pairs."""
    con = duckdb.connect()
    con.execute("SET threads = 2")
    con.register("s_in", pa.table({"b": s[0], "c": s[1]}))
    con.register("q_in", pa.table({"q": np.arange(len(queries)), "lo": queries.low, "hi": queries.high,
                                   "a1": queries.own_low, "a2": queries.own_high}))  # fmt: skip
    con.register("r_in", pa.table({"i": np.arange(PEER_TUPLES), "a": r[0][:PEER_TUPLES], "b": r[1][:PEER_TUPLES]}))
    for name in "sqr":
        con.execute(f"CREATE TABLE {name} AS SELECT * FROM {name}_in")
    if kind == "select":  # twice as fast as by ASOF JOIN
        text = """SELECT count(*) FROM (SELECT DISTINCT i, q FROM r JOIN s USING (b)
                  JOIN q ON a BETWEEN a1 AND a2 AND c BETWEEN lo AND hi)"""
    else:  # the first row at or above a range's low end tells whether it holds one
        text = """SELECT count(*) FROM (SELECT i, b + lo AS l, b + hi AS h FROM r, q) p
                  ASOF JOIN (SELECT DISTINCT b FROM s) s ON p.l <= s.b WHERE s.b <= p.h"""
    return PEER_TUPLES / best(lambda: con.execute(text).fetchall(), 1)


def polars_rate(kind: str, queries: Queries, s: tuple[Ints, Ints], r: tuple[Ints, Ints]) -> float:
    """The same by Polars."""
    n = PEER_TUPLES if kind == "select" else FEW_TUPLES
    rows = pl.DataFrame({"b": s[0], "c": s[1]}).lazy()
    asked = pl.DataFrame({"lo": queries.low, "hi": queries.high, "a1": queries.own_low, "a2": queries.own_high}).lazy()
    tuples = pl.DataFrame({"a": r[0][:n], "b": r[1][:n]}).lazy()
    low, high, a, b = (pl.col(x) for x in ("lo", "hi", "a", "b"))
    if kind == "select":
        wanted = tuples.join_where(asked, a >= pl.col("a1"), a <= pl.col("a2")).sort("lo")
        pairs = wanted.join_asof(rows.sort("c"), left_on="lo", right_on="c", by="b", strategy="forward",
                                 coalesce=False, check_sortedness=False).filter(pl.col("c") <= high)  # fmt: skip
    else:
        wanted = tuples.join(asked, how="cross").select(first=b + low, last=b + high).sort("first")
        there = rows.select("b").unique().sort("b")
        pairs = wanted.join_asof(there, left_on="first", right_on="b", strategy="forward", coalesce=False)
        pairs = pairs.filter(b <= pl.col("last"))
    return n / best(lambda: pairs.select(pl.len()).collect(), 1)


def figures(kind: str) -> list[Figure]:
    rng = np.random.default_rng(7)
    queries = select_joins(rng, QUERIES) if kind == "select" else band_joins(rng, QUERIES)
    s, r = rows_of_s(rng, ROWS), tuples_of_r(rng, TUPLES)
    groups = len(canonical(queries.low, queries.high))
    brute, _ = floor(kind, queries, s, (r[0][:400], r[1][:400]))
    db = connection(kind, queries, s)
    counted, listed = rates(db, *r)
    total = db.push("r", batch_of_r(*r)).count_affected("f")
    single = one_by_one(db, *r)
    name = f"{kind} joins"
    return [
        Figure(f"{name}: stabbing groups", groups, ""),
        Figure(f"{name}: affected queries a tuple", total / TUPLES, ""),
        Figure(f"{name}: brute force", brute, "tuples/s"),
        Figure(f"{name}: counted", counted, "tuples/s"),
        Figure(f"{name}: times brute force", counted / brute, "", least=LEAST[kind]),
        Figure(f"{name}: listing as sets, times counting", counted / listed, "", limit=2),
        Figure(f"{name}: {TUPLES:,} tuples in one push, times the rate of one by one", counted / single, "", least=10),
        Figure(f"{name}: DuckDB, one statement for many tuples", duckdb_rate(kind, queries, s, r), "tuples/s"),
        Figure(f"{name}: Polars, one statement for many tuples", polars_rate(kind, queries, s, r), "tuples/s"),
    ]


def main() -> bool:
    return report("ssi-joins", [f for kind in ("select", "band") for f in figures(kind)])


if __name__ == "__main__":
    raise SystemExit(0 if main() else 1)

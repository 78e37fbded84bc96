"""A small world for the tests of the in-process host: streams, a family, rows, and the folds of a log of changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from random import Random
from typing import Any

import pyarrow as pa

import eddyline
from eddyline.local.connection import Connection

START = datetime(2026, 1, 1)
WORLD = """
CREATE STREAM r (a INT, b BIGINT, c DOUBLE, n STRING, ts TIMESTAMP) WATERMARK ts DELAY OF INTERVAL {delay} SECONDS;
CREATE STREAM s (a INT, b BIGINT, c DOUBLE, n STRING, ts TIMESTAMP) WATERMARK ts DELAY OF INTERVAL {delay} SECONDS;
CREATE TABLE t (a INT, n STRING);
CREATE TABLE k (a INT PRIMARY KEY, n STRING);
CREATE TABLE u (a INT, n STRING) NON RETROACTIVE
"""
ABOVE = "CREATE QUERY FAMILY above (lo INT) AS SELECT a FROM s WHERE a > :lo"

Change = tuple[str, Any, Any, tuple[Any, ...]]


def world(delay: int = 0, **options: Any) -> Connection:
    db = eddyline.connect(**options)
    db.execute(WORLD.format(delay=delay))
    return db


def above(**queries: int | None) -> Any:
    db = world()
    db.execute(ABOVE)
    if queries:
        db.register("above", pa.table({"query": list(queries), "lo": pa.array(list(queries.values()), pa.int32())}))
    return db


def table_of(names: list[str], **params: list[int]) -> pa.Table:
    columns = {n: pa.array(values, pa.int32()) for n, values in params.items()}
    return pa.table({"query": pa.array(names, pa.string())} | columns)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def row(
    seconds: float, a: int | None = 1, b: int | None = 1, c: float | None = 1.0, n: str | None = "x"
) -> dict[str, Any]:
    return {"a": a, "b": b, "c": c, "n": n, "ts": at(seconds)}


def random_rows(rnd: Random, seconds: list[float]) -> list[dict[str, Any]]:
    def maybe(value: Any) -> Any:
        return None if rnd.random() < 0.05 else value

    return [
        row(
            s, maybe(rnd.randint(0, 3)), maybe(rnd.randint(0, 3)), maybe(rnd.choice([0.0, 0.5, 2.0])), rnd.choice("xyz")
        )
        for s in seconds
    ]


def tuples(table: pa.Table) -> list[tuple[Any, ...]]:
    """By position: names may repeat."""
    return list(zip(*(c.to_pylist() for c in table.columns), strict=True)) if table.num_columns else []


def bag(table: pa.Table) -> Counter[tuple[Any, ...]]:
    return Counter(tuples(table))


def log_of(changes: Any, name: str) -> list[Change]:
    return [(op, ts, exp, tuple(values)) for op, ts, exp, *values in tuples(changes.rows(name))]


class Logs:
    """Collects the changes of queries and the times at which they were heard."""

    def __init__(self, *names: str) -> None:
        self.of: dict[str, list[Change]] = {n: [] for n in names}

    def take(self, changes: Any) -> None:
        for name, log in self.of.items():
            log += log_of(changes, name)


def by_intervals(log: Iterable[Change], clock: datetime) -> Counter[tuple[Any, ...]]:
    """The answer at the clock: the sum of the changes whose interval [ts, exp] holds it."""
    found: Counter[tuple[Any, ...]] = Counter()
    for op, ts, exp, values in log:
        if (ts is None or ts <= clock) and (exp is None or clock <= exp):
            found[values] += 1 if op == "+" else -1
    return Counter({v: n for v, n in found.items() if n})


def by_signs(log: Iterable[Change], clock: datetime) -> Counter[tuple[Any, ...]]:
    """The answer at the clock by signs alone, as a reader without a clock of its own folds emit = 'all'."""
    found: Counter[tuple[Any, ...]] = Counter()
    for op, ts, _, values in log:
        if ts is None or ts <= clock:
            found[values] += 1 if op == "+" else -1
    return Counter({v: n for v, n in found.items() if n})


def consolidated(log: Iterable[Change], clock: datetime | None = None) -> dict[tuple[Any, Any], int]:
    """Per row and instant the net change, which does not depend on how a result was cut into changes."""
    total: Counter[tuple[Any, Any]] = Counter()
    for op, ts, exp, values in log:
        sign = 1 if op == "+" else -1
        if ts is None or exp is None or ts <= exp:
            total[values, ts] += sign
            if exp is not None:
                total[values, exp + timedelta(microseconds=1)] -= sign
    return {k: n for k, n in total.items() if n and (clock is None or k[1] is None or k[1] <= clock)}


def cuts(rows: list[Any], size: int) -> Iterator[list[Any]]:
    for i in range(0, len(rows), size):
        yield rows[i : i + size]


def clock_of(db: Connection, query: str) -> datetime:
    family = next(f["family"] for f in db.execute("SHOW QUERIES").to_pylist() if f["query"] == query)
    clock = db.stats()["families"][family]["clock"]
    assert isinstance(clock, datetime)
    return clock

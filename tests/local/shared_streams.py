"""Connections with three streams and joins over them, for the tests of shared streams."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from tests.local.common import Logs, world

PAIR = "SELECT x.b AS rb, y.b AS sb FROM r [RANGE {0} SECONDS] AS x, s [RANGE {0} SECONDS] AS y WHERE x.a = y.a"
TEXTS = ("", "a", "ab", "a\0", "a\0b", "abcdefgh", "abcdefghi", "abcdefgi", "ä", "x" * 300, "x" * 299 + "y")


def joins(*statements: str, delay: int = 0, **options: Any) -> Any:
    """A connection with a third stream `v`, and queries q0, q1, …"""
    db = world(delay, **options)
    declared = f"WATERMARK ts DELAY OF INTERVAL {delay} SECONDS"
    db.execute(f"CREATE STREAM v (a INT, b BIGINT, c DOUBLE, n STRING, ts TIMESTAMP) {declared}")
    for i, text in enumerate(statements):
        add(db, f"q{i}", text)
    return db


def add(db: Any, name: str, text: str) -> Any:
    return db.execute(f"CREATE CONTINUOUS QUERY {name} AS {text}")


def drop(db: Any, name: str) -> None:
    db.execute(f"DROP CONTINUOUS QUERY {name}")


def results(changes: Any, name: str) -> Counter[tuple[Any, ...]]:
    """The rows that enter the answer of a query; nothing may be retracted."""
    logs = Logs(name)
    logs.take(changes)
    assert all(op == "+" for op, *_ in logs.of[name])
    return Counter(values for *_, values in logs.of[name])


def one_by_one(db: Any, stream: str, *rows: dict[str, Any]) -> Iterator[Any]:
    for each in rows:
        yield db.push(stream, [each])

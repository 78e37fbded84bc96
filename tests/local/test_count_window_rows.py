"""Count windows of many queries over one stream: rows are kept once, not once per query, size or family."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.local.common import row, world

JOIN = "x.a = y.a AND x.b = y.b"
FAMILIES: dict[str, tuple[str, str, Callable[[int], dict[str, int]]]] = {
    "windows": ("m INT", "SELECT a, b FROM s [ROWS :m]", lambda i: {"m": 200 - i % 200}),
    "selections": (
        "m INT, lo INT",
        "SELECT a, b FROM s [ROWS :m] WHERE a >= :lo",
        lambda i: {"m": 200 - i % 200, "lo": -(i % 3)},
    ),
    "joins": (
        "lo INT",
        f"SELECT x.b AS xb, y.b AS yb FROM s [ROWS 200] x, r [ROWS 20] y WHERE {JOIN} AND x.b >= :lo",
        lambda i: {"lo": i % 50},
    ),
    "joins of windows of all sizes": (
        "m INT, n INT",
        f"SELECT x.b AS xb, y.b AS yb FROM s [ROWS :m] x, r [ROWS :n] y WHERE {JOIN}",
        lambda i: {"m": 200 - i % 200, "n": 20 - i % 20},
    ),
    "joins of selections": (
        "m INT, lo INT",
        f"SELECT x.b AS xb FROM (SELECT a, b FROM s [ROWS :m] WHERE b >= :lo) x, r [RANGE 2 SECONDS] y WHERE {JOIN}",
        lambda i: {"m": 200 - i % 200, "lo": i % 50},
    ),
}


def pushed(db: Any) -> None:
    for second in range(0, 200, 10):
        rows = [row(second + i / 10, a=i % 7, b=i) for i in range(100)]
        db.push({"s": rows, "r": rows})


def rows_kept(db: Any) -> int:
    """Rows of state: those in the logs of streams, and those that families have beside them."""
    stats = db.stats()
    return int(stats["state_rows"] + stats["shared_rows"])


def family_rows(kind: str, queries: int) -> int:
    """After 2,000 tuples; the first query has the largest window."""
    params, text, member = FAMILIES[kind]
    db: Any = world()
    db.execute(f"CREATE QUERY FAMILY f ({params}) AS {text}")
    db.register("f", [{"query": f"q{i}"} | member(i) for i in range(queries)])
    pushed(db)
    return rows_kept(db)


@pytest.mark.parametrize("kind", FAMILIES)
def test_a_thousand_count_windows_keep_at_most_half_as_many_rows_again_as_one(kind: str) -> None:
    one, thousand = family_rows(kind, 1), family_rows(kind, 1000)
    assert 200 <= thousand <= 1.5 * one


def text_rows(queries: int) -> int:
    """As texts of many shapes, each of which is a family of its own."""
    db: Any = world()
    columns = ("a", "b", "c", "n", "a, b", "b, c", "a + b AS d", "a, n", "b, n", "c, n")
    for i in range(queries):
        some, where = columns[i % 10], ("", "WHERE a >= 0", "WHERE b < 1000", "WHERE n = 'x'")[i // 10 % 4]
        db.execute(f"CREATE CONTINUOUS QUERY q{i} AS SELECT {some} FROM s [ROWS {200 - i % 200}] {where}")
    assert len(db.engine.running) == min(queries, 40)
    pushed(db)
    return rows_kept(db)


def test_count_windows_of_many_shapes_read_the_same_rows() -> None:
    one, thousand = text_rows(1), text_rows(1000)
    assert 200 <= thousand <= 1.5 * one


def test_rows_of_a_dropped_window_are_not_kept() -> None:
    db: Any = world()
    for size in (10, 5000):
        db.execute(f"CREATE CONTINUOUS QUERY q{size} AS SELECT a FROM s [ROWS {size}]")
    rows = [row(i / 100) for i in range(6000)]
    db.push("s", rows)
    assert db.stats()["streams"]["s"]["kept"] >= 5000
    db.execute("DROP CONTINUOUS QUERY q5000")
    db.push("s", [row(60)])
    db.advance(row(61)["ts"])
    assert db.stats()["streams"]["s"]["kept"] < 2000
    assert db.snapshot("q10").num_rows == 10

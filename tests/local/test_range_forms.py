"""However a band or an order of two inputs is written, queries that differ in ranges are processed by groups."""

from __future__ import annotations

from typing import Any

import pytest

import eddyline
from tests.local.common import at

COLUMNS = "k INT, a INT, b BIGINT, c DOUBLE, d DATE, n STRING, ts TIMESTAMP"
PARAMS = "lo INT, hi INT, x BIGINT, y BIGINT, u DOUBLE"
ROW = {"k": 1, "a": 10, "b": 10, "c": -1.5, "d": None, "n": "a", "ts": at(1)}
QUERY = {"lo": -1, "hi": 4, "x": 1, "y": 2, "u": 0.5}
INT, BIGINT = 2**31 - 1, 2**63 - 1

RANGES = {
    "s.a >= r.a + :lo AND s.a <= r.a + :hi": "s.a - r.a",
    "s.a BETWEEN r.a - :hi AND r.a + :hi": "s.a - r.a",
    "r.a + :lo <= s.a AND s.a - :hi <= r.a": "r.a - s.a",
    "s.a - r.a >= :lo AND s.a < r.a + :hi": "s.a - r.a",
    "s.b >= r.a + :x - 3 AND r.a + :y + :lo >= s.b": "s.b - r.a",
    "s.b = r.b + :x": "s.b - r.b",
    "s.ts BETWEEN r.ts AND r.ts + INTERVAL :hi SECONDS": "s.ts - r.ts",
    "s.ts >= r.ts - INTERVAL :hi SECONDS AND s.ts <= r.ts": "s.ts - r.ts",
    "r.ts <= s.ts AND r.a > :lo": "r.ts - s.ts",
    "s.a - r.a <= 100 AND r.a > :lo": "s.a - r.a",
    "s.c >= r.c * 1.5 + 1.0 AND r.a > :lo": "s.c - ((r.c * 1.5) + 1.0)",
    "s.c > r.c AND r.a > :lo": "s.c - r.c",
    "s.d <= r.d AND r.a > :lo": "s.d - r.d",
}
BY_ROW = (
    "s.c >= r.c + :u",
    "r.a <> s.a AND r.a > :lo",
    "r.n < s.n AND r.a > :lo",
    "s.a >= r.a * 2 + :lo",
    "s.a + r.a >= :lo",
    "(s.a + s.k) - r.a <= 5 AND r.a > :lo",
)


def connection(condition: str, strategy: str = "auto", **query: Any) -> eddyline.Connection:
    db = eddyline.connect()
    for stream in "rs":
        db.execute(f"CREATE STREAM {stream} ({COLUMNS}) WATERMARK ts DELAY OF INTERVAL 9 SECONDS")
    options = f"WITH (strategy = '{strategy}')"
    db.execute(f"CREATE QUERY FAMILY f ({PARAMS}) {options} AS SELECT r.a, s.a AS z FROM r, s WHERE {condition}")
    db.register("f", [{"query": "q", **QUERY, **query}])
    return db


def by_groups(db: eddyline.Connection) -> bool:
    """Whether some tuples were processed by groups."""
    return "tuples by strategy" in db.explain("f", analyze=True)


def pushed(db: eddyline.Connection, r: dict[str, Any], s: dict[str, Any]) -> int:
    db.push("r", [ROW | r])
    return int(db.push("s", [ROW | s]).count_affected("f"))


@pytest.mark.parametrize("condition", RANGES)
def test_tuples_meet_ranges_of_a_difference(condition: str) -> None:
    db = connection(condition)
    pushed(db, {}, {})
    told = db.explain("f", analyze=True)
    assert f"input 1 meets 1 ranges of {RANGES[condition]} in 1 stabbing groups" in told
    assert told.count("stabbing groups") == 2 and by_groups(db)


@pytest.mark.parametrize("condition", BY_ROW)
def test_what_is_no_range_is_looked_at_by_row(condition: str) -> None:
    db = connection(condition)
    pushed(db, {}, {})
    assert "stabbing groups" not in db.explain("f", analyze=True)


@pytest.mark.parametrize(
    ("condition", "query", "r", "s"),
    [
        ("s.a >= r.a + :lo", {"lo": 1}, {"a": INT}, {"a": -5}),
        ("s.a <= r.a - :lo", {"lo": 2}, {"a": -INT}, {"a": 5}),
        ("s.b <= r.b + :x", {"x": BIGINT}, {"b": 1}, {"b": 5}),
        ("s.b <= r.b + :x - :y", {"x": BIGINT, "y": BIGINT}, {"b": 1}, {"b": -BIGINT}),
        ("s.b + :y >= r.b + :x", {"x": -BIGINT, "y": 5}, {"b": -2}, {"b": 5}),
        ("s.b - :x >= :y + r.b", {"x": 7, "y": -7}, {"b": -BIGINT}, {"b": -BIGINT}),
        ("s.ts <= r.ts + INTERVAL :x SECONDS", {"x": 26 * 10**10}, {}, {}),
        ("s.ts + INTERVAL :x SECONDS >= r.ts", {"x": 9 * 10**12}, {}, {}),
        ("s.a - r.a < 100 AND r.k = :x", {}, {"a": INT}, {"a": -INT}),
    ],
)
def test_a_sum_that_overflows_is_not_true_as_by_row(
    condition: str, query: dict[str, int], r: dict[str, int], s: dict[str, int]
) -> None:
    for strategy in ("auto", "by row"):
        db = connection(condition, strategy, **query)
        assert pushed(db, r, s) == 0
        assert not by_groups(db)


def test_where_no_sum_can_overflow_limits_do_not_matter() -> None:
    db = connection("s.a >= r.a + :lo AND s.a <= r.a + :hi", lo=-INT, hi=INT - 10)
    assert pushed(db, {"a": 0}, {"a": INT - 10}) == 1
    assert pushed(db, {"a": 0}, {"a": INT}) == 0
    assert by_groups(db)


def test_when_the_query_that_overflows_is_gone_groups_are_back() -> None:
    db = connection("s.a <= r.a + :hi")
    db.register("f", [{"query": "large", **QUERY, "hi": INT}])
    assert pushed(db, {"a": 1}, {"a": 1}) == 1
    assert not by_groups(db)
    db.drop("f", ["large"])
    assert pushed(db, {"a": 1}, {"a": 1}) == 1
    assert by_groups(db)


@pytest.mark.parametrize("strategy", ["auto", "by row"])
def test_nan_is_above_all_numbers_and_equal_to_itself(strategy: str) -> None:
    nan, inf = float("nan"), float("inf")
    for r, s, true in ((1.0, nan, 1), (nan, 1.0, 0), (inf, nan, 1), (nan, nan, 0), (inf, inf, 0), (-inf, 0.0, 1)):
        db = connection("r.c < s.c AND r.a > :lo", strategy)
        assert pushed(db, {"c": r}, {"c": s}) == true, (r, s)

"""What a step costs where there are many families or many windows, counted in calls: the same every time."""

from __future__ import annotations

import sys
from collections import Counter
from datetime import datetime, timedelta
from typing import Any

import eddyline

START = datetime(2026, 1, 1)


def connection() -> eddyline.Connection:
    db = eddyline.connect()
    db.execute("CREATE STREAM s (a INT, b INT, ts TIMESTAMP) WATERMARK ts DELAY OF INTERVAL 0 SECONDS")
    return db


def rows(second: int, n: int = 100) -> list[dict[str, Any]]:
    return [{"a": i % 7, "b": i % 11, "ts": START + timedelta(seconds=second, milliseconds=i)} for i in range(n)]


def calls_of_a_push(db: eddyline.Connection, second: int) -> int:
    """How many Python functions a push calls, with what its count needs."""
    data = rows(second)
    calls = 0

    def profile(frame: object, event: str, arg: object) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(profile)
    try:
        db.push("s", data).count()
    finally:
        sys.setprofile(None)
    return calls


def windows(n: int) -> eddyline.Connection:
    """Count windows that differ in their sizes and in the rows they have seen."""
    db = connection()
    for i in range(n):
        db.execute(f"CREATE CONTINUOUS QUERY q{i} AS SELECT a, b FROM s [ROWS {1 + i % 9}]")
        db.push("s", rows(i, 1))
    for i in range(3):
        db.push("s", rows(n + i))
    return db


def test_a_push_does_about_the_same_for_few_count_windows_and_for_many() -> None:
    few, many = (calls_of_a_push(windows(n), n + 3) for n in (5, 60))
    assert many <= 1.6 * few, f"{few} calls with 5 windows, {many} with 60"


def test_a_family_of_one_aggregate_query_takes_few_calls_a_push() -> None:
    keys = ["a", "b", "a, b", "a % 2", "b % 3", "a + b"]

    def calls(families: int) -> int:
        db = connection()
        for i, key in enumerate(keys[:families]):
            db.execute(f"CREATE CONTINUOUS QUERY q{i} AS SELECT COUNT(*) AS n FROM s [RANGE 5 SECONDS] GROUP BY {key}")
        for i in range(8):
            db.push("s", rows(i))
        return calls_of_a_push(db, 8)

    each = (calls(6) - calls(1)) / 5
    assert each < 700, f"{each} calls for each family"


def test_answers_are_those_of_all_changes_whenever_they_are_asked_for() -> None:
    db, asked = connection(), connection()
    sql = "CREATE CONTINUOUS QUERY q AS SELECT a, COUNT(*) AS n FROM s [RANGE 2 SECONDS] GROUP BY a"
    for each in (db, asked):
        each.execute(sql)
    for i in range(12):
        db.push("s", rows(i))
        asked.push("s", rows(i))
        asked.snapshot("q")
    found, expected = (Counter(tuple(r.values()) for r in c.snapshot("q").to_pylist()) for c in (db, asked))
    assert found == expected != Counter()

"""Waiting operators keep state once per class of queries that cannot be told apart below them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import eddyline
from eddyline.operators.cluster import Cluster
from eddyline.plan import physical
from eddyline.plan.patterns import Pattern
from tests.operators.driving import LEAST, MOST, A, Answer, Change, Query, answer, call, check, given

FAMILY = (
    "CREATE QUERY FAMILY busy (w INT, least INT) AS "
    "SELECT a, COUNT(*) AS n FROM s [RANGE :w SECONDS] GROUP BY a HAVING COUNT(*) >= :least"
)


def world() -> eddyline.Connection:
    db = eddyline.connect()
    db.execute("CREATE STREAM s (a INT, ts TIMESTAMP) WATERMARK ts DELAY OF INTERVAL 0 SECONDS")
    db.execute("CREATE TABLE t (a INT)")
    return db


def thresholds(n: int, w: int = 10, start: int = 0) -> pa.Table:
    names = [f"q{i}" for i in range(start, start + n)]
    return pa.table(
        {"query": names, "w": pa.array([w] * n, pa.int32()), "least": pa.array(range(1, n + 1), pa.int32())}
    )


def push(db: eddyline.Connection, second: int, *values: int) -> Any:
    return db.push("s", [{"a": v, "ts": f"2026-01-01 00:00:{second:02d}"} for v in values])


def classes(db: eddyline.Connection) -> list[int]:
    """How many classes each cluster of the connection has."""
    clusters = [o for r in db.engine.running.values() for o in r.root.walk() if isinstance(o, Cluster)]
    return [len(c.classes) if c.classes is not None else 0 for c in clusters]


def test_queries_that_differ_above_a_grouping_share_its_state() -> None:
    db = world()
    db.execute(FAMILY)
    db.register("busy", thresholds(50))
    changes = push(db, 1, 7, 7, 7)
    assert classes(db) == [1]
    assert sorted(changes.queries()) == ["q0", "q1", "q2"]
    assert db.snapshot("q2").to_pylist() == [{"a": 7, "n": 3}] and db.snapshot("q3").num_rows == 0


def test_queries_with_other_windows_are_other_classes() -> None:
    db = world()
    db.execute(FAMILY)
    db.register("busy", thresholds(5, w=10))
    db.register("busy", thresholds(5, w=20, start=5))
    push(db, 1, 7)
    assert classes(db) == [2]


def test_texts_registered_one_by_one_before_any_tuple_share_a_class() -> None:
    db = world()
    for i in range(20):
        text = f"SELECT a, COUNT(*) AS n FROM s [RANGE 10 SECONDS] GROUP BY a HAVING COUNT(*) > {i}"
        db.execute(f"CREATE CONTINUOUS QUERY q{i} AS {text}")
    push(db, 1, 7)
    assert classes(db) == [1]


def test_a_query_registered_after_a_tuple_has_a_class_of_its_own() -> None:
    db = world()
    db.execute(FAMILY)
    db.register("busy", thresholds(1))
    push(db, 1, 7)
    db.register("busy", thresholds(1, start=1))
    db.advance("2026-01-01 00:00:02")
    db.register("busy", thresholds(1, start=2))
    push(db, 2, 7)
    assert classes(db) == [2], "the second and the third saw the same"
    assert db.snapshot("q0").to_pylist() == [{"a": 7, "n": 2}]
    assert db.snapshot("q1").to_pylist() == db.snapshot("q2").to_pylist() == [{"a": 7, "n": 1}]


def at(milliseconds: int) -> str:
    return f"2026-01-01 00:{milliseconds // 60_000:02d}:{milliseconds % 60_000 / 1000:06.3f}"


def one_by_one(db: eddyline.Connection, text: str, queries: int) -> int:
    """Registers a text again and again, with a tuple after each; returns the time of the last, in milliseconds."""
    for i in range(queries):
        db.execute(f"CREATE CONTINUOUS QUERY q{i} AS {text}")
        db.push("s", [{"a": i % 3, "ts": at(10 * i)}])
    return 10 * queries


@pytest.mark.parametrize("aggregates", ["COUNT(*)", "SUM(a), MAX(a)"])
@pytest.mark.parametrize("keys", ["", "GROUP BY a"])
def test_aggregates_registered_one_by_one_are_one_class_after_a_window(aggregates: str, keys: str) -> None:
    db = world()
    text = f"SELECT {aggregates} FROM s [RANGE 1 SECOND] {keys}"
    now = one_by_one(db, text, 100)
    assert classes(db) == [100]
    for _ in range(60):
        now += 37
        changes = db.push("s", [{"a": now % 3, "ts": at(now)}])
    assert classes(db) == [1]
    assert len(changes.queries()) == 100
    assert all(db.snapshot(f"q{i}") == db.snapshot("q0") for i in range(100))
    db.drop(db.registry.query("q0")[0].name, [f"q{i}" for i in range(99)])
    now += 37
    assert db.push("s", [{"a": 0, "ts": at(now)}]).queries() == ["q99"]


def test_classes_over_windows_that_do_not_end_stay_apart() -> None:
    for window in ("", "[ROWS 3]"):
        db = world()
        now = one_by_one(db, f"SELECT COUNT(*) FROM s {window}", 4)
        for _ in range(20):
            now += 1000
            db.push("s", [{"a": 1, "ts": at(now)}])
        assert classes(db) == [4]


def test_a_class_does_not_merge_while_a_tuple_is_in_its_window_that_the_younger_has_not_seen() -> None:
    db = world()
    text = "SELECT COUNT(*) AS n FROM s [RANGE 1 SECOND]"
    db.execute(f"CREATE CONTINUOUS QUERY q0 AS {text}")
    db.push("s", [{"a": 1, "ts": at(900)}])
    db.execute(f"CREATE CONTINUOUS QUERY q1 AS {text}")
    db.push("s", [{"a": 1, "ts": at(1900)}])
    db.push("s", [{"a": 1, "ts": at(1900)}])
    assert classes(db) == [2]
    assert [db.snapshot(q)["n"].to_pylist() for q in ("q0", "q1")] == [[3], [2]]
    db.advance(at(2950))
    db.push("s", [{"a": 1, "ts": at(2960)}])
    assert classes(db) == [1]


def test_a_class_whose_older_twin_was_dropped_merges_with_the_one_before() -> None:
    db = world()
    now = one_by_one(db, "SELECT COUNT(*) AS n FROM s [RANGE 1 SECOND]", 3)
    db.execute("DROP CONTINUOUS QUERY q1")
    db.engine.running[next(iter(db.engine.running))].compact()
    for _ in range(60):
        now += 37
        db.push("s", [{"a": 1, "ts": at(now)}])
    assert classes(db) == [1]


def test_merged_classes_survive_a_save(tmp_path: Path) -> None:
    db = world()
    now = one_by_one(db, "SELECT a, COUNT(*) AS n FROM s [RANGE 1 SECOND] GROUP BY a", 10)
    db.save(tmp_path / "saved")
    db = eddyline.connect(tmp_path / "saved")
    assert classes(db) == [10]
    for _ in range(40):
        now += 37
        db.push("s", [{"a": now % 3, "ts": at(now)}])
    assert classes(db) == [1]
    assert db.snapshot("q9") == db.snapshot("q0")


def test_groups_that_always_exist_are_shown_to_every_newcomer() -> None:
    db = world()
    for i in range(3):
        changes = db.execute(f"CREATE CONTINUOUS QUERY c{i} AS SELECT COUNT(*) AS n FROM s HAVING COUNT(*) < {i + 5}")
        assert changes.rows(f"c{i}").column("n").to_pylist() == [0]


def test_a_class_goes_with_its_last_member() -> None:
    db = world()
    db.execute(FAMILY)
    db.register("busy", thresholds(3, w=10))
    db.register("busy", thresholds(3, w=20, start=3))
    push(db, 1, 7, 8, 9)
    db.drop("busy", ["q0", "q1", "q2"])
    db.engine.running[next(iter(db.engine.running))].compact()
    assert classes(db) == [1]
    assert push(db, 2, 7).queries() == ["q3", "q4"]


@pytest.mark.parametrize("retracts", [False, True])
def test_members_have_the_answers_they_would_have_alone(retracts: bool) -> None:
    """DISTINCT over the rows with a >= :least, of which a query gets those with a <= :most."""

    def reference(changes: list[list[Change]], queries: list[Query], instant: int) -> Answer:
        rows = Answer()
        for q in queries:
            own = [c for c in changes[0] if c.arrival >= q.since and c.row[0] is not None]
            kept = [replace(c, query=q.id) for c in own if q.least <= c.row[0] <= q.most]
            rows += Answer(set(answer(kept, instant)))
        return rows

    below = physical.Attach(Pattern.WK, (given(per_query=False, retracts=retracts),), call("ge", A, LEAST))
    distinct = physical.SetOperation(Pattern.STR, (below,), "distinct")
    check(physical.Cluster(Pattern.STR, (distinct,), (0,), call("le", A, MOST)), reference, seeds=12)

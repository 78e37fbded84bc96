"""Queries over the same streams with other windows and times of registration: none sees rows kept for another."""

from __future__ import annotations

from collections import Counter

from tests.local.common import Logs, at, bag, row
from tests.local.shared_streams import PAIR, add, drop, joins, results

# Windows and the time of registration.


def test_query_with_a_larger_window_does_not_see_rows_kept_for_others() -> None:
    db = joins(PAIR.format(60))
    db.push("r", [row(1, b=1)])
    add(db, "late", PAIR.format(100))
    db.push("r", [row(3, b=3)])
    found = db.push("s", [row(50, b=50)])
    assert results(found, "late") == Counter({(3, 50): 1})
    assert results(found, "q0") == Counter({(1, 50): 1, (3, 50): 1})
    db.push("r", [row(50, a=2)])
    assert bag(db.snapshot("late")) == Counter({(3, 50): 1})
    assert bag(db.snapshot("q0")) == Counter({(1, 50): 1, (3, 50): 1})


def test_rows_are_kept_for_a_larger_window_from_its_registration_on() -> None:
    db = joins(PAIR.format(2))
    db.push("r", [row(1, b=1)])
    db.push("s", [row(1, a=9)])
    add(db, "wide", PAIR.format(100))
    for second in range(2, 60):
        db.push({"r": [row(second, a=second, b=second)], "s": [row(second, a=-second, b=second)]})
    found = db.push("s", [row(60, a=n, b=60) for n in (1, 2, 57, 58, 59)])
    assert results(found, "wide") == Counter({(n, 60): 1 for n in (2, 57, 58, 59)})
    assert results(found, "q0") == Counter({(n, 60): 1 for n in (58, 59)})


def test_largest_window_dropped_and_added_again_does_not_revive_rows() -> None:
    db = joins(PAIR.format(2), PAIR.format(100))
    db.push("r", [row(1, b=1)])
    drop(db, "q1")
    db.push({"r": [row(10, a=5)], "s": [row(10, a=6)]})
    add(db, "again", PAIR.format(100))
    db.push("r", [row(11, b=11)])
    found = db.push("s", [row(20, b=20)])
    assert results(found, "again") == Counter({(11, 20): 1})
    assert results(found, "q0") == Counter()


def test_largest_window_dropped_and_added_again_between_two_pushes_does_not_see_what_was_kept_for_it() -> None:
    db = joins(PAIR.format(100))
    db.push("r", [row(1, b=1)])
    drop(db, "q0")
    add(db, "again", PAIR.format(100))
    assert results(db.push("s", [row(1, b=2)]), "again") == Counter()
    assert bag(db.snapshot("again")) == Counter()


def test_name_that_was_dropped_and_registered_again_starts_anew() -> None:
    db = joins(PAIR.format(10))
    db.push("r", [row(1, b=1)])
    drop(db, "q0")
    add(db, "q0", PAIR.format(10))
    assert results(db.push({"r": [row(2, b=2)], "s": [row(2, b=3)]}), "q0") == Counter({(2, 3): 1})


def test_family_whose_first_query_comes_after_rows_were_evicted_sees_those_that_follow() -> None:
    db = joins(PAIR.format(1))
    db.execute(f"CREATE QUERY FAMILY fam (lo INT) AS {PAIR.format(50)} AND x.b >= :lo")
    for second in range(1, 30):
        db.push({"r": [row(second, b=second)], "s": [row(second, b=second)]})
    db.register("fam", [{"query": "m", "lo": 0}])
    db.push({"r": [row(30, b=30)], "s": [row(30, b=30)]})
    found = db.push({"r": [row(31, b=31)], "s": [row(31, b=31)]})
    assert results(found, "m") == Counter({(30, 31): 1, (31, 30): 1, (31, 31): 1})
    assert bag(db.snapshot("m")) == Counter({(x, y): 1 for x in (30, 31) for y in (30, 31)})


def test_query_registered_between_two_tuples_of_one_instant_sees_the_second_only() -> None:
    db = joins(PAIR.format(5))
    db.push("r", [row(1, b=1)])
    add(db, "late", PAIR.format(5))
    db.push("r", [row(1, b=2)])
    found = db.push("s", [row(1, b=3)])
    assert results(found, "late") == Counter({(2, 3): 1})
    assert results(found, "q0") == Counter({(1, 3): 1, (2, 3): 1})


def test_all_queries_dropped_leaves_nothing_for_the_next() -> None:
    db = joins(PAIR.format(100), PAIR.format(5))
    db.push("r", [row(1)])
    drop(db, "q0")
    drop(db, "q1")
    db.push("r", [row(2)])
    add(db, "next", PAIR.format(100))
    assert results(db.push("s", [row(3)]), "next") == Counter()


def test_stream_keeps_fewer_rows_when_the_largest_window_is_dropped() -> None:
    db = joins(PAIR.format(2), PAIR.format(10_000))

    def push(seconds: range) -> None:
        for second in seconds:
            rows = [row(second, a=i, b=second) for i in range(500)]
            db.push({"r": rows, "s": rows})

    push(range(20))
    assert db.stats()["streams"]["r"]["kept"] == 10_000
    drop(db, "q1")
    push(range(20, 50))
    assert db.stats()["streams"]["r"]["kept"] < 7_500


# Odd windows.


def test_window_of_zero_length_joins_equal_times_only() -> None:
    db = joins(PAIR.format(0), PAIR.format(0).replace("RANGE 0 SECONDS", "NOW"), PAIR.format(9))
    logs = Logs("q0", "q1", "q2")
    for stream, second in (("r", 1), ("s", 1), ("s", 1.000001), ("r", 1.000001), ("r", 2), ("s", 3)):
        logs.take(db.push(stream, [row(second, b=round(second * 1_000_000))]))
    exact = Counter({(1_000_000, 1_000_000): 1, (1_000_001, 1_000_001): 1})
    assert Counter(v for *_, v in logs.of["q0"]) == Counter(v for *_, v in logs.of["q1"]) == exact
    assert sum(len(logs.of[q]) for q in ("q0", "q1")) == 4 and len(logs.of["q2"]) == 9


def test_unbounded_window_keeps_rows_that_bounded_ones_over_the_same_stream_lose() -> None:
    db = joins(PAIR.format(1), "SELECT x.b AS rb, y.b AS sb FROM r AS x, s [RANGE 1 SECOND] AS y WHERE x.a = y.a")
    db.push({"r": [row(1, b=1)], "s": [row(1, a=2)]})
    db.advance(at(10_000))
    for second in range(10_001, 10_040):
        db.push({"r": [row(second, a=second)], "s": [row(second, a=-second)]})
    found = db.push("s", [row(10_040, b=7)])
    assert results(found, "q0") == Counter()
    assert results(found, "q1") == Counter({(1, 7): 1})


def test_rows_of_an_unbounded_window_never_expire() -> None:
    db = joins("SELECT x.b AS rb, y.b AS sb FROM r AS x, s AS y WHERE x.a = y.a")
    db.push({"r": [row(1, b=1)], "s": [row(1, b=2)]})
    db.advance(at(1_000_000))
    assert bag(db.snapshot("q0")) == Counter({(1, 2): 1})


def test_count_window_has_no_more_rows_than_it_says() -> None:
    db = joins("SELECT x.b AS rb, y.b AS sb FROM r [ROWS 2] AS x, s [ROWS 3] AS y WHERE x.a = y.a")
    for i in range(6):
        db.push({"r": [row(i, b=i)], "s": [row(i, b=i)]})
    assert bag(db.snapshot("q0")) == Counter((x, y) for x in (4, 5) for y in (3, 4, 5))


def test_count_windows_of_later_queries_are_filled_by_later_rows() -> None:
    db = joins("SELECT b FROM r [ROWS 2]")
    db.push("r", [row(i, b=i) for i in range(4)])
    add(db, "more", "SELECT b FROM r [ROWS 5]")
    db.push("r", [row(4, b=4)])
    assert bag(db.snapshot("more")) == Counter({(4,): 1})
    assert bag(db.snapshot("q0")) == Counter({(3,): 1, (4,): 1})
    drop(db, "q0")
    db.push("r", [row(i, b=i) for i in range(5, 9)])
    assert bag(db.snapshot("more")) == Counter((i,) for i in range(4, 9))


def test_count_and_time_windows_of_one_stream_do_not_evict_for_each_other() -> None:
    db = joins(
        "SELECT b FROM r [ROWS 3]",
        "SELECT x.b AS rb, y.b AS sb FROM r [ROWS 3] AS x, s [RANGE 1 SECOND] AS y WHERE x.a = y.a",
        PAIR.format(1),
    )
    db.push({"r": [row(i, b=i) for i in range(3)], "s": [row(2, b=9)]})
    db.advance(at(500))
    found = db.push({"s": [row(500, b=8)], "r": []})
    assert results(found, "q1") == Counter({(i, 8): 1 for i in range(3)})
    assert results(found, "q2") == Counter()
    assert bag(db.snapshot("q0")) == Counter({(i,): 1 for i in range(3)})

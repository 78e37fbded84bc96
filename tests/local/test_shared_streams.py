"""Many joins over the same streams: none sees what is kept for another, and no row is joined twice or lost.

Each test is a case that a store of rows shared by all queries could get wrong: rows that arrived before a query or were
evicted before it came, windows that grow and shrink, equal timestamps, self-joins, keys that are equal in odd ways.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import eddyline
from tests.local.common import Logs, at, bag, by_intervals, cuts, row, world

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


# Self-joins.


@pytest.mark.parametrize("size", [1, 2, 5])
def test_self_join_pairs_every_row_with_itself_once_however_the_rows_are_cut(size: int) -> None:
    twice = "SELECT x.b AS xb, y.b AS yb FROM r [RANGE 9 SECONDS] AS x, r [RANGE 9 SECONDS] AS y WHERE x.a = y.a"
    thrice = "SELECT x.b, y.b, z.b FROM r [RANGE 9 SECONDS] x, r [RANGE 9 SECONDS] y, r [RANGE 9 SECONDS] z "
    db = joins(twice, thrice + "WHERE x.a = y.a AND z.a = y.a")
    logs = Logs("q0", "q1")
    rows = [row(1, b=1), row(1, b=2), row(2, a=7, b=3), row(2, b=4), row(2, a=None, b=5)]
    for part in cuts(rows, size):
        logs.take(db.push("r", part))
    same = (1, 2, 4)
    assert Counter(v for *_, v in logs.of["q0"]) == Counter([(x, y) for x in same for y in same] + [(3, 3)])
    wanted = Counter([(x, y, z) for x in same for y in same for z in same] + [(3, 3, 3)])
    assert Counter(v for *_, v in logs.of["q1"]) == bag(db.snapshot("q1")) == wanted


@pytest.mark.parametrize("size", [1, 2, 4])
def test_self_join_applies_the_window_of_each_side(size: int) -> None:
    db = joins("SELECT x.b AS xb, y.b AS yb FROM r [RANGE 1 SECOND] AS x, r [RANGE 5 SECONDS] AS y WHERE x.a = y.a")
    rows = [row(0, b=0), row(1, b=1), row(3, b=3), row(6, b=6)]
    logs = Logs("q0")
    for part in cuts(rows, size):
        logs.take(db.push("r", part))
    # Both are in their windows at the later of the two times: x for 1 second, y for 5.
    wanted = Counter((x, y) for x in (0, 1, 3, 6) for y in (0, 1, 3, 6) if max(x, y) <= min(x + 1, y + 5))
    assert Counter(v for *_, v in logs.of["q0"]) == wanted
    assert bag(db.snapshot("q0")) == Counter({(6, 3): 1, (6, 6): 1, (6, 1): 1})


def test_self_join_of_a_count_window_with_a_time_window() -> None:
    db = joins("SELECT x.b AS xb, y.b AS yb FROM r [ROWS 1] AS x, r [RANGE 3 SECONDS] AS y WHERE x.a = y.a")
    for _ in one_by_one(db, "r", row(0, b=0), row(1, b=1), row(2, b=2)):
        pass
    assert bag(db.snapshot("q0")) == Counter({(2, 0): 1, (2, 1): 1, (2, 2): 1})
    db.push("r", [row(5, b=5)])
    assert bag(db.snapshot("q0")) == Counter({(5, 2): 1, (5, 5): 1})


def test_self_join_with_a_third_stream_uses_each_row_in_each_role() -> None:
    db = joins(
        "SELECT x.b, y.b, z.b FROM r [RANGE 9 SECONDS] x, s [RANGE 9 SECONDS] z, r [RANGE 9 SECONDS] y "
        "WHERE x.a = z.a AND z.a = y.a AND x.b < y.b"
    )
    db.push({"r": [row(1, b=1), row(1, b=2)], "s": [row(1, b=9)]})
    found = db.push("r", [row(2, b=3)])
    assert results(found, "q0") == Counter({(1, 3, 9): 1, (2, 3, 9): 1})


# Equal timestamps and order of arrival.


@pytest.mark.parametrize("size", [1, 2, 3, 9])
def test_streams_pushed_together_at_one_instant_make_every_combination_once(size: int) -> None:
    text = "SELECT x.b, y.b, z.b FROM r [RANGE 5 SECONDS] x, s [RANGE 5 SECONDS] y, v [RANGE 5 SECONDS] z "
    db = joins(text + "WHERE x.a = y.a AND y.a = z.a", text + "WHERE z.a = x.a AND x.a = y.a", PAIR.format(5))
    logs = Logs("q0", "q1", "q2")
    rows = [(stream, row(1, b=i)) for i in range(3) for stream in "rsv"]
    for part in cuts(rows, size):
        batch: dict[str, list[Any]] = {}
        for stream, each in part:
            batch.setdefault(stream, []).append(each)
        logs.take(db.push(batch))
    triples = Counter((x, y, z) for x in range(3) for y in range(3) for z in range(3))
    assert Counter(v for *_, v in logs.of["q0"]) == Counter(v for *_, v in logs.of["q1"]) == triples
    assert Counter(v for *_, v in logs.of["q2"]) == Counter((x, y) for x in range(3) for y in range(3))


def test_equal_rows_count_as_often_as_they_arrive() -> None:
    db = joins(PAIR.format(5))
    db.push("r", [row(1), row(1)])
    db.push("r", [row(1)])
    assert results(db.push("s", [row(1), row(2)]), "q0") == Counter({(1, 1): 6})
    assert bag(db.snapshot("q0")) == Counter({(1, 1): 3})  # the clock is that of r, at 1


def test_rows_out_of_order_meet_rows_that_newer_ones_would_have_evicted() -> None:
    db = joins(PAIR.format(2), delay=10)
    db.push("s", [row(10, b=10), row(12, b=12)])
    db.push({"s": [row(30, a=5)], "r": [row(20, a=6)]})  # the clock is 10: rows of second 10 are still needed
    found = db.push("r", [row(11, b=11), row(12.5, b=13)])
    assert results(found, "q0") == Counter({(11, 10): 1, (11, 12): 1, (13, 12): 1})


def test_late_tuples_join_with_nothing_later() -> None:
    db = joins(PAIR.format(100))
    db.push("r", [row(10, b=10)])
    db.push("r", [row(5, b=5)])
    assert results(db.push("s", [row(10, b=1)]), "q0") == Counter({(10, 1): 1})
    assert db.stats()["late"] == 1
    assert results(db.push({"r": [row(1)], "s": []}), "q0") == Counter()


def test_under_clock_max_a_tuple_may_be_behind_the_clock_of_one_family_and_not_of_another() -> None:
    own = "SELECT x.b AS xb, y.b AS yb FROM r [RANGE 50 SECONDS] x, r [RANGE 50 SECONDS] y WHERE x.a = y.a"
    db = joins(PAIR.format(50), own, PAIR.format(50).replace("s [", "v ["), clock="max")
    db.push("s", [row(10, b=10)])
    db.push("v", [row(4, b=4)])
    found = db.push("r", [row(5, b=5)])
    assert results(found, "q0") == Counter()  # s has set its clock to 10
    assert results(found, "q1") == Counter({(5, 5): 1})
    assert results(found, "q2") == Counter({(5, 4): 1})
    found = db.push("r", [row(11, b=11)])
    assert results(found, "q0") == Counter({(11, 10): 1})
    assert results(found, "q1") == Counter({(5, 11): 1, (11, 5): 1, (11, 11): 1})
    assert results(db.push("s", [row(12, b=12)]), "q0") == Counter({(11, 12): 1})
    assert bag(db.snapshot("q0")) == Counter({(11, 10): 1, (11, 12): 1})
    assert db.late("r").num_rows == 1


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


# Keys.


def test_null_keys_join_with_nothing_and_nan_and_zeros_with_themselves() -> None:
    db = joins(
        "SELECT x.b AS rb, y.b AS sb FROM r [RANGE 9 SECONDS] x, s [RANGE 9 SECONDS] y WHERE x.c = y.c",
        "SELECT x.b AS rb, y.b AS sb FROM r [RANGE 9 SECONDS] x, s [RANGE 9 SECONDS] y WHERE x.c <=> y.c",
    )
    odd = [None, float("nan"), -0.0, 0.0, float("inf"), -float("nan"), float("-inf")]
    groups = [{1, 5}, {2, 3}, {4}, {6}]
    db.push("r", [row(1, b=i, c=c) for i, c in enumerate(odd)])
    found = db.push("s", [row(1, b=i, c=c) for i, c in enumerate(odd)])
    equal = Counter((x, y) for group in groups for x in group for y in group)
    assert results(found, "q0") == equal
    assert results(found, "q1") == equal + Counter({(0, 0): 1})


def test_texts_join_if_all_their_characters_are_equal() -> None:
    db = joins("SELECT x.b AS rb, y.b AS sb FROM r [RANGE 9 SECONDS] x, s [RANGE 9 SECONDS] y WHERE x.n = y.n")
    for i, text in enumerate(TEXTS):
        db.push("r", [row(1, b=i, n=text)])
    found = db.push("s", [row(1, b=i, n=text) for i, text in enumerate((*TEXTS, None, "b"))])
    assert results(found, "q0") == Counter((i, i) for i in range(len(TEXTS)))


def test_keys_of_different_types_join_by_value() -> None:
    db = joins(
        "SELECT x.a AS k, y.b AS v FROM r [RANGE 9 SECONDS] x, s [RANGE 9 SECONDS] y WHERE x.a = y.b",
        "SELECT x.a AS k, y.c AS v FROM r [RANGE 9 SECONDS] x, s [RANGE 9 SECONDS] y WHERE x.a = y.c",
        "SELECT x.a AS k, y.b AS v, z.c AS w FROM r [RANGE 9 SECONDS] x, s [RANGE 9 SECONDS] y, v [RANGE 9 SECONDS] z "
        "WHERE x.a = y.b AND y.b = z.c",
    )
    db.push("r", [row(1, a=a) for a in (0, 1, -1, 2**31 - 1)])
    wide = [(0, -0.0), (1, 1.0), (-1, -1.5), (2**32 + 1, 1.5), (2**31 - 1, 2147483647.0), (2**63 - 1, float("nan"))]
    found = db.push("s", [row(1, b=b, c=c) for b, c in wide])
    assert results(found, "q0") == Counter((n, n) for n in (0, 1, -1, 2**31 - 1))
    assert results(found, "q1") == Counter((n, float(n)) for n in (0, 1, 2**31 - 1))
    found = db.push("v", [row(1, c=c) for _, c in wide])
    assert results(found, "q2") == Counter((n, n, float(n)) for n in (0, 1, 2**31 - 1))


def test_keys_that_overflow_join_with_nothing() -> None:
    db = joins("SELECT x.a AS k, y.a AS v FROM r [RANGE 9 SECONDS] x, s [RANGE 9 SECONDS] y WHERE x.b + 1 = y.b")
    db.push("r", [row(1, a=1, b=2**63 - 1), row(1, a=2, b=-1)])
    found = db.push("s", [row(1, a=3, b=-(2**63)), row(1, a=4, b=0)])
    assert results(found, "q0") == Counter({(2, 4): 1})


def test_equalities_of_different_attributes_are_not_closed_into_one_key() -> None:
    db = joins(
        "SELECT x.b, y.b, z.b FROM r [RANGE 9 SECONDS] x, s [RANGE 9 SECONDS] y, v [RANGE 9 SECONDS] z "
        "WHERE x.a = y.a AND y.b = z.a"
    )
    db.push({"r": [row(1, a=1, b=1)], "s": [row(1, a=1, b=2)]})
    assert results(db.push("v", [row(1, a=1, b=3)]), "q0") == Counter()
    assert results(db.push("v", [row(1, a=2, b=4)]), "q0") == Counter({(1, 2, 4): 1})


def test_transitive_equality_of_a_double_between_two_whole_numbers_is_not_skipped() -> None:
    """BIGINT keys that round to the same double are equal to it, and not to each other."""
    db = joins(
        "SELECT x.b AS k, y.c AS v, z.b AS w FROM r [RANGE 9 SECONDS] x, s [RANGE 9 SECONDS] y, v [RANGE 9 SECONDS] z "
        "WHERE x.b = y.c AND y.c = z.b"
    )
    db.push("r", [row(1, b=2**53)])
    db.push("s", [row(1, c=2.0**53)])
    assert results(db.push("v", [row(1, b=2**53 + 1)]), "q0") == Counter({(2**53, 2.0**53, 2**53 + 1): 1})


# Per-query selections and constants.


def test_selections_of_different_queries_do_not_mix() -> None:
    db = joins()
    db.execute(f"CREATE QUERY FAMILY fam (x INT, y INT) AS {PAIR.format(9)} AND x.b = :x AND y.b = :y")
    db.register("fam", [{"query": f"m{x}{y}", "x": x, "y": y} for x in range(3) for y in range(3)])
    db.push("r", [row(1, b=0), row(1, b=1)])
    found = db.push("s", [row(1, b=1), row(1, b=2)])
    for x in range(3):
        for y in range(3):
            assert results(found, f"m{x}{y}") == Counter({(x, y): 1} if x < 2 and y > 0 else {})


def test_windows_of_different_queries_of_one_family_do_not_mix() -> None:
    db = joins()
    text = "SELECT x.b AS rb, y.b AS sb FROM r [RANGE :w SECONDS] x, s [RANGE :v SECONDS] y WHERE x.a = y.a"
    db.execute(f"CREATE QUERY FAMILY fam (w INT, v INT) AS {text}")
    db.register("fam", [{"query": f"m{w}_{v}", "w": w, "v": v} for w in (0, 3, 7) for v in (0, 3, 7)])
    logs = Logs(*(f"m{w}_{v}" for w in (0, 3, 7) for v in (0, 3, 7)))
    logs.take(db.push({"r": [row(0, b=0), row(5, b=5)], "s": [row(2, b=2), row(8, b=8)]}))
    for w in (0, 3, 7):
        for v in (0, 3, 7):
            wanted = Counter((x, y) for x in (0, 5) for y in (2, 8) if max(x, y) <= min(x + w, y + v))
            assert Counter(values for *_, values in logs.of[f"m{w}_{v}"]) == wanted, (w, v)


def test_three_inputs_are_pruned_by_the_condition_of_each_query_on_each_of_them() -> None:
    db = joins()
    text = "SELECT x.b, y.b, z.b FROM r [RANGE 9 SECONDS] x, s [RANGE 9 SECONDS] y, v [RANGE 9 SECONDS] z "
    db.execute(
        f"CREATE QUERY FAMILY fam (i INT, j INT, k INT) AS {text} WHERE x.a = y.a AND y.a = z.a "
        "AND x.b >= :i AND y.b >= :j AND z.b >= :k"
    )
    names = [(i, j, k) for i in range(3) for j in range(3) for k in range(3)]
    db.register("fam", [{"query": f"m{i}{j}{k}", "i": i, "j": j, "k": k} for i, j, k in names])
    logs = Logs(*(f"m{i}{j}{k}" for i, j, k in names))
    for stream in "svr":
        logs.take(db.push(stream, [row(1, b=0), row(1, b=1)]))
    for i, j, k in names:
        wanted = Counter((x, y, z) for x in range(i, 2) for y in range(j, 2) for z in range(k, 2))
        assert Counter(values for *_, values in logs.of[f"m{i}{j}{k}"]) == wanted


# Tables.


def test_table_that_changes_between_pushes_is_seen_as_it_was_and_as_it_is() -> None:
    join = (
        "SELECT x.b, y.b, t.n FROM r [RANGE 9 SECONDS] x, s [RANGE 9 SECONDS] y, {0} AS t WHERE x.a = y.a AND y.a = t.a"
    )
    db = joins(join.format("t"), join.format("u"))
    db.execute("INSERT INTO t VALUES (1, 'old'); INSERT INTO u VALUES (1, 'old')")
    logs = Logs("q0", "q1")
    heard = [
        db.push({"r": [row(1, b=1)], "s": [row(1, b=2)]}),
        db.execute("DELETE FROM t WHERE a = 1"),
        db.execute("DELETE FROM u WHERE a = 1"),
        db.execute("INSERT INTO u VALUES (1, 'new')"),
        db.execute("INSERT INTO t VALUES (1, 'new')"),
        db.push("s", [row(2, b=3)]),
        db.push("r", [row(2, a=9)]),
    ]
    assert results(heard[0], "q0") == results(heard[0], "q1") == Counter({(1, 2, "old"): 1})  # read after all changes
    for changes in heard:
        logs.take(changes)
    assert bag(db.snapshot("q0")) == Counter({(1, 2, "new"): 1, (1, 3, "new"): 1})
    assert bag(db.snapshot("q1")) == Counter({(1, 2, "old"): 1, (1, 3, "new"): 1})
    for query in ("q0", "q1"):
        assert by_intervals(logs.of[query], at(2)) == bag(db.snapshot(query))


def test_query_registered_after_a_change_of_a_table_sees_the_whole_table_and_no_earlier_tuple() -> None:
    text = "SELECT x.b AS rb, k.n FROM r [RANGE 50 SECONDS] x, k WHERE x.a = k.a"
    db = joins(text)
    db.push("r", [row(1, b=1)])
    db.execute("INSERT INTO k VALUES (1, 'one')")
    add(db, "late", text)
    db.push("r", [row(2, b=2)])
    assert bag(db.snapshot("late")) == Counter({(2, "one"): 1})
    assert bag(db.snapshot("q0")) == Counter({(1, "one"): 1, (2, "one"): 1})


# Inputs that retract rows.


def test_count_window_that_pushes_a_row_out_retracts_its_joins_in_every_query() -> None:
    text = "SELECT x.b AS rb, y.b AS sb FROM r [ROWS {}] AS x, s [RANGE 50 SECONDS] AS y WHERE x.a = y.a"
    db = joins(text.format(1), text.format(2))
    logs = Logs("q0", "q1")
    logs.take(db.push({"r": [row(1, b=1)], "s": [row(1, b=9)]}))
    logs.take(db.push({"r": [row(2, b=2)], "s": [row(2, a=5)]}))
    assert by_intervals(logs.of["q0"], at(2)) == Counter({(2, 9): 1})
    assert by_intervals(logs.of["q1"], at(2)) == Counter({(1, 9): 1, (2, 9): 1})
    logs.take(db.push({"r": [row(3, b=3)], "s": [row(3, a=5)]}))
    assert by_intervals(logs.of["q0"], at(3)) == bag(db.snapshot("q0")) == Counter({(3, 9): 1})
    assert by_intervals(logs.of["q1"], at(3)) == bag(db.snapshot("q1")) == Counter({(2, 9): 1, (3, 9): 1})


def test_distinct_below_a_join_and_the_stream_itself_beside_it() -> None:
    db = joins(
        "SELECT d.a, y.b FROM (SELECT DISTINCT a FROM r [RANGE 3 SECONDS]) AS d, r [RANGE 9 SECONDS] AS y "
        "WHERE d.a = y.a"
    )
    db.push("r", [row(1, b=1), row(1, b=2)])
    db.push("r", [row(3, b=3)])
    assert bag(db.snapshot("q0")) == Counter({(1, 1): 1, (1, 2): 1, (1, 3): 1})
    db.advance(at(7))
    assert bag(db.snapshot("q0")) == Counter()
    db.push("r", [row(7, b=7)])
    assert bag(db.snapshot("q0")) == Counter({(1, i): 1 for i in (1, 2, 3, 7)})


# Restoring.


def test_restored_store_serves_old_queries_and_hides_old_rows_from_new_ones(tmp_path: Path) -> None:
    db = joins(PAIR.format(20), "SELECT b FROM r [ROWS 3]", "SELECT x.b AS l, y.b AS m FROM r x, r y WHERE x.a = y.a")
    db.push("r", [row(1, b=1)])
    db.save(tmp_path / "state")
    db = eddyline.connect(tmp_path / "state")
    add(db, "late", PAIR.format(40))
    db.push("r", [row(2, b=2)])
    found = db.push("s", [row(2, b=9)])
    assert results(found, "q0") == Counter({(1, 9): 1, (2, 9): 1})
    assert results(found, "late") == Counter({(2, 9): 1})
    assert bag(db.snapshot("q1")) == Counter({(1,): 1, (2,): 1})
    assert bag(db.snapshot("q2")) == Counter((x, y) for x in (1, 2) for y in (1, 2))


def test_a_row_that_arrives_after_registration_is_not_in_the_initial_answer() -> None:
    db = world()
    db.execute("INSERT INTO t VALUES (1, 'x')")
    for name, window in (("f", "RANGE 10 SECONDS"), ("g", "ROWS 10")):
        matched = "(SELECT a, n FROM t WHERE a > :lo) AS y"
        db.execute(f"CREATE QUERY FAMILY {name} (lo INT) AS SELECT s.b FROM s [{window}], {matched} WHERE s.a = y.a")
    db.push("s", [row(1)])
    initial = {name: db.register(name, [{"query": name + "1", "lo": 0}]) for name in "fg"}
    changes = db.push("s", [row(1, b=7)])  # at the clock of the registration
    for name, registered in initial.items():
        assert results(registered, name + "1") == Counter()
        assert results(changes, name + "1") == Counter({(7,): 1})

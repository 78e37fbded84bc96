"""`exp` and `-`: when rows end, and which queries never take a row back."""

from __future__ import annotations

from datetime import timedelta
from random import Random
from typing import Any

import pytest

import eddyline
from tests.local.common import Logs, at, bag, by_intervals, clock_of, consolidated, log_of, random_rows, row, world


def standing(text: str, delay: int = 0) -> Any:
    db = world(delay=delay)
    db.execute(f"CREATE CONTINUOUS QUERY q AS {text}")
    return db


def test_filter_over_a_window_ends_its_width_after_the_event() -> None:
    db = standing("SELECT a FROM s [RANGE 2.5 SECONDS] WHERE a > 0")
    assert log_of(db.push("s", [row(1), row(4)]), "q") == [("+", at(1), at(3.5), (1,)), ("+", at(4), at(6.5), (1,))]


def test_filter_without_a_window_never_ends() -> None:
    assert log_of(standing("SELECT a FROM s").push("s", [row(1)]), "q") == [("+", at(1), None, (1,))]


def test_now_is_a_window_of_a_single_instant() -> None:
    for window in ("NOW", "RANGE 0 SECONDS"):
        assert log_of(standing(f"SELECT a FROM s [{window}]").push("s", [row(1)]), "q") == [("+", at(1), at(1), (1,))]


@pytest.mark.parametrize(
    ("width", "length"),
    [
        ("250 MILLISECONDS", timedelta(milliseconds=250)),
        ("7 MICROSECONDS", timedelta(microseconds=7)),
        ("3 MINUTES", timedelta(minutes=3)),
        ("2 HOURS", timedelta(hours=2)),
        ("1 DAY", timedelta(days=1)),
        ("2 WEEKS", timedelta(weeks=2)),
    ],
)
def test_windows_take_every_unit(width: str, length: timedelta) -> None:
    db = standing(f"SELECT a FROM s [RANGE {width}]")
    assert log_of(db.push("s", [row(1)]), "q") == [("+", at(1), at(1) + length, (1,))]


def test_join_ends_with_the_side_that_ends_first() -> None:
    db = standing("SELECT r.b, s.b FROM r [RANGE 2 SECONDS], s [RANGE 5 SECONDS] WHERE r.a = s.a")
    db.push("s", [row(0, b=1)])
    assert log_of(db.push("r", [row(1, b=2)]), "q") == [("+", at(1), at(3), (2, 1))]
    assert log_of(db.push("r", [row(4, b=3)]), "q") == [("+", at(4), at(5), (3, 1))]
    assert log_of(db.push("r", [row(5, b=4)]), "q") == [("+", at(5), at(5), (4, 1))]
    assert log_of(db.push("r", [row(5.1, b=5)]), "q") == []


def test_join_with_an_unbounded_side_ends_with_the_window() -> None:
    db = standing("SELECT r.b, s.b FROM r, s [RANGE 5 SECONDS] WHERE r.a = s.a")
    db.push("r", [row(0, b=1)])
    assert log_of(db.push("s", [row(3, b=2)]), "q") == [("+", at(3), at(8), (1, 2))]
    db = standing("SELECT r.b, s.b FROM r, s WHERE r.a = s.a")
    db.push("r", [row(0, b=1)])
    assert log_of(db.push("s", [row(3, b=2)]), "q") == [("+", at(3), None, (1, 2))]


def test_join_of_rows_that_arrive_out_of_order_begins_at_the_later_event() -> None:
    db = standing("SELECT r.b, s.b FROM r [RANGE 4 SECONDS], s [RANGE 5 SECONDS] WHERE r.a = s.a", delay=10)
    db.push("s", [row(6, b=1)])
    assert log_of(db.push("r", [row(3, b=2)]), "q") == [("+", at(6), at(7), (2, 1))]


def test_windows_of_a_family_end_by_their_own_width() -> None:
    db = world()
    db.execute("CREATE QUERY FAMILY f (w DOUBLE) AS SELECT a FROM s [RANGE :w SECONDS]")
    db.register("f", [{"query": f"w{i}", "w": float(w)} for i, w in enumerate((0, 0.5, 3))])
    ch = db.push("s", [row(1)])
    assert [log_of(ch, f"w{i}")[0][2] for i in range(3)] == [at(1), at(1.5), at(4)]


def test_a_negative_window_is_refused() -> None:
    db = world()
    db.execute("CREATE QUERY FAMILY f (w INT) AS SELECT a FROM s [RANGE :w SECONDS]")
    with pytest.raises(eddyline.DataError, match="window"):
        db.register("f", [{"query": "zero", "w": 0}, {"query": "neg", "w": -1}])
    assert db.execute("SHOW QUERIES").num_rows == 0


def test_distinct_is_renewed_without_a_retraction() -> None:
    db = standing("SELECT DISTINCT a FROM s [RANGE 3 SECONDS]")
    logs = Logs("q")
    for seconds in (0, 2, 4, 20):
        logs.take(db.push("s", [row(seconds)]))
    logs.take(db.advance(at(60)))
    log = logs.of["q"]
    assert {op for op, *_ in log} == {"+"}
    assert consolidated(log) == {
        ((1,), at(0)): 1,
        ((1,), at(7) + timedelta(microseconds=1)): -1,
        ((1,), at(20)): 1,
        ((1,), at(23) + timedelta(microseconds=1)): -1,
    }
    for seconds in (0, 3, 5, 7, 8, 20, 23, 24):
        want = 1 if 0 <= seconds <= 7 or 20 <= seconds <= 23 else 0
        assert by_intervals(log, at(seconds))[(1,)] == want, seconds


def test_distinct_without_a_window_is_sent_once_and_never_ends() -> None:
    db = standing("SELECT DISTINCT a FROM s")
    logs = Logs("q")
    for seconds in (0, 1, 2):
        logs.take(db.push("s", [row(seconds), row(seconds)]))
    assert logs.of["q"] == [("+", at(0), None, (1,))]


def test_group_rows_hold_until_the_group_next_changes() -> None:
    db = standing("SELECT a, COUNT(*) AS k FROM s [RANGE 4 SECONDS] GROUP BY a")
    logs = Logs("q")
    for seconds in (0, 1):
        logs.take(db.push("s", [row(seconds)]))
    logs.take(db.advance(at(60)))
    answers = {t: by_intervals(logs.of["q"], at(t)) for t in (0, 0.5, 1, 4, 4.5, 5, 5.5)}
    one, two = {(1, 1): 1}, {(1, 2): 1}
    assert answers == {0: one, 0.5: one, 1: two, 4: two, 4.5: one, 5: one, 5.5: {}}
    assert all(exp is not None for op, _, exp, _ in logs.of["q"] if op == "+")


def test_group_rows_without_a_window_have_no_end_and_are_taken_back() -> None:
    db = standing("SELECT a, COUNT(*) AS k FROM s GROUP BY a")
    assert log_of(db.push("s", [row(0)]), "q") == [("+", at(0), None, (1, 1))]
    log = log_of(db.push("s", [row(3)]), "q")
    assert sorted(log) == [("+", at(3), None, (1, 2)), ("-", at(3), None, (1, 1))]


def test_a_retraction_names_the_end_of_the_row_it_takes_back() -> None:
    db = standing("SELECT a FROM s [RANGE 9 SECONDS] EXCEPT ALL SELECT a FROM r [RANGE 9 SECONDS]")
    logs = Logs("q")
    logs.take(db.push("s", [row(0)]))
    logs.take(db.push("r", [row(0, a=7)]))
    logs.take(db.push({"s": [row(2, a=5)], "r": [row(2)]}))
    logs.take(db.advance(at(3)))
    assert [(op, exp) for op, _, exp, v in logs.of["q"] if v == (1,)] == [("+", at(9)), ("-", at(9))]


def test_count_windows_take_back_what_is_pushed_out() -> None:
    db = standing("SELECT b FROM s [ROWS 1]")
    logs = Logs("q")
    for i in range(3):
        logs.take(db.push("s", [row(i, b=i)]))
    assert logs.of["q"] == [
        ("+", at(0), None, (0,)), ("+", at(1), None, (1,)), ("-", at(1), None, (0,)),
        ("+", at(2), None, (2,)), ("-", at(2), None, (1,)),
    ]  # fmt: skip


NEVER_TAKEN_BACK = [
    "SELECT a, n FROM s WHERE a > 0",
    "SELECT a FROM s [RANGE 2 SECONDS]",
    "SELECT a FROM s [NOW]",
    "SELECT r.a, s.b FROM r, s WHERE r.a = s.a",
    "SELECT r.a, s.b FROM r [RANGE 2 SECONDS], s [RANGE 3 SECONDS] WHERE r.a = s.a",
    "SELECT x.a, y.b, z.b FROM r [RANGE 2 SECONDS] x, s [RANGE 3 SECONDS] y, s [RANGE 1 SECOND] z "
    "WHERE x.a = y.a AND y.b = z.b",
    "SELECT r.a, s.a FROM r [RANGE 4 SECONDS], s [RANGE 2 SECONDS] WHERE s.b - r.b BETWEEN 0 AND 1",
    "SELECT r.a, s.a FROM r, s WHERE abs(r.ts - s.ts) <= INTERVAL 1 SECOND",
    "SELECT DISTINCT a FROM s",
    "SELECT DISTINCT a, b FROM s [RANGE 2 SECONDS]",
    "SELECT DISTINCT r.a FROM r [RANGE 2 SECONDS], s [RANGE 3 SECONDS] WHERE r.a = s.a",
    "SELECT a FROM s [RANGE 2 SECONDS] UNION ALL SELECT a FROM r",
    "SELECT a FROM s [RANGE 2 SECONDS] UNION SELECT a FROM r [RANGE 3 SECONDS]",
    "SELECT s.a, u.n FROM s [RANGE 2 SECONDS], u WHERE s.a = u.a",
    "SELECT x.a FROM (SELECT DISTINCT a FROM s [RANGE 3 SECONDS]) AS x, r [RANGE 2 SECONDS] WHERE x.a = r.a",
]


@pytest.mark.parametrize("text", NEVER_TAKEN_BACK)
def test_monotonic_and_weakest_queries_never_take_a_row_back(text: str) -> None:
    rnd = Random(text)
    db = standing(text, delay=1)
    db.execute("INSERT INTO u VALUES (1, 'p'), (2, 'q')")
    logs, now = Logs("q"), 0.0
    for _ in range(25):
        now += rnd.choice([0, 1])
        batch = random_rows(rnd, [max(0.0, now - rnd.choice([0, 1])) for _ in range(4)])
        logs.take(db.push({"r": batch[:2], "s": batch[2:]}))
        assert by_intervals(logs.of["q"], clock_of(db, "q")) == bag(db.snapshot("q"))
    logs.take(db.advance(at(now + 9)))
    assert logs.of["q"] and {op for op, *_ in logs.of["q"]} == {"+"}
    assert by_intervals(logs.of["q"], clock_of(db, "q")) == bag(db.snapshot("q"))

"""Joins whose inputs retract in one step: every joined row is retracted once, when its first part leaves."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import permutations
from typing import Any

import pytest

import eddyline
from eddyline.reference import fold_by_signs, micros, unmatched

START = datetime(2026, 1, 1)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


class Watched:
    """A connection with the streams r, s and t, which declare a delay of a minute, and the log of one query."""

    def __init__(self, sql: str, options: str = "") -> None:
        self.db = eddyline.connect()
        for name in "rst":
            self.db.execute(
                f"CREATE STREAM {name} (b INT, ts TIMESTAMP) WATERMARK ts DELAY OF INTERVAL 60 SECONDS; "
                f"CREATE TABLE {name}_table (b INT)"
            )
        self.log: list[tuple[str, float | None, float | None, Any]] = []
        self.take(self.db.execute(f"CREATE CONTINUOUS QUERY q{options} AS {sql}"))

    def take(self, changes: Any) -> None:
        def seconds(moment: datetime | None) -> float | None:
            return None if moment is None else (moment - START).total_seconds()

        if changes is not None:
            for row in changes.rows("q").to_pylist():
                op, ts, exp, *values = row.values()
                self.log.append((op, seconds(ts), seconds(exp), *values))

    def push(self, **streams: list[tuple[int, float]]) -> None:
        self.take(self.db.push({s: [{"b": b, "ts": at(t)} for b, t in rows] for s, rows in streams.items()}))

    def advance(self, seconds: float) -> None:
        self.take(self.db.advance(at(seconds)))

    def execute(self, sql: str) -> None:
        self.take(self.db.execute(sql))


PAIRS = "SELECT r.b FROM r [ROWS 1], s [ROWS 1] WHERE r.b = s.b"


@pytest.mark.parametrize(("of_r", "of_s"), [(12, 10), (10, 12), (11, 11)])
def test_a_row_whose_parts_leave_in_one_step_is_retracted_once(of_r: float, of_s: float) -> None:
    q = Watched(PAIRS)
    q.push(r=[(1, 0)], s=[(1, 0)])
    q.advance(0)
    q.push(r=[(2, of_r)], s=[(3, of_s)])
    q.advance(20)
    assert q.log == [("+", 0, None, 1), ("-", min(of_r, of_s), None, 1)]


@pytest.mark.parametrize("leaves", list(permutations([10, 11, 12])))
def test_of_three_parts_the_first_to_leave_retracts_the_row(leaves: tuple[float, ...]) -> None:
    q = Watched("SELECT r.b FROM r [ROWS 1], s [ROWS 1], t [ROWS 1] WHERE r.b = s.b AND s.b = t.b")
    q.push(r=[(1, 0)], s=[(1, 0)], t=[(1, 0)])
    q.advance(0)
    q.push(r=[(2, leaves[0])], s=[(3, leaves[1])], t=[(4, leaves[2])])
    q.advance(20)
    assert q.log == [("+", 0, None, 1), ("-", 10, None, 1)]


def test_a_row_that_comes_and_goes_within_a_step_is_sent_with_its_end() -> None:
    q = Watched(PAIRS)
    q.push(r=[(1, 0), (2, 5), (1, 8), (2, 12)], s=[(1, 0), (2, 6), (1, 7), (2, 11)])
    q.advance(20)
    assert sorted(q.log) == [
        ("+", 0, 4.999999, 1),
        ("+", 6, 6.999999, 2),
        ("+", 8, 10.999999, 1),
        ("+", 12, None, 2),
    ]


def test_a_row_that_leaves_and_comes_back_within_a_step_is_retracted_and_sent_again() -> None:
    q = Watched(
        "SELECT x.b FROM (SELECT b FROM r [ROWS 1] EXCEPT ALL SELECT b FROM t) AS x, s [ROWS 1] WHERE x.b = s.b"
    )
    q.push(r=[(1, 0)], s=[(1, 0)])
    q.advance(0)
    q.push(r=[(5, 10), (1, 12)], s=[(6, 11), (1, 13)])
    q.advance(20)
    assert q.log == [("+", 0, None, 1), ("-", 10, None, 1), ("+", 13, None, 1)]


def test_an_end_known_before_stays_the_name_of_the_row() -> None:
    q = Watched(
        "SELECT r.b FROM r [ROWS 1], (SELECT b FROM s [RANGE 30 SECONDS] EXCEPT ALL SELECT b FROM t) AS x "
        "WHERE r.b = x.b"
    )
    q.push(r=[(1, 0)], s=[(1, 0)])
    q.advance(0)
    q.push(r=[(2, 12)], t=[(1, 10)])
    q.advance(20)
    assert q.log == [("+", 0, 30, 1), ("-", 10, 30, 1)]


def test_rows_ahead_of_the_clock_are_retracted_once_when_a_table_below_several_inputs_changes() -> None:
    q = Watched(
        "SELECT x.b FROM (SELECT r.b FROM r, r_table WHERE r.b = r_table.b) AS x, "
        "(SELECT s.b FROM s, r_table WHERE s.b = r_table.b) AS y WHERE x.b = y.b"
    )
    q.execute("INSERT INTO r_table VALUES (1), (2)")
    q.push(r=[(1, 20)], s=[(1, 15)])
    q.advance(10)
    q.execute("DELETE FROM r_table WHERE b = 1")
    q.execute("DELETE FROM r_table WHERE b = 2")
    assert q.log == [("+", 20, None, 1), ("-", 20, None, 1)]


def test_joins_of_joins_name_the_rows_that_they_sent() -> None:
    q = Watched(f"SELECT j.b FROM ({PAIRS}) AS j, t [ROWS 1] WHERE j.b = t.b")
    q.push(r=[(1, 0)], s=[(1, 0)], t=[(1, 0)])
    q.advance(0)
    q.push(r=[(2, 14)], s=[(3, 12)], t=[(4, 13)])
    q.advance(20)
    q.push(r=[(1, 25)], s=[(1, 25)], t=[(1, 25)])
    q.advance(30)
    q.push(r=[(2, 32)], s=[(3, 34)], t=[(4, 33)])
    q.advance(40)
    assert q.log == [("+", 0, None, 1), ("-", 12, None, 1), ("+", 25, None, 1), ("-", 32, None, 1)]


def test_signs_sum_to_the_rows_of_the_answer_when_every_end_is_asked_for() -> None:
    q = Watched(PAIRS, " WITH (emit = 'all')")
    q.push(r=[(1, 0)], s=[(1, 0)])
    q.advance(0)
    q.push(r=[(2, 12)], s=[(3, 10)])
    q.advance(20)
    log = [(op, micros(at(ts)), None if exp is None else micros(at(exp)), (b,)) for op, ts, exp, b in q.log]
    assert sum(1 if op == "+" else -1 for op, *_ in log) == q.db.snapshot("q").num_rows == 0
    assert not unmatched(log)
    assert fold_by_signs(log, micros(at(20))) == {((1,), micros(at(0))): 1, ((1,), micros(at(10))): -1}


def test_the_checker_finds_a_retraction_that_names_no_row() -> None:
    row = (1,)
    split = [("+", 0, None, row), ("-", 12, None, row), ("-", 10, 11, row)]
    assert unmatched(split) == [("-", 10, 11, row)]
    assert unmatched([("+", 0, 5, row), ("-", 3, 5, row), ("-", 4, 5, row)]) == [("-", 4, 5, row)]
    assert unmatched([("-", 3, 5, row), ("+", 0, 5, row)]) == [("-", 3, 5, row)]
    assert unmatched([("+", 4, 5, row), ("-", 3, 5, row)]) == [("-", 3, 5, row)]
    assert unmatched([("+", 0, 5, row), ("+", 4, 5, row), ("-", 4, 5, row), ("-", 3, 5, row)]) == []

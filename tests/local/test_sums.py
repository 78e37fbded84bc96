"""SUM and AVG of doubles: the nearest double to the exact result for the rows in the window, whatever was there before.

`golden/sums-format-1` is a connection that was saved by the last version whose sums lost digits.
"""

from __future__ import annotations

import math
import shutil
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any

import pytest

import eddyline
from tests.local.common import at, row, world

GOLDEN = Path(__file__).parent / "golden" / "sums-format-1"
EXTREMES = [1e30, 1e15, 1e-3, 0.1, 5e-324, 1e-310, 1.7e308, 2.0**-1022, 3.0]
GREATEST = 1.7976931348623157e308
INF, NAN = math.inf, math.nan


def nearest(values: list[float], divided: bool = False) -> float:
    """The sum or the mean, rounded once."""
    exact = sum(map(Fraction, values), Fraction(0)) / (len(values) if divided else 1)
    try:
        return float(exact)
    except OverflowError:
        return INF if exact > 0 else -INF


def sums(db: Any, query: str = "q") -> list[float | None]:
    (found,) = db.snapshot(query).to_pylist()
    return list(found.values())


def summing(source: str) -> Any:
    db = world()
    db.execute(f"CREATE CONTINUOUS QUERY q AS SELECT SUM(c) AS v, AVG(c) AS m FROM {source}")
    return db


@pytest.mark.parametrize("window", ["[ROWS 3]", "[RANGE 2 SECONDS]"])
def test_extreme_values_that_have_left_the_window_leave_no_trace(window: str) -> None:
    db = summing(f"s {window}")
    for i, x in enumerate([1e30, 1e15, 0.001, 0.001, 0.001, 0.001]):
        db.push("s", [row(i, c=x)])
    assert sums(db) == [0.003, 0.001]


@pytest.mark.parametrize("window", ["[ROWS 3]", "[RANGE 2 SECONDS]", ""])
def test_the_least_double_is_summed(window: str) -> None:
    db = summing(f"s {window}")
    db.push("s", [row(0, c=5e-324)])
    assert sums(db) == [5e-324, 5e-324]
    db.push("s", [row(1, c=5e-324)])
    assert sums(db) == [1e-323, 5e-324]


def test_the_order_of_ties_does_not_show() -> None:
    values = [1e30, 1.0, -1e30, 1e-3, 1e15, -1e15]
    answers = set()
    for seed in range(6):
        db = summing("s [RANGE 2 SECONDS]")
        db.push("s", [row(0, c=x) for x in Random(seed).sample(values, len(values))])
        answers.add(tuple(sums(db)))
    assert answers == {(1.001, nearest(values, divided=True))}


def test_a_sum_beyond_all_doubles_is_infinite_until_rows_leave_and_its_mean_is_not() -> None:
    db = summing("s [RANGE 2 SECONDS]")
    db.push("s", [row(0, c=1.7e308), row(1, c=1.7e308), row(2, c=0.5)])
    assert sums(db) == [INF, nearest([1.7e308, 1.7e308, 0.5], divided=True)]
    db.advance(at(3))
    assert sums(db) == [1.7e308, 8.5e307]
    db.advance(at(4))
    assert sums(db) == [0.5, 0.5]


def test_infinities_and_nan_leave_a_sum_again() -> None:
    db = summing("s [RANGE 2 SECONDS]")
    db.push("s", [row(0, c=INF), row(1, c=-INF), row(2, c=NAN), row(3, c=0.1), row(4, c=1e300)])
    seen = [sums(db)]
    for second in (5, 6, 7):
        db.advance(at(second))
        seen.append(sums(db))
    assert all(math.isnan(x) for x in seen[0])
    assert seen[1:] == [[1e300, 5e299], [1e300, 1e300], [None, None]]


def test_the_sum_of_negative_zeros_is_positive_zero_as_in_spark() -> None:
    db = summing("s [RANGE 2 SECONDS]")
    db.push("s", [row(0, c=-0.0), row(0, c=-0.0)])
    assert [math.copysign(1.0, x or 0.0) for x in sums(db)] == [1.0, 1.0] and sums(db) == [0.0, 0.0]


def test_the_mean_of_equal_values_is_this_value() -> None:
    db = summing("s")
    for n in range(1, 50):
        db.push("s", [row(n, c=0.1)])
        assert sums(db) == [nearest([0.1] * n), 0.1]


def test_having_sees_exact_sums() -> None:
    db = world()
    db.execute("CREATE CONTINUOUS QUERY q AS SELECT a FROM s [RANGE 2 SECONDS] GROUP BY a HAVING SUM(c) = 0.003")
    for i, x in enumerate([1e30, 1e15, 0.001, 0.001, 0.001]):
        db.push("s", [row(i, c=x)])
    assert db.snapshot("q").to_pylist() == [{"a": 1}]


def test_a_one_time_query_sums_exactly() -> None:
    db = eddyline.connect()
    db.execute("CREATE TABLE t (k INT, c DOUBLE)")
    db.execute(
        "INSERT INTO t VALUES (1, 1e30), (1, 0.001), (1, -1e30), (1, 0.001), (1, 0.001), (2, 1.7e308), (2, 1.7e308)"
    )
    found = db.execute("SELECT k, SUM(c) AS v, AVG(c) AS m FROM t GROUP BY k").to_pylist()
    assert sorted(map(str, found)) == [
        str({"k": 1, "v": 0.003, "m": nearest([0.001] * 3 + [0.0] * 2, divided=True)}),
        str({"k": 2, "v": INF, "m": 1.7e308}),
    ]


def test_aggregates_over_range_joins_sum_exactly() -> None:
    db = world()
    db.execute("""
        CREATE CONTINUOUS QUERY q AS SELECT SUM(s.c) AS v, AVG(r.c) AS m FROM r [RANGE 5 SECONDS], s [RANGE 2 SECONDS]
        WHERE s.b - r.b BETWEEN 0 AND 9
    """)
    db.push({"r": [row(0, b=1, c=1e30), row(0, b=1, c=0.1)], "s": [row(0, b=1, c=x) for x in (1e30, -1e15, 1.7e308)]})
    db.push({"r": [row(1, b=2, c=1.7e308)], "s": [row(1, b=2, c=0.001), row(1, b=2, c=1.7e308), row(1, b=3, c=5e-324)]})
    assert sums(db) == [INF, nearest([1e30, 0.1] * 6 + [1.7e308] * 3, divided=True)]
    db.advance(at(2.5))  # what came at 0 has left s
    assert sums(db) == [INF, nearest([1e30, 0.1, 1.7e308], divided=True)]
    db.push("s", [row(3, b=4, c=0.001)])
    db.advance(at(3.5))  # of s there is only the last row, of r all rows
    assert sums(db) == [0.003, nearest([1e30, 0.1, 1.7e308], divided=True)]


@pytest.mark.parametrize("window", ["[ROWS 4]", "[RANGE 3 SECONDS]", ""])
@pytest.mark.parametrize("seed", range(4))
def test_sums_are_exact_under_any_batching_order_and_saves(window: str, seed: int, tmp_path: Path) -> None:
    rnd = Random(f"{window}{seed}")
    values = [(i // 3, rnd.choice([1, 1, -1]) * rnd.choice([*EXTREMES, rnd.random()])) for i in range(40)]
    answers = []
    for size in (1, 3, 1000):
        db = summing(f"s {window}")
        shuffled = sorted(values, key=lambda v: (v[0], rnd.random())) if "ROWS" not in window else values
        for start in range(0, len(shuffled), size):
            db.push("s", [row(ts, c=x) for ts, x in shuffled[start : start + size]])
            if rnd.random() < 0.3:
                db.save(tmp_path / "state")
                db = eddyline.connect(tmp_path / "state")
        answers.append(sums(db))
    last = values[-1][0]
    present = [x for i, (ts, x) in enumerate(values) if ("ROWS" not in window or i >= 36) and (
        "RANGE" not in window or ts >= last - 3
    )]  # fmt: skip
    assert answers == [[nearest(present), nearest(present, divided=True)]] * 3, f"seed {seed}"


def test_a_restored_sum_keeps_digits_that_no_two_doubles_hold(tmp_path: Path) -> None:
    db = summing("s [RANGE 2 SECONDS]")
    parts = [GREATEST, GREATEST, GREATEST, 1e200, 1.0, 1e-200, 5e-324]
    db.push("s", [row(i / 10, c=x) for i, x in enumerate(parts)])
    for gone in range(1, len(parts)):
        db.save(tmp_path / "state")
        db = eddyline.connect(tmp_path / "state")
        db.advance(at(1.95 + gone / 10))
        assert sums(db) == [nearest(parts[gone:]), nearest(parts[gone:], divided=True)]


def test_state_whose_sums_lost_digits_is_read_and_recovers_them_where_rows_end(tmp_path: Path) -> None:
    shutil.copytree(GOLDEN, tmp_path / "state")
    db = eddyline.connect(tmp_path / "state")
    assert {r["k"]: r["total"] for r in db.snapshot("windowed").to_pylist()} == {
        1: 0.00590625,
        2: 1.0,
    }  # as it was sent
    changes = db.push("s", [{"k": k, "c": 0.001, "ts": at(5)} for k in (1, 2)])
    assert {r["k"]: r["total"] for r in db.snapshot("windowed").to_pylist()} == {1: 0.005, 2: 1.001}
    assert db.snapshot("unbounded").to_pylist() == [{"total": 1.501, "n": 7}]
    taken_back = [r for r in changes.rows("windowed").to_pylist() if r["op"] == "-"]
    assert {r["k"]: r["total"] for r in taken_back} == {1: 0.00590625, 2: 1.0}

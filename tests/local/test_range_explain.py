"""What EXPLAIN ANALYZE says of joins over ranges, and how a strategy is forced."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import eddyline
from tests.local.common import at

STREAMS = """
CREATE STREAM r (k INT, a INT, ts TIMESTAMP) WATERMARK ts DELAY OF INTERVAL 0 SECONDS;
CREATE STREAM s (k INT, c INT, ts TIMESTAMP) WATERMARK ts DELAY OF INTERVAL 0 SECONDS
"""
FAMILY = """CREATE QUERY FAMILY f (a1 INT, c1 INT, c2 INT) {} AS SELECT r.a, s.c FROM r, s
            WHERE r.k = s.k AND r.a > :a1 AND s.c BETWEEN :c1 AND :c2"""


def connection(options: str = "") -> eddyline.Connection:
    db = eddyline.connect()
    db.execute(STREAMS)
    db.execute(FAMILY.format(options))
    middle = np.repeat([10, 50, 90], 20).astype(np.int32)
    low, high = middle - np.arange(60, dtype=np.int32) % 7, middle + np.arange(60, dtype=np.int32) % 5
    db.register("f", pa.table({"query": [f"q{i}" for i in range(60)], "a1": low, "c1": low, "c2": high}))
    db.push("s", [{"k": i % 3, "c": i, "ts": at(i)} for i in range(100)])
    return db


def test_groups_hotspots_choices_and_costs_are_told() -> None:
    db = connection()
    db.push("r", [{"k": 1, "a": 100, "ts": at(100)}]).count_affected("f")
    told = db.explain("f", analyze=True)
    assert "input 1 meets 60 ranges of s.c in 3 stabbing groups, 100% in 3 hotspots" in told
    assert "tuples by strategy:" in told and "µs expected" in told and "µs taken a tuple" in told


@pytest.mark.parametrize("strategy", ["ssi", "hotspot", "select_first", "join_first", "merge", "vanilla"])
def test_a_strategy_can_be_forced(strategy: str) -> None:
    db = connection(f"WITH (strategy = '{strategy}')")
    assert db.push("r", [{"k": 1, "a": 100, "ts": at(100)}]).count_affected("f") > 0
    assert f"tuples by strategy: {strategy} 100.0%" in db.explain("f", analyze=True)


def test_looking_at_every_joined_row_can_be_forced() -> None:
    db = connection("WITH (strategy = 'by row')")
    assert db.push("r", [{"k": 1, "a": 100, "ts": at(100)}]).count_affected("f") > 0
    assert "stabbing groups" not in db.explain("f", analyze=True)


def test_a_strategy_that_there_is_not_is_refused_with_those_there_are() -> None:
    with pytest.raises(eddyline.Error, match=r"strategy cannot be 'sssi'"):
        connection("WITH (strategy = 'sssi')")

"""Rows of very many columns: every kind of query that compares whole rows, joins on many equalities, and tables."""

from __future__ import annotations

from typing import Any

import pytest

import eddyline
from tests.local.common import at

WIDTHS = [62, 63, 64, 125, 200]


def names(width: int) -> list[str]:
    return [f"c{i}" for i in range(width)]


def wide(width: int) -> Any:
    """Streams and a table of so many INT columns, the time of a stream among them."""
    columns = ", ".join(f"{c} INT" for c in names(width - 1))
    db = eddyline.connect()
    for stream in ("r", "s"):
        db.execute(f"CREATE STREAM {stream} ({columns}, ts TIMESTAMP) WATERMARK ts DELAY OF INTERVAL 0 SECONDS")
    db.execute(f"CREATE TABLE t ({', '.join(f'{c} INT' for c in names(width))})")
    db.execute(f"CREATE TABLE k ({columns}, PRIMARY KEY ({', '.join(names(width - 1))}))")
    return db


def tuples(width: int, *last: int | None) -> list[dict[str, Any]]:
    """Rows at the same moment that differ in the last column only."""
    return [dict.fromkeys(names(width - 1), 0) | {f"c{width - 2}": v, "ts": at(0)} for v in last]


@pytest.mark.parametrize("width", WIDTHS)
def test_whole_rows_of_any_width_are_compared(width: int) -> None:
    db, every = wide(width), ", ".join(names(width - 1))
    queries = {
        "expiring": f"CREATE CONTINUOUS QUERY expiring WITH (emit = 'all') AS SELECT {every} FROM s [RANGE 1 SECOND]",
        "distinct_": f"CREATE CONTINUOUS QUERY distinct_ AS SELECT DISTINCT {every} FROM s",
        "grouped": f"CREATE CONTINUOUS QUERY grouped AS SELECT {every}, COUNT(*) AS n FROM s GROUP BY {every}",
        "except_": f"CREATE CONTINUOUS QUERY except_ AS SELECT {every} FROM s EXCEPT ALL SELECT {every} FROM r",
        "latest": f"CREATE CONTINUOUS QUERY latest AS SELECT {every} FROM s [ROWS 9]",
    }
    for text in queries.values():
        db.execute(text)
    db.push("r", tuples(width, 1))
    db.push("s", tuples(width, 0, None, 1, 1, None))
    changes = db.advance(at(10))
    assert changes.rows("expiring").column("op").to_pylist() == ["-"] * 5
    snapshots = {q: sorted(db.snapshot(q).column(f"c{width - 2}").to_pylist(), key=str) for q in queries}
    assert snapshots == {
        "expiring": [],
        "distinct_": [0, 1, None],
        "grouped": [0, 1, None],
        "except_": [0, 1, None, None],
        "latest": [0, 1, 1, None, None],
    }


@pytest.mark.parametrize("width", WIDTHS)
def test_joins_on_any_number_of_equalities_find_their_partners(width: int) -> None:
    db = wide(width)
    equal = " AND ".join(f"r.{c} = s.{c}" for c in names(width - 1))
    db.execute(f"CREATE CONTINUOUS QUERY q AS SELECT r.c{width - 2} AS v FROM r, s WHERE {equal}")
    db.push("r", tuples(width, 1, 2, None))
    assert db.push("s", tuples(width, 2, 3, None, 2)).rows("q").column("v").to_pylist() == [2, 2]


@pytest.mark.parametrize("width", WIDTHS)
def test_equal_results_of_any_width_are_one_compact_row(width: int) -> None:
    db = wide(width)
    db.execute(f"CREATE QUERY FAMILY f (lo INT) AS SELECT {', '.join(names(width - 1))} FROM s WHERE c0 >= :lo")
    db.register("f", [{"query": "a", "lo": 0}, {"query": "b", "lo": -1}])
    compact = db.push("s", tuples(width, 5, None, 5)).compact("f")
    assert compact.column(f"c{width - 2}").to_pylist() == [5, None]
    assert compact.column("queries").to_pylist() == [["a", "b", "a", "b"], ["a", "b"]]


@pytest.mark.parametrize("width", WIDTHS)
def test_a_table_of_any_width_and_its_queries_agree(width: int) -> None:
    db = wide(width)
    db.execute(f"CREATE CONTINUOUS QUERY q AS SELECT c{width - 1} AS v FROM t")
    values = [", ".join(["0"] * (width - 1) + [v]) for v in ("1", "NULL", "1")]
    changes = db.execute(f"INSERT INTO t VALUES {', '.join(f'({v})' for v in values)}")
    assert changes.rows("q").column("v").to_pylist() == [1, None, 1]
    db.execute(f"UPDATE t SET c{width - 1} = 2 WHERE c{width - 1} IS NULL")
    assert sorted(db.snapshot("q").column("v").to_pylist()) == [1, 1, 2]
    assert db.execute("SELECT COUNT(*) AS n FROM t").column("n").to_pylist() == [3]


@pytest.mark.parametrize("width", WIDTHS)
def test_a_primary_key_of_any_width_refuses_null_and_repeats(width: int) -> None:
    db = wide(width)
    row = ", ".join(["0"] * (width - 1))
    db.execute(f"INSERT INTO k VALUES ({row})")
    with pytest.raises(eddyline.DataError, match="already has a row"):
        db.execute(f"INSERT INTO k VALUES ({row})")
    with pytest.raises(eddyline.DataError, match="cannot be NULL"):
        db.execute(f"INSERT INTO k VALUES ({row[:-1]}NULL)")
    assert db.execute("SELECT COUNT(*) AS n FROM k").column("n").to_pylist() == [1]

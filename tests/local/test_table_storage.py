"""Tables are stored once, however many families join with them, and a join with a table keeps no joined rows."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import eddyline
from eddyline.operators.joins.stem_join import StemJoin
from eddyline.operators.joins.table_stem import TableStem
from tests.local.common import Logs, at, bag, by_intervals, row, world

STREAM = "SELECT s.b, t.n FROM s [RANGE 60 SECONDS], t WHERE s.a = t.a"
SELECTED = "SELECT s.b FROM s [RANGE 60 SECONDS], t WHERE s.a = t.a AND t.n = 'x' AND s.b > {0}"
WINDOW = "SELECT s.b, t.n FROM s [ROWS 5], t WHERE s.a = t.a"
TWO_STREAMS = (
    "SELECT s.b, r.b AS rb, t.n FROM s [RANGE 60 SECONDS], r [RANGE 60 SECONDS], t WHERE s.a = r.a AND s.a = t.a"
)
TWO_TABLES = "SELECT s.b, k.n FROM s [RANGE 60 SECONDS], t, k WHERE s.a = t.a AND t.a = k.a AND s.b > {0}"
FROZEN = "SELECT s.b, u.n FROM s [RANGE 60 SECONDS], u WHERE s.a = u.a"


def stored_rows(db: Any) -> int:
    """Rows that joins keep themselves, in no log and in no table."""
    joins = [o for r in db.engine.running.values() for o in r.root.walk() if isinstance(o, StemJoin)]
    return sum(len(s.buffer) for j in joins for s in j.stems.stems if hasattr(s, "buffer"))


@pytest.mark.parametrize("text", [STREAM, SELECTED, WINDOW, TWO_STREAMS, TWO_TABLES, FROZEN])
def test_a_join_with_a_table_keeps_neither_its_rows_nor_joined_ones(text: str) -> None:
    db: Any = world()
    for table in "tku":
        db.execute(f"INSERT INTO {table} VALUES " + ", ".join(f"({i}, 'x')" for i in range(20)))
    for i in range(3):  # of different constants, and of different shapes
        db.execute(f"CREATE CONTINUOUS QUERY q{i} AS {text.format(i)}")
        db.execute(f"CREATE CONTINUOUS QUERY other{i} AS {text.format(i)} AND s.b < {90 + i}")
    results = Counter[tuple[Any, ...]]()
    for second in range(10):
        changes = db.push({x: [row(second, a=i % 10, b=i) for i in range(40)] for x in "rs"})
        results.update(tuple(r.values()) for r in changes.rows("q1").to_pylist())
    assert results.total() > 40
    assert stored_rows(db) == 0


def test_families_read_the_same_rows_of_a_table() -> None:
    db: Any = world()
    for i, text in enumerate((STREAM, SELECTED.format(1), TWO_STREAMS, WINDOW)):
        db.execute(f"CREATE CONTINUOUS QUERY q{i} AS {text}")
    joins = [o for r in db.engine.running.values() for o in r.root.walk() if isinstance(o, StemJoin)]
    tables = [s.table for j in joins for s in j.stems.stems if isinstance(s, TableStem)]
    assert len(tables) == 4
    assert {id(x) for x in tables} == {id(db.definitions.tables["t"].stored)}


def test_a_table_that_a_query_reads_twice_is_joined_with_itself_once() -> None:
    db: Any = world()
    logs = Logs("q")
    logs.take(
        db.execute(
            "CREATE CONTINUOUS QUERY q AS "
            "SELECT x.n AS xn, y.n AS yn FROM s [RANGE 60 SECONDS], t AS x, t AS y WHERE s.a = x.a AND x.a = y.a"
        )
    )
    logs.take(db.push("s", [row(1, a=1)]))
    logs.take(db.execute("INSERT INTO t VALUES (1, 'x'), (1, 'y')"))
    logs.take(db.execute("INSERT INTO t VALUES (1, 'z')"))
    logs.take(db.execute("DELETE FROM t WHERE n = 'x'"))
    pairs = Counter((x, y) for x in "yz" for y in "yz")
    assert by_intervals(logs.of["q"], at(1)) == bag(db.snapshot("q")) == pairs


def test_collected_tuples_meet_the_table_as_it_was() -> None:
    db: Any = world()
    logs = Logs("q")
    text = "SELECT s.b, u.n FROM s [RANGE 60 SECONDS], u WHERE s.a = u.a"
    logs.take(db.execute(f"CREATE CONTINUOUS QUERY q WITH (evaluate = '20 seconds') AS {text}"))
    logs.take(db.execute("INSERT INTO u VALUES (1, 'before')"))
    logs.take(db.push("s", [row(1, a=1, b=7)]))
    logs.take(db.execute("UPDATE u SET n = 'after' WHERE a = 1"))
    logs.take(db.push("s", [row(2, a=1, b=8)]))
    logs.take(db.advance(at(40)))
    assert by_intervals(logs.of["q"], at(40)) == Counter({(7, "before"): 1, (8, "after"): 1})


def test_joins_of_tables_in_a_subquery_hold_each_pair_once(tmp_path: Path) -> None:
    db: Any = world()
    db.execute("INSERT INTO t VALUES (1, 'x'), (2, 'y'); INSERT INTO k VALUES (1, 'p'), (2, 'q')")
    text = "SELECT s.b, j.n, j.m FROM s, (SELECT t.a, t.n, k.n AS m FROM t, k WHERE t.a = k.a) AS j WHERE s.a = j.a"
    db.execute(f"CREATE CONTINUOUS QUERY q AS {text}")
    db.push("s", [row(1, a=1)])
    assert bag(db.snapshot("q")) == Counter({(1, "x", "p"): 1})
    db.save(tmp_path / "saved")
    db = eddyline.connect(tmp_path / "saved")
    db.execute("INSERT INTO t VALUES (1, 'z'); DELETE FROM k WHERE a = 2")
    changes = db.push("s", [row(2, a=1, b=5), row(2, a=2, b=6)])
    added = Counter(tuple(r.values())[3:] for r in changes.rows("q").to_pylist())
    assert added == Counter({(5, "x", "p"): 1, (5, "z", "p"): 1})
    assert bag(db.snapshot("q")) == Counter({(b, n, "p"): 1 for b in (1, 5) for n in "xz"})

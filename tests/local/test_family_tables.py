"""What a family is given: tables of queries in every form, and parameters of every type, anywhere in a query."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import eddyline
from tests.local.common import START, above, at, bag, log_of, row, table_of, tuples, world


def test_null_parameters_compare_as_null() -> None:
    db = above(null=None, zero=0)
    assert db.push("s", [row(0)]).queries() == ["zero"]
    db.execute("CREATE QUERY FAMILY n (p STRING) AS SELECT a FROM s WHERE n = :p OR (:p IS NULL AND n IS NULL)")
    db.register("n", pa.table({"query": ["pn", "px"], "p": pa.array([None, "x"])}))
    assert sorted(db.push("s", [row(1, a=-1)]).queries()) == ["px"]
    assert sorted(db.push("s", [row(1, a=-1, n=None)]).queries()) == ["pn"]


@pytest.mark.parametrize("form", ["table", "batch", "pandas", "list"])
def test_tables_of_zero_queries_register_none(form: str) -> None:
    db = above()
    empty = table_of([], lo=[])
    forms = {
        "table": empty,
        "batch": pa.RecordBatch.from_pylist([], empty.schema),
        "pandas": empty.to_pandas(),
        "list": [],
    }
    assert db.register("above", forms[form]).count() == 0
    assert db.stats()["queries"] == 0


VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "BOOLEAN": (pa.bool_(), [False, True]),
    "TINYINT": (pa.int8(), [-128, 0, 127]),
    "SMALLINT": (pa.int16(), [-32768, 5, 32767]),
    "INT": (pa.int32(), [-(2**31), 7, 2**31 - 1]),
    "BIGINT": (pa.int64(), [-(2**63), 2**53, 2**53 + 1, 2**63 - 1]),
    "FLOAT": (pa.float32(), [-1.5, 0.0, 0.25, float("inf")]),
    "DOUBLE": (pa.float64(), [float("-inf"), -0.1, 0.1, 1e308]),
    "STRING": (pa.string(), ["", "a", "a\0", "ab", "é", "z" * 300]),
    "DATE": (pa.date32(), [dt.date(1900, 1, 1), dt.date(1970, 1, 1), dt.date(2026, 2, 28)]),
    "TIMESTAMP": (pa.timestamp("us"), [dt.datetime(1900, 1, 1), START, at(0.000001)]),
    "INTERVAL": (pa.duration("us"), [dt.timedelta(-5), dt.timedelta(0), dt.timedelta(microseconds=1)]),
}


@pytest.mark.parametrize("type_", VALUES)
@pytest.mark.parametrize(("op", "holds"), [
    ("=", lambda v, p: v == p), ("<", lambda v, p: v < p), (">=", lambda v, p: v >= p), ("<>", lambda v, p: v != p),
])  # fmt: skip
def test_parameters_of_every_type_compare_with_columns(type_: str, op: str, holds: Any) -> None:
    arrow, values = VALUES[type_]
    db = eddyline.connect()
    db.execute(f"CREATE STREAM x (i INT, v {type_}, ts TIMESTAMP) WATERMARK ts")
    db.execute(f"CREATE QUERY FAMILY f (p {type_}) AS SELECT i FROM x WHERE v {op} :p")
    params = [*values, None]
    db.register("f", pa.table({"query": [f"q{j}" for j in range(len(params))], "p": pa.array(params, arrow)}))
    data = [*values, None]
    ch = db.push(
        "x",
        pa.table({"i": pa.array(range(len(data)), pa.int32()), "v": pa.array(data, arrow), "ts": [START] * len(data)}),
    )
    want = {
        (f"q{j}", i) for i, v in enumerate(data) for j, p in enumerate(params) if None not in (v, p) and holds(v, p)
    }
    found = [(r["query"], r["i"]) for r in ch.rows("f").to_pylist()]
    assert set(found) == want and len(found) == len(want)
    for j in range(len(params)):
        assert bag(db.snapshot(f"q{j}")) == Counter((i,) for q, i in want if q == f"q{j}")


@pytest.mark.parametrize("type_", VALUES)
def test_parameters_of_every_type_survive_a_save(type_: str, tmp_path: Any) -> None:
    arrow, values = VALUES[type_]
    db = world()
    db.execute(f"CREATE QUERY FAMILY f (p {type_}) AS SELECT a, :p AS p FROM s")
    params = [*values, None]
    db.register("f", pa.table({"query": [f"q{j}" for j in range(len(params))], "p": pa.array(params, arrow)}))
    db.save(tmp_path / "d")
    for x in (db, eddyline.connect(tmp_path / "d")):
        ch = x.push("s", [row(0)])
        assert [log_of(ch, f"q{j}")[0][3] for j in range(len(params))] == [(1, p) for p in params]


@pytest.mark.parametrize(
    "table",
    [
        [{"query": "a", "lo": 1}, {"query": "b", "lo": 2}],
        [{"QUERY": "a", "Lo": 1}, {"QUERY": "b", "Lo": 2}],
        ({"query": "a", "lo": 1}, {"query": "b", "lo": 2}),
        {"query": ["a", "b"], "lo": [1, 2]},
        pd.DataFrame({"lo": [1, 2], "query": ["a", "b"]}, index=[5, 6]),
        pa.table({"query": pa.array(["a", "b"], pa.large_string()), "lo": pa.array([1, 2], pa.uint8())}),
        pa.table({"query": pa.array(["a", "b"]).dictionary_encode(), "lo": pa.array([1, 2]).dictionary_encode()}),
        pa.RecordBatch.from_pydict({"query": ["a", "b"], "lo": [1, 2]}),
        pa.table({"query": pa.chunked_array([["a"], ["b"]]), "lo": pa.chunked_array([[1], [2]])}),
        pa.table({"query": ["z", "a", "b", "z"], "lo": [9, 1, 2, 9]}).slice(1, 2),
        pa.table({"query": ["a", "b"], "lo": [1.0, 2.0]}),
    ],
    ids=[
        "dicts",
        "case",
        "tuple",
        "columns",
        "pandas",
        "widths",
        "dictionary",
        "batch",
        "chunks",
        "slice",
        "whole floats",
    ],
)
def test_tables_of_queries_in_every_form(table: Any) -> None:
    db = above()
    db.register("above", table)
    assert sorted(db.push("s", [row(0, a=2)]).queries()) == ["a"]
    assert sorted(db.push("s", [row(0, a=3)]).queries()) == ["a", "b"]


@pytest.mark.parametrize(
    "table",
    [
        [{"query": "a"}],
        [{"lo": 1}],
        [{"query": "new", "lo": 1}, {"query": "b"}],
        [{"query": "new", "lo": 1}, {"query": "b", "lo": 1, "typo": 2}],
        [{"query": "new", "lo": 1, "typo": 2}],
        [{"query": "new", "lo": "word"}],
        [{"query": "new", "lo": 1.5}],
        [{"query": "new", "lo": 2**40}],
        [{"query": "new", "lo": True}],
        [{"query": "new", "lo": 1}, {"query": "new", "lo": 2}],
        [{"query": "new", "lo": 1}, {"query": "old", "lo": 2}],
        [{"query": "new", "lo": 1}, {"query": None, "lo": 2}],
        [{"query": "new", "lo": 1}, {"query": "", "lo": 2}],
        [{"query": 5, "lo": 1}],
        pa.table([["new"], [1], [2]], names=["query", "lo", "lo"]),
        pa.table([["new"], [1], [2]], names=["query", "lo", "LO"]),
        pa.table([["new"], ["other"], [2]], names=["query", "QUERY", "lo"]),
        5,
        None,
        "new",
    ],
)
def test_tables_that_do_not_fit_register_none(table: Any) -> None:
    db = above(old=0)
    with pytest.raises(eddyline.Error):
        db.register("above", table)
    assert db.execute("SHOW QUERIES").column("query").to_pylist() == ["old"]
    assert db.push("s", [row(0)]).queries() == ["old"]


def test_only_declared_families_take_tables_of_queries() -> None:
    db = world()
    db.execute(
        "CREATE CONTINUOUS QUERY q AS SELECT a FROM s WHERE a > 1; CREATE MATERIALIZED VIEW v AS SELECT a FROM s"
    )
    for name in ("family_1", "view v", "v", "q", "nothing"):
        with pytest.raises(eddyline.CatalogError):
            db.register(name, [{"query": "x"}])


def test_family_without_parameters_takes_names_alone() -> None:
    db = world()
    db.execute("CREATE QUERY FAMILY f AS SELECT a FROM s")
    db.register("f", [{"query": "x"}, {"query": "y"}])
    assert sorted(db.push("s", [row(0)]).queries()) == ["x", "y"]


def test_parameters_are_used_anywhere_in_a_query() -> None:
    db = world()
    db.execute(
        "CREATE QUERY FAMILY f (x INT, m STRING, w INT, k BIGINT) AS "
        "SELECT a + :x AS v, concat(:m, n) AS t, COUNT(*) AS c FROM s [RANGE :w SECONDS] "
        "WHERE b BETWEEN :x AND :x + 2 GROUP BY a, n HAVING COUNT(*) > :k"
    )
    db.register("f", [{"query": f"q{i}", "x": i, "m": f"<{i}>", "w": i, "k": i % 2} for i in range(4)])
    db.push("s", [row(0, b=b) for b in (0, 1, 2, 2, 3)])
    db.push("s", [row(2, b=2)])
    assert {f"q{i}": tuples(db.snapshot(f"q{i}")) for i in range(4)} == {
        "q0": [(1, "<0>x", 1)],
        "q1": [],
        "q2": [(3, "<2>x", 4)],
        "q3": [],
    }

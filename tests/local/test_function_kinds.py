"""Functions over columns, and where a user sees that a function gave nothing."""

from __future__ import annotations

import datetime as dt
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import eddyline
from eddyline.aggregates import AGGREGATES
from eddyline.local.connection import Connection
from eddyline.sql.functions import FORMS, NAMED
from tests.local.common import row, tuples, world


def asked(kind: Any, body: Any, rows: list[dict[str, Any]], takes: str = "INT", gives: str = "INT") -> tuple[Any, Any]:
    """What `SELECT f(a)` gives for these rows, and the warnings of the push."""
    db = world()
    column = {"INT": "a", "DOUBLE": "c", "STRING": "n"}[takes]
    db.function("f", body, [takes], gives, kind)
    db.execute(f"CREATE CONTINUOUS QUERY q AS SELECT f({column}) AS x FROM s")
    changes = db.push("s", rows)
    return changes.rows("q")["x"].to_pylist(), changes.warnings()


# warnings


def test_a_function_that_returns_the_wrong_kind_of_thing_is_told_in_the_result_of_a_push() -> None:
    values, (warning,) = asked("scalar", lambda x: pd.Series([x]) * 2, [row(0, a=3), row(0, a=4)])
    assert values == [None, None]
    assert (warning.function, warning.rows) == ("f", 2)
    assert warning.first.startswith("f(3): TypeError: a Series")
    assert "kind='pandas'" in warning.first and "is not a value of INT" in warning.first


def test_a_function_that_raises_is_told_in_the_same_way_and_in_the_text_of_the_changes() -> None:
    db = world()
    db.function("inverse", lambda x: 1 / x, ["DOUBLE"], "DOUBLE")
    db.execute("CREATE CONTINUOUS QUERY q AS SELECT inverse(c) AS x FROM s")
    changes = db.push("s", [row(0, c=0.0), row(0, c=2.0)])
    told = "The function 'inverse' gave NULL for 1 row: inverse(0.0): ZeroDivisionError: float division by zero"
    assert [str(w) for w in changes.warnings()] == [told]
    assert told in repr(changes)
    assert db.push("s", [row(1, c=2.0)]).warnings() == []
    assert db.stats()["functions"]["inverse"]["first_error"] == told.partition(": ")[2]
    assert told in db.explain("q", analyze=True)


def test_a_one_time_query_does_not_warn_in_the_next_push() -> None:
    db = world()
    db.function("bad", lambda x: "text", ["INT"], "INT")
    db.execute("INSERT INTO t VALUES (1, 'x')")
    db.execute("SELECT bad(a) AS x FROM t")
    assert db.push("s", [row(0)]).warnings() == []
    assert [w.rows for w in db.execute("INSERT INTO t VALUES (2, upper(CAST(bad(2) AS STRING)))").warnings()] == [1]


# functions over columns


def test_an_arrow_function_gets_arrays_and_gives_one() -> None:
    seen: list[Any] = []
    values, warnings = asked("arrow", lambda x: (seen.append(x), pc.add(x, 1))[1], [row(0, a=a) for a in (1, None, 3)])
    assert values == [2, None, 4] and warnings == []
    assert seen == [pa.array([1, None, 3], pa.int32())]


def test_a_pandas_function_gets_series_and_gives_one() -> None:
    seen: list[Any] = []

    def shout(texts: Any) -> Any:
        seen.append(texts)
        return texts.str.upper() + "!"

    values, warnings = asked("pandas", shout, [row(0, n="a"), row(0, n=None)], "STRING", "STRING")
    assert values == ["A!", None] and warnings == []
    assert isinstance(seen[0], pd.Series)


def test_in_a_series_nan_is_null_and_in_an_array_it_is_not() -> None:
    rows = [row(0, c=1.0), row(0, c=None), row(0, c=math.nan)]
    values, _ = asked("pandas", lambda x: x, rows, "DOUBLE", "DOUBLE")
    assert values == [1.0, None, None]
    values, _ = asked("arrow", lambda x: x, rows, "DOUBLE", "DOUBLE")
    assert values[:2] == [1.0, None] and math.isnan(values[2])


@pytest.mark.parametrize(
    ("kind", "body", "gives", "expected"),
    [
        ("arrow", lambda x: pa.chunked_array([x.slice(0, 1), x.slice(1)]), "INT", [1, 2]),
        ("arrow", lambda x: x.cast(pa.int64()), "TINYINT", [1, 2]),
        ("arrow", lambda x: x, "DOUBLE", [1.0, 2.0]),
        ("arrow", lambda x: pa.array(["p", "q"]).dictionary_encode(), "STRING", ["p", "q"]),
        ("arrow", lambda x: pa.array(["p", "q"], pa.large_string()), "STRING", ["p", "q"]),
        ("arrow", lambda x: pa.nulls(2), "STRING", [None, None]),
        ("arrow", lambda x: pa.array([0, 1], pa.timestamp("ms", "Europe/Berlin")), "TIMESTAMP",
         [dt.datetime(1970, 1, 1), dt.datetime(1970, 1, 1, 0, 0, 0, 1000)]),
        ("pandas", lambda x: x.to_numpy() * 3, "BIGINT", [3, 6]),
        ("pandas", lambda x: x.where(x > 1), "INT", [None, 2]),
        ("pandas", lambda x: x > 1, "BOOLEAN", [False, True]),
        ("pandas", lambda x: pd.to_datetime(x, unit="s"), "TIMESTAMP",
         [dt.datetime(1970, 1, 1, 0, 0, 1), dt.datetime(1970, 1, 1, 0, 0, 2)]),
    ],
)  # fmt: skip
def test_what_a_function_over_columns_returns_is_brought_to_its_type(
    kind: Any, body: Any, gives: str, expected: list[Any]
) -> None:
    assert asked(kind, body, [row(0, a=1), row(0, a=2)], gives=gives) == (expected, [])


@pytest.mark.parametrize(
    ("kind", "body", "gives", "message"),
    [
        ("arrow", lambda x: x.slice(1), "INT", "it returned 1 values for 2 rows"),
        ("arrow", lambda x: 5, "INT", "it returned int, not a pyarrow Array"),
        ("arrow", lambda x: pd.Series([1, 2]), "INT", "it returned Series, not a pyarrow Array"),
        ("arrow", lambda x: pa.array(["p", "q"]), "INT", "values of Arrow's type string, which are not INT"),
        ("arrow", lambda x: pa.array([1.0, 2.0]), "INT", "type double, which are not INT"),
        ("arrow", lambda x: x, "STRING", "type int32, which are not STRING"),
        ("arrow", lambda x: pa.array([1, 2**40]), "INT", "not in range"),
        ("arrow", lambda x: pa.array([b"\xff", b""]).view(pa.string()), "STRING", "UTF8"),
        ("arrow", lambda x: 1 / 0, "INT", "ZeroDivisionError"),
        ("pandas", lambda x: x.sum(), "INT", "not a Series or NumPy array"),
        ("pandas", lambda x: x / 2, "INT", "type double, which are not INT"),
        ("pandas", lambda x: np.zeros(3), "DOUBLE", "it returned 3 values for 2 rows"),
        ("pandas", lambda x: x > 1, "INT", "type bool, which are not INT"),
    ],
)
def test_what_is_of_another_length_or_type_is_told_and_not_guessed(
    kind: Any, body: Any, gives: str, message: str
) -> None:
    values, (warning,) = asked(kind, body, [row(0, a=1), row(0, a=2)], gives=gives)
    assert values == [None, None] and warning.rows == 2
    assert message in warning.first


def test_functions_over_columns_stand_wherever_functions_do() -> None:
    db = world()
    db.function("near", lambda x, y: pc.less_equal(pc.abs(pc.subtract(x, y)), 1), ["INT", "INT"], "BOOLEAN", "arrow")
    db.function("half", lambda x: x // 2, ["BIGINT"], "BIGINT", kind="pandas")
    db.execute("CREATE QUERY FAMILY f (p INT) AS SELECT a FROM s WHERE near(a, :p)")
    db.register("f", [{"query": f"q{p}", "p": p} for p in range(5)])
    db.execute("CREATE CONTINUOUS QUERY g AS SELECT half(b) AS h, COUNT(*) AS n FROM s GROUP BY half(b)")
    db.execute("INSERT INTO t VALUES (7, 'x')")
    assert tuples(db.execute("SELECT half(a) AS h FROM t WHERE near(a, 8)")) == [(3,)]
    assert set(db.push("s", [row(0, a=2)]).queries()) >= {"q1", "q2", "q3"}


def test_a_connection_is_restored_with_functions_over_columns(tmp_path: Path) -> None:
    def twice(x: Any) -> Any:
        return pc.multiply(x, 2)

    db = world()
    db.function("twice", twice, ["INT"], "INT", "arrow")
    db.execute("CREATE CONTINUOUS QUERY q AS SELECT twice(a) AS x FROM s")
    db.save(tmp_path / "d")
    again = eddyline.connect(tmp_path / "d", functions={"twice": twice})
    assert again.push("s", [row(0, a=4)]).rows("q")["x"].to_pylist() == [8]


@pytest.mark.parametrize(("kind", "takes"), [("vector", ["INT"]), (None, ["INT"]), ("arrow", []), ("pandas", [])])
def test_a_kind_that_is_none_and_a_function_over_no_columns_are_refused(kind: Any, takes: list[str]) -> None:
    db = world()
    with pytest.raises(eddyline.DataError):
        db.function("f", lambda *x: x, takes, "INT", kind)
    assert len(db.catalog.functions) == 0


# SHOW FUNCTIONS


def shown(db: Connection) -> dict[str, dict[str, Any]]:
    return {r["function"]: r for r in db.execute("SHOW FUNCTIONS").to_pylist()}


def test_show_functions_lists_those_of_the_language_beside_the_users() -> None:
    db = world()
    db.function("near", lambda x: x, ["INT"], "BOOLEAN", "arrow")
    found = shown(db)
    assert found["near"]["kind"] == "user (arrow)"
    assert (found["upper"]["takes"], found["upper"]["gives"], found["upper"]["kind"]) == (
        "STRING",
        "STRING",
        "built-in",
    )
    assert (found["sum"]["takes"], found["sum"]["kind"]) == ("number", "aggregate")
    assert found.keys() == {"near", *NAMED, *FORMS, *AGGREGATES}


def test_every_function_that_is_listed_can_be_used() -> None:
    arguments = {"cast": "c AS INT", "try_cast": "c AS INT", "if": "a > 1, a, b", "count": "*", "concat": "n, n"}
    arguments |= dict.fromkeys(("upper", "lower", "length"), "n")
    for name in shown(world()):
        given = arguments.get(name, "a, b" if name in ("least", "greatest", "coalesce") else "c")
        world().execute(f"CREATE CONTINUOUS QUERY q AS SELECT {name}({given}) AS x FROM s")

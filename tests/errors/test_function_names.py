"""A function that Spark has and this language has not is named as it was written, however it is called."""

from __future__ import annotations

import inspect
import re

import pyspark.sql.functions as spark_functions
import pytest

import eddyline
from eddyline.local.connection import Connection

ARGUMENTS = ("", "c", "a", "b", "ts", "c, c", "c, a", "a, a", "'minute', ts", "c, c, c", "c, a, a", "c, c, c, c")
NAMES = sorted(
    name for name, found in vars(spark_functions).items() if inspect.isfunction(found) and not name.startswith("_")
)
SAID = re.compile(r"cannot be cast|^ESCAPE ")  # of CAST and LIKE, which have functions too
WORDS = ("asc", "desc", "column")  # no functions of SQL


@pytest.fixture(scope="module")
def db() -> Connection:
    found = eddyline.connect()
    found.execute("CREATE STREAM s (a INT, b DOUBLE, c STRING, ts TIMESTAMP) WATERMARK ts")
    return found


def error_of(db: Connection, call: str) -> str | None:
    """None if the call is one of this language."""
    try:
        db.execute(f"CREATE CONTINUOUS QUERY q AS SELECT {call} AS x FROM s")
    except eddyline.Error as e:
        return e.message
    db.execute("DROP CONTINUOUS QUERY q")
    return None


@pytest.mark.parametrize("first", sorted({name[0] for name in NAMES}))
def test_every_function_of_spark_is_named_as_it_was_written(db: Connection, first: str) -> None:
    for name in (n for n in NAMES if n[0] == first and n not in WORDS):
        told = [error_of(db, f"{name}({given})") for given in ARGUMENTS]
        assert all(t is None or name.lower() in t.lower() or SAID.search(t) for t in told), (name, told)


def test_there_are_functions_of_all_groups() -> None:
    assert len(NAMES) > 400
    assert {"date_trunc", "regexp_extract", "to_json", "map_keys", "array_contains", "stddev", "window"} <= set(NAMES)


@pytest.mark.parametrize("name", ["split", "date_trunc", "year"])
def test_a_function_that_is_missing_can_be_registered_under_its_name(name: str) -> None:
    db = eddyline.connect()
    db.execute("CREATE TABLE t (a STRING); INSERT INTO t VALUES ('x')")
    db.function(name, lambda x: f"<{x}>", ["STRING"], "STRING")
    assert db.execute(f"SELECT {name}(a) AS x FROM t")["x"].to_pylist() == ["<x>"]

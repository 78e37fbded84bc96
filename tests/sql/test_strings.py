"""String literals: what Spark 4.3 reads them as, wherever a statement has one. The tables were made with Spark."""

from typing import Any

import pytest

import eddyline

DOUBLED = {  # a quote doubled inside a string is one quote of it
    "'it''s'": "it's",
    "''": "",
    "''''": "'",
    "'''a'": "'a",
    "'a'''": "a'",
    "'a''''b'": "a''b",
    '"a""b"': 'a"b',
    '""""': '"',
    "\"it''s\"": "it''s",
    "'say \"\"x'": 'say ""x',
    "'a\\''": "a'",
    "'a\\\\''b'": "a\\'b",
    "'\n''\n'": "\n'\n",
}
ADJACENT = {  # strings beside each other are one
    "'a' 'b'": "ab",
    "'a'\n'b' 'c'": "abc",
    "'a'/* x */'b'": "ab",
    "'it''s' 'b'": "it'sb",
    "'a''b' 'c'": "a'bc",
    "\"a\"'b'": "ab",
    "'a'\"b\"": "ab",
}


@pytest.fixture
def db() -> Any:
    db = eddyline.connect()
    db.execute("CREATE TABLE t (s STRING); CREATE TABLE one (x INT); INSERT INTO one VALUES (1)")
    db.execute("CREATE STREAM r (s STRING, ts TIMESTAMP) WATERMARK ts DELAY OF INTERVAL 0 SECONDS")
    return db


@pytest.mark.parametrize(("literal", "text"), [*DOUBLED.items(), *ADJACENT.items()])
def test_a_string_is_read_as_spark_reads_it(db: Any, literal: str, text: str) -> None:
    db.execute(f"INSERT INTO t VALUES ({literal})")
    assert db.execute("SELECT s FROM t").to_pylist() == [{"s": text}]
    assert db.execute(f"SELECT {literal} AS s FROM one").to_pylist() == [{"s": text}]
    assert db.execute(f"SELECT x FROM one WHERE {literal} IN ('no', {literal})").num_rows == 1
    db.execute(f"UPDATE t SET s = {literal} || '!' WHERE s = {literal}")
    assert db.execute("SELECT s FROM t").to_pylist() == [{"s": f"{text}!"}]


@pytest.mark.parametrize(("literal", "text"), [*DOUBLED.items(), *ADJACENT.items()])
def test_a_standing_query_compares_with_the_string(db: Any, literal: str, text: str) -> None:
    for i, other in enumerate(["'x'", literal, "'y'", literal]):  # in the second round the shape is known
        db.execute(f"CREATE CONTINUOUS QUERY q{i} AS SELECT s FROM r WHERE s = {other}")
    changes = db.push("r", [{"s": s, "ts": "2026-01-01"} for s in (text, text.replace("'", ""), "z")])
    assert [changes.rows(f"q{i}").column("s").to_pylist() for i in (1, 3)] == [[text] * changes.rows("q1").num_rows] * 2
    assert changes.rows("q1").num_rows == (1 if "'" in text else 2)


def test_an_option_may_contain_a_quote(db: Any) -> None:
    db.execute("CREATE SINK out USING parquet OPTIONS (path 'it''s here')")
    assert db.catalog.sinks["out"].external.options == {"path": "it's here"}


def test_an_error_behind_a_doubled_quote_knows_its_place(db: Any) -> None:
    sql = "SELECT 'it''s' AS a, nothing FROM one"
    with pytest.raises(eddyline.BindError) as caught:
        db.execute(sql)
    assert caught.value.span == (sql.index("nothing"), sql.index("nothing") + 7)


def test_a_long_string_of_quotes_is_read_at_once(db: Any) -> None:
    text = "'" * 50_000
    db.execute("INSERT INTO t VALUES ('" + text.replace("'", "''") + "')")
    assert db.execute("SELECT s FROM t").to_pylist() == [{"s": text}]


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        ("CAST(x + 2025 AS STRING) = '20' '26' AND DATE '2026-01-01' + INTERVAL '2' '4' HOURS > '2026-' '01-01'", True),
        ("'abc' LIKE 'a' '%'", True),
        ("'abc' NOT LIKE 'a' '%'", False),
    ],
)
def test_strings_beside_each_other_are_one_constant(db: Any, condition: str, holds: bool) -> None:
    assert db.execute(f"SELECT x FROM one WHERE {condition}").num_rows == holds

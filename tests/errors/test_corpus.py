"""Malformed SQL gives an error of ours that names the thing and its place, and changes nothing."""

from collections.abc import Iterator

import pytest

import eddyline
from eddyline.local.connection import Connection
from tests.errors.corpus import corpus
from tests.errors.state import connection, fingerprint

CASES = corpus()
INTERNALS = ("Token", "NoneType", "sqlglot", "assert", "<class", "object at 0x", "Traceback")


@pytest.fixture(scope="module")
def shared() -> Iterator[tuple[Connection, tuple[object, ...]]]:
    """One connection for all cases: each of them leaves it as it was, or fails."""
    db = connection()
    yield db, fingerprint(db)


@pytest.mark.parametrize("number", range(len(CASES)), ids=[repr(sql[:60]) for sql, _ in CASES])
def test_malformed_sql_is_refused_by_name_and_place(shared: tuple[Connection, tuple[object, ...]], number: int) -> None:
    db, before = shared
    sql, words = CASES[number]
    with pytest.raises(eddyline.Error) as caught:
        db.execute(sql)
    error = caught.value
    told = f"{error.message} {error.hint or ''}"
    assert words in told
    assert len(error.message) > 15
    assert not any(word in told for word in INTERNALS), told
    assert error.place is not None
    line, column = error.place
    lines = sql.split("\n")
    assert 1 <= line <= len(lines)
    assert 1 <= column <= len(lines[line - 1]) + 1
    shown = str(error)
    assert f"line {line}, column {column}" in shown
    around = lines[line - 1][max(0, column - 60) : column + 60]  # of a long line only what is around the place
    assert around.encode("utf-8", "replace") in shown.replace("\ufffd", "?").encode()
    assert len(shown) < 2000
    assert fingerprint(db) == before


def test_no_case_stands_in_the_corpus_twice() -> None:
    texts = [sql for sql, _ in CASES]
    assert len(texts) == len(set(texts))
    assert len(texts) > 700


def test_an_error_in_a_later_statement_of_a_script_is_found_before_the_first_runs() -> None:
    db = connection()
    before = fingerprint(db)
    with pytest.raises(eddyline.ParseError) as caught:
        db.execute("CREATE TABLE one (a INT);\nCREATE TABEL two (a INT);")
    assert caught.value.place == (2, 8)
    assert fingerprint(db) == before


def test_sql_that_is_not_text_is_refused() -> None:
    db = connection()
    for sql in (None, 5, b"SHOW TABLES", ["SHOW TABLES"]):
        with pytest.raises(eddyline.ParseError, match="SQL must be text"):
            db.execute(sql)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("sql", "place"),
    [
        ("DROP TABLE companis", (1, 12)),
        ("EXPLAIN ANALYZE nothing", (1, 17)),
        ("INSERT INTO\n  nothing VALUES (1)", (2, 3)),
        ("UPDATE nothing SET a = 1", (1, 8)),
        ("DELETE FROM nothing", (1, 13)),
        ("CREATE TABLE companies (a INT)", (1, 14)),
        ("CREATE CONTINUOUS QUERY q1 AS SELECT qty FROM trades", (1, 25)),
        ("SELECT symbol,\n  nothing\nFROM companies", (2, 3)),
        ("SELECT symbol FROM companies WHERE size > 'x'", (1, 36)),
        ("CREATE CONTINUOUS QUERY x AS SELECT symbol FROM trades WHERE price > 5 [NOW]", (1, 72)),
    ],
)
def test_the_place_is_that_of_the_thing_named(sql: str, place: tuple[int, int]) -> None:
    with pytest.raises(eddyline.Error) as caught:
        connection().execute(sql)
    assert caught.value.place == place

"""Keys of tables hold through every change, and a change that fails leaves the table and its readers as they were."""

import pytest

import eddyline
from eddyline.local.connection import Connection
from tests.errors.state import connection, fingerprint


@pytest.fixture(scope="module")
def db() -> Connection:
    """One connection for all: what is refused leaves it as it was."""
    db = connection()
    db.execute("CREATE TABLE floats (k DOUBLE PRIMARY KEY, v INT)")
    db.execute("INSERT INTO floats VALUES (0.0, 1), (CAST('NaN' AS DOUBLE), 2)")
    return db


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("INSERT INTO companies VALUES ('C', 'c', 1), ('A', 'a', 1)", "'A'"),
        ("INSERT INTO companies VALUES ('C', 'c', 1), ('C', 'a', 1)", "'C'"),
        ("INSERT INTO companies VALUES ('C', 'c', 1), (NULL, 'a', 1)", "NULL"),
        ("INSERT INTO companies SELECT symbol, name, size FROM companies", "'A'"),
        ("INSERT INTO companies SELECT 'C', name, size FROM companies", "'C'"),
        ("INSERT INTO companies SELECT CAST(NULL AS STRING), name, size FROM companies", "NULL"),
        ("UPDATE companies SET symbol = 'C'", "'C'"),
        ("UPDATE companies SET symbol = 'B' WHERE symbol = 'A'", "'B'"),
        ("UPDATE companies SET symbol = NULL WHERE symbol = 'A'", "NULL"),
        ("UPDATE companies SET symbol = CASE WHEN size > 10 THEN 'A' ELSE symbol END", "'A'"),
        ("INSERT INTO pairs VALUES (2, 1, 'ok'), (1, 1, 'again')", "1, 1"),
        ("INSERT INTO pairs (a, c) VALUES (2, 'x')", "NULL"),
        ("UPDATE pairs SET b = 3", "1, 3"),
        ("UPDATE pairs SET a = NULL WHERE b = 1", "NULL"),
        ("INSERT INTO floats VALUES (-0.0, 3)", "-0.0"),
        ("INSERT INTO floats VALUES (CAST('NaN' AS DOUBLE), 3)", "nan"),
    ],
)
def test_a_key_is_unique_and_never_null(db: Connection, sql: str, words: str) -> None:
    before = fingerprint(db)
    with pytest.raises(eddyline.Error) as caught:
        db.execute(sql)
    assert words in f"{caught.value.message} {caught.value.hint or ''}"
    assert caught.value.place is not None
    assert repr(fingerprint(db)) == repr(before)


def test_an_update_may_move_keys_through_each_other() -> None:
    db = connection()
    db.execute("UPDATE pairs SET b = 3 - b")
    assert db.execute("SELECT a, b, c FROM pairs").to_pylist() == [
        {"a": 1, "b": 2, "c": "x"},
        {"a": 1, "b": 1, "c": "y"},
    ]


def test_readers_hear_nothing_of_a_change_that_failed() -> None:
    db = connection()
    before = db.snapshot("q2")
    with pytest.raises(eddyline.DataError):
        db.execute("INSERT INTO companies VALUES ('A', 'again', 1)")
    assert db.snapshot("q2") == before
    assert db.execute("UPDATE companies SET name = 'New' WHERE symbol = 'A'").count() > 0


def test_the_statements_of_a_script_before_the_error_stay() -> None:
    db = connection()
    with pytest.raises(eddyline.Error) as caught:
        db.execute("INSERT INTO companies VALUES ('C', 'c', 1);\nINSERT INTO companies VALUES ('C', 'c', 1);")
    assert caught.value.place == (2, 13)
    assert db.execute("SELECT COUNT(*) AS n FROM companies").to_pylist() == [{"n": 3}]


def test_numbers_are_fitted_and_not_guessed() -> None:
    db = connection()
    db.execute("INSERT INTO limits VALUES ('A', 1, '2026-01-01', INTERVAL 5 SECONDS)")
    db.execute("INSERT INTO limits (symbol, lo) VALUES ('B', '2.5')")
    assert [row["lo"] for row in db.execute("SELECT lo FROM limits").to_pylist()] == [1.0, 2.5]


@pytest.mark.parametrize(
    "sql", ["INSERT INTO companies VALUES ('C', 'c', 1)", "UPDATE companies SET size = 1", "DELETE FROM companies"]
)
@pytest.mark.parametrize("place", ["_net", "_delta", "join_arrays", "KeyTable"])
def test_a_change_of_a_table_that_fails_is_not_applied(
    db: Connection, sql: str, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise MemoryError("no room")

    before = repr(fingerprint(db))
    with monkeypatch.context() as patch:
        patch.setattr(f"eddyline.engine.table_rows.{place}", fail)
        with pytest.raises(MemoryError):
            db.execute(sql)
    assert repr(fingerprint(db)) == before

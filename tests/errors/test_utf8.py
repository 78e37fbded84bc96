"""Text that is not valid UTF-8 is refused at the door: the error names where it is, and nothing has changed."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import eddyline
from eddyline.local.connection import Connection
from tests.errors.state import connection, fingerprint


def text(*values: bytes | None) -> pa.Array:
    """An Arrow array that claims to be text."""
    data, lengths = b"".join(v or b"" for v in values), [len(v or b"") for v in values]
    valid = np.packbits([v is not None for v in values], bitorder="little")
    offsets = np.cumsum([0, *lengths]).astype(np.int32)
    return pa.Array.from_buffers(pa.string(), len(values), [pa.py_buffer(b) for b in (valid, offsets, data)])


def large(a: pa.Array) -> pa.Array:
    valid, offsets, data = a.buffers()
    wide = pa.py_buffer(np.frombuffer(offsets, np.int32).astype(np.int64))
    return pa.Array.from_buffers(pa.large_string(), len(a), [valid, wide, data])


BAD = text(b"A", None, b"\xff\xfe", "é".encode())
FORMS: dict[str, Callable[[pa.Array], Any]] = {
    "string": lambda a: a,
    "large_string": lambda a: large(a),
    "string_view": lambda a: a.cast(pa.string_view()),
    "dictionary": lambda a: pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, 3]), a),
    "chunks": lambda a: pa.chunked_array([a.slice(0, 2), a.slice(2)]),
    "slice": lambda a: pa.concat_arrays([a, a]).slice(4),
}


@pytest.fixture(scope="module")
def db() -> Connection:
    return connection()


def trades(symbols: Any) -> pa.Table:
    n = len(symbols)
    times = pa.array([1_767_225_630_000_000 + i for i in range(n)]).cast(pa.timestamp("us"))
    return pa.table({"symbol": symbols, "price": [1.0] * n, "qty": pa.array([1] * n, pa.int32()), "ts": times})


@pytest.mark.parametrize("form", FORMS)
def test_rows_are_refused_by_stream_column_and_row(db: Connection, form: str) -> None:
    before = repr(fingerprint(db))
    with pytest.raises(eddyline.DataError, match=r"'symbol' of stream 'trades'.* row 2 .*not valid UTF-8"):
        db.push("trades", trades(FORMS[form](BAD)))
    assert repr(fingerprint(db)) == before


def test_times_written_as_text_are_refused_too(db: Connection) -> None:
    table = trades(pa.array(["A"])).set_column(3, "ts", text(b"2026-01-01\xff"))
    with pytest.raises(eddyline.DataError, match=r"'ts' of stream 'trades'.* row 0 .*not valid UTF-8"):
        db.push("trades", table)


@pytest.mark.parametrize("form", FORMS)
def test_parameters_and_names_of_queries_are_refused(db: Connection, form: str) -> None:
    if db.registry.find("named") is None:
        db.execute("CREATE QUERY FAMILY named (s STRING) AS SELECT price FROM trades WHERE symbol = :s")
    before, bad = repr(fingerprint(db)), FORMS[form](text(b"A", b"B", b"\xff\xfe", b"D"))
    good = pa.array(["a", "b", "c", "d"])
    with pytest.raises(eddyline.DataError, match=r"'s' of family 'named' .* row 2 .*not valid UTF-8"):
        db.register("named", pa.table({"query": good, "s": bad}))
    with pytest.raises(eddyline.DataError, match=r"row 2 .*not valid UTF-8"):
        db.register("named", pa.table({"query": bad, "s": good}))
    with pytest.raises(eddyline.DataError, match=r"row 2 .*not valid UTF-8"):
        db.drop("named", bad)
    assert repr(fingerprint(db)) == before


@pytest.mark.parametrize(
    "sql",
    [
        "CREATE CONTINUOUS QUERY `q\ud800` AS SELECT symbol FROM trades",
        "CREATE CONTINUOUS QUERY q9 AS SELECT symbol FROM trades WHERE symbol = '\udfff'",
        "INSERT INTO companies VALUES ('\ud800', 'x', 1)",
        "CREATE STREAM `\ud800` (a INT, ts TIMESTAMP) WATERMARK ts",
        "DROP CONTINUOUS QUERY `q\ud800`",
        "SELECT '\ud800' AS x FROM companies",
    ],
)
def test_half_a_character_in_a_statement_is_refused_at_its_place(db: Connection, sql: str) -> None:
    before = repr(fingerprint(db))
    with pytest.raises(eddyline.ParseError, match="half of a character") as error:
        db.execute(sql)
    place = next(i for i, c in enumerate(sql) if "\ud800" <= c <= "\udfff")
    assert error.value.span == (place, place + 1)
    assert repr(fingerprint(db)) == before


@pytest.mark.parametrize("rows", [[{"symbol": "\ud800", "price": 1.0, "qty": 1, "ts": "2026-01-01"}]])
def test_half_a_character_in_rows_is_refused(db: Connection, rows: Any) -> None:
    before = repr(fingerprint(db))
    with pytest.raises(eddyline.DataError, match="'symbol' of stream 'trades'"):
        db.push("trades", rows)
    with pytest.raises(eddyline.DataError):
        db.register("alert", [{"query": "x\ud800", "lo": 1.0, "hi": 1.0}])
    assert repr(fingerprint(db)) == before


def test_valid_text_of_any_form_is_taken(db: Connection) -> None:
    good = text(b"A", None, "é\U0001f600".encode(), b"")
    for form, made in FORMS.items():
        pushed = db.push("trades", trades(made(good)))
        assert pushed.rows("u1").column("symbol").to_pylist() == ["A", None, "é\U0001f600", ""], form

"""Rows that do not fit their stream are refused by name, whole pushes at a time."""

from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import eddyline
from eddyline.local.connection import Connection
from tests.errors.state import connection, fingerprint

GOOD = {"symbol": "A", "price": 4.5, "qty": 3, "ts": "2026-01-01 00:00:20"}


@pytest.fixture(scope="module")
def db() -> Connection:
    """One connection for all: what is refused leaves it as it was."""
    return connection()


def refused(db: Connection, stream: Any, rows: Any, *words: str) -> None:
    before = fingerprint(db)
    with pytest.raises(eddyline.Error) as caught:
        db.push(stream, rows)
    for word in words:
        assert word in f"{caught.value.message} {caught.value.hint or ''}"
    assert fingerprint(db) == before


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("symbol", 5),
        ("symbol", 4.5),
        ("symbol", True),
        ("symbol", ["A"]),
        ("symbol", {"a": 1}),
        ("symbol", "\ud800"),
        ("price", "4.5"),
        ("price", True),
        ("price", "x"),
        ("price", 2**70),
        ("price", [1.0]),
        ("price", datetime(2026, 1, 1)),
        ("qty", "3"),
        ("qty", 3.5),
        ("qty", np.float64(3.5)),
        ("qty", Decimal("3.5")),
        ("qty", float("nan")),
        ("qty", float("inf")),
        ("qty", 2**31),
        ("qty", -(2**31) - 1),
        ("qty", 2**80),
        ("qty", True),
        ("qty", np.True_),
        ("ts", 5),
        ("ts", 5.5),
        ("ts", True),
        ("ts", np.int64(5)),
        ("ts", np.float64("nan")),
        ("ts", float("nan")),
        ("ts", "noon"),
        ("ts", ""),
        ("ts", "2026-13-01"),
        ("ts", "2026-02-30 00:00:00"),
        ("ts", "10000-01-01 00:00:00"),
        ("ts", b"2026-01-01"),
        ("ts", np.datetime64("NaT")),
        ("ts", pd.NaT),
        ("ts", timedelta(seconds=5)),
        ("ts", datetime.max.replace(tzinfo=timezone(timedelta(hours=-12)))),
        ("ts", object()),
    ],
)
def test_a_value_of_the_wrong_kind_is_refused_with_its_column_and_row(db: Connection, column: str, value: Any) -> None:
    refused(db, "trades", [GOOD, {**GOOD, column: value}], f"{column!r}", "row 1", "No row was applied")


def test_a_tuple_needs_an_event_time(db: Connection) -> None:
    refused(db, "trades", [GOOD, {**GOOD, "ts": None}], "Row 1", "event time", "'ts'")


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("symbol", pa.array([1, 2])),
        ("symbol", pa.array([b"a", b"b"])),
        ("symbol", pa.array([["a"], ["b"]])),
        ("price", pa.array(["1", "2"])),
        ("price", pa.array([True, False])),
        ("price", pa.array([datetime(2026, 1, 1)] * 2)),
        ("qty", pa.array([1.5, 2.0])),
        ("qty", pa.array([float("nan"), 2.0])),
        ("qty", pa.array([2**40, 1])),
        ("qty", pa.array([2**63, 1], pa.uint64())),
        ("qty", pa.array(["1", "2"])),
        ("ts", pa.array([1, 2])),
        ("ts", pa.array([1.0, 2.0])),
        ("ts", pa.array(["noon", "2026-01-01"])),
        ("ts", pa.array([2**62, 0], pa.timestamp("us"))),
        ("ts", pa.array([-(2**63), 0], pa.timestamp("us"))),
        ("ts", pa.array([2**60, 0], pa.timestamp("s"))),
        ("ts", pa.array([timedelta(1), timedelta(2)])),
        ("ts", pa.array([None, datetime(2026, 1, 1)])),
        ("ts", pa.nulls(2)),
    ],
)
def test_an_arrow_column_of_the_wrong_kind_is_refused(db: Connection, column: str, values: pa.Array) -> None:
    table = pa.Table.from_pylist([{**GOOD, "ts": datetime(2026, 1, 1, 0, 0, 20)}] * 2)
    place = table.column_names.index(column)
    refused(db, "trades", table.set_column(place, column, values), f"{column!r}")
    refused(db, "trades", table.set_column(place, column, pa.chunked_array([values])), f"{column!r}")


def test_missing_extra_and_doubled_columns_are_named(db: Connection) -> None:
    for column in GOOD:
        lacking = {k: v for k, v in GOOD.items() if k != column}
        refused(db, "trades", [lacking], "Row 0", f"lacks column {column!r}")
        refused(db, "trades", [GOOD, lacking], "Row 1", f"lacks column {column!r}")
        refused(db, "trades", pa.Table.from_pylist([lacking]), f"lack column {column!r}")
        refused(db, "trades", pd.DataFrame([lacking]), f"lack column {column!r}")
    refused(db, "trades", [{**GOOD, "pric": 1}], "'pric'", "'price'")
    refused(db, "trades", pa.Table.from_pylist([{**GOOD, "pric": 1}]), "'pric'", "'price'")
    refused(db, "trades", [{**GOOD, 5: 1}], "'5'")
    refused(db, "trades", [{**GOOD, "PRICE": 1}], "twice")
    table = pa.Table.from_pylist([GOOD])
    refused(db, "trades", table.append_column("price", table["price"]), "twice")
    refused(db, "trades", table.append_column("PRICE", table["price"]), "twice")
    doubled = pd.DataFrame([[1, 2]], columns=["price", "price"])
    refused(db, "trades", doubled, "price")


@pytest.mark.parametrize(
    "rows", [None, 5, "A", b"A", 4.5, object(), iter([GOOD]), {1, 2}, [5], ["A"], [None], [GOOD, 5], [[GOOD]], (1, 2)]
)
def test_what_is_not_rows_is_refused(db: Connection, rows: Any) -> None:
    refused(db, "trades", rows)


def test_pandas_other_than_a_frame_is_refused(db: Connection) -> None:
    refused(db, "trades", pd.Series([1, 2]), "Series")
    refused(db, "trades", pd.Series(GOOD), "Series")


def test_pandas_missing_times_are_missing_event_times(db: Connection) -> None:
    frame = pd.DataFrame([{**GOOD, "ts": pd.NaT}, {**GOOD, "ts": pd.Timestamp("2026-01-01")}])
    refused(db, "trades", frame, "Row 0", "event time")


def test_an_unknown_stream_is_named_with_what_exists(db: Connection) -> None:
    refused(db, "trade", [GOOD], "'trade'", "'trades'")
    refused(db, "companies", [GOOD], "'companies'")
    refused(db, "", [GOOD], "''")
    refused(db, {"trades": [GOOD], "nothing": [GOOD]}, None, "'nothing'")
    refused(db, {5: [GOOD]}, None, "5")


def test_a_push_to_several_streams_applies_all_or_nothing() -> None:
    db = connection()
    quote = {
        "symbol": "A",
        "bid": 1.0,
        "ask": 2.0,
        "fresh": True,
        "day": "2026-01-01",
        "ts": "2026-01-01 00:00:20",
    }
    for bad in ({**quote, "bid": "x"}, {**quote, "ts": None}, {**quote, "day": "x"}, {**quote, "fresh": 1}, {}):
        refused(db, {"trades": [GOOD], "quotes": [bad]}, None, "quotes")
        refused(db, {"quotes": [bad], "trades": [GOOD]}, None, "quotes")
    assert db.push({"trades": [GOOD], "quotes": [quote]}).count() > 0


def test_forms_of_one_row_mean_the_same() -> None:
    stamp = datetime(2026, 1, 1, 0, 0, 20)
    paris = timezone(timedelta(hours=1))
    forms: list[Any] = [
        [GOOD],
        GOOD,
        {k: [v] for k, v in GOOD.items()},
        {k.upper(): v for k, v in GOOD.items()},
        pa.Table.from_pylist([GOOD]),
        pa.RecordBatch.from_pylist([GOOD]),
        pd.DataFrame([GOOD]),
        pd.DataFrame([{**GOOD, "ts": pd.Timestamp(stamp)}]),
        pd.DataFrame([{**GOOD, "symbol": "A"}]).astype({"symbol": "category"}),
        *[
            [{**GOOD, "ts": ts}]
            for ts in (
                stamp,
                stamp.replace(tzinfo=UTC),
                stamp.replace(tzinfo=UTC).astimezone(paris),
                np.datetime64(stamp),
                pd.Timestamp(stamp),
                "2026-01-01T00:00:20Z",
                "2026-01-01T01:00:20+01:00",
            )
        ],
        pa.table({**{k: [v] for k, v in GOOD.items()}, "ts": pa.array(["2026-01-01T01:00:20+01:00"])}),
        pa.table({**{k: [v] for k, v in GOOD.items()}, "ts": pa.array([stamp], pa.timestamp("ns", "Europe/Paris"))}),
        pa.table({**{k: [v] for k, v in GOOD.items()}, "symbol": pa.array(["A"]).dictionary_encode()}),
        pa.table({**{k: [v] for k, v in GOOD.items()}, "symbol": pa.array(["A"], pa.large_string())}),
    ]
    first = None
    for form in forms:
        db = connection()
        found = db.push("trades", form).rows("u1").to_pylist()
        assert first is None or found == first, form
        first = found
    assert first


@pytest.mark.parametrize(
    "value",
    [
        None,
        5,
        5.5,
        True,
        float("nan"),
        float("inf"),
        "noon",
        "",
        "2026-13-01",
        pd.NaT,
        np.datetime64("NaT"),
        np.int64(5),
        timedelta(1),
        [],
        {},
        b"2026-01-01",
        datetime.max.replace(tzinfo=timezone(timedelta(hours=-12))),
        object(),
    ],
)
def test_advance_refuses_what_is_no_point_in_time(db: Connection, value: Any) -> None:
    before = fingerprint(db)
    with pytest.raises(eddyline.DataError, match="point in time"):
        db.advance(value)
    assert fingerprint(db) == before


def test_late_and_snapshot_and_explain_name_what_does_not_exist(db: Connection) -> None:
    for ask in (db.late, db.snapshot, db.explain):
        with pytest.raises(eddyline.CatalogError, match="'nothing'"):
            ask("nothing")
        with pytest.raises(eddyline.CatalogError, match="ud800"):
            ask("\ud800")

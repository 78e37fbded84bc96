"""The forms in which rows may be given: all give the same tuples, and nothing is dropped or guessed."""

from __future__ import annotations

import datetime as dt
import decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import eddyline
from tests.local.common import START, at, tuples

TYPES = {
    "bo": ("BOOLEAN", pa.bool_()),
    "i1": ("TINYINT", pa.int8()),
    "i2": ("SMALLINT", pa.int16()),
    "i4": ("INT", pa.int32()),
    "i8": ("BIGINT", pa.int64()),
    "f4": ("FLOAT", pa.float32()),
    "f8": ("DOUBLE", pa.float64()),
    "st": ("STRING", pa.string()),
    "da": ("DATE", pa.date32()),
    "ti": ("TIMESTAMP", pa.timestamp("us")),
    "iv": ("INTERVAL", pa.duration("us")),
    "ts": ("TIMESTAMP", pa.timestamp("us")),
}
SCHEMA = pa.schema([(n, t) for n, (_, t) in TYPES.items()])
ROWS: list[dict[str, Any]] = [
    {
        "bo": True, "i1": -128, "i2": 32767, "i4": -(2**31), "i8": 2**63 - 1, "f4": 1.5, "f8": 1e300, "st": "häß\0lich",
        "da": dt.date(1960, 2, 29),
        "ti": dt.datetime(1950, 1, 1, 1, 1, 1, 999_999), "iv": dt.timedelta(days=-3, seconds=5),
        "ts": at(0),
    },
    dict.fromkeys(TYPES) | {"ts": at(1)},
    {
        "bo": False, "i1": 0, "i2": 0, "i4": 0, "i8": 0, "f4": 0.0, "f8": 0.0, "st": "",
        "da": dt.date(2026, 1, 1), "ti": START, "iv": dt.timedelta(0), "ts": at(2),
    },
]  # fmt: skip


def stream(columns: dict[str, str] | None = None) -> Any:
    db = eddyline.connect()
    named = columns or {n: t for n, (t, _) in TYPES.items()}
    db.execute(f"CREATE STREAM x ({', '.join(f'{n} {t}' for n, t in named.items())}) WATERMARK ts")
    db.execute("CREATE CONTINUOUS QUERY q AS SELECT * FROM x")
    return db


def one(type_: str) -> Any:
    return stream({"v": type_, "ts": "TIMESTAMP"})


def pushed(db: Any, rows: Any) -> list[Any]:
    return [v[3] for v in tuples(db.push("x", rows).rows("q"))]


def column(array: Any) -> pa.Table:
    return pa.table({"v": array, "ts": pa.array([START] * len(array), pa.timestamp("us"))})


TABLE = pa.Table.from_pylist(ROWS, SCHEMA)
WANT = [tuple(r.values()) for r in ROWS]


@pytest.mark.parametrize(
    "rows",
    [
        ROWS,
        tuple(ROWS),
        [dict(reversed(r.items())) for r in ROWS],
        [{k.upper(): v for k, v in r.items()} for r in ROWS],
        TABLE,
        TABLE.to_batches()[0],
        pa.RecordBatchReader.from_batches(SCHEMA, TABLE.to_batches()),
        pa.concat_tables([TABLE.slice(0, 1), TABLE.slice(1, 0), TABLE.slice(1)]),
        pa.concat_tables([TABLE, TABLE, TABLE]).slice(3, 3),
        TABLE.select(list(reversed(SCHEMA.names))),
        TABLE.rename_columns([n.upper() for n in SCHEMA.names]),
    ],
    ids=["dicts", "tuple", "order", "case", "table", "batch", "reader", "chunks", "slice", "columns", "upper"],
)
def test_every_form_gives_the_same_tuples(rows: Any) -> None:
    db = stream()
    found = db.push("x", rows).rows("q")
    assert [r[3:] for r in tuples(found)] == WANT
    assert found.schema.types[3:] == SCHEMA.types
    assert tuples(db.snapshot("q")) == WANT


def test_sliced_columns_with_nulls_keep_their_rows_through_every_operator() -> None:
    table = pa.concat_tables([TABLE, TABLE.slice(1), TABLE])
    for text in (
        "SELECT st FROM x WHERE st IS NULL OR st <> 'no'",
        "SELECT DISTINCT st FROM x",
        "SELECT st FROM x GROUP BY st",
        "SELECT a.st FROM x [NOW] a, x [NOW] b WHERE a.st = b.st AND a.bo = b.bo",
        "SELECT st FROM x [ROWS 3]",
    ):
        results = []
        for rows in (table.slice(2, 3), pa.Table.from_pylist(table.slice(2, 3).to_pylist(), SCHEMA)):
            db = stream()
            db.execute(f"CREATE CONTINUOUS QUERY z AS {text}")
            db.push("x", rows)
            db.advance(at(9))
            results.append(sorted(map(str, tuples(db.snapshot("z")))))
        assert results[0] == results[1], text


@pytest.mark.parametrize(
    "type_", [pa.int8(), pa.int16(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]
)
def test_integers_of_other_widths_are_taken_when_they_fit(type_: pa.DataType) -> None:
    assert pushed(one("INT"), column(pa.array([1, None, 100], type_))) == [1, None, 100]
    assert pushed(one("DOUBLE"), column(pa.array([1, None, 100], type_))) == [1.0, None, 100.0]


@pytest.mark.parametrize(
    ("type_", "array"),
    [
        ("INT", pa.array([2**31])),
        ("TINYINT", pa.array([128])),
        ("BIGINT", pa.array([2**63], pa.uint64())),
        ("INT", pa.array([1.5])),
        ("INT", pa.array([float("nan")])),
        ("INT", pa.array(["1"])),
        ("INT", pa.array([True])),
        ("BOOLEAN", pa.array([1])),
        ("STRING", pa.array([1])),
        ("DOUBLE", pa.array(["1.5"])),
        ("DOUBLE", pa.array([2**63 - 1])),
        ("TIMESTAMP", pa.array([5])),
        ("TIMESTAMP", pa.array(["yesterday"])),
        ("DATE", pa.array(["2026-02-30"])),
        ("STRING", pa.array([[1]])),
        ("STRING", pa.array([b"\xff"])),
        ("INTERVAL", pa.array([5])),
    ],
    ids=str,
)
def test_values_that_would_change_are_refused_and_the_column_named(type_: str, array: pa.Array) -> None:
    db = one(type_)
    with pytest.raises(eddyline.DataError, match="'v'"):
        db.push("x", column(array))
    assert db.stats()["rows"] == 0


@pytest.mark.parametrize(
    "array",
    [
        pa.array(["a", None, "é"], pa.large_string()),
        pa.array(["a", None, "é"], pa.string_view()),
        pa.array(["a", None, "é"]).dictionary_encode(),
        pa.array(["a", None, "é"], pa.large_string()).dictionary_encode(),
        pa.chunked_array([pa.array(["a"]).dictionary_encode(), pa.array([None, "é"]).dictionary_encode()]),
    ],
    ids=["large", "view", "dictionary", "large dictionary", "chunked dictionary"],
)
def test_text_in_every_encoding(array: Any) -> None:
    assert pushed(one("STRING"), column(array)) == ["a", None, "é"]


def test_column_of_nulls_fits_every_type() -> None:
    for type_, _ in TYPES.values():
        assert pushed(one(type_), column(pa.nulls(2))) == [None, None]


def test_decimals_are_taken_as_numbers_or_refused() -> None:
    array = pa.array([decimal.Decimal("1.50")])
    try:
        assert pushed(one("DOUBLE"), column(array)) == [1.5]
    except eddyline.DataError as e:
        assert "'v'" in str(e)


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Zurich", "+05:30"])
def test_times_in_every_unit_and_zone_are_instants(unit: str, zone: str | None) -> None:
    moment = dt.datetime(2026, 7, 1, 12, 0, 0)
    seconds = int((moment - dt.datetime(1970, 1, 1)).total_seconds())
    scale = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    array = pa.array([seconds * scale, None], pa.int64()).cast(pa.timestamp(unit, zone))
    assert pushed(one("TIMESTAMP"), column(array)) == [moment, None]


@pytest.mark.parametrize(
    "text", ["2026-07-01 12:00:00", "2026-07-01T12:00:00Z", "2026-07-01T14:00:00+02:00", "2026-07-01T12:00:00.000"]
)
def test_times_as_text_mean_the_same_in_arrow_and_in_dicts(text: str) -> None:
    want = [dt.datetime(2026, 7, 1, 12)]
    assert pushed(one("TIMESTAMP"), [{"v": text, "ts": START}]) == want
    assert pushed(one("TIMESTAMP"), column(pa.array([text]))) == want
    assert pushed(one("TIMESTAMP"), column(pa.array([text], pa.large_string()))) == want


def test_times_in_seconds_that_overflow_are_refused() -> None:
    for unit in ("s", "ms"):
        db = one("TIMESTAMP")
        with pytest.raises(eddyline.DataError, match="'v'"):
            db.push("x", column(pa.array([2**62], pa.int64()).cast(pa.timestamp(unit))))


def test_dates_become_timestamps_at_midnight_and_stay_dates() -> None:
    day = dt.date(2026, 7, 1)
    for array in (pa.array([day], pa.date32()), pa.array([day], pa.date64())):
        assert pushed(one("TIMESTAMP"), column(array)) == [dt.datetime(2026, 7, 1)]
        assert pushed(one("DATE"), column(array)) == [day]
    assert pushed(one("DATE"), [{"v": "2026-07-01", "ts": START}, {"v": day, "ts": START}]) == [day, day]


def test_data_frames_of_pandas() -> None:
    frame = pd.DataFrame(
        {
            "st": ["a", None, "c"],
            "i4": pd.array([1, None, 3], "Int64"),
            "f8": [1.5, np.nan, 2.5],
            "bo": pd.array([True, None, False], "boolean"),
            "ca": pd.Categorical(["u", "v", "u"]),
            "ti": pd.to_datetime(["2026-01-01 10:00", None, "2026-01-01 11:00"]).tz_localize("Europe/Zurich"),
            "iv": pd.to_timedelta([1, None, 2], unit="s"),
            "ts": pd.to_datetime(["2026-01-01", "2026-01-02", "2026-01-03"]),
        },
        index=[7, 3, 9],
    )
    types = {
        "st": "STRING",
        "i4": "INT",
        "f8": "DOUBLE",
        "bo": "BOOLEAN",
        "ca": "STRING",
        "ti": "TIMESTAMP",
        "iv": "INTERVAL",
    }
    db = stream(types | {"ts": "TIMESTAMP"})
    found = [r[3:] for r in tuples(db.push("x", frame).rows("q"))]
    second = dt.timedelta(seconds=1)
    assert found == [
        ("a", 1, 1.5, True, "u", dt.datetime(2026, 1, 1, 9), second, dt.datetime(2026, 1, 1)),
        (None, None, None, None, "v", None, None, dt.datetime(2026, 1, 2)),
        ("c", 3, 2.5, False, "u", dt.datetime(2026, 1, 1, 10), 2 * second, dt.datetime(2026, 1, 3)),
    ]


def test_data_frame_with_integers_made_floats_by_nulls() -> None:
    frame = pd.DataFrame({"v": [1.0, np.nan], "ts": pd.to_datetime(["2026-01-01", "2026-01-01"])})
    assert pushed(one("INT"), frame) == [1, None]


def test_numbers_of_numpy_in_dicts() -> None:
    rows = [{"v": v, "ts": START} for v in (np.int64(1), np.int8(2), 3)]
    assert pushed(one("INT"), rows) == [1, 2, 3]
    rows = [{"v": v, "ts": START} for v in (np.float32(1.5), np.float64(2), 3, float("inf"))]
    assert pushed(one("DOUBLE"), rows) == [1.5, 2.0, 3.0, float("inf")]


def test_one_dict_is_one_row_whatever_its_columns_are_called() -> None:
    assert pushed(one("INT"), {"v": 1, "ts": START}) == [1]
    db = stream({"query": "STRING", "ts": "TIMESTAMP"})
    assert pushed(db, {"query": "select", "ts": START}) == ["select"]


@pytest.mark.parametrize(
    "rows",
    [
        [{"v": 1}],
        [{"v": 1, "ts": START}, {"v": 1, "ts": START, "w": 2}],
        [{"v": 1, "ts": START}, {"ts": START}],
        [{"v": 1, "V": 2, "ts": START}],
        [{"v": 1, "ts": None}],
        [{"v": True, "ts": START}],
        [{"v": 1.5, "ts": START}],
        [{"v": "1", "ts": START}],
        [{"v": 2**40, "ts": START}],
        [(1, START)],
        "rows",
        b"rows",
        {1, 2},
        iter([{"v": 1, "ts": START}]),
        pa.table({"v": [1], "V": [2], "ts": [START]}),
        pa.table([[1], [2], [START]], names=["v", "v", "ts"]),
        pa.table({"v": [1]}),
        pa.array([1]),
        pd.Series([1]),
        [{1: 2, "v": 1, "ts": START}],
    ],
)
def test_rows_that_do_not_fit_are_refused_whole(rows: Any) -> None:
    db = one("INT")
    with pytest.raises(eddyline.DataError):
        db.push("x", rows)
    assert db.stats()["rows"] == 0 and db.snapshot("q").num_rows == 0


def test_error_names_the_row() -> None:
    with pytest.raises(eddyline.DataError, match="row 2 has 'bad'"):
        one("INT").push("x", [{"v": v, "ts": START} for v in (1, None, "bad", "worse")])


def test_pushed_data_is_not_changed_by_its_owner_afterwards() -> None:
    rows = [{"v": 1, "ts": START}]
    db = one("INT")
    db.push("x", rows)
    rows[0]["v"] = 99
    assert tuples(db.snapshot("q"))[0][0] == 1
    values = np.array([1, 2], np.int32)
    db = one("INT")
    db.push("x", column(pa.array(values)))
    values[:] = 99
    assert [r[0] for r in tuples(db.snapshot("q"))] == [1, 2]


def test_streams_are_named_without_regard_to_case() -> None:
    assert pushed_rows(one("INT")) == 1


def pushed_rows(db: Any) -> int:
    return int(db.push("X", [{"V": 1, "TS": START}]).count())


def test_rows_beside_a_mapping_of_streams_are_refused() -> None:
    """They would be ignored."""
    db = one("INT")
    with pytest.raises(eddyline.Error):
        db.push({"x": [{"v": 1, "ts": START}]}, [{"v": 2, "ts": START}])
    assert db.stats()["rows"] == 0


def test_stream_named_twice_in_one_push_is_refused() -> None:
    """`affected` could not tell whose rows it counts."""
    db = one("INT")
    with pytest.raises(eddyline.Error):
        db.push({"x": [{"v": 1, "ts": START}], "X": [{"v": 2, "ts": START}]})
    assert db.stats()["rows"] == 0

"""Rows of parquet files: what the declared types can hold is read as it is; the rest is told by file or by row."""

from __future__ import annotations

import random
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from eddyline import types as t
from eddyline.spark.input.exact import exactly, readable
from eddyline.spark.input.file_rows import FileReader
from eddyline.sql.bound import Field

NS = pa.timestamp("ns")
NOON = datetime(2026, 1, 1, 12)
LOST = object()


def typed(kind: pa.DataType, *values: Any) -> pa.Array:
    return pa.array(values, kind)


@pytest.mark.parametrize(
    ("given", "declared", "expected"),
    [
        (typed(pa.int64(), 1, 2**31, None, -(2**31)), t.INT, [1, LOST, None, -(2**31)]),
        (typed(pa.uint64(), 2**63 - 1, 2**63), t.BIGINT, [2**63 - 1, LOST]),
        (typed(pa.uint32(), 2**31 - 1, 2**31), t.INT, [2**31 - 1, LOST]),
        (typed(pa.int8(), -1, None), t.BIGINT, [-1, None]),
        (typed(pa.float64(), 1.0, 1.5, float("nan"), 1e30, 2.0**63, None), t.BIGINT, [1, *[LOST] * 4, None]),
        (typed(pa.float64(), 3e9, -4.0), t.INT, [LOST, -4]),
        (typed(pa.int64(), 2**53 + 1, 2**60, 2**63 - 1, -(2**63)), t.DOUBLE, [LOST, 2.0**60, LOST, -(2.0**63)]),
        (typed(pa.uint64(), 2**64 - 1, 2**63), t.DOUBLE, [LOST, 2.0**63]),
        (typed(pa.int32(), 2**24 + 1, 2**24), t.FLOAT, [LOST, 2.0**24]),
        (typed(pa.float64(), 1.1, 1.5, float("inf")), t.FLOAT, [LOST, 1.5, float("inf")]),
        (typed(pa.float32(), 0.5, None), t.DOUBLE, [0.5, None]),
        (typed(pa.decimal128(5, 2), Decimal("1.10"), None), t.DOUBLE, [1.1, None]),
        (typed(pa.decimal128(21, 2), Decimal("1234567890123456789.12"), Decimal("0.25")), t.DOUBLE, [LOST, 0.25]),
        (typed(pa.decimal128(5, 2), Decimal("7.00"), Decimal("7.25")), t.INT, [7, LOST]),
        (typed(NS, NOON, None), t.TIMESTAMP, [NOON, None]),
        (typed(pa.int64(), 1_999, None).cast(NS), t.TIMESTAMP, [datetime(1970, 1, 1, 0, 0, 0, 1), None]),
        (typed(pa.timestamp("ms", "Europe/Berlin"), NOON), t.TIMESTAMP, [NOON]),
        (typed(pa.int64(), 2**62).cast(pa.timestamp("s")), t.TIMESTAMP, [LOST]),
        (typed(pa.date32(), date(2026, 1, 1)), t.TIMESTAMP, [datetime(2026, 1, 1)]),
        (typed(NS, datetime(2026, 1, 1), NOON), t.DATE, [date(2026, 1, 1), LOST]),
        (typed(pa.string(), "a", None, "a").dictionary_encode(), t.STRING, ["a", None, "a"]),
        (typed(pa.large_string(), "a", None), t.STRING, ["a", None]),
        (typed(pa.binary(), b"a", None), t.STRING, ["a", None]),
        (pa.nulls(2), t.INT, [None, None]),
    ],
    ids=lambda given: (
        str(given.type) if isinstance(given, pa.Array) else str(given) if not isinstance(given, list) else ""
    ),
)
def test_a_value_is_read_as_the_declared_type_exactly_or_told_to_be_lost(
    given: pa.Array, declared: pa.DataType, expected: list[Any]
) -> None:
    assert readable(given.type, declared)
    converted, lost = exactly(given, declared)
    assert converted.type == declared
    assert converted.to_pylist() == [None if v is LOST else v for v in expected]
    marked = [False] * len(expected) if lost is None else lost.to_pylist()
    assert marked == [v is LOST for v in expected]


@pytest.mark.parametrize(
    ("given", "declared"),
    [(pa.string(), t.DOUBLE), (pa.bool_(), t.INT), (pa.int64(), t.STRING), (pa.int64(), t.TIMESTAMP)],
    ids=str,
)
def test_types_of_another_kind_are_not_read(given: pa.DataType, declared: pa.DataType) -> None:
    assert not readable(given, declared)


FIELDS = [Field("k", t.STRING), Field("n", t.INT)]


def write(file: Path, **columns: Any) -> str:
    file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), file)
    return str(file)


def values(reader: FileReader, *files: str) -> list[tuple[Any, ...]]:
    return [tuple(r.values()) for piece in reader.pieces(files) for r in piece.to_pylist()]


def test_each_unreadable_file_is_named_with_its_reason_and_the_others_are_read(tmp_path: Path) -> None:
    good = write(tmp_path / "good.parquet", N=pa.array([1], pa.int8()), other=["x"])
    text = write(tmp_path / "text.parquet", k=["a"], n=["1"])
    twice = write(tmp_path / "twice.parquet", k=["a"], n=[1], N=[2])
    garbage = tmp_path / "garbage.parquet"
    garbage.write_bytes(b"this is no parquet file")
    gone = str(tmp_path / "gone.parquet")
    reader = FileReader(FIELDS)
    assert values(reader, text, gone, twice, str(garbage), good) == [(None, 1, None, good)]
    why = {Path(u.path).stem: u.why for u in reader.unread}
    assert why["text"] == "column 'n' is string, not INT"
    assert why["twice"] == "it has column 'n' 2 times"
    assert why["gone"] == "it was deleted before it was read"
    assert "magic bytes" in why["garbage"] and len(why) == 4


def test_all_values_of_a_row_that_do_not_fit_are_told(tmp_path: Path) -> None:
    file = write(tmp_path / "x.parquet", n=[1, 2**40, 2**41], m=[0.5, 2.0, 1.5])
    reader = FileReader([Field("n", t.INT), Field("m", t.INT)])
    assert [r[:3] for r in values(reader, file)] == [
        (1, None, "m = 0.5 (double), which no INT is"),
        (None, 2, f"n = {2**40} (int64), which no INT is"),
        (None, None, f"n = {2**41} (int64), which no INT is, m = 1.5 (double), which no INT is"),
    ]


def test_rows_before_the_damage_of_a_file_are_read_and_counted(tmp_path: Path) -> None:
    file = tmp_path / "damaged.parquet"
    pq.write_table(pa.table({"k": ["a"] * 200, "n": range(200)}), file, row_group_size=100, compression="snappy")
    content = bytearray(file.read_bytes())
    second = pq.ParquetFile(file).metadata.row_group(1).column(0)
    start = second.dictionary_page_offset
    content[start : start + second.total_compressed_size] = bytes(second.total_compressed_size)
    file.write_bytes(content)
    reader = FileReader(FIELDS)
    assert [r[1] for r in values(reader, str(file))] == list(range(100))
    assert [u.rows for u in reader.unread] == [100]


def test_a_file_that_is_damaged_at_random_is_read_or_told(tmp_path: Path) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    rnd = random.Random(seed)
    file = tmp_path / "x.parquet"
    rows = pa.table({"k": [f"text {i % 17}" for i in range(1000)], "n": pa.array(range(1000), pa.int32())})
    for _ in range(150):
        pq.write_table(rows, file, compression=rnd.choice(["snappy", "none", "zstd"]), row_group_size=300)
        content = bytearray(file.read_bytes())
        for _ in range(rnd.choice([1, 3, 20])):
            content[rnd.randrange(len(content))] = rnd.randrange(256)
        file.write_bytes(content[: rnd.choice([len(content), rnd.randrange(len(content))])])
        reader = FileReader(FIELDS)
        count = sum(piece.num_rows for piece in reader.pieces([str(file)]))
        assert reader.unread or count <= len(rows)


def test_columns_in_the_names_of_folders_are_read_below_the_source_only(tmp_path: Path) -> None:
    file = write(tmp_path / "k=above" / "in" / "n=7" / "x.parquet", other=[1, 2])
    reader = FileReader(FIELDS, str(tmp_path / "k=above" / "in"))
    assert [r[:2] for r in values(reader, file)] == [(None, 7), (None, 7)]
    odd = write(tmp_path / "k=above" / "in" / "n=seven" / "x.parquet", other=[1])
    assert values(reader, odd) == []
    assert [u.why for u in reader.unread] == ["its folder says n = 'seven', which is no INT"]


def test_rows_of_a_plain_table_are_inserts_and_a_changelog_of_another_tool_is_not_taken_for_one(tmp_path: Path) -> None:
    plain = write(tmp_path / "plain.parquet", k=["a"], n=[1])
    changes = write(tmp_path / "changes.parquet", k=["a"], n=[1], op=["delete"])
    other = write(tmp_path / "other.parquet", k=["a"], n=[1], Operation=["delete"])
    operation = Field("op", t.STRING)
    perhaps = FileReader([operation, *FIELDS], operations="perhaps")
    assert [r[:3] for r in values(perhaps, plain, changes, other)] == [("insert", "a", 1), ("delete", "a", 1)]
    assert [u.why for u in perhaps.unread] == [
        "it has no column 'op', but 'Operation': say which it is by OPTIONS (op 'Operation')"
    ]
    given = FileReader([operation, *FIELDS], operations="given")
    assert [r[:3] for r in values(given, plain, changes)] == [(None, "a", 1), ("delete", "a", 1)]
    none = FileReader([Field("", t.STRING), *FIELDS], operations="none")
    assert [r[:3] for r in values(none, plain, changes, other)] == [("insert", "a", 1)] * 3

"""Rows that cannot be processed are set apart where they are packed, with the reason and what was in them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from tests.spark.inline import Inline
from tests.spark.suite_host import read

TIME = pa.timestamp("us")
HOUR = 3_600_000_000


def inline(folder: Path, stream: str, query: str) -> Inline:
    host = Inline(folder, 2)
    for statement in (stream, query, f"CREATE SINK out USING parquet OPTIONS (path '{host.out}')"):
        host.catalog.execute(statement)
    return host


def set_apart(host: Inline, relation: str) -> list[dict[str, Any]]:
    rows = read(host.settings.own / "dead_letter" / relation)
    return [] if rows is None else rows.to_pylist()


def column(host: Inline, name: str) -> list[Any]:
    folders = [f for f in host.out.iterdir() if f.is_dir() and not f.name.startswith((".", "_"))]
    rows = [r for f in folders if (r := read(f)) is not None]
    return [v for r in rows for v in r.column(name).to_pylist()]


def not_utf8(*values: bytes) -> pa.Array:
    return pa.array(values, pa.binary()).view(pa.string())


def test_text_that_is_not_utf8_is_set_apart_and_the_rest_is_processed(tmp_path: Path) -> None:
    host = inline(
        tmp_path,
        "CREATE STREAM s (name STRING, ts TIMESTAMP) WATERMARK ts",
        "CREATE CONTINUOUS QUERY q AS SELECT DISTINCT name FROM s",
    )
    names = not_utf8("grün".encode(), b"gr\xfcn", b"red")
    host.step({"s": [pa.table({"name": names, "ts": pa.array([0, 0, 0], TIME)})]})
    assert sorted(column(host, "name")) == ["grün", "red"]
    (row,) = set_apart(host, "s")
    assert (row["name"], row["reason"], row["text"]) == (
        None,
        "text that is not UTF-8 (name)",
        r"name = 'gr\xfcn'",
    )


def test_keys_of_tables_that_are_not_utf8_are_set_apart(tmp_path: Path) -> None:
    host = inline(
        tmp_path,
        "CREATE TABLE names (k STRING PRIMARY KEY, n INT) USING parquet OPTIONS (path 'names')",
        "CREATE CONTINUOUS QUERY q AS SELECT k, n FROM names",
    )
    rows = pa.table({"op": ["+", "+"], "k": not_utf8(b"\xff", b"ok"), "n": pa.array([1, 2], pa.int32())})
    host.step({}, {"names": rows})
    assert column(host, "n") == [2]
    assert [r["reason"] for r in set_apart(host, "names")] == ["text that is not UTF-8 (k)"]


def test_times_that_no_calendar_shows_are_set_apart_and_stop_nothing(tmp_path: Path) -> None:
    host = inline(
        tmp_path,
        "CREATE STREAM s (a INT, d DATE, ts TIMESTAMP) WATERMARK ts",
        "CREATE CONTINUOUS QUERY q AS SELECT a FROM s",
    )
    beyond = 253_402_300_800_000_000  # the first microsecond of the year 10000
    table = pa.table(
        {
            "a": pa.array([1, 2, 3], pa.int32()),
            "d": pa.array([0, 0, -800_000], pa.int32()).cast(pa.date32()),
            "ts": pa.array([0, beyond, 0], pa.int64()).cast(TIME),
        }
    )
    host.step({"s": [table]})
    host.step({"s": [table.slice(0, 1)]})
    assert column(host, "a") == [1, 1]
    assert {(r["a"], r["reason"], r["text"]) for r in set_apart(host, "s")} == {
        (2, "a time outside the years 1 to 9999 (ts)", f"ts = {beyond} since 1970"),
        (3, "a time outside the years 1 to 9999 (d)", "d = -800000 since 1970"),
    }


def test_rows_beyond_the_future_limit_are_set_apart_by_the_clock_of_the_micro_batch(tmp_path: Path) -> None:
    host = inline(
        tmp_path,
        "CREATE STREAM s (a INT, ts TIMESTAMP) WATERMARK ts FUTURE LIMIT INTERVAL 1 HOUR",
        "CREATE CONTINUOUS QUERY q AS SELECT a FROM s",
    )
    far = 29_000 * 24 * HOUR
    for now, moments in ((1_000, [far, HOUR + 1_000_001]), (2_000, [0, HOUR + 1_000_001])):
        host.now = now
        numbers = pa.array(range(now, now + len(moments)), pa.int32())
        host.step({"s": [pa.table({"a": numbers, "ts": pa.array(moments, pa.int64()).cast(TIME)})]})
    assert sorted(column(host, "a")) == [2000, 2001]  # the row of 1970 is not late: nothing has moved the watermark
    reasons = {(r["a"], r["reason"]) for r in set_apart(host, "s")}
    assert reasons == {(a, "ahead of the wall clock, beyond the FUTURE LIMIT (ts)") for a in (1000, 1001)}

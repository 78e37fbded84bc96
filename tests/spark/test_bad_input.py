"""Rows and files that cannot be read are set apart with their place, or stop the run; the rest is not lost."""

from __future__ import annotations

import gzip
from datetime import datetime
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from tests.spark.pipelines import Small

pytestmark = pytest.mark.xdist_group("spark")

STREAM = """
CREATE STREAM t (symbol STRING, price DOUBLE, ts TIMESTAMP) WATERMARK ts DELAY OF INTERVAL 1 HOURS
  USING {format} OPTIONS (path '{in}/t');
CREATE CONTINUOUS QUERY q AS SELECT symbol, price FROM t WHERE price >= 0;
"""


def small(spark: SparkSession, folder: Path, format_: str, on_bad_rows: str) -> Small:
    return Small(spark, folder, STREAM.replace("{format}", format_), on_bad_rows=on_bad_rows)


def rows(first: int, n: int = 5) -> list[dict[str, object]]:
    return [{"symbol": "a", "price": float(i), "ts": i} for i in range(first, first + n)]


def prices(found: Small) -> list[float]:
    return sorted(r["price"] for r in found.rows("family_1"))


def test_unreadable_files_and_rows_without_time_are_set_apart_and_the_rest_is_processed(
    spark: SparkSession, tmp_path: Path
) -> None:
    found = small(spark, tmp_path, "parquet", "set apart")
    found.put("t", rows(0))
    (tmp_path / "in" / "t" / "garbage.parquet").write_bytes(b"this is no parquet file")
    found.put("t", pa.table({"symbol": ["x"], "price": ["much"], "ts": pa.array([0], pa.timestamp("us"))}))
    found.put("t", [{"symbol": "b", "price": 9.0, "ts": None}, *rows(5)])
    found.put("t", pa.table({"symbol": ["y"], "price": [False], "ts": pa.array([0], pa.timestamp("us"))}))
    found.run()
    assert prices(found) == [float(i) for i in range(10)]
    dead = {(r["reason"], Path(r["place"]).name, r["price"]) for r in found.dead("t")}
    assert dead == {
        ("unreadable file", "garbage.parquet", None),
        ("unreadable file", "00001.parquet", None),
        ("no event time (ts is NULL)", "00002.parquet", 9.0),
        ("unreadable file", "00003.parquet", None),
    }
    texts = {Path(r["place"]).name: r["text"] for r in found.dead("t")}
    assert texts["00003.parquet"] == "column 'price' is bool, not DOUBLE"


def test_files_of_pandas_are_read_and_values_that_do_not_fit_are_set_apart(spark: SparkSession, tmp_path: Path) -> None:
    script = """CREATE STREAM t (symbol STRING, qty INT, ts TIMESTAMP) WATERMARK ts DELAY OF INTERVAL 1 HOURS
  USING parquet OPTIONS (path '{in}/t');
CREATE CONTINUOUS QUERY q AS SELECT symbol, qty FROM t WHERE qty > 0;"""
    found = Small(spark, tmp_path, script, on_bad_rows="set apart")
    frame = pd.DataFrame({"symbol": ["a", "b", "c"], "qty": [1, 3_000_000_000, 3]})
    frame["symbol"] = frame["symbol"].astype("category")
    frame["ts"] = pd.to_datetime(["2026-01-01 00:00:00.123456"] * 3).astype("datetime64[ns]")
    frame.to_parquet(tmp_path / "in" / "t" / "frame.parquet")
    found.run()
    assert sorted((r["symbol"], r["qty"]) for r in found.rows("family_1")) == [("a", 1), ("c", 3)]
    assert {r["ts"].replace(tzinfo=None) for r in found.rows("family_1")} == {datetime(2026, 1, 1, 0, 0, 0, 123456)}
    assert [(r["symbol"], r["reason"], r["text"], Path(r["place"]).name) for r in found.dead("t")] == [
        ("b", "malformed", "qty = 3000000000 (int64), which no INT is", "frame.parquet")
    ]


def test_a_file_that_is_deleted_after_it_was_listed_is_told(spark: SparkSession, tmp_path: Path) -> None:
    found = small(spark, tmp_path, "parquet", "stop")
    found.put("t", [{"symbol": "b", "price": 9.0, "ts": None}, *rows(0)])
    found.put("t", rows(5))
    with pytest.raises(StreamingQueryException, match="no event time"):
        found.run()  # the micro-batch is planned now
    (tmp_path / "in" / "t" / "00001.parquet").unlink()
    with pytest.raises(StreamingQueryException, match=r"no event time|deleted after it was listed"):
        found.run()
    found = small(spark, tmp_path, "parquet", "set apart")
    found.run()
    assert prices(found) == [float(i) for i in range(5)]
    gone = [r for r in found.dead("t") if r["reason"] == "unreadable file"]
    assert [(Path(r["place"]).name, r["text"]) for r in gone] == [
        ("00001.parquet", "it was deleted after it was listed, before it was read")
    ]
    figures = found.pipe.figures()
    assert figures is not None
    assert figures.unread == (f"{tmp_path}/in/t/00001.parquet: it was deleted after it was listed, before it was read",)


def test_a_file_that_is_damaged_behind_its_footer_is_told(spark: SparkSession, tmp_path: Path) -> None:
    found = small(spark, tmp_path, "parquet", "set apart")
    found.put("t", rows(0))
    found.put("t", rows(5, 1000))
    file = tmp_path / "in" / "t" / "00001.parquet"
    content = bytearray(file.read_bytes())
    content[4 : len(content) // 2] = bytes(len(content) // 2 - 4)
    file.write_bytes(content)
    found.run()
    assert prices(found)[:5] == [float(i) for i in range(5)] and len(prices(found)) < 1005
    assert [(r["reason"], Path(r["place"]).name) for r in found.dead("t")] == [("unreadable file", "00001.parquet")]


def test_a_run_that_stops_at_a_bad_row_names_it_and_goes_on_when_the_source_is_mended(
    spark: SparkSession, tmp_path: Path
) -> None:
    found = small(spark, tmp_path, "parquet", "stop")
    found.put("t", rows(0))
    found.run()
    found.put("t", [{"symbol": "b", "price": 9.0, "ts": None}, *rows(5)])
    with pytest.raises(StreamingQueryException, match=r"00001\.parquet, of stream 't' is bad: no event time"):
        found.run()
    assert prices(found) == [float(i) for i in range(5)]
    found._files = 1
    found.put("t", rows(5))
    found.run()
    assert prices(found) == [float(i) for i in range(10)]


def test_lines_that_are_no_json_are_set_apart_with_their_text(spark: SparkSession, tmp_path: Path) -> None:
    found = small(spark, tmp_path, "json", "set apart")
    lines = ('{"symbol":"a","price":1.5,"ts":"2026-01-01T00:00:00Z"}', '{"symbol":"a","price":"oops"}', "not json")
    (tmp_path / "in" / "t" / "0.json").write_text("\n".join(lines))
    found.run()
    assert prices(found) == [1.5]
    assert {(r["reason"], r["text"], Path(r["place"]).name) for r in found.dead("t")} == {
        ("malformed", lines[1], "0.json"),
        ("malformed", lines[2], "0.json"),
    }


def test_a_record_that_is_too_long_is_passed_over_and_told(spark: SparkSession, tmp_path: Path) -> None:
    script = STREAM.replace("{format}", "json").replace("'{in}/t'", "'{in}/t', max_record_bytes '2 kB'")
    found = Small(spark, tmp_path, script, on_bad_rows="set apart")
    line = '{{"symbol":"{}","price":{},"ts":"2026-01-01T00:00:00Z"}}\n'
    text = line.format("a", 1.5) + line.format("b" * 600_000, 2.5) + line.format("c", 3.5)
    (tmp_path / "in" / "t" / "0.json.gz").write_bytes(gzip.compress(text.encode()))
    found.run()
    assert prices(found) == [1.5, 3.5]
    assert [(r["reason"], r["text"], Path(r["place"]).name) for r in found.dead("t")] == [
        ("unreadable file", "line 2 has more than 2,000 bytes (max_record_bytes)", "0.json.gz")
    ]


def test_csv_values_of_another_type_are_set_apart(spark: SparkSession, tmp_path: Path) -> None:
    found = small(spark, tmp_path, "csv", "set apart")
    (tmp_path / "in" / "t" / "0.csv").write_text("a,1.5,2026-01-01T00:00:00\na,much,2026-01-01T00:00:01\n")
    found.run()
    assert prices(found) == [1.5]
    assert [(r["reason"], r["text"]) for r in found.dead("t")] == [("malformed", "a,much,2026-01-01T00:00:01")]


def test_changes_of_a_table_with_an_unknown_operation_or_no_key_are_set_apart(
    spark: SparkSession, tmp_path: Path
) -> None:
    script = """
CREATE STREAM t (symbol STRING, ts TIMESTAMP) WATERMARK ts USING parquet OPTIONS (path '{in}/t');
CREATE TABLE names (symbol STRING PRIMARY KEY, name STRING) USING parquet OPTIONS (path '{in}/names');
CREATE CONTINUOUS QUERY q AS SELECT t.symbol, n.name FROM t, names n WHERE t.symbol = n.symbol;
"""
    found = Small(spark, tmp_path, script)
    found.put(
        "names",
        [
            {"op": "insert", "symbol": "a", "name": "Alpha"},
            {"op": "upsert", "symbol": "b", "name": "Beta"},
            {"op": "insert", "symbol": None, "name": "Nobody"},
        ],
    )
    found.run()
    found.put("t", [{"symbol": s, "ts": i} for i, s in enumerate("ab")])
    found.run()
    assert [(r["symbol"], r["name"]) for r in found.rows("family_1")] == [("a", "Alpha")]
    assert {(r["reason"], r["name"]) for r in found.dead("names")} == {
        ("unknown operation", "Beta"),
        ("no key (symbol is NULL)", "Nobody"),
    }

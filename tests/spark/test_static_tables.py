"""Tables whose source says nothing of operations: plain folders of files and DataFrames, read once as inserts."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from eddyline.errors import CatalogError
from eddyline.spark.input.static_tables import copied
from eddyline.spark.run.settings import Settings
from eddyline.sql.catalog import Catalog, Stream, Table
from eddyline.sql.declared import declared
from eddyline.sql.parser import parse
from tests.spark.pipelines import Small

pytestmark = pytest.mark.xdist_group("spark")

SCRIPT = """
CREATE STREAM t (k INT, ts TIMESTAMP) WATERMARK ts DELAY OF INTERVAL 1 HOUR USING parquet OPTIONS (path '{in}/t');
CREATE TABLE folder (k INT PRIMARY KEY, name STRING) USING parquet OPTIONS (path '{in}/folder');
CREATE TABLE lines (k INT PRIMARY KEY, name STRING) USING json OPTIONS (path '{in}/lines');
CREATE TABLE comma (k INT PRIMARY KEY, name STRING) USING csv OPTIONS (path '{in}/comma', op 'none');
CREATE TABLE frame (k INT, name STRING);
CREATE CONTINUOUS QUERY q AS SELECT t.k, f.name AS a, l.name AS b, c.name AS c, d.name AS d
  FROM t, folder f, lines l, comma c, frame d WHERE t.k = f.k AND t.k = l.k AND t.k = c.k AND t.k = d.k AND t.k > 0;
"""


def test_plain_folders_and_a_dataframe_are_tables_whose_rows_come_once_over_a_restart(
    spark: SparkSession, tmp_path: Path
) -> None:
    frame = spark.createDataFrame([(1, "from a frame"), (2, "from a frame")], "k long, name string")
    found = Small(spark, tmp_path, SCRIPT, sources={"frame": frame})
    found.put("folder", pa.table({"k": [1, 2], "name": ["old", "other"]}))
    (tmp_path / "in" / "lines" / "0.json").write_text('{"k":1,"name":"from a line"}\n{"k":2,"name":"from a line"}\n')
    (tmp_path / "in" / "comma" / "0.csv").write_text("1,from a comma\n2,from a comma\n")
    found.put("t", [{"k": 1, "ts": 0}])
    found.run()
    again = Small(spark, tmp_path, SCRIPT, sources={"frame": frame})
    again._files = 2
    again.put("folder", pa.table({"k": [1], "name": ["new"]}))  # replaces the row of its key
    again.put("t", [{"k": 2, "ts": 1}])
    again.run()
    rest = ("from a line", "from a comma", "from a frame")
    rows = [(r["op"], r["k"], r["a"], r["b"], r["c"], r["d"]) for r in again.rows("family_1")]
    assert sorted(rows) == sorted(
        [("+", 1, "old", *rest), ("-", 1, "old", *rest), ("+", 1, "new", *rest), ("+", 2, "other", *rest)]
    )
    assert again.dead("folder") == again.dead("lines") == again.dead("comma") == []


def test_a_dataframe_that_does_not_fit_is_refused_with_what_to_do(spark: SparkSession, tmp_path: Path) -> None:
    settings = Settings(str(tmp_path / "ck"), 2, "min", str(tmp_path), "set apart", "null")
    frame = spark.createDataFrame([("1", "x")], "k string, nam string")

    def relation(sql: str) -> Stream | Table:
        made = declared(parse(sql)[0].body, Catalog())
        assert isinstance(made, Stream | Table)
        return made

    with pytest.raises(CatalogError, match="The DataFrame given for stream 's' is not streaming"):
        copied(settings, relation("CREATE STREAM s (k STRING, ts TIMESTAMP) WATERMARK ts"), frame)
    with pytest.raises(CatalogError, match="has no column 'name'"):
        copied(settings, relation("CREATE TABLE x (name STRING)"), frame)
    with pytest.raises(CatalogError, match="Column 'k' of the DataFrame for table 'x' is string, not INT"):
        copied(settings, relation("CREATE TABLE x (k INT)"), frame)
    assert not (tmp_path / "ck").exists()

"""A pipeline without a sink discards what it computes: it says so when it starts."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from eddyline.spark import Pipeline

pytestmark = pytest.mark.xdist_group("spark")

SCRIPT = """
CREATE STREAM s (a INT, ts TIMESTAMP) WATERMARK ts USING parquet OPTIONS (path '{in}');
CREATE CONTINUOUS QUERY q AS SELECT a FROM s;
"""


def test_a_run_without_a_sink_warns_and_one_with_a_sink_does_not(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "in").mkdir()
    script = tmp_path / "pipeline.sql"
    script.write_text(SCRIPT.replace("{in}", str(tmp_path / "in")))
    pipe = Pipeline(spark, script, tmp_path / "ck", buckets=1)
    with caplog.at_level(logging.WARNING, "eddyline"):
        pipe.start(available_now=True).awaitTermination()
        (said,) = (r.getMessage() for r in caplog.records if r.name == "eddyline")
        assert said.startswith("No sink is declared: changes are computed and discarded.") and "CREATE SINK" in said
        caplog.clear()
        pipe.execute(f"CREATE SINK out USING parquet OPTIONS (path '{tmp_path / 'out'}')")
        pipe.start(available_now=True).awaitTermination()
        assert not [r for r in caplog.records if r.name == "eddyline"]

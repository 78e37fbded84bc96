"""Checkpoints that are backed up, restored and moved, by the command line and by hand, and go on exactly."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from eddyline.cli import app
from eddyline.errors import StateError
from eddyline.spark import Pipeline
from tests.spark.expected import Delivered, delivered
from tests.spark.pipelines import Small
from tests.spark.setbacks import rows

pytestmark = pytest.mark.xdist_group("spark")
SCRIPT = """CREATE STREAM t (k INT, v BIGINT, ts TIMESTAMP) WATERMARK ts USING parquet OPTIONS (path '{in}/t');
CREATE CONTINUOUS QUERY q AS SELECT k, count(*) AS n FROM t [RANGE 100 SECONDS] GROUP BY k;
CREATE CONTINUOUS QUERY all_rows AS SELECT k, v FROM t;
"""


def command(name: str, checkpoint: Path, *args: object) -> None:
    found = CliRunner().invoke(app, ["checkpoint", name, "--checkpoint", str(checkpoint), *map(str, args)])
    assert found.exit_code == 0, found.output


def step(host: Small, second: int) -> None:
    """Another file, and a run over it."""
    host.put("t", rows((1, second, second), (2, second, second + 1)))
    host.run()


def undisturbed(spark: SparkSession, folder: Path, seconds: int) -> Delivered:
    folder.mkdir()
    host = Small(spark, folder, SCRIPT)
    for s in range(seconds):
        step(host, 10 * s)
    return delivered(folder / "out")


def test_a_checkpoint_restored_by_hand_or_by_command_and_moved_goes_on_exactly(
    spark: SparkSession, tmp_path: Path
) -> None:
    folder = tmp_path / "a"
    folder.mkdir()
    host = Small(spark, folder, SCRIPT)
    ck = folder / "ck"
    step(host, 0)
    step(host, 10)
    command("verify", ck)
    shutil.copytree(ck, folder / "copied")
    command("backup", ck, folder / "backup")
    for s in (20, 30):
        step(host, s)
    # What came after the copy is there: its rows would be written again.
    shutil.rmtree(ck)
    shutil.copytree(folder / "copied", ck)
    host = Small(spark, folder, SCRIPT)
    host._files = 4
    with pytest.raises(StateError, match="does not know, from micro-batch 2 on"):
        host.run()
    command("rewind", ck, "--yes")
    host.run()  # both files, in one micro-batch
    # By the command, and then to another place. The files come one by one again.
    shutil.move(folder / "in" / "t" / "00003.parquet", folder / "aside")
    command("restore", ck, folder / "backup", "--yes")
    command("move", ck, folder / "new")
    host.pipe = Pipeline(spark, folder / "pipeline.sql", folder / "new", buckets=2)
    host.run()
    (folder / "new").rename(ck)  # by hand
    shutil.move(folder / "aside", folder / "in" / "t" / "00003.parquet")
    host.pipe = Pipeline(spark, folder / "pipeline.sql", ck, buckets=2)
    host.run()
    command("verify", ck)
    assert delivered(folder / "out") == undisturbed(spark, tmp_path / "b", 4)

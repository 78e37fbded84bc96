"""`eddyline run` finds missing and unusable paths, and errors in the script, before it starts Spark."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from eddyline.cli import app
from eddyline.commands import before_spark, running
from eddyline.spark.input.sources import FILES
from eddyline.spark.run.checkpoint import Fixed, begin, catalog_of

STREAM = "CREATE STREAM s (a INT, ts TIMESTAMP) WATERMARK ts USING {} OPTIONS (path '{}');"
SINK = "CREATE SINK out USING {} OPTIONS (path '{}');"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Relative paths begin in the test's folder; whoever gets as far as Spark ends with code 99."""
    (tmp_path / "in").mkdir()
    (tmp_path / "file").touch()
    monkeypatch.chdir(tmp_path)

    def reached(*_: object) -> None:
        raise SystemExit(99)

    monkeypatch.setattr(running, "_run", reached)


def outcome(script: str) -> tuple[int, str]:
    Path("pipeline.sql").write_text(script)
    found = CliRunner().invoke(app, ["run", "pipeline.sql", "--checkpoint", "ck", "--once"])
    return found.exit_code, found.stderr


@pytest.mark.parametrize("format_", ["parquet", "json", "csv", "text"])
def test_a_source_whose_path_does_not_exist_is_told_before_spark_starts(tmp_path: Path, format_: str) -> None:
    for path in ("missing", str(tmp_path / "missing"), f"file://{tmp_path}/missing"):
        code, errors = outcome(STREAM.format(format_, path))
        assert code == 1 and errors.startswith(f"Error: The path of stream 's' does not exist: '{tmp_path}/missing'.")
        assert not Path("ck").exists()


def test_a_tables_source_is_looked_at_too(tmp_path: Path) -> None:
    table = "CREATE TABLE u (k INT PRIMARY KEY) USING json OPTIONS (path 'missing');"
    assert "The path of table 'u' does not exist" in outcome(STREAM.format("parquet", "in") + table)[1]
    assert "has no path" in outcome("CREATE STREAM s (ts TIMESTAMP) WATERMARK ts USING json;")[1]


@pytest.mark.parametrize("path", ["in", "in/*.parquet", "missing/{a,b}", "hdfs://host/missing", "s3a://bucket/x"])
def test_paths_that_exist_and_those_only_spark_can_tell_pass(path: str) -> None:
    assert outcome(STREAM.format("parquet", path))[0] == 99


@pytest.mark.parametrize("path", ["file", "file/below"])
def test_a_sink_that_cannot_be_written_is_told_before_spark_starts(path: str) -> None:
    code, errors = outcome(STREAM.format("parquet", "in") + SINK.format("parquet", path))
    assert code == 1
    assert "cannot write to" in errors and not Path("ck").exists()
    code, _ = outcome(STREAM.format("parquet", "in") + SINK.format("json", "new/folder"))
    assert code == 99


def test_a_checkpoint_that_cannot_be_written_is_told_before_spark_starts() -> None:
    Path("ck").symlink_to("/proc/nowhere")
    code, errors = outcome(STREAM.format("parquet", "in"))
    assert code == 1 and "cannot be written" in errors


def test_a_script_is_rehearsed_on_a_checkpoint_that_has_begun_and_nothing_is_written() -> None:
    script = STREAM.format("parquet", "in")
    folder = Path("ck").absolute()
    begin(folder, Fixed(2, "min"))
    catalog_of(folder).run_script(script)
    (folder / "offsets").mkdir()
    (folder / "offsets" / "0").write_text('v1\n{"batchTimestampMs": 1}\n{"eddyline": 1, "commit": 1, "now": 1}\n')
    assert outcome(script)[0] == 99
    more = script + "CREATE CONTINUOUS QUERY q AS SELECT {} FROM s;"
    code, errors = outcome(more.format("nothing"))
    assert code == 1 and "no column 'nothing'" in errors
    assert "comes too late" in outcome(script + STREAM.format("parquet", "in").replace(" s ", " t "))[1]
    assert "cannot write to" in outcome(script + SINK.format("json", "file"))[1]
    assert outcome(more.format("a"))[0] == 99
    assert catalog_of(folder).version == 1
    Path("in").rmdir()
    assert "does not exist" in outcome(script)[1]


def test_every_format_of_files_is_looked_at() -> None:
    assert set(before_spark.FILE_SOURCES) == set(FILES)

"""Ending a run from a Python program: by stop, by Ctrl-C while it waits, and when Spark itself has died."""

from __future__ import annotations

import logging
import os
import re
import signal
import sys
import threading
from pathlib import Path

import pytest
from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from eddyline.cli import app
from eddyline.errors import StateError
from eddyline.spark.run.pipeline_run import PipelineRun, noting_interrupts
from eddyline.spark.run.progress import Progress
from eddyline.spark.run.spark_errors import ConnectionLost, as_our_errors, is_gone, reaching_spark
from tests.spark.pipelines import Small

pytestmark = pytest.mark.xdist_group("spark")

SCRIPT = """
CREATE STREAM s (a INT, ts TIMESTAMP) WATERMARK ts DELAY OF INTERVAL 0 SECONDS USING parquet OPTIONS (path '{in}/s');
CREATE CONTINUOUS QUERY q AS SELECT a FROM s;
"""
LOST = [
    Py4JNetworkError("Answer from Java side is empty"),
    Py4JError("An error occurred while calling o292.json"),
    ConnectionRefusedError(111, "Connection refused"),
    ConnectionResetError(104, "Connection reset by peer"),
]


class Dead:
    """A query of a Spark that has died: whatever is asked of it finds no connection."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def __getattr__(self, name: str) -> object:
        raise self.error


@pytest.mark.parametrize("error", LOST, ids=lambda e: type(e).__name__)
def test_a_run_of_a_spark_that_has_died_is_over_and_says_why(error: Exception) -> None:
    run = PipelineRun(Dead(error), Progress.__new__(Progress))  # type: ignore[arg-type]
    assert not run.isActive
    run.stop()
    told = run.error()
    assert isinstance(told, StateError) and "JVM was killed" in told.message and "Start the pipeline" in str(told.hint)
    for ask in (run.awaitTermination, run.processAllAvailable, run.exception, run.figures, lambda: run.lastProgress):
        with pytest.raises(StateError, match="JVM was killed"):
            ask()


@pytest.mark.parametrize("error", LOST, ids=lambda e: type(e).__name__)
def test_a_lost_connection_is_told_as_an_error_of_ours(error: Exception) -> None:
    for words in (as_our_errors, reaching_spark):
        with pytest.raises(StateError, match="Spark has ended"), words():
            raise error


def test_a_mistake_in_a_call_is_not_taken_for_the_end_of_spark() -> None:
    wrong = Py4JError("An error occurred while calling o1.x. Trace:\npy4j.Py4JException: Method x does not exist")
    assert not is_gone(wrong) and not is_gone(ValueError("x"))
    with pytest.raises(Py4JError), reaching_spark():
        raise wrong


def test_what_py4j_logs_of_a_lost_connection_is_dropped_and_nothing_else(caplog: pytest.LogCaptureFixture) -> None:
    found = ConnectionLost()

    def record(path: str, error: BaseException | None) -> logging.LogRecord:
        info = None if error is None else (type(error), error, None)
        return logging.LogRecord("root", logging.ERROR, path, 1, "x", (), info)  # type: ignore[arg-type]

    assert not found.filter(record("/site-packages/py4j/java_gateway.py", LOST[0]))
    assert found.filter(record("/site-packages/py4j/java_gateway.py", ValueError("x")))
    assert found.filter(record("program.py", LOST[0]))
    assert found.filter(record("program.py", None))


def test_ctrl_c_is_noted_while_a_run_is_waited_for_and_raises_as_before_afterwards() -> None:
    before = signal.getsignal(signal.SIGINT)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with noting_interrupts() as interrupted:
            os.kill(os.getpid(), signal.SIGINT)
            assert interrupted.wait(10)
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
            signal.pause()
        mine: list[int] = []
        signal.signal(signal.SIGINT, lambda number, _: mine.append(number))
        with noting_interrupts() as interrupted:
            os.kill(os.getpid(), signal.SIGINT)
        assert mine == [signal.SIGINT] and not interrupted.is_set()
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_planned_micro_batch_whose_offsets_are_damaged_is_planned_anew_once_they_are_removed(
    spark: SparkSession, tmp_path: Path
) -> None:
    """As a machine leaves it that lost power after the micro-batch was delivered, and before it was committed."""
    small = Small(spark, tmp_path, SCRIPT)
    for i in range(2):
        small.put("s", [{"a": i, "ts": i}])
        small.run()
    for file in (tmp_path / "ck" / "commits").glob("*1*"):
        file.unlink()
    (tmp_path / "ck" / "offsets" / "1").write_text("")
    with pytest.raises(StateError, match="offsets/1' is damaged: it is empty") as raised:
        Small(spark, tmp_path, SCRIPT)
    named = re.findall(r"'([^']+)'", str(raised.value.hint))
    assert Path(named[0]) == tmp_path / "ck" / "offsets" / "1"
    for name in named:
        Path(name).unlink()
    rewind = CliRunner().invoke(app, ["checkpoint", "rewind", "--yes", "--checkpoint", str(tmp_path / "ck")])
    assert rewind.exit_code == 0, rewind.output
    again = Small(spark, tmp_path, SCRIPT)
    again._files = 2
    again.put("s", [{"a": 2, "ts": 2}])
    again.run()
    assert sorted(r["a"] for r in again.rows("family_1")) == [0, 1, 2]


def test_ctrl_c_stops_the_run_that_is_waited_for(
    spark: SparkSession, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    small = Small(spark, tmp_path, SCRIPT)
    small.put("s", [{"a": 1, "ts": 1}])
    run = small.pipe.start()
    run.processAllAvailable()
    threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        run.awaitTermination()
    assert not run.isActive and run.ended.is_set() and run.error() is None
    sys.stderr.flush()
    assert "Traceback" not in capfd.readouterr().err
    small.put("s", [{"a": 2, "ts": 2}])
    small.run()
    assert sorted(r["a"] for r in small.rows("family_1")) == [1, 2]

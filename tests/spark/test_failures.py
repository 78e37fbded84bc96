"""Failures of a run, as they are told to Spark and to the user."""

from __future__ import annotations

import re
import threading
import traceback
from multiprocessing import Pipe
from pathlib import Path
from unittest.mock import Mock, patch

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from eddyline.errors import DataError, StateError
from eddyline.spark import Pipeline
from eddyline.spark.run.spark_errors import error_in, interrupted_briefly
from eddyline.spark.worker.resident import Resident
from tests.spark.pipelines import Small

pytestmark = pytest.mark.xdist_group("spark")
PIPELINE = """
CREATE STREAM s (a INT, ts TIMESTAMP) WATERMARK ts DELAY OF INTERVAL 0 SECONDS USING parquet OPTIONS (path '{in}/s');
CREATE CONTINUOUS QUERY q AS SELECT a FROM s WHERE a > 1;
"""


@pytest.mark.parametrize(
    ("account", "kind", "message", "hint"),
    [
        (
            'An error occurred while calling o59.load.\n: org.apache.X: No FileSystem for scheme "s3"\n\tat Y',
            "StateError",
            'Spark: No FileSystem for scheme "s3"',
            "--verbose shows all that Spark says.",
        ),
        (
            "[STREAM_FAILED] … Traceback (most recent call last):\n  File …\n"
            "eddyline.errors.DataError: Row 1 is bad.\n  Mend it.\n SQLSTATE: 39000\n=== Streaming ===",
            "DataError",
            "Row 1 is bad.",
            "Mend it.",
        ),
        (
            "x\neddyline.spark.kafka.options.KafkaError: There is no topic 't'.\n\n\tat org.apache.X(Y.scala:1)\n",
            "StateError",
            "There is no topic 't'.",
            None,
        ),
        (
            "[STREAM_FAILED] Query … [PATH_NOT_FOUND] Path does not exist: file:/x. SQLSTATE: 42K03\n\tat …",
            "StateError",
            "Spark: Path does not exist: file:/x.",
            "--verbose",
        ),
        (
            "[FOREACH_BATCH_USER_FUNCTION_ERROR] An error … Return Message: Traceback (most recent call last):\n"
            '  File "x.py", line 21, in boom\n    raise\n    ^^^\nRuntimeError: my sink fails\n SQLSTATE: 39000\n',
            "StateError",
            "RuntimeError: my sink fails",
            "--verbose",
        ),
        (
            "An error occurred while calling o59.start.\n: java.io.IOException: No space left on device\n\tat Y",
            "StateError",
            "Spark: No space left on device",
            "Free space on the disks",
        ),
        (
            "[FOREACH_BATCH_USER_FUNCTION_ERROR] An error … Return Message: Traceback (most recent call last):\n"
            '  File "x.py", line 2, in x\n    raise\nOSError: [Errno 28] No space left on device\n SQLSTATE: 39000\n',
            "StateError",
            "OSError: [Errno 28] No space left on device",
            "Free space on the disks",
        ),
        ("java.lang.OutOfMemoryError: Java heap space", "StateError", "Spark: java.lang.OutOfMemoryError", "--verbose"),
    ],
)
def test_the_reason_of_a_failure_is_found_in_sparks_account(
    account: str, kind: str, message: str, hint: str | None
) -> None:
    found = error_in(account)
    assert type(found).__name__ == kind
    assert found.message.startswith(message)
    assert found.hint is None if hint is None else hint in (found.hint or "")


@pytest.mark.parametrize(
    ("error", "message", "hint"),
    [
        (KeyError(7), "KeyError: 7", "This is a fault of Eddyline's"),
        (
            OSError(20, "Not a directory", "/out"),
            "NotADirectoryError: [Errno 20] Not a directory: '/out'",
            "nothing is lost",
        ),
        (DataError("Row 1 is bad.", hint="Mend it."), "Row 1 is bad.", "Mend it."),
    ],
)
def test_what_a_resident_raised_is_told(error: Exception, message: str, hint: str) -> None:
    here, there = Pipe()
    resident = Resident()
    with patch.dict(resident._handlers, {"pack": Mock(side_effect=error)}):
        here.send(("pack",))
        resident.converse(there)
    said = here.recv()
    found = error_in("".join(traceback.format_exception(said[1])) + "\n SQLSTATE: 38000\n\tat org.apache.X(Y.scala:1)")
    assert type(found) is type(said[1])
    assert (found.message, hint in (found.hint or "")) == (message, True)
    assert isinstance(error, DataError) or "Traceback (most recent call last)" in said[1].__notes__[0]


def test_an_interruption_is_told_to_spark_in_few_words_and_nothing_else_is_changed() -> None:
    trace = "\n".join(f"  at line {i}" for i in range(10_000))
    with pytest.raises(RuntimeError) as found, interrupted_briefly():
        raise Exception(f"An error occurred while calling o1.collect.\n: java.lang.InterruptedException{trace}")
    # Spark's pattern, in StreamExecution
    pattern = r"py4j\.protocol\.Py4JJavaError: An error occurred while calling((.|\n)*)java\.lang\.InterruptedException"
    assert re.search(pattern, str(found.value)) and len(str(found.value)) < 200
    with pytest.raises(KeyError), interrupted_briefly():
        raise KeyError("x")


def test_a_run_can_be_stopped_in_the_middle_of_a_micro_batch(spark: SparkSession, tmp_path: Path) -> None:
    small = Small(spark, tmp_path, PIPELINE)
    inside = threading.Event()

    def takes_long(frame: DataFrame, _: int) -> None:
        inside.set()
        frame.selectExpr("java_method('java.lang.Thread', 'sleep', 600000L)").collect()

    small.pipe.foreach_batch("q", takes_long)
    small.put("s", pa.table({"a": pa.array([2], pa.int32()), "ts": pa.array([2], pa.timestamp("us"))}))
    run = small.pipe.start()
    assert inside.wait(300)
    hurry = threading.Event()
    threading.Timer(0.5, hurry.set).start()
    run.finish(hurry)
    assert not run.isActive
    assert run.exception() is None and run.error() is None


def test_a_pipeline_that_runs_is_not_started_again(spark: SparkSession, tmp_path: Path) -> None:
    small = Small(spark, tmp_path, PIPELINE)
    run = small.pipe.start()
    other = Pipeline(spark, tmp_path / "pipeline.sql", tmp_path / "ck")
    try:
        for pipe in (small.pipe, other):
            with pytest.raises(StateError, match="Another run is at work"):
                pipe.start()
        assert run.isActive
        (tmp_path / "other").mkdir()
        failed = Small(spark, tmp_path / "other", PIPELINE).pipe
        with pytest.raises(DataError, match="The trigger 'soon' is no interval"):
            failed.start(trigger="soon")
        assert failed._alone._lock is None  # a start that failed leaves the checkpoint to others
    finally:
        run.stop()
    other.start(available_now=True).awaitTermination()

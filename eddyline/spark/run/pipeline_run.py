"""A run of a pipeline: Spark's StreamingQuery under its own names, with the figures of its micro-batches.

`stop` ends a run at once; the next run replays an interrupted micro-batch. `finish` waits for the end of the
micro-batch. Neither loses or duplicates rows.
"""

from __future__ import annotations

import json
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming.query import StreamingQuery

from eddyline.errors import Error
from eddyline.spark.run.progress import BatchFigures, Progress
from eddyline.spark.run.spark_errors import as_error, is_gone, reaching_spark

LOOK = 0.05  # seconds between polls for the end of a run or a micro-batch
PATIENCE = 2.0  # seconds that Spark may take to report the end of a run


class PipelineRun:
    def __init__(self, query: StreamingQuery, progress: Progress) -> None:
        self.query = query
        self.progress = progress
        self.ended = threading.Event()  # set when Spark has reported the end of the run

    # the interface of StreamingQuery

    @property
    def id(self) -> str:
        with reaching_spark():
            return self.query.id

    @property
    def runId(self) -> str:
        with reaching_spark():
            return self.query.runId

    @property
    def name(self) -> str | None:
        with reaching_spark():
            return self.query.name

    @property
    def isActive(self) -> bool:
        try:
            return not self.ended.is_set() and self.query.isActive
        except Exception as e:
            if is_gone(e):
                return False
            raise

    @property
    def status(self) -> dict[str, Any]:
        with reaching_spark():
            return self.query.status

    @property
    def lastProgress(self) -> Any:
        with reaching_spark():
            return self.query.lastProgress

    @property
    def recentProgress(self) -> list[Any]:
        with reaching_spark():
            return self.query.recentProgress

    def awaitTermination(self, timeout: int | None = None) -> bool | None:
        """Waits until the run ends, or for `timeout` seconds. Ctrl-C stops the run, and then raises KeyboardInterrupt.

        The wait is in Python: a Ctrl-C in the middle of a call to Spark would break the connection to it.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        with noting_interrupts() as interrupted:
            while self.isActive and (deadline is None or time.monotonic() < deadline):
                if interrupted.wait(LOOK):
                    self.stop()
                    raise KeyboardInterrupt
        with reaching_spark():
            if deadline is not None and self.query.isActive:
                return False
            return self.query.awaitTermination(timeout)  # the run has ended: this raises its error, if any

    def processAllAvailable(self) -> None:
        with reaching_spark():
            self.query.processAllAvailable()

    def explain(self, extended: bool = False) -> None:
        with reaching_spark():
            self.query.explain(extended)

    def exception(self) -> StreamingQueryException | None:
        with reaching_spark():
            return self.query.exception()

    def stop(self) -> None:
        """Stops the run. Returns when Spark has notified all listeners, so that a program may exit right after."""
        active = self.isActive
        if not active:
            return
        with reaching_spark():
            self.query.stop()
        self.ended.wait(PATIENCE)

    # beyond StreamingQuery

    def finish(self, hurry: threading.Event | None = None) -> None:
        """Stops the run when the current micro-batch has ended, or when `hurry` is set."""
        hurry = hurry or threading.Event()
        before = self._last_batch()
        while self.isActive and self._busy() and self._last_batch() == before and not hurry.wait(LOOK):
            pass
        self.stop()

    def error(self) -> Error | None:
        """The error of a failed run as an Error, where `exception` has Spark's; None if it has not failed."""
        try:
            failure = self.exception()
        except Error as e:  # Spark itself has died
            return e
        return None if failure is None else as_error(failure)

    def figures(self) -> BatchFigures | None:
        """The figures of the last micro-batch that Spark has reported; None before the first."""
        with reaching_spark():
            for event in self.query.recentProgress:
                self.progress.heard(json.loads(event.json))
        return self.progress.latest

    def _busy(self) -> bool:
        status = self.status
        return bool(status["isTriggerActive"] and status["isDataAvailable"])

    def _last_batch(self) -> int:
        with reaching_spark():
            event = self.query.lastProgress
            return -1 if event is None else int(json.loads(event.json)["batchId"])


@contextmanager
def noting_interrupts() -> Iterator[threading.Event]:
    """Makes Ctrl-C set an event; the handlers of Python and Spark would raise in the middle of a call.

    A handler of the user is not replaced. Outside the main thread nothing changes.
    """
    interrupted = threading.Event()
    before = signal.getsignal(signal.SIGINT)
    theirs = before is signal.default_int_handler or getattr(before, "__module__", "").startswith("pyspark.")
    if threading.current_thread() is not threading.main_thread() or not theirs:
        yield interrupted
        return
    signal.signal(signal.SIGINT, lambda *_: interrupted.set())
    try:
        yield interrupted
    finally:
        signal.signal(signal.SIGINT, before)

"""A run of a pipeline: Spark's StreamingQuery under its own names, with the figures of its micro-batches.

`stop` ends a run at once, in the middle of a micro-batch if need be, which the next run does again; `finish` lets the
micro-batch end first. Nothing is lost or doubled either way.
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
from eddyline.spark.run.failures import is_gone, reaching_spark, told
from eddyline.spark.run.progress import Figures, Progress

LOOK = 0.05  # seconds between looks at a run or a micro-batch that is to end
PATIENCE = 2.0  # seconds that Spark may take to tell that a run has ended


class Run:
    def __init__(self, query: StreamingQuery, progress: Progress) -> None:
        self.query = query
        self.progress = progress
        self.ended = threading.Event()  # Spark has told that the run has ended

    # as StreamingQuery has them

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
        """Waits until the run ends, or for so many seconds. Ctrl-C stops the run, and then raises KeyboardInterrupt.

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
            return self.query.awaitTermination(timeout)  # it has ended: this raises why, if it has failed

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
        """Returns when Spark has told all who listen, so that a program may end right after it."""
        active = self.isActive
        if not active:
            return
        with reaching_spark():
            self.query.stop()
        self.ended.wait(PATIENCE)

    # and more

    def finish(self, hurry: threading.Event | None = None) -> None:
        """Stops when the micro-batch that is being worked on has ended, or when there is `hurry`."""
        hurry = hurry or threading.Event()
        before = self._last_batch()
        while self.isActive and self._busy() and self._last_batch() == before and not hurry.wait(LOOK):
            pass
        self.stop()

    def error(self) -> Error | None:
        """Why the run has failed, as Eddyline says it, where `exception` has Spark's account; None if it has not."""
        try:
            found = self.exception()
        except Error as e:  # Spark itself has died
            return e
        return None if found is None else told(found)

    def figures(self) -> Figures | None:
        """Of the last micro-batch of which Spark has told; None before the first."""
        with reaching_spark():
            for said in self.query.recentProgress:
                self.progress.heard(json.loads(said.json))
        return self.progress.latest

    def _busy(self) -> bool:
        status = self.status
        return bool(status["isTriggerActive"] and status["isDataAvailable"])

    def _last_batch(self) -> int:
        with reaching_spark():
            said = self.query.lastProgress
            return -1 if said is None else int(json.loads(said.json)["batchId"])


@contextmanager
def noting_interrupts() -> Iterator[threading.Event]:
    """Lets Ctrl-C set an event, in place of what Python and Spark do: raise in the middle of whatever is called.

    A handler that the user has set stays, and so does everything outside of the main thread.
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

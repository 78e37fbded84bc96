"""Passes Spark's events of micro-batches to `Progress`; users get complete figures from `pipe.listen`.

Users add their own `StreamingQueryListener` to the pipeline's session: `pipe.spark.streams.addListener(own)`. The
listener here belongs to that session too, so it gets no events of other pipelines.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import suppress
from threading import Thread

from pyspark.errors import PySparkException
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)
from pyspark.sql.streaming.query import StreamingQuery

from eddyline.spark.run.progress import Progress

EVERY = 0.3  # seconds between polls: a micro-batch takes longer


class ProgressListener(StreamingQueryListener):
    def __init__(self, progress: Progress, ended: Callable[[str, str], None]) -> None:
        """`ended` gets the id of the run that has ended and its error; an empty text if it was stopped."""
        self.progress = progress
        self.ended = ended

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        self.progress.heard(json.loads(event.progress.json))

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        pass

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        pass

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        self.ended(str(event.runId), event.exception or "")


class Watch(Thread):
    """Polls for the events of a listener, over Spark Connect.

    There, a listener keeps a call to the server open, which prevents the program and a local server from exiting.
    """

    def __init__(self, query: StreamingQuery, progress: Progress, ended: Callable[[str, str], None]) -> None:
        super().__init__(name="eddyline-watch", daemon=True)
        self.query, self.progress, self.ended = query, progress, ended

    def run(self) -> None:
        with suppress(PySparkException):  # the server cannot be reached: the call that waits for the run raises
            self._watch()

    def _watch(self) -> None:
        active = True
        while active:
            time.sleep(EVERY)
            active = self.query.isActive
            last = self.query.lastProgress
            if last is not None:
                self.progress.heard(json.loads(last.json))
        self.ended(str(self.query.runId), str(self.query.exception() or ""))

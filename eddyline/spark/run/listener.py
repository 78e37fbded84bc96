"""What Spark tells of a pipeline's micro-batches, handed to its progress; users get whole figures by `pipe.listen`.

A `StreamingQueryListener` of one's own is added as with any query, to the pipeline's session:
`pipe.spark.streams.addListener(own)`. This one belongs to that session too, and hears of no other pipeline.
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

EVERY = 0.3  # seconds between questions: a micro-batch takes longer


class ProgressListener(StreamingQueryListener):
    def __init__(self, progress: Progress, ended: Callable[[str, str], None]) -> None:
        """`ended` is told which run has ended, and with what error; an empty text if it was stopped."""
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
    """Asks for what a listener is told: over Spark Connect.

    A listener there holds a call to the server open, and that keeps the program, and a server of its own, from ending.
    """

    def __init__(self, query: StreamingQuery, progress: Progress, ended: Callable[[str, str], None]) -> None:
        super().__init__(name="eddyline-watch", daemon=True)
        self.query, self.progress, self.ended = query, progress, ended

    def run(self) -> None:
        with suppress(PySparkException):  # the server cannot be reached: whoever waits for the run is told
            self._watch()

    def _watch(self) -> None:
        active = True
        while active:
            time.sleep(EVERY)
            active = self.query.isActive
            said = self.query.lastProgress
            if said is not None:
                self.progress.heard(json.loads(said.json))
        self.ended(str(self.query.runId), str(self.query.exception() or ""))

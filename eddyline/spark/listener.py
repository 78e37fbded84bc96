"""What Spark tells of a pipeline's micro-batches, handed to its progress; users get whole figures by `pipe.listen`.

A `StreamingQueryListener` of one's own is added as with any query, to the pipeline's session:
`pipe.spark.streams.addListener(own)`. This one belongs to that session too, and hears of no other pipeline.
"""

from __future__ import annotations

import json
from collections.abc import Callable

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from eddyline.spark.progress import Progress


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

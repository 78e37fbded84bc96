"""A run of a pipeline: Spark's StreamingQuery under its own names, with the figures of its micro-batches.

`stop` ends a run at once, in the middle of a micro-batch if need be, which the next run does again; `finish` lets the
micro-batch end first. Nothing is lost or doubled either way.
"""

from __future__ import annotations

import json
import threading
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming.query import StreamingQuery

from eddyline.errors import Error
from eddyline.spark.failures import told
from eddyline.spark.progress import Figures, Progress

LOOK = 0.05  # seconds between looks at a micro-batch that is to end


class Run:
    def __init__(self, query: StreamingQuery, progress: Progress) -> None:
        self.query = query
        self.progress = progress

    # as StreamingQuery has them

    @property
    def id(self) -> str:
        return self.query.id

    @property
    def runId(self) -> str:
        return self.query.runId

    @property
    def name(self) -> str | None:
        return self.query.name

    @property
    def isActive(self) -> bool:
        return self.query.isActive

    @property
    def status(self) -> dict[str, Any]:
        return self.query.status

    @property
    def lastProgress(self) -> Any:
        return self.query.lastProgress

    @property
    def recentProgress(self) -> list[Any]:
        return self.query.recentProgress

    def awaitTermination(self, timeout: int | None = None) -> bool | None:
        return self.query.awaitTermination(timeout)

    def processAllAvailable(self) -> None:
        self.query.processAllAvailable()

    def explain(self, extended: bool = False) -> None:
        self.query.explain(extended)

    def exception(self) -> StreamingQueryException | None:
        return self.query.exception()

    def stop(self) -> None:
        self.query.stop()

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
        found = self.exception()
        return None if found is None else told(found)

    def figures(self) -> Figures | None:
        """Of the last micro-batch of which Spark has told; None before the first."""
        for said in self.recentProgress:
            self.progress.heard(json.loads(said.json))
        return self.progress.latest

    def _busy(self) -> bool:
        status = self.status
        return bool(status["isTriggerActive"] and status["isDataAvailable"])

    def _last_batch(self) -> int:
        said = self.lastProgress
        return -1 if said is None else int(json.loads(said.json)["batchId"])

"""The control source: a Spark source whose offset is the commit of the catalog and the wall clock.

Spark writes the offset to its offset log, with the offsets of the data, before a micro-batch runs; a replay therefore
uses the same commit and time. The rows have no content: they only trigger a micro-batch, also when only time passes.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow

from eddyline.engine.actions import Quarantine
from eddyline.spark.catalog.commits import CommitLog
from eddyline.spark.input.offsets import MARK

NAME = "eddyline_control"


class ControlSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> str:
        return "commit long"

    def streamReader(self, schema: Any) -> DataSourceStreamReader:
        return ControlReader(Path(self.options["path"]), int(self.options["tick"]))


class ControlReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, path: Path, tick: int) -> None:
        """`tick`: milliseconds after which the passing of time alone triggers a micro-batch; 0: never."""
        self.log = CommitLog(path)
        self.tick = tick
        self._last: int | None = None  # the last commit to use, for a run with trigger availableNow
        self._checked = 0  # the last commit that was checked for a quarantine

    def prepareForTriggerAvailableNow(self) -> None:
        self._last = self._checked = self.log.latest()

    def initialOffset(self) -> dict[str, Any]:
        return {MARK: 1, "commit": 0, "now": 0}

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        commit, now = self._commit(), time.time_ns() // 1_000_000
        due = bool(self.tick) and self._last is None and now - start["now"] >= self.tick
        if commit > start["commit"] or due:
            return {MARK: 1, "commit": commit, "now": max(now, start["now"])}
        return start

    def _commit(self) -> int:
        """The commit to use. A run with trigger availableNow uses no commit made after its start, except up to
        the latest one that has a quarantine."""
        if self._last is None:
            return self.log.latest()
        while self.log.has(self._checked + 1):
            self._checked += 1
            if any(isinstance(action, Quarantine) for action in self.log.read(self._checked)):
                self._last = self._checked
        return self._last

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        return [InputPartition(end["commit"])]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"commit": pa.array([partition.value], pa.int64())})

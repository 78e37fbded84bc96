"""Sinks that send rows elsewhere: the driver reads the staged files of a micro-batch, sends their rows and removes the
files.

Each row is delivered at least once: a retried micro-batch is sent again, with the same (batch, position) on every row,
so that the receiver can drop repeats.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from eddyline.delivery.sinks.sink_kind import SinkKind
from eddyline.sql.catalog import Sink

if TYPE_CHECKING:  # workers, which ask a kind how rows are staged, need no Spark
    from pyspark.sql import DataFrame, SparkSession

Consumer = Callable[["DataFrame", int], None]  # a function of the user, for a sink USING foreach_batch


@dataclass(frozen=True)
class Sending:
    """The rows of a micro-batch for one folder of a sink."""

    sink: Sink
    folder: str  # the family or query; empty if the sink has only one
    files: Sequence[str]
    batch: int
    options: Mapping[str, str]  # with references resolved
    epoch: str  # the id of the run
    spark: SparkSession | None  # None if the host has no Spark
    consumer: Consumer | None

    def tables(self) -> Iterator[pa.Table]:
        """The rows, file by file."""
        return (pq.read_table(f) for f in self.files)

    def frame(self) -> DataFrame:
        assert self.spark is not None
        return self.spark.read.parquet(*self.files)


class SendingSink(SinkKind, ABC):
    @abstractmethod
    def send(self, rows: Sending) -> None:
        """Returns when the receiver has all rows, and raises if it may lack some."""

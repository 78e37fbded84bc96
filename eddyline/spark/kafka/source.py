"""Kafka as a stream source where Spark's own connector is not on the class path: a Python data source over librdkafka.

    spark.dataSource.register(KafkaSource)
    spark.readStream.format("eddyline_kafka").option("kafka.bootstrap.servers", …).option("subscribe", "a,b").load()

Options, columns and meaning are those of Spark's connector (`options.py`); each partition of a topic is a task.
The driver decides by `offsets.py` which messages are in a batch, so that a batch read again is the same, and
`read.py` reads them.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from eddyline.spark.kafka.broker import Broker, check_client
from eddyline.spark.kafka.offsets import Bounds, Offsets, Partition, Positions, Range, advance, ranges
from eddyline.spark.kafka.options import EARLIEST, LATEST, KafkaError, SourceOptions, source_options
from eddyline.spark.kafka.read import read_range, report_loss

FORMAT = "eddyline_kafka"
_SCHEMA = "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, timestampType INT"
_ATTEMPTS = 3  # when offsets seem to decrease, as they do briefly when a partition's leader changes
_PAUSE = 0.5  # seconds between them


def kafka_available(spark: SparkSession) -> bool:
    """Whether Spark's own connector, format `kafka`, can be used in this session. No broker is contacted."""
    reader = (
        spark.readStream.format("kafka").option("kafka.bootstrap.servers", "127.0.0.1:9").option("subscribe", "any")
    )
    try:
        _ = reader.load().schema
    except PySparkException as problem:
        if problem.getCondition() == "KAFKA_DATA_SOURCE_NOT_ENABLED":
            return False
        raise
    return True


class KafkaSource(DataSource):
    """The format `eddyline_kafka`."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        check_client(source_options(self.options))  # reports a wrong option when the stream is declared
        return _SCHEMA

    def streamReader(self, schema: StructType) -> KafkaReader:
        return KafkaReader(source_options(self.options))


class Slice(InputPartition):
    """One task's range of messages."""

    def __init__(self, wanted: Range) -> None:
        super().__init__(wanted)
        self.wanted = wanted


class KafkaReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans batches on the driver; only `read` runs on executors, and it uses only the options."""

    def __init__(self, options: SourceOptions) -> None:
        self.options = options
        self._broker: Broker | None = None
        self._initial: dict[str, Any] | None = None
        self._target: Positions | None = None
        self._seen: dict[Partition, Bounds] = {}

    def initialOffset(self) -> dict[str, Any]:
        """The same for every call in one run, because Spark calls it twice."""
        if self._initial is None:
            bounds = self._bounds(needed=self.options.topics)
            at = _initial(self.options, bounds)
            lost = [f"{p} has no messages {at[p]} to {b.low - 1} any more" for p, b in bounds.items() if at[p] < b.low]
            report_loss(self.options, lost)
            at = {p: max(n, bounds[p].low) for p, n in at.items()}
            self._initial = Offsets(at, at).to_json()
        return self._initial

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadAllAvailable() if self.options.max_offsets is None else ReadMaxRows(self.options.max_offsets)

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = {p: b.high for p, b in self._bounds().items()}

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        begun = Offsets.from_json(start)
        bounds = self._stable_bounds(begun.next)
        if self._target is not None:
            bounds = _capped(bounds, self._target, begun.next)
        end, lost = advance(begun, bounds, limit.max_rows if isinstance(limit, ReadMaxRows) else None)
        report_loss(self.options, lost)
        return start if end is begun else end.to_json()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """The last known bounds, for the query's progress; no broker is contacted."""
        return Offsets({p: b.high for p, b in self._seen.items()}).to_json() if self._seen else None

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[Slice]:
        return [Slice(r) for r in ranges(Offsets.from_json(start), Offsets.from_json(end))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Slice)
        return read_range(self.options, partition.wanted)

    def stop(self) -> None:
        if self._broker is not None:
            self._broker.close()
            self._broker = None

    def _bounds(self, needed: Iterable[str] = ()) -> dict[Partition, Bounds]:
        """The bounds of all partitions; it is an error if a needed topic does not exist."""
        if self._broker is None:
            self._broker = Broker(self.options)
        self._seen = self._broker.bounds()
        absent = sorted(set(needed) - {p.topic for p in self._seen})
        if absent:
            raise KafkaError(
                f"Kafka at {self.options.servers} has no topic {' and no topic '.join(absent)}.",
                hint="Create it, or correct option subscribe.",
            )
        return self._seen

    def _stable_bounds(self, known: Positions) -> dict[Partition, Bounds]:
        """The bounds; retries while a partition seems to end before the offset that was already read."""
        new = set(self.options.topics) - {p.topic for p in known}
        for _ in range(_ATTEMPTS - 1):
            bounds = self._bounds(needed=new)
            if all(bounds[p].high >= at for p, at in known.items() if p in bounds):
                return bounds
            time.sleep(_PAUSE)
        return self._bounds(needed=new)


def _initial(options: SourceOptions, bounds: dict[Partition, Bounds]) -> Positions:
    """The start offsets by the option startingOffsets."""
    if options.starting == "earliest":
        return {p: b.low for p, b in bounds.items()}
    if options.starting == "latest":
        return {p: b.high for p, b in bounds.items()}
    requested = {Partition(t, number): at for t, numbers in options.starting.items() for number, at in numbers.items()}
    if requested.keys() != bounds.keys():
        differing = ", ".join(str(p) for p in sorted(requested.keys() ^ bounds.keys()))
        raise KafkaError(
            f"Option startingOffsets does not name exactly the partitions that the topics have: {differing}.",
            hint=f"Name each partition once; {EARLIEST} is its earliest offset, {LATEST} its latest.",
        )
    for p, at in requested.items():
        if at > bounds[p].high:
            raise KafkaError(
                f"Option startingOffsets asks for {at} of {p}, which ends at {bounds[p].high}.",
                hint=f"Use an offset up to that, or {LATEST} for the latest.",
            )
    named = {p: {EARLIEST: b.low, LATEST: b.high} for p, b in bounds.items()}
    return {p: named[p].get(at, at) for p, at in requested.items()}


def _capped(bounds: dict[Partition, Bounds], target: Positions, known: Positions) -> dict[Partition, Bounds]:
    """The bounds at the start of Trigger.AvailableNow, extended to the offsets that were already read."""
    return {p: Bounds(low, min(high, max(target.get(p, 0), known.get(p, 0)))) for p, (low, high) in bounds.items()}

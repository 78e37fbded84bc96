"""Topics of the Kafka cluster of the tests, without Spark: readers of them, their batches, and messages for them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from eddyline.spark.kafka.options import source_options
from eddyline.spark.kafka.read import SCHEMA
from eddyline.spark.kafka.source import KafkaReader

if TYPE_CHECKING:
    from tests.spark.conftest import Kafka

NOBODY = "127.0.0.1:9"  # no broker listens here


def reader(kafka: Kafka, *topics: str, **options: Any) -> KafkaReader:
    given = {"kafka.bootstrap.servers": kafka.servers, "subscribe": ",".join(topics), "startingOffsets": "earliest"}
    return KafkaReader(source_options(given | {k: str(v) for k, v in options.items()}))


def read(source: KafkaReader, start: dict[str, Any], end: dict[str, Any]) -> pa.Table:
    batches = [b for part in source.partitions(start, end) for b in source.read(part)]
    return pa.Table.from_batches(batches, SCHEMA)


def batches(source: KafkaReader) -> Iterator[pa.Table]:
    """The batches that Spark would make of what there is, until an offset stays the same."""
    start = source.initialOffset()
    while (end := source.latestOffset(start, source.getDefaultReadLimit())) != start:
        yield read(source, start, end)
        start = json.loads(json.dumps(end))  # as it comes back from the checkpoint


def values(table: pa.Table) -> list[bytes]:
    return [v for v in table.column("value").to_pylist() if isinstance(v, bytes)]


def numbers(first: int, last: int) -> list[bytes]:
    return [b"%d" % i for i in range(first, last)]


def rows_to_send(n: int) -> pa.Table:
    return pa.table({"query": [f"q{i % 3}" for i in range(n)], "batch": [7] * n, "position": list(range(n))})

"""Kafka through Spark, without its connector: every message once over restarts, and rows that workers send."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from eddyline.spark.input.sources import register
from eddyline.spark.kafka.output import KafkaOutput
from eddyline.spark.kafka.source import FORMAT, KafkaSource, kafka_available
from tests.spark.topics import numbers

if TYPE_CHECKING:
    from tests.spark.conftest import Kafka


def stream(spark: SparkSession, kafka: Kafka, topic: str, **options: Any) -> DataFrame:
    register(spark, KafkaSource)
    given = {"kafka.bootstrap.servers": kafka.servers, "subscribe": topic, "startingOffsets": "earliest"}
    return spark.readStream.format(FORMAT).options(**(given | options)).load()


class Collected:
    """The values that each micro-batch had, by its number; a batch may be told to fail."""

    def __init__(self, failing: int | None = None) -> None:
        self.batches: dict[int, list[bytes]] = {}
        self.failing = failing

    def __call__(self, rows: DataFrame, batch: int) -> None:
        self.batches[batch] = sorted(bytes(r.value) for r in rows.collect())
        if batch == self.failing:
            raise RuntimeError("as told")


def run(rows: DataFrame, checkpoint: Path, sink: Collected) -> None:
    writer = rows.writeStream.foreachBatch(sink).option("checkpointLocation", str(checkpoint))
    query = writer.trigger(availableNow=True).start()
    try:
        assert query.awaitTermination(120)
    finally:
        query.stop()


def test_spark_reads_every_message_once_over_restarts(
    spark: SparkSession, kafka: Kafka, topic: str, tmp_path: Path
) -> None:
    kafka.send(topic, 0, numbers(100, 140))
    kafka.send(topic, 1, numbers(140, 160))
    rows = stream(spark, kafka, topic, maxOffsetsPerTrigger=40)
    assert rows.schema.simpleString() == (
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,timestamp:timestamp,timestampType:int>"
    )
    first, second, third = Collected(), Collected(failing=2), Collected()
    run(rows, tmp_path, first)
    assert [len(b) for b in first.batches.values()] == [40, 20]
    kafka.send(topic, 3, numbers(160, 190))
    with pytest.raises(PySparkException, match="as told"):
        run(rows, tmp_path, second)
    kafka.send(topic, 2, numbers(190, 200))
    run(rows, tmp_path, third)
    assert third.batches[2] == second.batches[2]
    read_by_batch = first.batches | second.batches | third.batches
    assert sorted(v for b in read_by_batch.values() for v in b) == numbers(100, 200)


def test_spark_replays_the_first_batch_from_where_it_began_although_the_initial_offset_has_moved(
    spark: SparkSession, kafka: Kafka, topic: str, tmp_path: Path
) -> None:
    kafka.send(topic, 0, numbers(100, 110))
    failing, again = Collected(failing=0), Collected()
    with pytest.raises(PySparkException, match="as told"):
        run(stream(spark, kafka, topic), tmp_path, failing)
    kafka.send(topic, 0, numbers(110, 115))
    run(stream(spark, kafka, topic, startingOffsets="latest"), tmp_path, again)
    assert failing.batches == {0: numbers(100, 110)}
    assert again.batches == {0: numbers(100, 110), 1: numbers(110, 115)}


def test_spark_workers_send_rows_that_spark_reads_back(
    spark: SparkSession, kafka: Kafka, topic: str, tmp_path: Path
) -> None:
    output = KafkaOutput({"kafka.bootstrap.servers": kafka.servers, "topic": topic})

    def send(parts: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with output:
            for part in parts:
                yield pa.RecordBatch.from_pydict({"sent": [output.send(pa.Table.from_batches([part]))]})

    rows = spark.range(500).selectExpr("concat('q', id % 7) AS query", "CAST(3 AS BIGINT) AS batch", "id AS position")
    assert sum(r.sent for r in rows.mapInArrow(send, "sent BIGINT").collect()) == 500
    collected = Collected()
    run(stream(spark, kafka, topic), tmp_path, collected)
    found = sorted((json.loads(v) for v in collected.batches[0]), key=lambda row: row["position"])
    assert found == [{"query": f"q{i % 7}", "batch": 3, "position": i} for i in range(500)]


def test_spark_says_what_is_wrong_with_an_option(spark: SparkSession, kafka: Kafka) -> None:
    with pytest.raises(PySparkException, match=r"Kafka has no option .subscribes. here(.|\n)*Did you mean .subscribe."):
        stream(spark, kafka, "a", subscribes="b")


def test_sparks_own_connector_is_not_found_where_its_jar_is_not(spark: SparkSession) -> None:
    assert kafka_available(spark) is False

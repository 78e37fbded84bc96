"""Sending to Kafka: rows are spelled as documented, arrive in order by key, and what is refused is named."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, TopicPartition

from eddyline.delivery.json_rows import json_rows
from eddyline.spark.kafka.options import KafkaError
from eddyline.spark.kafka.output import KafkaOutput
from tests.spark.topics import batches, reader, rows_to_send, values

if TYPE_CHECKING:
    from tests.spark.conftest import Kafka


def test_rows_are_spelled_in_json_as_documented() -> None:
    when = dt.datetime(2026, 1, 31, 8, 0, 0, 5)
    columns: list[tuple[str, Any, Any, str]] = [
        ("null", None, pa.int64(), "null"),
        ("flag", True, pa.bool_(), "true"),
        ("long", 2**63 - 1, pa.int64(), "9223372036854775807"),
        ("float", 0.1, pa.float32(), "0.1"),
        ("double", 1.0, pa.float64(), "1.0"),
        ("nan", float("nan"), pa.float64(), '"NaN"'),
        ("inf", float("-inf"), pa.float32(), '"-Infinity"'),
        ("text", 'ä"\n', pa.string(), '"ä\\"\\n"'),
        ("plain", "ä/€", pa.string(), '"ä/€"'),
        ("bytes", b"\0\xff", pa.binary(), '"AP8="'),
        ("date", dt.date(2026, 1, 31), pa.date32(), '"2026-01-31"'),
        ("naive", when, pa.timestamp("us"), '"2026-01-31T08:00:00.000005Z"'),
        ("zoned", when, pa.timestamp("us", "Asia/Tokyo"), '"2026-01-31T08:00:00.000005Z"'),
        ("span", dt.timedelta(seconds=-1), pa.duration("us"), "-1000000"),
        ("exact", Decimal("1.50"), pa.decimal128(10, 2), '"1.50"'),
        ("list", [1.5, None, float("inf")], pa.list_(pa.float64()), '[1.5,null,"Infinity"]'),
        ("struct", {"a": when}, pa.struct([("a", pa.timestamp("us"))]), '{"a":"2026-01-31T08:00:00.000005Z"}'),
    ]
    table = pa.table({name: pa.array([value], type_) for name, value, type_, _ in columns})
    (value,) = spelled(table)
    assert value == "{" + ",".join(f'"{name}":{text}' for name, _, _, text in columns) + "}"
    nulls = pa.table({name: pa.nulls(2, type_) for name, _, type_, _ in columns})
    assert set(spelled(nulls)) == {"{" + ",".join(f'"{name}":null' for name, *_ in columns) + "}"}


def spelled(table: pa.Table) -> list[str]:
    return [text for part in table.to_batches() for text in json_rows(part).to_pylist()]


def test_rows_arrive_once_in_order_by_key_and_a_repeat_can_be_told(kafka: Kafka, topic: str) -> None:
    with KafkaOutput({"kafka.bootstrap.servers": kafka.servers, "topic": topic}) as output:
        assert output.send(rows_to_send(25_000)) == 25_000
        (table,) = batches(reader(kafka, topic))
        found = [json.loads(v) for v in values(table)]
        assert sorted(found, key=lambda row: row["position"]) == rows_to_send(25_000).to_pylist()
        assert [row["query"].encode() for row in found] == table.column("key").to_pylist()
        for query in ("q0", "q1", "q2"):
            mine = [row["position"] for row in found if row["query"] == query]
            assert mine == sorted(mine)
        assert output.send(rows_to_send(25_000)) == 25_000
    (table,) = batches(reader(kafka, topic))
    assert table.num_rows == 50_000
    assert len({(row["batch"], row["position"]) for row in map(json.loads, values(table))}) == 25_000


def test_the_first_failure_is_raised_and_the_output_can_be_used_again(kafka: Kafka, topic: str) -> None:
    options = {"kafka.bootstrap.servers": kafka.servers, "topic": topic, "kafka.message.max.bytes": "2000"}
    huge = pa.table({"query": ["q", "x" * 5000, "q"], "batch": [1] * 3, "position": [0, 1, 2]})
    with KafkaOutput(options) as output:
        with pytest.raises(KafkaError, match=f"did not take rows for topic {topic}: .*too large"):
            output.send(huge)
        assert output.send(rows_to_send(3)) == 3


def test_messages_say_which_run_has_sent_them(kafka: Kafka, topic: str) -> None:
    with KafkaOutput({"kafka.bootstrap.servers": kafka.servers, "topic": topic}, epoch="e1") as output:
        output.send(rows_to_send(1))
    consumer = Consumer({"bootstrap.servers": kafka.servers, "group.id": topic})
    consumer.assign([TopicPartition(topic, p, 0) for p in range(4)])
    message = consumer.poll(30)
    consumer.close()
    assert message is not None
    assert message.headers() == [("eddyline.format", b"1"), ("eddyline.epoch", b"e1")]

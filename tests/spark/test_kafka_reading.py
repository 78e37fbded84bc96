"""Reading Kafka: batches hold exactly the messages between two offsets, now and when replayed, and loss is told."""

from __future__ import annotations

import datetime as dt
import json
from itertools import pairwise
from typing import TYPE_CHECKING
from uuid import uuid4

import pyarrow as pa
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from eddyline.spark.kafka.offsets import Partition, Range
from eddyline.spark.kafka.options import KafkaError, source_options
from eddyline.spark.kafka.output import KafkaOutput
from eddyline.spark.kafka.read import read_range
from eddyline.spark.kafka.source import KafkaReader
from tests.spark.topics import NOBODY, batches, numbers, read, reader, rows_to_send, values

if TYPE_CHECKING:
    from tests.spark.conftest import Kafka


# --- reading ---------------------------------------------------------------------------------------------------------


def test_every_message_of_all_partitions_and_topics_comes_with_its_columns(kafka: Kafka) -> None:
    one, two = sorted([f"t{uuid4().hex}", f"t{uuid4().hex}"])
    kafka.send(one, 0, [b"x", None], key=b"k", ms=1_700_000_000_123)
    kafka.send(one, 2, [b""], ms=1_700_000_000_000)
    kafka.send(two, 1, [b"y"], ms=1_700_000_000_000)
    (table,) = batches(reader(kafka, two, one))
    whole = dt.datetime.fromtimestamp(1_700_000_000, dt.UTC)
    assert [tuple(row.values()) for row in table.to_pylist()] == [
        (b"k", b"x", one, 0, 0, whole + dt.timedelta(milliseconds=123), 0),
        (b"k", None, one, 0, 1, whole + dt.timedelta(milliseconds=123), 0),
        (None, b"", one, 2, 0, whole, 0),
        (None, b"y", two, 1, 0, whole, 0),
    ]


def test_limited_batches_hold_every_message_once_and_replay_the_same(kafka: Kafka, topic: str) -> None:
    kafka.send(topic, 0, numbers(0, 5000))
    kafka.send(topic, 1, numbers(5000, 5100))
    source = reader(kafka, topic, maxOffsetsPerTrigger=1000)
    offsets = [source.initialOffset()]
    assert source.getDefaultReadLimit() == ReadMaxRows(1000)
    while (end := source.latestOffset(offsets[-1], ReadMaxRows(1000))) != offsets[-1]:
        offsets.append(end)
    tables = [read(source, start, end) for start, end in pairwise(offsets)]
    assert [t.num_rows for t in tables] == [1000] * 5 + [100]
    assert sorted(values(pa.concat_tables(tables)), key=int) == numbers(0, 5100)
    kafka.send(topic, 0, numbers(0, 10))
    fresh = reader(kafka, topic)
    assert all(read(fresh, start, end).equals(t) for (start, end), t in zip(pairwise(offsets), tables, strict=True))
    assert read(fresh, offsets[0], offsets[-1]).num_rows == 5100


def test_all_that_is_available_is_read_if_spark_asks_for_it_despite_a_limit(kafka: Kafka, topic: str) -> None:
    kafka.send(topic, 0, numbers(0, 50))
    source = reader(kafka, topic, maxOffsetsPerTrigger=10)
    start = source.initialOffset()
    assert read(source, start, source.latestOffset(start, ReadAllAvailable())).num_rows == 50


@pytest.mark.parametrize("level", ["read_committed", "read_uncommitted"])
def test_a_range_ends_where_it_should_although_offsets_have_gaps(kafka: Kafka, topic: str, level: str) -> None:
    kafka.send(topic, 0, numbers(0, 2))
    kafka.send_raw(topic, 0, {0: b"\0" * 6}, offsets=1, control=True)  # 2: the end of a transaction
    kafka.send_raw(topic, 0, {1: b"4", 2: b"5"}, offsets=5, control=False)  # 3 to 7, compacted
    kafka.send(topic, 0, [b"8"])
    kafka.send_raw(topic, 0, {0: b"\0" * 6}, offsets=1, control=True)  # 9
    source = reader(kafka, topic, **{"kafka.isolation.level": level})
    assert source.latestOffset(source.initialOffset(), ReadAllAvailable())[topic]["0"] == 10
    for start, end in [(0, e) for e in range(1, 11)] + [(s, 10) for s in range(1, 10)] + [(2, 3), (6, 8)]:
        got = [v for b in read_range(source.options, Range(Partition(topic, 0), start, end)) for v in values(b)]
        assert got == [b"%d" % i for i in (0, 1, 4, 5, 8) if start <= i < end], (start, end)


def test_available_now_ends_at_what_there_was_at_its_start(kafka: Kafka, topic: str) -> None:
    kafka.send(topic, 0, numbers(0, 10))
    source = reader(kafka, topic, maxOffsetsPerTrigger=4)
    source.prepareForTriggerAvailableNow()
    read_first = []
    for table in batches(source):
        kafka.send(topic, 0, [b"late"])
        kafka.send(topic, 3, [b"late"])
        read_first += values(table)
    assert read_first == numbers(0, 10)


def test_available_now_from_the_latest_offset_ends_at_once(kafka: Kafka, topic: str) -> None:
    kafka.send(topic, 0, numbers(0, 10))
    source = reader(kafka, topic, startingOffsets="latest")
    source.prepareForTriggerAvailableNow()
    kafka.send(topic, 0, numbers(10, 20))
    assert list(batches(source)) == []


def test_starting_offsets_are_taken_by_partition(kafka: Kafka, topic: str) -> None:
    for partition in range(4):
        kafka.send(topic, partition, numbers(0, 3))
    source = reader(kafka, topic, startingOffsets=json.dumps({topic: {"0": -2, "1": -1, "2": 2, "3": 3}}))
    assert source.initialOffset()[topic] == {"0": 0, "1": 3, "2": 2, "3": 3}
    kafka.send(topic, 1, [b"new"])
    assert [values(t) for t in batches(source)] == [[b"0", b"1", b"2", b"new", b"2"]]


@pytest.mark.parametrize(
    ("offsets", "message"), [({"0": 0}, r"\[1\], .*\[3\]"), (dict.fromkeys("0123", 1), "ends at 0")]
)
def test_starting_offsets_that_do_not_exist_are_refused(
    kafka: Kafka, topic: str, offsets: dict[str, int], message: str
) -> None:
    with pytest.raises(KafkaError, match=message):
        reader(kafka, topic, startingOffsets=json.dumps({topic: offsets})).initialOffset()


def test_partitions_and_topics_found_later_are_read_from_their_beginning(kafka: Kafka, topic: str) -> None:
    added = f"{topic}_added"
    kafka.send(topic, 0, numbers(0, 2))
    kafka.send(topic, 1, numbers(2, 4))
    kafka.send(added, 2, numbers(4, 6))
    source = reader(kafka, topic, added)
    start = {topic: {"0": 1}}
    end = source.latestOffset(start, ReadAllAvailable())
    assert values(read(source, start, end)) == [b"1", b"2", b"3", b"4", b"5"]
    assert source.latestOffset(end, ReadAllAvailable()) == end
    assert source.reportLatestOffset() == {
        topic: {"0": 2, "1": 2, "2": 0, "3": 0},
        added: {"0": 0, "1": 0, "2": 2, "3": 0},
    }


def test_a_topic_that_does_not_exist_is_an_error_and_is_not_made(kafka: Kafka, topic: str) -> None:
    with pytest.raises(KafkaError, match=f"{kafka.servers} has no topic {topic}x"):
        reader(kafka, topic, topic + "x").initialOffset()
    assert topic in kafka.topics() and topic + "x" not in kafka.topics()


# --- loss ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def expired(kafka: Kafka, topic: str) -> int:
    """The first offset that the topic still has in partition 0, as retention took what was before."""
    kafka.send(topic, 0, [b"%d" % i + b" " * 100_000 for i in range(100)])
    source = reader(kafka, topic)
    low = source.initialOffset()[topic]["0"]
    assert isinstance(low, int) and 0 < low < 100
    return low


def test_messages_that_expired_unread_stop_the_stream(kafka: Kafka, topic: str, expired: int) -> None:
    source = reader(kafka, topic)
    with pytest.raises(KafkaError, match=rf"\[0\] has no messages 3 to {expired - 1} any more.*\n.*failOnDataLoss"):
        source.latestOffset({topic: {"0": 3}}, ReadAllAvailable())
    with pytest.raises(KafkaError, match=f"now begins at {expired}"):
        list(read_range(source.options, Range(Partition(topic, 0), 3, 100)))


def test_messages_that_expired_unread_are_passed_over_if_that_is_accepted(
    kafka: Kafka, topic: str, expired: int, caplog: pytest.LogCaptureFixture
) -> None:
    source = reader(kafka, topic, failOnDataLoss="false")
    start = {topic: {"0": 3}}
    table = read(source, start, source.latestOffset(start, ReadAllAvailable()))
    assert table.column("offset").to_pylist() == list(range(expired, 100))
    assert f"has no messages 3 to {expired - 1} any more" in caplog.text
    replayed = read(source, start, {topic: {"0": 100}})  # planned before they expired, read after
    assert replayed.equals(table)
    assert read(source, start, {topic: {"0": expired}}).num_rows == 0


def test_a_topic_that_was_cut_is_noticed(kafka: Kafka, topic: str) -> None:
    kafka.send(topic, 0, numbers(0, 5))
    start = {topic: {"0": 9}}
    with pytest.raises(KafkaError, match=r"\[0\] was read up to 9 but now ends at 5"):
        reader(kafka, topic).latestOffset(start, ReadAllAvailable())
    with pytest.raises(KafkaError, match="now ends at 5"):
        list(read_range(reader(kafka, topic).options, Range(Partition(topic, 0), 9, 12)))
    source = reader(kafka, topic, failOnDataLoss="false")
    end = source.latestOffset(start, ReadAllAvailable())
    assert end[topic]["0"] == 5 and read(source, start, end).num_rows == 0
    assert read(source, start, {topic: {"0": 12}}).num_rows == 0


def test_a_topic_that_is_gone_is_noticed(kafka: Kafka, topic: str) -> None:
    start = {topic: {"0": 0}, "gone": {"0": 4}}
    with pytest.raises(KafkaError, match=r"gone\[0\] is gone, or no longer named in option subscribe"):
        reader(kafka, topic).latestOffset(start, ReadAllAvailable())
    source = reader(kafka, topic, "gone", failOnDataLoss="false")
    assert source.latestOffset(start, ReadAllAvailable()) == {topic: {"0": 0}}


def test_an_end_that_never_comes_is_an_error_after_the_timeout(kafka: Kafka, topic: str) -> None:
    kafka.send(topic, 0, numbers(0, 5))
    options = reader(kafka, topic, **{"kafkaConsumer.pollTimeoutMs": 300}).options
    with pytest.raises(KafkaError, match=rf"did not send message 5 to 8 of {topic}\[0\] within 0.3 s"):
        list(read_range(options, Range(Partition(topic, 0), 0, 9)))


def test_brokers_that_do_not_answer_are_named_after_the_timeout() -> None:
    given = {"kafka.bootstrap.servers": NOBODY, "subscribe": "a", "kafkaConsumer.pollTimeoutMs": "300"}
    source = KafkaReader(source_options(given))
    with pytest.raises(KafkaError, match=rf"{NOBODY} did not tell the offsets of topic a within 0.3 s \(.*refused"):
        source.initialOffset()
    with pytest.raises(KafkaError, match=rf"{NOBODY} did not send message 0 to 4 of a\[0\] within 0.3 s \(.*refused"):
        list(source.read(source.partitions({"a": {"0": 0}}, {"a": {"0": 5}})[0]))
    output = KafkaOutput({"kafka.bootstrap.servers": NOBODY, "topic": "a", "kafkaConsumer.pollTimeoutMs": "300"})
    with pytest.raises(KafkaError, match=rf"{NOBODY} did not take rows for topic a: .*timed out.*refused"):
        output.send(rows_to_send(3))
    output.close()
    output.close()

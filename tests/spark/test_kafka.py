"""Kafka without Spark's connector: batches hold exactly the messages between two offsets, now and when replayed."""

from __future__ import annotations

import datetime as dt
import json
import pickle
from collections.abc import Iterator
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from eddyline.errors import DataError
from eddyline.spark.kafka.offsets import Bounds, Offsets, Partition, Range, advance, ranges, share
from eddyline.spark.kafka.options import KafkaError, source_options
from eddyline.spark.kafka.output import KafkaOutput, messages
from eddyline.spark.kafka.read import SCHEMA, read_range
from eddyline.spark.kafka.source import FORMAT, KafkaReader, KafkaSource, kafka_available
from eddyline.spark.sources import register

if TYPE_CHECKING:
    from tests.spark.conftest import Kafka

NOBODY = "127.0.0.1:9"  # no broker listens here
A0, A1, B0 = Partition("a", 0), Partition("a", 1), Partition("b", 0)


@pytest.fixture
def topic(kafka: Kafka) -> str:
    name = f"t{uuid4().hex}"
    kafka.create(name)
    return name


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


# --- offsets, without a broker ---------------------------------------------------------------------------------------


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=6), st.integers(1, 3000), st.integers(0, 100))
def test_a_limit_is_used_up_shared_by_backlog_and_starves_nobody(backlog: list[int], limit: int, turn: int) -> None:
    waiting = {Partition("a", i): n for i, n in enumerate(backlog)}
    taken = share(waiting, limit, turn)
    assert taken.keys() == waiting.keys()
    assert sum(taken.values()) == min(limit, sum(backlog))
    assert all(taken[p] <= waiting[p] for p in waiting)
    if limit >= sum(n > 0 for n in backlog):
        assert all(taken[p] for p in waiting if waiting[p])


def test_partitions_take_turns_when_the_limit_is_below_their_number() -> None:
    at = Offsets({Partition("a", i): 0 for i in range(5)})
    bounds = {p: Bounds(0, 100) for p in at.next}
    for _ in range(5):
        at, _lost = advance(at, bounds, limit=2)
    assert set(at.next.values()) == {2}


def test_offsets_are_written_in_one_order_and_read_back() -> None:
    offsets = Offsets({Partition("a", 10): 1, B0: 5, Partition("a", 9): 2}, {B0: 5})
    assert json.dumps(offsets.to_json()) == '{"a": {"9": 2, "10": 1}, "b": {"0": 5}, "$from": {"b": {"0": 5}}}'
    assert Offsets.from_json(json.loads(json.dumps(offsets.to_json()))) == offsets


def test_the_first_batch_is_replayed_from_where_it_began_although_spark_asks_anew() -> None:
    initial = Offsets({A0: 7, A1: 0}, {A0: 7, A1: 0})
    end, _ = advance(initial, {A0: Bounds(0, 9), A1: Bounds(0, 0)}, None)
    asked_later = Offsets({A0: 50, A1: 40}, {A0: 50, A1: 40})
    assert ranges(asked_later, end) == ranges(initial, end) == [Range(A0, 7, 9)]
    after, _ = advance(end, {A0: Bounds(0, 9), A1: Bounds(0, 3)}, None)
    assert ranges(end, after) == [Range(A1, 0, 3)]


def test_without_news_the_offset_stays_the_very_same() -> None:
    start = Offsets({A0: 7}, {A0: 2})
    end, lost = advance(start, {A0: Bounds(0, 7), A1: Bounds(0, 0)}, None)
    assert end is start and lost == []


def test_a_new_partition_is_read_from_its_beginning() -> None:
    end, lost = advance(Offsets({A0: 7}), {A0: Bounds(0, 7), A1: Bounds(0, 3)}, None)
    assert ranges(Offsets({A0: 7}), end) == [Range(A1, 0, 3)] and lost == []


def test_what_is_lost_is_said_and_passed_over() -> None:
    start = Offsets({A0: 2, A1: 50, B0: 1})
    end, lost = advance(start, {A0: Bounds(5, 9), A1: Bounds(0, 10), Partition("a", 2): Bounds(4, 6)}, None)
    assert lost == [
        "a[0] has no messages 2 to 4 any more",
        "a[1] was read up to 50 but now ends at 10",
        "a[2] was found late: its messages before 4 are gone",
        "b[0] is gone, or no longer named in option subscribe",
    ]
    assert ranges(start, end) == [Range(A0, 5, 9), Range(Partition("a", 2), 4, 6)]
    assert end.next == {A0: 9, A1: 10, Partition("a", 2): 6}


# --- options ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kafka.bootstrap.servers": ""}, "needs option kafka.bootstrap.servers"),
        ({"subscribe": " , "}, "subscribe names no topic"),
        ({"subscribePattern": "a.*"}, "no option 'subscribePattern'.*\n.*mean 'subscribe'"),
        ({"includeHeaders": "true"}, "no option 'includeHeaders'"),
        ({"maxOffsetsPerTrigger": "0"}, "maxOffsetsPerTrigger is '0'"),
        ({"failOnDataLoss": "maybe"}, "failOnDataLoss is 'maybe'"),
        ({"startingOffsets": "soon"}, "startingOffsets is 'soon'"),
        ({"startingOffsets": '{"a": {"0": -3}}'}, "startingOffsets is"),
        ({"startingOffsets": '{"a": {"0": 1.5}}'}, "startingOffsets is"),
        ({"startingOffsets": '{"b": {"0": 1}}'}, "do not name the same topics: a, b"),
        ({"kafka.auto.offset.reset": "earliest"}, "kafka.auto.offset.reset cannot be set.*\n.*startingOffsets"),
    ],
)
def test_a_wrong_option_is_named_with_its_remedy(options: dict[str, str], message: str) -> None:
    with pytest.raises(KafkaError, match=message):
        source_options({"kafka.bootstrap.servers": NOBODY, "subscribe": "a"} | options)


def test_options_that_only_tune_the_other_connector_are_taken() -> None:
    options = {"KAFKA.bootstrap.servers": NOBODY, "Subscribe": "a, b", "minPartitions": "8", "includeHeaders": "false"}
    assert source_options(options).topics == ("a", "b")
    assert source_options(options).isolation == "read_uncommitted"


@pytest.mark.parametrize(
    ("option", "message"),
    [("kafka.sasl.jaas.config", "JAAS.*\n.*kafka.sasl.username"), ("kafka.fetch.maximum", "fetch.maximum")],
)
def test_a_property_that_the_client_refuses_is_found_when_the_stream_is_declared(option: str, message: str) -> None:
    with pytest.raises(KafkaError, match=message):
        KafkaSource({"kafka.bootstrap.servers": NOBODY, "subscribe": "a", option: "x"}).schema()


# --- reading, without Spark ------------------------------------------------------------------------------------------


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


# --- sending ---------------------------------------------------------------------------------------------------------


def rows_to_send(n: int) -> pa.Table:
    return pa.table({"query": [f"q{i % 3}" for i in range(n)], "batch": [7] * n, "position": list(range(n))})


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
    ((key, value),) = messages(table, "text")
    assert key == 'ä"\n'.encode()
    assert value.decode() == "{" + ",".join(f'"{name}":{text}' for name, _, _, text in columns) + "}"
    nulls = pa.table({name: pa.nulls(2, type_) for name, _, type_, _ in columns})
    assert {value.decode() for _, value in messages(nulls, None)} == {
        "{" + ",".join(f'"{name}":null' for name, *_ in columns) + "}"
    }


@pytest.mark.parametrize(
    ("column", "key"),
    [
        (pa.array(["q"]), b"q"),
        (pa.array([b"\xff"]), b"\xff"),
        (pa.array([5]), b"5"),
        (pa.array([None], pa.int64()), None),
    ],
)
def test_a_key_is_the_column_as_text(column: pa.Array, key: bytes | None) -> None:
    assert [k for k, _ in messages(pa.table({"k": column}), "k")] == [key]
    assert [k for k, _ in messages(pa.table({"k": column}), None)] == [None]


def test_rows_arrive_once_in_order_by_key_and_a_repeat_can_be_told(kafka: Kafka, topic: str) -> None:
    output = pickle.loads(pickle.dumps(KafkaOutput({"kafka.bootstrap.servers": kafka.servers, "topic": topic})))
    with output:
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


def test_rows_without_marks_or_key_are_refused(kafka: Kafka, topic: str) -> None:
    output = KafkaOutput({"kafka.bootstrap.servers": kafka.servers, "topic": topic})
    for name in ("query", "batch", "position"):
        with pytest.raises(DataError, match=f"topic {topic} lack the column '{name}'"):
            output.send(rows_to_send(2).drop_columns([name]))


def test_the_first_failure_is_raised_and_the_output_can_be_used_again(kafka: Kafka, topic: str) -> None:
    options = {"kafka.bootstrap.servers": kafka.servers, "topic": topic, "kafka.message.max.bytes": "2000"}
    huge = pa.table({"query": ["q", "x" * 5000, "q"], "batch": [1] * 3, "position": [0, 1, 2]})
    with KafkaOutput(options) as output:
        with pytest.raises(KafkaError, match=f"did not take rows for topic {topic}: .*too large"):
            output.send(huge)
        assert output.send(rows_to_send(3)) == 3


# --- Spark -----------------------------------------------------------------------------------------------------------


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

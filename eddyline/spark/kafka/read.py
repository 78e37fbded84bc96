"""Reads a range of a partition's offsets into Arrow batches, on an executor.

The end is reached exactly, even if there is no message at some offsets: after a gap, which compaction and transaction
markers cause, the consumer returns a later message or reports the end of the partition. A range that Kafka no longer
has is an error, or left out with a warning, as `failOnDataLoss` says. A consumer is created for each range, which takes
2 to 30 ms on one machine.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Consumer, KafkaException, Message, TopicPartition
from confluent_kafka import KafkaError as Code

from eddyline.spark.kafka.offsets import Range
from eddyline.spark.kafka.options import KafkaError, SourceOptions, collecting_errors, make_client

SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("timestampType", pa.int32()),
    ]
)
_ROWS = 2_000  # of a batch, at most; more are slower, as the messages no longer fit into the cache
_POLL = 0.1  # seconds in which a batch is filled
_QUEUED = 100_000  # messages fetched ahead, at most; never more than the range has
_GONE = (Code._UNKNOWN_PARTITION, Code.UNKNOWN_TOPIC_OR_PART, Code._UNKNOWN_TOPIC)

log = logging.getLogger("eddyline.kafka")


def read_range(options: SourceOptions, wanted: Range) -> Iterator[pa.RecordBatch]:
    """The messages of a range in the order of their offsets. The same range gives the same messages."""
    client_errors: list[str] = []
    consumer = make_client(
        Consumer,
        {
            "group.id": "eddyline",
            "isolation.level": options.isolation,
            "fetch.wait.max.ms": 100,  # how long the broker waits for messages after the end
            "queued.min.messages": min(_QUEUED, wanted.end - wanted.start),
            "fetch.queue.backoff.ms": 10,  # a full queue is checked again soon, not after a second
            **options.client,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            "error_cb": collecting_errors(client_errors),
        },
    )
    try:
        yield from _batches(consumer, options, wanted, client_errors)
    finally:
        consumer.close()


def _batches(
    consumer: Consumer, options: SourceOptions, wanted: Range, client_errors: list[str]
) -> Iterator[pa.RecordBatch]:
    topic, number = wanted.partition
    consumer.assign([TopicPartition(topic, number, wanted.start)])
    at, deadline = wanted.start, time.monotonic() + options.timeout
    while at < wanted.end:
        before = at
        got = consumer.consume(min(_ROWS, wanted.end - at), _POLL)
        good = [m for m in got if m.error() is None]
        if batch := [m for m in good if m.offset() < wanted.end]:  # type: ignore[operator]  # a message has an offset
            yield _arrow(wanted, batch)
        if good:
            at = (good[-1].offset() or 0) + 1
        for problem in (m for m in got if m.error() is not None):
            at = max(at, _pass(consumer, options, wanted, problem, at))
        if at > before:
            deadline = time.monotonic() + options.timeout
        elif time.monotonic() > deadline:
            raise options.unreachable(f"send message {at} to {wanted.end - 1} of {wanted.partition}", client_errors)


def _pass(consumer: Consumer, options: SourceOptions, wanted: Range, message: Message, at: int) -> int:
    """The next offset after an event that is not a message: the end of the partition, or an error."""
    problem = message.error()
    assert problem is not None
    if problem.code() == Code._PARTITION_EOF:
        return message.offset() or 0
    if problem.code() == Code._AUTO_OFFSET_RESET:
        low, high = _watermarks(consumer, options, wanted)
        if at > high:
            return _lose(options, wanted, at, wanted.end, f"{wanted.partition} now ends at {high}")
        resumed = _lose(options, wanted, at, min(low, wanted.end), f"{wanted.partition} now begins at {low}")
        consumer.assign([TopicPartition(*wanted.partition, resumed)])
        return resumed
    if problem.code() in _GONE:
        return _lose(options, wanted, at, wanted.end, f"{wanted.partition} no longer exists")
    raise KafkaError(
        f"Kafka at {options.servers} does not let {wanted.partition} be read: {problem.str()}.",
        hint="Check the topic and the rights of the user in the options kafka.<property>.",
    )


def _lose(options: SourceOptions, wanted: Range, at: int, until: int, why: str) -> int:
    report_loss(options, [f"messages {at} to {until - 1} cannot be read: {why}"])
    return until


def report_loss(options: SourceOptions, lost: list[str]) -> None:
    """Unread messages were deleted: raises, or warns if the user accepts data loss."""
    if not lost:
        return
    text = f"Kafka at {options.servers} has lost messages: {'; '.join(lost)}."
    if options.fail_on_data_loss:
        hint = (
            "Retention may be too short, or the topic was made anew. To go on without them set failOnDataLoss to false."
        )
        raise KafkaError(text, hint=hint)
    log.warning("%s They are left out, as option failOnDataLoss is false.", text)


def _watermarks(consumer: Consumer, options: SourceOptions, wanted: Range) -> tuple[int, int]:
    try:
        return consumer.get_watermark_offsets(TopicPartition(*wanted.partition), timeout=options.timeout)
    except KafkaException as problem:
        raise options.unreachable(f"tell the offsets of {wanted.partition}", [problem.args[0].str()]) from None


def _arrow(wanted: Range, messages: list[Message]) -> pa.RecordBatch:
    """The kind of a timestamp is 0 if the producer set it, 1 if the broker did, -1 if there is none."""
    topic, number = wanted.partition
    n = len(messages)
    times = [m.timestamp() for m in messages]
    columns: list[Any] = [
        [m.key() for m in messages],
        [m.value() for m in messages],
        pa.repeat(pa.scalar(topic, pa.string()), n),
        pa.repeat(pa.scalar(number, pa.int32()), n),
        [m.offset() for m in messages],
        [None if kind == TIMESTAMP_NOT_AVAILABLE else ms * 1000 for kind, ms in times],
        [kind - 1 for kind, _ in times],
    ]
    return pa.RecordBatch.from_arrays(
        [c if isinstance(c, pa.Array) else pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)],
        schema=SCHEMA,
    )

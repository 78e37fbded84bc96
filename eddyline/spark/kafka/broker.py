"""Metadata from the brokers for the driver: the partitions of topics, and their first and last offsets.

Every call ends within the timeout, with a result or with an error that has the last message of the client.
"""

from __future__ import annotations

import time
from concurrent.futures import Future
from typing import Any

from confluent_kafka import Consumer, IsolationLevel, KafkaException, TopicPartition
from confluent_kafka import KafkaError as Code
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]  # it is public, not marked so

from eddyline.spark.kafka.offsets import Bounds, Partition
from eddyline.spark.kafka.options import SourceOptions, collecting_errors, make_client

_PAUSE = 0.2  # seconds between attempts while a leader is elected
_GROUP = "eddyline"  # a consumer must name a group; ours assigns its partitions itself and never joins it


_EARLIEST = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
_LATEST = OffsetSpec.latest()  # type: ignore[no-untyped-call]


class Broker:
    """A connection for metadata; it opens on first use and is for one thread."""

    def __init__(self, options: SourceOptions) -> None:
        self.options = options
        self._errors: list[str] = []
        self._consumer: Consumer | None = None
        self._admin: AdminClient | None = None

    def bounds(self) -> dict[Partition, Bounds]:
        """The bounds of every partition of the topics that exist."""
        deadline = time.monotonic() + self.options.timeout
        self._serve()
        self._errors.clear()
        while True:
            try:
                partitions = [p for t in self.options.topics for p in self._partitions(t, deadline)]
                lows = self._list(partitions, _EARLIEST, deadline)
                highs = self._list(partitions, _LATEST, deadline)
                return {p: Bounds(lows[p], highs[p]) for p in partitions}
            except KafkaException as problem:
                self._errors.append(problem.args[0].str())
            except TimeoutError:
                self._errors.append("the client gave no answer")
            self._serve()
            if time.monotonic() > deadline:
                topics = ", ".join(self.options.topics)
                raise self.options.unreachable(f"tell the offsets of topic {topics}", self._errors)
            time.sleep(_PAUSE)

    def close(self) -> None:
        if self._consumer is not None:
            self._consumer.close()
        self._consumer = self._admin = None

    def _partitions(self, topic: str, deadline: float) -> list[Partition]:
        consumer, _ = self._open()  # unlike the admin client, a consumer never creates a topic
        metadata = consumer.list_topics(topic, timeout=_left(deadline)).topics[topic]
        if metadata.error is not None and metadata.error.code() == Code.UNKNOWN_TOPIC_OR_PART:
            return []
        if metadata.error is not None:
            raise KafkaException(metadata.error)
        return [Partition(topic, number) for number in sorted(metadata.partitions)]

    def _list(self, partitions: list[Partition], spec: OffsetSpec, deadline: float) -> dict[Partition, int]:
        if not partitions:
            return {}
        _, admin = self._open()
        committed = self.options.isolation == "read_committed"
        level = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
        requested = {TopicPartition(*p): spec for p in partitions}
        answers: dict[Any, Future[Any]] = admin.list_offsets(
            requested, isolation_level=level, request_timeout=_left(deadline)
        )
        return {Partition(p.topic, p.partition): f.result(_left(deadline) + 1).offset for p, f in answers.items()}

    def _open(self) -> tuple[Consumer, AdminClient]:
        if self._consumer is None or self._admin is None:
            client = {**self.options.client, "error_cb": collecting_errors(self._errors)}
            self._consumer = make_client(Consumer, {"group.id": _GROUP, **client})
            self._admin = make_client(AdminClient, client)
        return self._consumer, self._admin

    def _serve(self) -> None:
        """Serves the callbacks of the clients, which report errors and renew tokens."""
        for client in self._open():
            client.poll(0)


def _left(deadline: float) -> float:
    return max(0.1, deadline - time.monotonic())


def check_client(options: SourceOptions) -> None:
    """Raises if the client refuses its options; no broker is contacted."""
    make_client(Consumer, {"group.id": _GROUP, **options.client}).close()

"""Sends rows as Kafka messages.

A message's value is a JSON object with the row's columns; its stable format is in `delivery/json_rows.py`.
Its key is the name of the query, so that a query's changes stay in order within one partition. A send returns when all
replicas have acknowledged all rows. A batch that Spark replays is sent again: each row carries `batch` and `position`,
equal in each repeat, and a consumer that stores (key, batch, position) can drop repeats.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

import pyarrow as pa
from confluent_kafka import KafkaError as Code
from confluent_kafka import KafkaException, Message, Producer

from eddyline.delivery.json_rows import json_rows
from eddyline.delivery.sinks.sink_kind import FORMAT
from eddyline.spark.kafka.options import KafkaError, collecting_errors, make_client, output_options

_HEADERS: dict[str, str | bytes | None] = {"eddyline.format": str(FORMAT)}
_ROWS = 10_000  # converted to messages at a time
_GRACE = 5.0  # seconds for the client to report failed messages


class KafkaOutput:
    """Sends rows to a topic. It connects on first use; it is for one thread."""

    def __init__(self, options: Mapping[str, str], *, epoch: str = "") -> None:
        """`epoch` is the run that sends: of the rows of one micro-batch, those of the last epoch are valid."""
        self.options = output_options(options)
        self.headers = _HEADERS | ({"eddyline.epoch": epoch} if epoch else {})
        self._producer: Producer | None = None
        self._failed: str | None = None
        self._errors: list[str] = []

    def send(self, rows: pa.Table) -> int:
        """Sends every row and waits until all are acknowledged; returns their number. Raises the first failure."""
        producer = self._open()
        self._errors.clear()
        try:
            for part in rows.to_batches(max_chunksize=_ROWS):
                keys, values = (c.cast(pa.binary()).to_pylist() for c in (part.column("query"), json_rows(part)))
                for key, value in zip(keys, values, strict=True):
                    self._enqueue(producer, key, value)
            unsent = producer.flush(self.options.timeout + _GRACE)
            if self._failed is not None:
                raise self._failure()
            if unsent:
                raise self._silence()
        except BaseException:
            self.close()  # queued messages must not be sent after the error
            raise
        return int(rows.num_rows)

    def close(self) -> None:
        """Closes the connection and discards unsent messages; it may be called repeatedly."""
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.purge()
            producer.flush(_GRACE)

    def __enter__(self) -> KafkaOutput:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _open(self) -> Producer:
        if self._producer is None:
            self._failed = None
            settings = {
                "linger.ms": 5,
                "message.timeout.ms": int(self.options.timeout * 1000),
                **self.options.client,
                "enable.idempotence": True,
                "delivery.report.only.error": True,
                "on_delivery": self._delivered,
                "error_cb": collecting_errors(self._errors),
            }
            self._producer = make_client(Producer, settings)
        return self._producer

    def _enqueue(self, producer: Producer, key: bytes, value: bytes) -> None:
        """Enqueues one message; waits if the client's queue is full."""
        deadline = 0.0
        while self._failed is None:
            try:
                producer.produce(self.options.topic, value, key, headers=self.headers)
                return
            except BufferError:
                deadline = deadline or time.monotonic() + self.options.timeout
                producer.poll(0.1)
            except KafkaException as problem:
                self._failed = problem.args[0].str()
            if deadline and time.monotonic() > deadline:
                raise self._silence()
        raise self._failure()

    def _delivered(self, problem: Code | None, message: Message) -> None:
        if problem is not None and self._failed is None:
            self._failed = problem.str()

    def _failure(self) -> KafkaError:
        reasons = [self._failed or "", *self._errors[-1:]]
        return KafkaError(
            f"Kafka at {self.options.servers} did not take rows for topic {self.options.topic}: {'; '.join(reasons)}.",
            hint="Check the topic, the brokers and the rights of the user; then send the batch again.",
        )

    def _silence(self) -> KafkaError:
        return self.options.unreachable(f"acknowledge rows for topic {self.options.topic}", self._errors)

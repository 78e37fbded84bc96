"""Rows as Kafka messages, sent by whoever has them: the driver or a Python worker.

A message's value is a JSON object with the row's columns in their order, in this form, which will not change:

    null                the field is there, as null          DATE         "2026-01-31"
    BOOLEAN, integers   true, 42                             TIMESTAMP    "2026-01-31T08:00:00.000000Z", always in UTC
    FLOAT, DOUBLE       0.1: the shortest that reads back    INTERVAL     a whole number of microseconds
                        the same; "NaN", "Infinity",         BINARY       base64
                        "-Infinity" as text                  lists, structs   arrays, objects; decimals are text

Its key is one column as text (`query` by default), so that a query's changes stay in order within one partition. A send
returns when all replicas have acknowledged all rows. A batch that Spark replays is sent again: each row carries `batch`
and `position`, equal in each repeat, and a consumer that remembers (key, batch, position) can drop what it has seen.
"""

from __future__ import annotations

import base64
import datetime as dt
import json
import math
import time
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

import pyarrow as pa
from confluent_kafka import KafkaError as Code
from confluent_kafka import KafkaException, Message, Producer

from eddyline.errors import DataError
from eddyline.spark.kafka_options import KafkaError, make_client, output_options, unreachable

MARKS = ("batch", "position")  # what tells a repeat from news
_ROWS = 10_000  # turned into messages at a time
_GRACE = 5.0  # seconds for the client to report what it gave up


class KafkaOutput:
    """Sends rows to a topic. It connects on first use, so that it can be pickled before; it is for one thread."""

    def __init__(self, options: Mapping[str, str], key: str | None = "query") -> None:
        self.options = output_options(options)
        self.key = key
        self._producer: Producer | None = None
        self._failed: str | None = None
        self._heard: list[str] = []

    def send(self, rows: pa.Table) -> int:
        """Sends every row and waits until all are acknowledged; how many they are. The first failure is raised."""
        missing = [c for c in (*MARKS, *([self.key] if self.key else [])) if c not in rows.column_names]
        if missing:
            raise DataError(
                f"Rows for Kafka topic {self.options.topic} lack the column {missing[0]!r}.",
                hint=f"Each row carries {' and '.join(MARKS)}, and the column chosen as key.",
            )
        producer = self._open()
        try:
            for key, value in messages(rows, self.key):
                self._enqueue(producer, key, value)
            unsent = producer.flush(self.options.timeout + _GRACE)
            if self._failed is not None:
                raise self._failure()
            if unsent:
                raise self._silence()
        except BaseException:
            self.close()  # what is still queued is not sent behind the caller's back
            raise
        return int(rows.num_rows)

    def close(self) -> None:
        """Lets go of the connection and of what was not sent; it may be called at any time and again."""
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.purge()
            producer.flush(_GRACE)

    def __enter__(self) -> KafkaOutput:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_producer": None, "_failed": None, "_heard": []}

    def _open(self) -> Producer:
        if self._producer is None:
            self._failed, self._heard = None, []
            settings = {
                "linger.ms": 5,
                "message.timeout.ms": int(self.options.timeout * 1000),
                **self.options.client,
                "enable.idempotence": True,
                "delivery.report.only.error": True,
                "on_delivery": self._delivered,
                "error_cb": lambda problem: self._heard.append(problem.str()),
            }
            self._producer = make_client(Producer, settings)
        return self._producer

    def _enqueue(self, producer: Producer, key: bytes | None, value: bytes) -> None:
        """Hands over one message, waiting for room if the client's queue is full."""
        deadline = 0.0
        while self._failed is None:
            try:
                producer.produce(self.options.topic, value, key)
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
        said = [self._failed or "", *self._heard[-1:]]
        return KafkaError(
            f"Kafka at {self.options.servers} did not take rows for topic {self.options.topic}: {'; '.join(said)}.",
            hint="Check the topic, the brokers and the rights of the user; then send the batch again.",
        )

    def _silence(self) -> KafkaError:
        doing = f"acknowledge rows for topic {self.options.topic}"
        return unreachable(self.options.servers, doing, self.options.timeout, self._heard)


def messages(rows: pa.Table, key: str | None) -> Iterator[tuple[bytes | None, bytes]]:
    """The key and the value of each row's message."""
    at = None if key is None else rows.column_names.index(key)
    for part in rows.to_batches(max_chunksize=_ROWS):
        for values in zip(*(_values(c) for c in part.columns), strict=True):
            yield None if at is None else _key(values[at]), _json(dict(zip(rows.column_names, values, strict=True)))


def _values(column: pa.Array) -> list[Any]:
    if column.type == pa.float32():  # 0.1 must not become 0.10000000149011612
        column = column.cast(pa.string()).cast(pa.float64())
    return list(column.to_pylist())


def _key(value: Any) -> bytes | None:
    """Text and binary as they are, null as no key, anything else as in JSON."""
    if value is None or isinstance(value, bytes):
        return value
    return value.encode() if isinstance(value, str) else _json(value)


def _json(value: Any) -> bytes:
    try:
        return _STRICT.encode(value).encode()
    except ValueError:  # JSON has no number for NaN and the infinities
        return _STRICT.encode(_finite(value)).encode()


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _finite(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_finite(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


def _spelled(value: Any) -> Any:
    """What JSON has no form for. A time without a zone is in UTC, as everywhere in Eddyline."""
    if isinstance(value, dt.datetime):
        utc = value if value.tzinfo is None else value.astimezone(dt.UTC).replace(tzinfo=None)
        return f"{utc.isoformat(timespec='microseconds')}Z"
    if isinstance(value, dt.date | dt.time):
        return value.isoformat()
    if isinstance(value, dt.timedelta):
        return value // dt.timedelta(microseconds=1)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, Decimal):
        return str(value)
    raise DataError(f"A value of type {type(value).__name__} has no form in JSON.", hint="Cast it to STRING.")


_STRICT = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_spelled)

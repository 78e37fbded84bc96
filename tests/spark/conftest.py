"""What the tests of the Spark host share: a session, a Kafka cluster inside the client library, temporary folders."""

from __future__ import annotations

import os
import socket
import struct
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from uuid import uuid4

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from tests.spark.job import QUICK


@pytest.fixture(scope="session", autouse=True)
def _own_key(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Functions are approved by a key of the tests, in this process and those it starts."""
    os.environ["EDDYLINE_KEY_FILE"] = str(tmp_path_factory.mktemp("key") / "key")


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = (
        SparkSession.builder.master("local[2]")
        .appName("tests")
        .config("spark.driver.memory", "1g")
        .config("spark.driver.extraJavaOptions", QUICK)
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


class Kafka:
    """librdkafka's own cluster: real brokers' protocol on loopback, four partitions to a topic, 5 MB to a partition.

    It lasts as long as its producer, and other processes can use it.
    """

    def __init__(self) -> None:
        self.producer = Producer({"bootstrap.servers": "", "test.mock.num.brokers": 1, "log_level": 2})
        broker = self.producer.list_topics(timeout=10).brokers[1]
        self.host, self.port = broker.host, broker.port
        self.servers = f"{self.host}:{self.port}"

    def create(self, topic: str) -> None:
        self.producer.list_topics(topic, timeout=10)

    def topics(self) -> set[str]:
        return set(self.producer.list_topics(timeout=10).topics)

    def send(
        self, topic: str, partition: int, values: Sequence[bytes | None], key: bytes | None = None, ms: int = 0
    ) -> None:
        for value in values:
            self.producer.produce(topic, value, key, partition, timestamp=ms)
            self.producer.poll(0)
        assert self.producer.flush(10) == 0

    def send_raw(self, topic: str, partition: int, records: dict[int, bytes], offsets: int, control: bool) -> None:
        """Appends a batch with records at a few of its offsets only, as transactions and compaction leave them."""
        after = struct.pack(">hiqqqhii", 0x30 if control else 0, offsets - 1, 0, 0, -1, -1, -1, offsets)
        after += b"".join(_record(delta, value) for delta, value in records.items())
        batch = struct.pack(">ibI", 0, 2, _crc32c(after)) + after
        batch = struct.pack(">qi", 0, len(batch)) + batch
        name = topic.encode()
        body = struct.pack(">hhiih", -1, -1, 5000, 1, len(name)) + name + struct.pack(">iii", 1, partition, len(batch))
        request = struct.pack(">hhih", 0, 3, 1, -1) + body + batch  # Produce, version 3
        with socket.create_connection((self.host, self.port), 10) as connection:
            connection.sendall(struct.pack(">i", len(request)) + request)
            answer = connection.recv(4096)
        (error,) = struct.unpack_from(">h", answer, 4 + 4 + 4 + 2 + len(name) + 4 + 4)
        assert error == 0


def _record(delta: int, value: bytes) -> bytes:
    key = b"\0\0\0\1"  # of a control record: version 0, commit
    body = b"\0" + _varint(0) + _varint(delta) + _varint(len(key)) + key + _varint(len(value)) + value + _varint(0)
    return _varint(len(body)) + body


def _varint(n: int) -> bytes:
    n, out = n << 1, b""
    while n > 127:
        n, out = n >> 7, out + bytes([n & 127 | 128])
    return out + bytes([n])


def _crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ 0x82F63B78 & -(crc & 1)
    return crc ^ 0xFFFFFFFF


@pytest.fixture(scope="session")
def kafka() -> Iterator[Kafka]:
    yield Kafka()


@pytest.fixture
def topic(kafka: Kafka) -> str:
    name = f"t{uuid4().hex}"
    kafka.create(name)
    return name


@pytest.fixture
def apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What would go to the machine's folder for temporary files goes to the test's own."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

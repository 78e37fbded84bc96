"""The options of the Kafka source and output, checked before any broker is contacted, and their errors.

They are those of Spark's own Kafka connector: `kafka.<property>` goes to the client (librdkafka, whose properties are
those of the Java client except for some about security), the others are listed in `SOURCE` and `OUTPUT`. An option that
would change which rows are read is applied or refused. Options that only tune Spark's connector are ignored.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from confluent_kafka import KafkaError as Code
from confluent_kafka import KafkaException

from eddyline.errors import Error, did_you_mean

SERVERS = "kafka.bootstrap.servers"
TIMEOUT = "kafkaConsumer.pollTimeoutMs"
SOURCE = (SERVERS, "subscribe", "startingOffsets", "maxOffsetsPerTrigger", "failOnDataLoss", TIMEOUT)
OUTPUT = (SERVERS, "topic", TIMEOUT)
TUNING = ("minPartitions", "groupIdPrefix", "fetchOffset.numRetries", "fetchOffset.retryIntervalMs")

LATEST, EARLIEST = -1, -2  # as offsets in the JSON form of startingOffsets
_TIMEOUT_MS = 60_000
_OURS = {  # properties that the source or the output sets, and what to use instead
    "auto.offset.reset": "Use option startingOffsets.",
    "enable.auto.commit": "Spark's checkpoint keeps the offsets.",
    "enable.auto.offset.store": "Spark's checkpoint keeps the offsets.",
    "enable.partition.eof": "It is always on.",
    "enable.idempotence": "It is always on.",
    "acks": "All replicas acknowledge each message.",
    "key.deserializer": "Keys come as binary; cast the column.",
    "value.deserializer": "Values come as binary; cast the column.",
    "key.serializer": "Keys are sent as text.",
    "value.serializer": "Values are sent as JSON.",
}
_JAVA_ONLY = {  # properties of the Java client, and the closest ones of librdkafka
    "sasl.jaas.config": "kafka.sasl.username and kafka.sasl.password",
    "ssl.truststore.location": "kafka.ssl.ca.location (a PEM file)",
    "ssl.truststore.password": "kafka.ssl.ca.location (a PEM file, no password)",
    "ssl.truststore.type": "kafka.ssl.ca.location (a PEM file)",
}

Client = TypeVar("Client")


class KafkaError(Error):
    """A Kafka broker, topic or option that cannot be used as asked."""


@dataclass(frozen=True)
class Options:
    """The options of every client."""

    timeout: float  # seconds
    client: dict[str, str]

    @property
    def servers(self) -> str:
        return self.client["bootstrap.servers"]

    def unreachable(self, doing: str, reasons: Iterable[str]) -> KafkaError:
        """The error of a timeout; `reasons` are the messages of the client, the last is the most specific."""
        last = list(dict.fromkeys(reasons))[-2:]
        because = f" ({'; '.join(last)})" if last else ""
        return KafkaError(
            f"Kafka at {self.servers} did not {doing} within {self.timeout:g} s{because}.",
            hint=f"Check option {SERVERS}, that the brokers are up and can be reached from this machine, and the "
            f"security options; option {TIMEOUT} sets how long to wait.",
        )


@dataclass(frozen=True)
class SourceOptions(Options):
    """The topics, the starting offsets, the batch size, and the behaviour on data loss."""

    topics: tuple[str, ...]
    starting: Literal["earliest", "latest"] | dict[str, dict[int, int]]
    max_offsets: int | None
    fail_on_data_loss: bool

    @property
    def isolation(self) -> str:
        return self.client.get("isolation.level", "read_uncommitted")  # Spark's default; librdkafka's differs


@dataclass(frozen=True)
class OutputOptions(Options):
    """Where to send messages."""

    topic: str


def source_options(options: Mapping[str, str]) -> SourceOptions:
    given = _lowered(options, SOURCE)
    topics = tuple(dict.fromkeys(t.strip() for t in _needed(given, "subscribe").split(",") if t.strip()))
    if not topics:
        raise KafkaError("Option subscribe names no topic.", hint="Name one or more, separated by commas.")
    limit = given.get("maxoffsetspertrigger")
    loss = given.get("failondataloss", "true").strip().lower()
    if loss not in ("true", "false"):
        raise KafkaError(f"Option failOnDataLoss is {loss!r}.", hint="It is true or false.")
    return SourceOptions(
        topics=topics,
        starting=_starting(given.get("startingoffsets", "latest").strip(), topics),
        max_offsets=None if limit is None else _positive("maxOffsetsPerTrigger", limit),
        fail_on_data_loss=loss == "true",
        timeout=_timeout(given),
        client=_client(given),
    )


def output_options(options: Mapping[str, str]) -> OutputOptions:
    given = _lowered(options, OUTPUT)
    return OutputOptions(topic=_needed(given, "topic"), timeout=_timeout(given), client=_client(given))


def make_client(make: Callable[[dict[str, Any]], Client], properties: Mapping[str, Any]) -> Client:
    """A consumer, producer or admin client; a property that it does not take is an error."""
    try:
        return make({"log_level": 2, **properties})  # its messages are part of our errors, not printed to stderr
    except KafkaException as problem:
        reason = problem.args[0].str()
        java = [f"In place of kafka.{p} use {use}." for p, use in _JAVA_ONLY.items() if p in properties]
        hint = " ".join(java) or "Options kafka.<property> take the properties of librdkafka."
        raise KafkaError(f"The Kafka client refuses its options: {reason}", hint=hint) from None


def collecting_errors(messages: list[str]) -> Callable[[Code], None]:
    """An error callback of a client: it collects the causes, not the resulting `_ALL_BROKERS_DOWN`."""

    def collect(error: Code) -> None:
        if error.code() != Code._ALL_BROKERS_DOWN and error.str() not in messages[-2:]:
            messages.append(error.str())

    return collect


def _lowered(options: Mapping[str, str], known: Iterable[str]) -> dict[str, str]:
    """The options by their names in lower case, none of them unknown."""
    names = {k.lower() for k in (*known, *TUNING)}
    given = {k.lower(): v for k, v in options.items()}
    if given.get("includeheaders", "").lower() == "false":
        del given["includeheaders"]
    for name in given:
        if name not in names and not name.startswith("kafka."):
            shown = next(k for k in options if k.lower() == name)
            raise KafkaError(f"Kafka has no option {shown!r} here.", hint=did_you_mean(shown, known))
    return given


def _needed(given: Mapping[str, str], option: str) -> str:
    value = given.get(option, "").strip()
    if not value:
        raise KafkaError(f"Kafka needs option {option}.", hint=f"Add {option} to its OPTIONS.")
    return value


def _client(given: Mapping[str, str]) -> dict[str, str]:
    _needed(given, SERVERS)
    client = {k.removeprefix("kafka."): v for k, v in given.items() if k.startswith("kafka.")}
    for name, instead in _OURS.items():
        if name in client:
            raise KafkaError(f"Option kafka.{name} cannot be set.", hint=instead)
    return client


def _positive(option: str, text: str) -> int:
    if not text.strip().isdecimal() or int(text) < 1:
        raise KafkaError(f"Option {option} is {text!r}.", hint="It is a whole number from 1 on.")
    return int(text)


def _timeout(given: Mapping[str, str]) -> float:
    return _positive(TIMEOUT, given.get(TIMEOUT.lower(), str(_TIMEOUT_MS))) / 1000


def _starting(text: str, topics: tuple[str, ...]) -> Literal["earliest", "latest"] | dict[str, dict[int, int]]:
    hint = (
        'It is earliest, latest, or offsets in JSON such as {"topic": {"0": 23, "1": -2}}; -2 is earliest, -1 latest.'
    )
    match text.lower():
        case "earliest" | "latest" as named:
            return named
    try:
        offsets = {t: {int(p): _offset(o) for p, o in ps.items()} for t, ps in json.loads(text).items()}
    except (ValueError, AttributeError):
        raise KafkaError(f"Option startingOffsets is {text!r}.", hint=hint) from None
    if offsets.keys() != set(topics):
        differing = ", ".join(sorted(offsets.keys() ^ set(topics)))
        raise KafkaError(
            f"Options startingOffsets and subscribe do not name the same topics: {differing}.",
            hint="Name each topic in both.",
        )
    return offsets


def _offset(value: Any) -> int:
    if type(value) is not int or value < EARLIEST:
        raise ValueError
    return value

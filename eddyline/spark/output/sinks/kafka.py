"""Sinks USING kafka: each row is a message (`kafka/output.py`)."""

from __future__ import annotations

from collections.abc import Mapping

from eddyline.errors import CatalogError
from eddyline.spark.catalog.references import has_reference
from eddyline.spark.output.sending import Sending, SendingSink
from eddyline.sql.catalog import Sink

CLIENT_OPTIONS = (
    "kafkaconsumer.polltimeoutms",
    *(
        f"kafka.{name}"
        for name in (
            "bootstrap.servers", "client.id", "client.rack", "security.protocol", "sasl.mechanism", "sasl.mechanisms",
            "sasl.username", "sasl.password", "compression.type", "compression.codec", "linger.ms", "batch.size",
            "batch.num.messages", "message.max.bytes", "max.request.size", "request.timeout.ms", "delivery.timeout.ms",
            "message.timeout.ms", "socket.timeout.ms", "retries", "retry.backoff.ms", "metadata.max.age.ms",
            "broker.address.family", "isolation.level", "fetch.max.bytes", "fetch.min.bytes",
            "max.partition.fetch.bytes",
        )
    ),
)  # fmt: skip


class Kafka(SendingSink):
    options = ("topic", *CLIENT_OPTIONS)

    def check(self, sink: Sink, options: Mapping[str, str]) -> None:
        from eddyline.spark.kafka.options import KafkaError, output_options

        if any(has_reference(value) for value in options.values()):
            return  # they are resolved and checked when the pipeline starts
        try:
            output_options(options)
        except KafkaError as e:
            raise CatalogError(f"The sink {sink.name!r} cannot send to Kafka: {e.message}", hint=e.hint) from None

    def send(self, rows: Sending) -> None:
        from eddyline.spark.kafka.output import KafkaOutput

        with KafkaOutput(rows.options, epoch=rows.epoch) as output:
            for table in rows.tables():
                output.send(table)


KAFKA = Kafka()

"""The registry of sinks on Spark: file sinks, and the kinds that send rows elsewhere."""

from __future__ import annotations

from collections.abc import Collection

from eddyline.delivery.sinks import FILE_SINKS
from eddyline.delivery.sinks.file_sink import FileSink
from eddyline.spark.output.sending import SendingSink
from eddyline.spark.output.sinks.console import CONSOLE
from eddyline.spark.output.sinks.foreach_batch import FOREACH_BATCH, lacks_function
from eddyline.spark.output.sinks.kafka import KAFKA
from eddyline.spark.output.sinks.spark_format import ANY_FORMAT, CSV, NOOP, ORC, XML
from eddyline.sql.catalog import Sink

SENDING_SINKS: dict[str, SendingSink] = {
    "console": CONSOLE,
    "foreach_batch": FOREACH_BATCH,
    "kafka": KAFKA,
    "csv": CSV,
    "orc": ORC,
    "xml": XML,
    "noop": NOOP,
}


def known_options() -> dict[str, tuple[str, ...]]:
    """The registered formats, with the options that every author may use."""
    return {name: kind.options for name, kind in {**FILE_SINKS, **SENDING_SINKS}.items()}


def kind_of(sink: Sink) -> FileSink | SendingSink:
    """The kind of a sink; a format that is not registered is one of Spark's."""
    name = sink.external.format.lower()
    return FILE_SINKS.get(name) or SENDING_SINKS.get(name, ANY_FORMAT)


def require_function(sink: Sink, registered: Collection[str]) -> None:
    """Raises if a sink needs a Python function; `registered` are the sinks, in lower case, that have one."""
    if kind_of(sink).needs_function and sink.name.lower() not in registered:
        raise lacks_function(sink)

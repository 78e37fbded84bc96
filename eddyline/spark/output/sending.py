"""Sends the staged rows of a micro-batch to sinks that are not file sinks.

A retried micro-batch is sent again, with the same (batch, position) on every row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from eddyline.delivery.marks import Epoch
from eddyline.spark.catalog.externals import owner_of
from eddyline.spark.catalog.references import resolved
from eddyline.sql.catalog import Sink

SHOWN = 20  # rows of a batch on the console
Consumer = Callable[[DataFrame, int], None]  # a function of the user, for a sink USING foreach_batch


@dataclass(frozen=True)
class Sending:
    """The rows of a micro-batch for one folder of a sink."""

    sink: Sink
    folder: str  # below the sink's path; empty: the path itself
    files: Sequence[str]
    batch: int


def send(rows: Sending, epoch: Epoch, spark: SparkSession | None, consumer: Consumer | None) -> None:
    """`spark` is needed if Spark writes the rows, and `consumer` if the sink is a function of the user."""
    match rows.sink.external.format.lower():
        case "console":
            show(rows)
        case "kafka":
            from eddyline.spark.kafka.output import KafkaOutput

            with KafkaOutput(resolved(rows.sink.external.options, owner_of(rows.sink)), epoch=epoch.id) as output:
                for f in rows.files:
                    output.send(pq.read_table(f))
        case "foreach_batch":
            assert spark is not None and consumer is not None
            consumer(spark.read.parquet(*rows.files), rows.batch)
        case _:
            assert spark is not None
            options = resolved(rows.sink.external.options, owner_of(rows.sink))
            if rows.folder and "path" in options:
                options["path"] = f"{options['path'].rstrip('/')}/{rows.folder}"
            writer = spark.read.parquet(*rows.files).write.format(rows.sink.external.format)
            writer.options(**options).mode("append").save()


def show(rows: Sending) -> None:
    table = pa.concat_tables([pq.read_table(f) for f in rows.files])
    place = f"{rows.sink.name}{'/' if rows.folder else ''}{rows.folder}"
    print(f"-- {place}, batch {rows.batch}: {table.num_rows} changes")
    print(table.slice(0, SHOWN).to_pandas().to_string(index=False))
    if table.num_rows > SHOWN:
        print(f"… and {table.num_rows - SHOWN} more")

"""Sinks USING foreach_batch: a Python function of the user gets a DataFrame for each micro-batch."""

from __future__ import annotations

from eddyline.errors import CatalogError
from eddyline.spark.output.sending import Sending, SendingSink
from eddyline.sql.catalog import Sink


class ForeachBatch(SendingSink):
    needs_function = True

    def send(self, rows: Sending) -> None:
        if rows.consumer is None:
            raise lacks_function(rows.sink)
        rows.consumer(rows.frame(), rows.batch)


def lacks_function(sink: Sink) -> CatalogError:
    hint = f"pipe.foreach_batch({sink.name!r}, function)."
    return CatalogError(f"The sink {sink.name!r} has no function.", hint=hint)


FOREACH_BATCH = ForeachBatch()

"""Sinks USING any format of Spark: rows are appended by a DataFrameWriter.

A repeated micro-batch is appended again, with the same (batch, position) in its rows.
"""

from __future__ import annotations

from eddyline.spark.output.sending import Sending, SendingSink

TEXT_OPTIONS = (
    "path", "compression", "encoding", "linesep", "dateformat", "timestampformat", "timestampntzformat", "locale",
)  # fmt: skip
CSV_OPTIONS = (
    *TEXT_OPTIONS, "header", "sep", "delimiter", "quote", "escape", "comment", "nullvalue", "emptyvalue", "quoteall",
)  # fmt: skip
XML_OPTIONS = (*TEXT_OPTIONS, "rowtag", "roottag", "declaration", "nullvalue")


class SparkFormat(SendingSink):
    def __init__(self, options: tuple[str, ...]) -> None:
        self.options = options

    def send(self, rows: Sending) -> None:
        options = dict(rows.options)
        if rows.folder and "path" in options:
            options["path"] = f"{options['path'].rstrip('/')}/{rows.folder}"
        rows.frame().write.format(rows.sink.external.format).options(**options).mode("append").save()


ANY_FORMAT = SparkFormat(("path",))
CSV = SparkFormat(CSV_OPTIONS)
ORC = SparkFormat(("path", "compression"))
XML = SparkFormat(XML_OPTIONS)
NOOP = SparkFormat(())

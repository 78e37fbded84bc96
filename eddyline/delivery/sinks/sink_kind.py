"""The base class of all kinds of sinks.

Workers stage the changes of a micro-batch as files, and the driver commits them. How they are committed depends on the
shape of the kind: a `FileSink` has its staged files moved into its folder, a `SendingSink` (`spark/output/sending.py`)
reads them and sends their rows elsewhere. A kind has no state: the declared sink is an argument.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from eddyline.sql.catalog import Sink

FORMAT = 1  # of what sinks write


class SinkKind:
    options: tuple[str, ...] = ()  # names in lower case: SQL that others add to a pipeline may use only these
    suffix = "parquet"  # of staged files
    needs_function = False  # whether a Python function must be registered for each sink

    def check(self, sink: Sink, options: Mapping[str, str]) -> None:
        """Raises a CatalogError if the sink cannot be used with these options.

        Called when it is declared, and when a pipeline starts, then with references resolved (`${env:NAME}`).
        """

    def stage(self, rows: pa.Table, file: Path) -> None:
        """Writes rows to a staged file, on a worker."""
        marked = rows.replace_schema_metadata({"eddyline.format": str(FORMAT)})
        pq.write_table(marked, file, compression="zstd", compression_level=1)

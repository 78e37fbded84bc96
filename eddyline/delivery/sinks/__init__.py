"""The registry of file sinks, by their format, which is also the suffix of their files.

The registry of all sinks on Spark is in `spark/output/sinks/`. `CONTRIBUTING.md` explains how to add a sink.
"""

from __future__ import annotations

from eddyline.delivery.sinks.file_sink import FileSink
from eddyline.delivery.sinks.json_lines import JSON_LINES
from eddyline.delivery.sinks.parquet import PARQUET

FILE_SINKS: dict[str, FileSink] = {kind.suffix: kind for kind in (PARQUET, JSON_LINES)}

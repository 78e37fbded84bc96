"""A file sink as a contributor would add it: sinks USING arrow, whose files are of Arrow's own format."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import feather

from eddyline.delivery.sinks.file_sink import LAST, FileSink


class ArrowFile(FileSink):
    suffix = "arrow"

    def stage(self, rows: pa.Table, file: Path) -> None:
        feather.write_feather(rows, str(file))

    def read(self, file: Path, after: int = -1, upto: int = LAST, columns: Sequence[str] | None = None) -> pa.Table:
        rows = feather.read_table(file, columns)
        return rows.filter((pc.field("batch") > after) & (pc.field("batch") <= upto))

    def columns(self, file: Path) -> pa.Schema:
        return feather.read_table(file).schema

    def merge(self, files: Sequence[Path], to: Path) -> None:
        self.stage(pa.concat_tables(self.read(f) for f in files), to)

    def copy_before(self, file: Path, first: int, to: Path) -> int:
        rows = self.read(file, upto=first - 1)
        self.stage(rows, to)
        return pc.max(rows.column("batch")).as_py() if rows.num_rows else -1


ARROW_FILE = ArrowFile()

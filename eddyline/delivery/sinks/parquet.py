"""Sinks USING parquet: compressed columns."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from eddyline.delivery.sinks.file_sink import LAST, FileSink

_ROWS = 131_072  # of a row group


class Parquet(FileSink):
    suffix = "parquet"

    def read(self, file: Path, after: int = -1, upto: int = LAST, columns: Sequence[str] | None = None) -> pa.Table:
        with pq.ParquetFile(file) as opened:
            rows = opened.read(columns).replace_schema_metadata(None)
        batch = rows.column("batch")
        return rows.filter(pc.and_(pc.greater(batch, after), pc.less_equal(batch, upto)))

    def columns(self, file: Path) -> pa.Schema:
        return pq.read_schema(file).remove_metadata()

    def merge(self, files: Sequence[Path], to: Path) -> None:
        schema = pq.read_schema(files[0])
        with pq.ParquetWriter(to, schema, compression="zstd") as out:
            pending: list[pa.RecordBatch] = []
            for file in files:
                with pq.ParquetFile(file) as opened:
                    for rows in opened.iter_batches(_ROWS):
                        pending.append(rows)
                        if sum(r.num_rows for r in pending) >= _ROWS:
                            out.write_table(pa.Table.from_batches(pending).cast(schema))
                            pending = []
            if pending:
                out.write_table(pa.Table.from_batches(pending).cast(schema))

    def copy_before(self, file: Path, first: int, to: Path) -> int:
        last = -1
        with pq.ParquetFile(file) as opened, pq.ParquetWriter(to, opened.schema_arrow, compression="zstd") as out:
            for rows in opened.iter_batches():
                kept = rows.filter(pc.less(rows.column("batch"), pa.scalar(first)))
                if not kept.num_rows:
                    break
                last = pc.max(kept.column("batch")).as_py()
                out.write_batch(kept)
        return last


PARQUET = Parquet()

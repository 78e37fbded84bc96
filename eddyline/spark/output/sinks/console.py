"""Sinks USING console: the first rows of each micro-batch are printed."""

from __future__ import annotations

import pyarrow as pa

from eddyline.spark.output.sending import Sending, SendingSink

SHOWN = 20  # rows of a micro-batch


class Console(SendingSink):
    def send(self, rows: Sending) -> None:
        table = pa.concat_tables(rows.tables())
        place = f"{rows.sink.name}{'/' if rows.folder else ''}{rows.folder}"
        print(f"-- {place}, batch {rows.batch}: {table.num_rows} changes")
        print(table.slice(0, SHOWN).to_pandas().to_string(index=False))
        if table.num_rows > SHOWN:
            print(f"… and {table.num_rows - SHOWN} more")


CONSOLE = Console()

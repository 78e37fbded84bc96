"""Sinks USING json: one JSON object a line, in the stable format of `delivery/json_rows.py`.

Merging and copying keep the text of each line.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from eddyline.delivery.json_rows import json_rows
from eddyline.delivery.sinks.file_sink import LAST, FileSink


class JsonLines(FileSink):
    suffix = "json"

    def stage(self, rows: pa.Table, file: Path) -> None:
        with file.open("w", encoding="utf-8") as out:
            out.writelines(f"{line}\n" for part in rows.to_batches() for line in json_rows(part).to_pylist())

    def read(self, file: Path, after: int = -1, upto: int = LAST, columns: Sequence[str] | None = None) -> pa.Table:
        with file.open(encoding="utf-8") as lines:
            rows = [row for line in lines if after < (row := json.loads(line))["batch"] <= upto]
        return pa.Table.from_pylist(rows if columns is None else [{c: row[c] for c in columns} for row in rows])

    def merge(self, files: Sequence[Path], to: Path) -> None:
        with to.open("wb") as out:
            for file in files:
                with file.open("rb") as lines:
                    shutil.copyfileobj(lines, out)

    def copy_before(self, file: Path, first: int, to: Path) -> int:
        last = -1
        with file.open(encoding="utf-8") as lines, to.open("w", encoding="utf-8") as out:
            for line in lines:
                batch = json.loads(line)["batch"]
                if batch >= first:
                    break
                out.write(line)
                last = batch
        return last


JSON_LINES = JsonLines()

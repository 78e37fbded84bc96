"""Delivery: the driver's part of a micro-batch, after all buckets have reported.

What was staged is committed sink by sink, and how the clocks stand is written down for the next micro-batch. Everything
here can be done again after an interruption, with the same outcome.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from eddyline.spark.mirror import Mirror
from eddyline.spark.outputs import DEAD_LETTER, Staged, commit_files, place_of
from eddyline.spark.settings import Settings

KEPT = 100  # clocks of so many past micro-batches stay, as Spark's own offsets do


class Delivery:
    def __init__(self, settings: Settings, mirror: Mirror) -> None:
        self.settings = settings
        self.mirror = mirror
        self.reports: dict[int, Sequence[dict[str, Any]]] = {}

    def commit(self, batch: int, reports: Sequence[dict[str, Any]]) -> None:
        staged = [Staged(**s) for r in reports for s in (*r["staged"], *(x for p in r["packed"] for x in p["staged"]))]
        commit_files(self.settings.own / "dead_letter", [s for s in staged if s.sink == DEAD_LETTER], batch, "parquet")
        for sink in self.mirror.catalog.sinks:
            mine = [s for s in staged if s.sink == sink.name]
            commit_files(place_of(sink, self.settings), mine, batch, "parquet")
        self._write_clocks(batch, reports[0]["clocks"])
        self.reports[batch] = reports

    def _write_clocks(self, batch: int, clocks: dict[str, Any]) -> None:
        file = self.settings.clocks_file(batch)
        write_whole(file, json.dumps(clocks))
        self.settings.clocks_file(batch - KEPT).unlink(missing_ok=True)


def write_whole(file: Path, text: str) -> None:
    """Writes a file that is there whole or not at all."""
    file.parent.mkdir(parents=True, exist_ok=True)
    beside = file.with_name(f".{file.name}")
    with beside.open("w") as f:
        f.write(text)
        f.flush()
        os.fsync(f.fileno())
    os.replace(beside, file)

"""What is fixed for the life of a run, and known to every process of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from eddyline.spark.commits import CommitLog


@dataclass(frozen=True)
class Settings:
    checkpoint: str
    buckets: int
    clock_policy: Literal["min", "max"]
    base: str  # relative paths of sinks begin here
    on_bad_rows: Literal["set apart", "stop"]
    token: str  # what residents and workers know each other by

    @property
    def own(self) -> Path:
        """Eddyline's own files beside those of Spark's checkpoint."""
        return Path(self.checkpoint) / "eddyline"

    def log(self) -> CommitLog:
        return CommitLog(self.own / "catalog")

    @property
    def staging(self) -> Path:
        return self.own / "staged"

    def clocks_file(self, batch: int) -> Path:
        return self.own / "clocks" / f"{batch:09}.json"

    def sink_path(self, path: str) -> Path:
        return Path(self.base) / path.removeprefix("file://")

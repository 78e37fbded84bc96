"""What is fixed for the life of a run, or for one micro-batch, and known to every process of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from eddyline.spark.commits import CommitLog


@dataclass(frozen=True)
class Settings:
    checkpoint: str
    buckets: int
    clock_policy: Literal["min", "max"]
    base: str  # relative paths of sinks begin here
    on_bad_rows: Literal["set apart", "stop"]
    on_error: Literal["quarantine", "null"]  # for queries that say nothing themselves

    @property
    def own(self) -> Path:
        """Eddyline's own files beside those of Spark's checkpoint."""
        return Path(self.checkpoint) / "eddyline"

    def log(self) -> CommitLog:
        from eddyline.spark.commits import CommitLog

        return CommitLog(self.own / "catalog")

    @property
    def staging(self) -> Path:
        return self.own / "staged"

    def clocks_file(self, batch: int) -> Path:
        return self.own / "clocks" / f"{batch:09}.json"

    def sink_path(self, path: str) -> Path:
        return Path(self.base) / path.removeprefix("file://")


@dataclass(frozen=True)
class Moment:
    """What a micro-batch is, the same for all its partitions."""

    batch: int
    version: int  # of the catalog
    now: int  # wall clock, milliseconds
    clocks: dict[str, Any]  # by stream: how its clock stood before

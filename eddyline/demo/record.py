"""The record of a run of the demo, for its summary and its plot. Times are seconds since 1970."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from eddyline.arrays import Doubles
from eddyline.demo.market import COLUMNS
from eddyline.spark.run.progress import BatchFigures


@dataclass(frozen=True, slots=True)
class Written:
    """A file of input."""

    at: float
    rows: int


@dataclass(frozen=True, slots=True)
class AlertChurn:
    """Alerts that were registered and dropped at the same time."""

    at: float
    added: int
    dropped: int


@dataclass
class Record:
    begun: float
    registering: float = 0.0  # seconds
    first_results: float | None = None
    batches: list[BatchFigures] = field(default_factory=list)
    written: dict[str, list[Written]] = field(default_factory=lambda: {name: [] for name in COLUMNS})
    churn: list[AlertChurn] = field(default_factory=list)

    @property
    def added(self) -> int:
        return sum(c.added for c in self.churn)

    @property
    def dropped(self) -> int:
        return sum(c.dropped for c in self.churn)

    def changes(self) -> dict[str, int]:
        """By family."""
        return {name: sum(f.families[name].changes for f in self.batches) for name in self.batches[-1].families}

    def latencies(self) -> list[Doubles]:
        """By micro-batch: for each of its rows, the seconds from when its file was written to when it was delivered."""
        waits_by_batch = [[np.empty(0)] for _ in self.batches]
        for name, written in self.written.items():
            taken = delivered_in(written, [f.streams[name].rows for f in self.batches])
            for file, batch in zip(written, taken, strict=True):
                if batch < len(waits_by_batch):
                    waits_by_batch[batch].append(np.full(file.rows, self.batches[batch].ended - file.at))
        return [np.concatenate(waits) for waits in waits_by_batch]


def delivered_in(written: Sequence[Written], rows: Sequence[int]) -> npt.NDArray[np.int64]:
    """The micro-batch of each file, by how many rows each took: Spark reads whole files, in the order of writing."""
    ends = np.cumsum([f.rows for f in written])
    return np.searchsorted(np.cumsum(rows), ends).astype(np.int64)

"""The load on the pipeline while it runs: writes rows as files, and registers and drops alerts."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from eddyline.demo.families import FAMILIES
from eddyline.demo.market import Market
from eddyline.demo.record import AlertChurn, Record, Written

if TYPE_CHECKING:
    from eddyline.spark.run.pipeline import Pipeline

FILE_EVERY = 1.0  # seconds
CHURN_EVERY = 1.0  # seconds
CHURN = 0.002  # alerts registered per second, as a share of all; half as many are dropped


class Feed(threading.Thread):
    """Writes the rows of each interval of wall-clock time at its end, one file per stream."""

    def __init__(self, market: Market, folder: Path, record: Record, stop: threading.Event) -> None:
        super().__init__(name="feed", daemon=True)
        self.market, self.folder, self.record, self.stop = market, folder, record, stop
        self.files = 0

    def write_first(self) -> None:
        """The rows of the last second, for the first micro-batch."""
        self._begin(time.time() - 1.0)
        self._write(round(self.market.rate))

    def run(self) -> None:
        begun = time.time() - self.market.now
        self._begin(begun)
        while not self.stop.wait(FILE_EVERY):
            count = round((time.time() - begun - self.market.now) * self.market.rate)
            if count > 0:
                self._write(count)

    def _begin(self, at: float) -> None:
        self.market.begin = np.datetime64(int(at * 1e6), "us")

    def _write(self, count: int) -> None:
        for name, rows in self.market.rows(count).items():
            at = rows.schema.get_field_index("ts")
            rows = rows.set_column(at, "ts", rows.column(at).cast(pa.timestamp("us", "UTC")))
            # Written under a hidden name, which Spark ignores, and then renamed.
            file = self.folder / name / f"{self.files:06}.parquet"
            pq.write_table(rows, file.with_name(f".{file.name}"))
            file.with_name(f".{file.name}").rename(file)
            self.record.written[name].append(Written(time.time(), count))
        self.files += 1


class Churn(threading.Thread):
    """Registers new alerts of every family, and drops the oldest, once a second."""

    def __init__(
        self, market: Market, pipe: Pipeline, counts: dict[str, int], record: Record, stop: threading.Event
    ) -> None:
        super().__init__(name="churn", daemon=True)
        self.market, self.pipe, self.record, self.stop = market, pipe, record, stop
        self.share = {name: count * CHURN for name, count in counts.items()}  # registered per second
        self.numbers = {name: (0, count) for name, count in counts.items()}  # the oldest and the next query number

    def run(self) -> None:
        while not self.stop.wait(CHURN_EVERY):
            added = dropped = 0
            for alerts in FAMILIES:
                oldest, following = self.numbers[alerts.name]
                new = int(self.market.rng.poisson(self.share[alerts.name]))
                old = min(int(self.market.rng.poisson(self.share[alerts.name] / 2)), following - oldest - 1)
                if new:
                    self.pipe.register(alerts.name, alerts.queries(self.market, following, following + new))
                if old:
                    self.pipe.drop(alerts.name, alerts.named(oldest, oldest + old))
                self.numbers[alerts.name] = (oldest + old, following + new)
                added, dropped = added + new, dropped + old
            self.record.churn.append(AlertChurn(time.time(), added, dropped))

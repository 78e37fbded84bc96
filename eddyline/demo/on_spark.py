"""The demo on Spark: one pipeline reads files that a thread writes, while alerts are registered and dropped.

Its folder has the files of both streams, `pipeline.sql`, the checkpoint, the rows of the sink (`alerts`) and the plot.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from eddyline.commands import running
from eddyline.commands.display import Display
from eddyline.demo.families import FAMILIES, sizes
from eddyline.demo.feeding import Churn, Feed
from eddyline.demo.market import COLUMNS, Market, stream
from eddyline.demo.record import Record
from eddyline.demo.summary import summary
from eddyline.errors import DataError
from eddyline.spark.run.progress import BatchFigures

if TYPE_CHECKING:
    from eddyline.spark.run.pipeline import Pipeline

TRIGGER = "1 second"
# Without its second compiler, a JVM that runs for a minute or two uses half the CPU until the first results (measured).
CONF = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"}
FILES = 5  # per stream and micro-batch, at most, so that a backlog is read in steps of a few seconds
PLOT = "demo.png"


def run(queries: int, seconds: float, rate: float, folder: Path | None, seed: int) -> int:
    """Runs the demo; returns the exit code. Without a folder, only the script and the plot are kept."""
    demo = Demo(queries, seconds, rate, _place(folder), seed)
    code = demo.run()
    if folder is None:
        for name in (*COLUMNS, "checkpoint", "alerts"):
            shutil.rmtree(demo.folder / name, ignore_errors=True)
    return code


def script(folder: Path) -> str:
    """The pipeline: two streams of files, the families, and a sink for all of them."""
    streams = [
        f"{stream(name)}\n  USING parquet OPTIONS (path '{folder / name}', maxFilesPerTrigger '{FILES}')"
        for name in COLUMNS
    ]
    sink = f"CREATE SINK alerts USING parquet OPTIONS (path '{folder / 'alerts'}')"
    return ";\n\n".join([*streams, *(alerts.statement for alerts in FAMILIES), sink]) + ";\n"


class Demo:
    def __init__(self, queries: int, seconds: float, rate: float, folder: Path, seed: int) -> None:
        self.begun = process_start()
        self.queries = queries
        self.seconds = seconds
        self.folder = folder
        self.market = Market(np.random.default_rng(seed), rate)
        self.record = Record(self.begun)
        self._threads: list[Feed | Churn] = []
        self._stop = threading.Event()

    def run(self) -> int:
        sql = self.folder / "pipeline.sql"
        sql.write_text(script(self.folder), encoding="utf-8")
        for name in COLUMNS:
            (self.folder / name).mkdir()
        print(f"{sql}:\n\n{sql.read_text(encoding='utf-8')}", flush=True)
        options = running.Options(sql, self.folder / "checkpoint", master="local[*]", trigger=TRIGGER, conf=CONF)
        try:
            code = running.run(options, self._prepare)
        finally:
            self._stop.set()
            for thread in self._threads:
                if thread.is_alive():
                    thread.join()
        if code == 0 and self.record.first_results is not None:
            self._tell()
        return code

    def _prepare(self, pipe: Pipeline, display: Display, stop: running.StopSignals) -> None:
        """Registers the alerts. After the first micro-batch, starts the threads that write rows and change alerts."""
        display.say(f"registering {self.queries:,} alerts …")
        begun = time.time()
        counts = sizes(self.queries)
        for alerts in FAMILIES:
            pipe.register(alerts.name, alerts.queries(self.market, 0, counts[alerts.name]))
        self.record.registering = time.time() - begun
        self._stop = stop.once
        pipe.listen(self._take)
        feed = Feed(self.market, self.folder, self.record, stop.once)
        feed.write_first()
        self._threads = [
            feed,
            Churn(Market(self.market.rng.spawn(1)[0], self.market.rate), pipe, counts, self.record, stop.once),
        ]

    def _take(self, f: BatchFigures) -> None:
        if not self.record.batches:
            for thread in self._threads:
                thread.start()
        self.record.batches.append(f)
        if self.record.first_results is None and f.changes:
            self.record.first_results = f.ended
            print(f"First results after {f.ended - self.begun:.1f} s.", flush=True)
            timer = threading.Timer(self.seconds, self._stop.set)
            timer.daemon = True
            timer.start()

    def _tell(self) -> None:
        from eddyline.demo.plot import plot

        print(summary(self.record, self.folder / "alerts"), flush=True)
        plot(self.record, self.folder / PLOT)
        print(f"\nPlot: {self.folder / PLOT}", flush=True)


def _place(folder: Path | None) -> Path:
    if folder is None:
        return Path(tempfile.mkdtemp(prefix="eddyline-demo-"))
    if folder.exists() and any(folder.iterdir()):
        raise DataError(f"The folder {str(folder)!r} is not empty.", hint="Give one that is new.")
    folder.mkdir(parents=True, exist_ok=True)
    return folder.resolve()


def process_start() -> float:
    """The start of the process, which includes the time of imports; in seconds since 1970."""
    ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])  # since the machine started
    return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + ticks / os.sysconf("SC_CLK_TCK")

"""What the Spark host adds to a micro-batch: its time against an empty pipeline's plus the in-process step.

The three take turns over the same rows: an empty pipeline (`spark_host.Empty`: the same files and triggers, identity
`mapInArrow`, a counting `transformWithState`), a connection that is pushed the rows, and the pipeline with 100,000
queries. The first turn warms all of them up; of every later turn the first micro-batches count for nothing, because a
start of a streaming query is in them. The ratio of a micro-batch is its seconds over the sum of the medians of the
other two. The series has every micro-batch that was measured, and what each of its seconds was spent on.
"""

from __future__ import annotations

import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import eddyline
from benchmarks._report import Figure, report
from benchmarks.spark_host import CORES, FAMILIES, STREAMS, Empty, OnSpark, queries, rows

ROWS, QUERIES = 200_000, 100_000
TURNS, PER_TURN, WARM = 4, 12, 2  # the first turn counts for nothing, nor do the first two micro-batches of a turn
MEDIAN, SLOWEST = 1.2, 1.5  # limits
# Sums over tasks; two cores share them.
OF_PACKING = ("seconds",)
OF_BUCKETS = (
    "input_seconds", "call_seconds", "restore_seconds", "step_seconds", "snapshot_seconds", "stage_seconds",
    "state_seconds", "written",
)  # fmt: skip


class InProcess:
    """A connection with the same queries; the rows of all changes are built."""

    def __init__(self, table: Mapping[str, pa.Table]) -> None:
        self.db = eddyline.connect()
        for sql in (*STREAMS.values(), *FAMILIES):
            self.db.execute(sql)
        for family, found in table.items():
            self.db.register(family, found)
        self.families = list(table)
        self.changes: list[dict[str, int]] = []  # of each family, by batch

    def take(self, batches: list[dict[str, pa.Table]]) -> list[float]:
        seconds = []
        for batch in batches:
            began = time.perf_counter()
            changes = self.db.push(batch)
            built = {family: changes.rows(family).num_rows for family in self.families}
            seconds.append(time.perf_counter() - began)
            self.changes.append(built)
        return seconds


class Observed(OnSpark):
    """A pipeline that notes, for every micro-batch, what Spark and the reports of its buckets tell about it."""

    def __init__(self, spark: Any, folder: Path, table: dict[str, pa.Table]) -> None:
        super().__init__(spark, folder, table)
        self.delivery: list[float] = []
        self.durations: list[dict[str, float]] = []

    def _note(self, figures: Any) -> None:
        from eddyline.spark.output.reports import read_reports

        super()._note(figures)
        found = read_reports(self.pipe.settings.own, figures.batch)
        assert found is not None
        self.delivery.append(found.seconds)

    def take(self, batches: list[dict[str, pa.Table]]) -> list[float]:
        self.files.put(batches)
        run = self.pipe.start(available_now=True)
        run.awaitTermination()
        run.figures()  # Spark has told of all of them
        progress = run.recentProgress
        self.durations += [{k: v / 1000 for k, v in p.durationMs.items()} for p in progress]
        return [p.durationMs["triggerExecution"] / 1000 for p in progress]

    def account(self, batch: int) -> dict[str, float]:
        """What a micro-batch was spent on: seconds of Spark's phases and of delivery; sums over tasks of the rest."""
        buckets = self.reports[batch]
        packed = [p for r in buckets for p in r["packed"]]
        sums = {f"packing {n}": float(sum(p[n] for p in packed)) for n in OF_PACKING}
        sums |= {f"buckets {n}": float(sum(r.get(n, 0) for r in buckets)) for n in OF_BUCKETS}
        return {f"spark {n}": s for n, s in self.durations[batch].items()} | sums | {"delivery": self.delivery[batch]}


def measured(hosts: Sequence[Any], batches: list[dict[str, pa.Table]]) -> list[list[float]]:
    """Seconds of each measured micro-batch of each host."""
    seconds: list[list[float]] = [[] for _ in hosts]
    for turn in range(TURNS):
        now = batches[turn * PER_TURN : (turn + 1) * PER_TURN]
        for host, found in zip(hosts, seconds, strict=True):
            taken = host.take(now)
            assert len(taken) == PER_TURN, f"{type(host).__name__} took {len(taken)} micro-batches"
            print(turn, type(host).__name__, *(f"{s:.3f}" for s in taken), flush=True)
            found += taken[WARM:] if turn else []
    return seconds


def counted() -> list[int]:
    """The numbers of the micro-batches that are measured."""
    return [i for i in range(PER_TURN, TURNS * PER_TURN) if i % PER_TURN >= WARM]


def require_equal(alone: InProcess, host: Observed) -> None:
    """Both hosts made the same number of changes, in every micro-batch, for every family."""
    numbers = {f.name: str(f.number) for f in host.pipe.catalog.registry}
    for i, (built, buckets) in enumerate(zip(alone.changes, host.reports, strict=True)):
        for family, n in built.items():
            reports = [*buckets, *(p for r in buckets for p in r["packed"])]
            made = sum(r["matches"].get(numbers[family], 0) for r in reports)
            assert made == n, f"micro-batch {i}: {made} changes of {family!r} on Spark, {n} in-process"


def _figures(spark: Any, base: Path) -> tuple[list[Figure], dict[str, Any]]:
    rng = np.random.default_rng(17)
    table = queries(rng, QUERIES)
    batches = [rows(rng, i, ROWS) for i in range(TURNS * PER_TURN)]
    load = [os.getloadavg()[0]]
    empty, alone, host = Empty(spark, base / "empty"), InProcess(table), Observed(spark, base / "whole", table)
    floor, step, whole = measured([empty, alone, host], batches)
    load.append(os.getloadavg()[0])
    require_equal(alone, host)
    median = statistics.median
    least = median(floor) + median(step)
    accounts = [host.account(i) for i in counted()]
    about = f"{QUERIES} queries, {ROWS}-row micro-batches, {len(whole)} of them"
    figures = [
        Figure("empty pipeline, median", median(floor), "s"),
        Figure("empty pipeline, slowest", max(floor), "s"),
        Figure("in-process step, median", median(step), "s"),
        Figure("in-process step, slowest", max(step), "s"),
        Figure(f"Spark host, {about}: median", median(whole), "s"),
        Figure("Spark host, slowest", max(whole), "s"),
        Figure(
            "median, as a multiple of the sum of the empty pipeline and the step", median(whole) / least, "", MEDIAN
        ),
        Figure("slowest, as a multiple of the same sum", max(whole) / least, "", SLOWEST),
        *(
            Figure(f"of a micro-batch: {name}", median(a.get(name, 0.0) for a in accounts), _unit(name))
            for name in accounts[0]
        ),
        Figure("load of the machine before", load[0], ""),
        Figure("load of the machine after", load[1], ""),
    ]
    series = {"empty": floor, "in-process": step, "Spark host": whole, "accounts": accounts}
    return figures, series


def _unit(name: str) -> str:
    return "bytes" if name.endswith("written") else "s"


def main() -> bool:
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(f"local[{CORES}]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.ui.showConsoleProgress", "false").config("spark.driver.memory", "4g")
    spark = builder.config("spark.sql.streaming.numRecentProgressUpdates", "200").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    base = Path(tempfile.mkdtemp(prefix="eddyline-bench-"))
    try:
        return report("spark_overhead", *_figures(spark, base))
    finally:
        spark.stop()
        shutil.rmtree(base, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(0 if main() else 1)

"""State grows with the windows, not with time: twenty million rows through a pipeline over fixed windows.

After every micro-batch: the rows and bytes of state, and the memory of Spark's JVM and of the residents. The figures
say how the second half of the run compares with the quarter before it.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks._memory import memory, own_jvm
from benchmarks._report import Figure, folder, report

ROWS, BATCH = int(os.environ.get("EDDYLINE_SOAK_ROWS", "20000000")), 100_000
SYMBOLS, QUERIES = 2_000, 2_000
PER_SECOND = 10_000  # of each stream, of event time: a micro-batch is five seconds
SCRIPT = """
CREATE STREAM trades (symbol INT, price DOUBLE, ts TIMESTAMP) WATERMARK ts DELAY OF INTERVAL 1 SECONDS
  USING parquet OPTIONS (path '{folder}/trades', maxFilesPerTrigger '1');
CREATE STREAM quotes (symbol INT, bid DOUBLE, ts TIMESTAMP) WATERMARK ts DELAY OF INTERVAL 1 SECONDS
  USING parquet OPTIONS (path '{folder}/quotes', maxFilesPerTrigger '1');
CREATE QUERY FAMILY above (s INT, least DOUBLE) AS
  SELECT symbol, price FROM trades WHERE symbol = :s AND price >= :least;
CREATE CONTINUOUS QUERY busy AS
  SELECT symbol, count(*) AS n, avg(price) AS mean FROM trades [RANGE 10 SECONDS] GROUP BY symbol HAVING count(*) > 80;
CREATE CONTINUOUS QUERY crossed AS SELECT t.symbol, t.price, q.bid
  FROM trades [RANGE 5 SECONDS] t, quotes [RANGE 5 SECONDS] q WHERE t.symbol = q.symbol AND q.bid - t.price > 99;
CREATE SINK out USING parquet OPTIONS (path '{folder}/out');
"""


class Feed(threading.Thread):
    """Writes input a few files ahead of the pipeline, and removes what has been read, so that the disk stays flat."""

    def __init__(self, folder: Path, batches: int) -> None:
        super().__init__(daemon=True)
        self.folder, self.batches, self.done = folder, batches, 0

    def run(self) -> None:
        rng = np.random.default_rng(3)
        for i in range(self.batches):
            while i > self.done + 4:
                time.sleep(0.05)
            for name, column in (("trades", "price"), ("quotes", "bid")):
                n = BATCH // 2
                ts = (np.arange(n) + i * n) * (1_000_000 // PER_SECOND)
                table = pa.table(
                    {
                        "symbol": pa.array(rng.integers(0, SYMBOLS, n), pa.int32()),
                        column: rng.random(n) * 100,
                        "ts": pa.array(ts).cast(pa.timestamp("us", "UTC")),
                    }
                )
                beside = self.folder / name / f".{i:06}"
                pq.write_table(table, beside)
                beside.rename(self.folder / name / f"{i:06}.parquet")

    def passed(self, batch: int) -> None:
        self.done = batch
        for name in ("trades", "quotes"):
            (self.folder / name / f"{batch - 5:06}.parquet").unlink(missing_ok=True)
        for file in (self.folder / "out").glob(f"*/part-{max(0, batch - 5):09}-*"):
            file.unlink()


def main() -> bool:
    from eddyline.spark import Pipeline
    from eddyline.spark.run.spark_session import session

    folder = Path(tempfile.mkdtemp(prefix="eddyline-soak-"))
    for name in ("trades", "quotes"):
        (folder / name).mkdir()
    (folder / "pipeline.sql").write_text(SCRIPT.replace("{folder}", str(folder)))
    spark = session("local[2]", "soak")
    try:
        pipe = Pipeline(spark, folder / "pipeline.sql", folder / "ck")
        rng = np.random.default_rng(1)
        symbols, least = pa.array(rng.integers(0, SYMBOLS, QUERIES), pa.int32()), rng.random(QUERIES) * 5 + 95
        pipe.register("above", pa.table({"query": [f"a{i}" for i in range(QUERIES)], "s": symbols, "least": least}))
        feed = Feed(folder, ROWS // BATCH)
        seen: list[dict[str, float]] = []
        jvm = own_jvm()

        def note(f: Any) -> None:
            feed.passed(f.batch)
            heap, residents = memory(jvm)
            size = f.state_bytes / 2**20
            state = f.state_rows + f.shared_rows
            seen.append({"rows": f.rows, "state": state, "bytes": size, "jvm": heap, "residents": residents})

        pipe.listen(note)
        feed.start()
        run = pipe.start()
        while sum(s["rows"] for s in seen) < ROWS and run.isActive:
            time.sleep(0.5)
        run.stop()
    finally:
        spark.stop()
        shutil.rmtree(folder, ignore_errors=True)
    _plot(seen)
    return report("soak", _figures(seen))


def _figures(seen: list[dict[str, float]]) -> list[Figure]:
    half = len(seen) // 2
    first, second = seen[half // 2 : half], seen[half:]  # without the time in which windows fill

    def growth(name: str) -> float:
        return max(s[name] for s in second) / max(s[name] for s in first)

    return [
        Figure("rows", sum(s["rows"] for s in seen), "rows"),
        Figure("micro-batches", len(seen), ""),
        Figure("rows of state at the end", seen[-1]["state"], "rows"),
        Figure("the most rows of state, second half against the quarter before", growth("state"), "", 1.1),
        Figure("the most bytes kept by Spark's state, the same", growth("bytes"), "", 1.3),
        Figure("memory of the residents at the end", seen[-1]["residents"], "MB"),
        Figure("memory of the residents, second half against the quarter before", growth("residents"), "", 1.15),
        Figure("memory of the JVM at the end", seen[-1]["jvm"], "MB"),
        Figure("memory of the JVM, second half against the quarter before", growth("jvm"), "", 1.15),
    ]


def _plot(seen: list[dict[str, float]]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    rows = np.cumsum([s["rows"] for s in seen]) / 1e6
    figure, (above, below) = plt.subplots(2, 1, sharex=True, figsize=(8, 6))
    above.plot(rows, [s["state"] / 1e3 for s in seen], label="rows of state (thousands)")
    above.plot(rows, [s["bytes"] for s in seen], label="kept in Spark's state (MB)")
    below.plot(rows, [s["residents"] for s in seen], label="residents (MB)")
    below.plot(rows, [s["jvm"] for s in seen], label="Spark's JVM (MB)")
    for axes in (above, below):
        axes.set_ylim(bottom=0)
        axes.legend(loc="lower right")
        axes.grid(alpha=0.3)
    above.set_title("State and memory over a run with fixed windows")
    below.set_xlabel("million rows processed")
    figure.tight_layout()
    figure.savefig(folder() / "soak.png", dpi=110)


if __name__ == "__main__":
    sys.exit(0 if main() else 1)

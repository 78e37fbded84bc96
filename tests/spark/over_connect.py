"""What the tests of Spark Connect look at: a program of its own, for a process has one kind of session.

    python -m tests.spark.over_connect FOLDER

One session runs all of it. Below the folder, `suite/WORLD/outcome` is what the SQL cases of a world gave, pickled, or
`suite/WORLD/error` what went wrong; `observed.json` is what a user sees of other pipelines.
"""

from __future__ import annotations

import json
import os
import pickle
import sys
import threading
import traceback
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.listener import StreamingQueryListener

from eddyline.errors import Error
from eddyline.spark.run.spark_errors import as_our_errors
from tests.spark.job import session
from tests.spark.pipelines import Small
from tests.spark.suite_host import OnSpark
from tests.sql.suite import load, worlds

PIPELINE = """
CREATE STREAM s (a INT, ts TIMESTAMP) WATERMARK ts DELAY OF INTERVAL 0 SECONDS USING parquet OPTIONS (path '{in}/s');
CREATE CONTINUOUS QUERY q AS SELECT a FROM s WHERE a > 1;
"""


class OwnListener(StreamingQueryListener):
    """As a user may add one to the session of a pipeline."""

    def __init__(self) -> None:
        self.batches: list[int] = []
        self.ended = threading.Event()

    def onQueryStarted(self, event: Any) -> None: ...

    def onQueryProgress(self, event: Any) -> None:
        self.batches.append(event.progress.batchId)

    def onQueryIdle(self, event: Any) -> None: ...

    def onQueryTerminated(self, event: Any) -> None:
        self.ended.set()


def small(spark: SparkSession, folder: Path, script: str = PIPELINE, **options: Any) -> Small:
    folder.mkdir()
    found = Small(spark, folder, script, **options)
    found.put("s", [{"a": a, "ts": a} for a in (1, 2, 3)])
    return found


def as_error(action: Any) -> str:
    """The error that an action ends in, as it is shown to the user; empty if it ends in none."""
    try:
        with as_our_errors():
            action()
    except Error as e:
        return f"{type(e).__name__}: {e}"
    return ""


def watched(spark: SparkSession, folder: Path) -> dict[str, Any]:
    """Figures, listeners, a function for rows, and a change of the catalog while the pipeline runs."""
    it = small(spark, folder)
    taken = str(folder / "taken")

    def take(rows: DataFrame, batch: int) -> None:
        with open(taken, "a") as f:
            own = rows.sparkSession.range(2).count()
            f.write(f"{batch} {sorted(r.a for r in rows.collect())} {own} {os.getpid()}\n")

    it.pipe.foreach_batch("q", take)
    figures: list[Any] = []
    it.pipe.listen(lambda f: figures.append((f.batch, f.rows, f.changes, f.queries, f.seconds > 0)))
    own, lock = OwnListener(), threading.Lock()
    run = it.pipe.start()
    it.pipe.spark.streams.addListener(own)
    run.processAllAvailable()
    it.pipe.execute("CREATE CONTINUOUS QUERY later AS SELECT a + 10 AS a FROM s WHERE a > 3")
    run.processAllAvailable()  # it takes effect at the next micro-batch, which may have been planned
    it.put("s", [{"a": 4, "ts": 4}])
    run.processAllAvailable()
    late = as_error(lambda: it.pipe.foreach_batch("later", take))
    run.stop()
    assert own.ended.wait(60)
    it.pipe.spark.streams.removeListener(own)  # Spark's server waits for listeners when it ends
    last = run.figures()
    lines = Path(taken).read_text().splitlines()
    return {
        "figures": figures,
        "batch": None if last is None else last.batch,
        "own": sorted(set(own.batches)),
        "taken": [line.rpartition(" ")[0] for line in lines],
        "elsewhere": str(os.getpid()) not in {line.split()[-1] for line in lines},
        "rows": sorted(row["a"] for family in ("family_1", "family_2") for row in it.rows(family)),
        "late": late,
        "unpicklable": as_error(lambda: it.pipe.foreach_batch("q", lambda *_: lock.acquire())),
    }


def failing(spark: SparkSession, folder: Path) -> dict[str, Any]:
    """A function for rows that fails, and then does not; rows that stop a run, and a trigger that is none."""
    it = small(spark, folder, on_bad_rows="stop")

    def fail(rows: DataFrame, batch: int) -> None:
        raise ValueError("my own trouble")

    it.pipe.foreach_batch("q", fail)
    failed = as_error(it.run)
    it.pipe.foreach_batch("q", lambda rows, batch: None)
    again = as_error(it.run)
    it.put("s", [{"a": "x", "ts": 9}])
    return {
        "failed": failed,
        "again": again,
        "rows": len(it.rows("family_1")),
        "bad": as_error(it.run),
        "trigger": as_error(lambda: it.pipe.start(trigger="soon")),
    }


def quarantined(spark: SparkSession, folder: Path) -> dict[str, Any]:
    it = small(spark, folder)

    def boom(a: int) -> int:
        raise ZeroDivisionError("boom")

    it.pipe.function("boom", boom, ["INT"], "INT")
    it.pipe.execute("CREATE CONTINUOUS QUERY w AS SELECT boom(a) AS b FROM s")
    it.run()
    last = it.pipe.figures()
    assert last is not None
    return {"figures": last.quarantined, "resumed": it.pipe.resume("w"), "rows": len(it.rows("family_1"))}


def suite(spark: SparkSession, base: Path) -> None:
    for folder in worlds():
        world, cases = load(folder)
        if world.only_in_process:
            continue
        own = base / folder.name
        own.mkdir(parents=True)
        try:
            (own / "outcome").write_bytes(pickle.dumps(OnSpark(spark, own).run(world, cases)))
        except Exception:
            (own / "error").write_text(traceback.format_exc())


def main(base: Path) -> None:
    spark = session("local[2]", base, "connect")
    observed = {f.__name__: f(spark, base / f.__name__) for f in (watched, failing, quarantined)}
    (base / "observed.json").write_text(json.dumps(observed))
    suite(spark, base / "suite")
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))

"""A driver program of its own: runs the pipeline below a folder, to be killed, disturbed and started again.

    python -m tests.spark.job FOLDER [--master MASTER] [--until all|told] [--buckets N] [--fail-at BATCH,…]

Below the folder it reads `pipeline.sql` and keeps its checkpoint in `ck`. It ends when everything has been processed:
all that is there now, or, `--until told`, all that is there once the file `finish` is. Functions of the pipeline are
declared here; the changes of a sink `seen` are appended, one JSON object a row, to the file `seen`, before the
micro-batches of `--fail-at` fail.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from eddyline.spark import Pipeline

ONE_FILE = str(128 * 2**20)  # as the cost of opening a file, it makes every file a partition of its own


def options(given: list[str]) -> Any:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--until", choices=["all", "told"], default="all")
    parser.add_argument("--buckets", type=int, default=2)
    parser.add_argument("--fail-at", type=lambda s: {int(n) for n in s.split(",") if n}, default=set())
    return parser.parse_args(given)


def session(master: str) -> SparkSession:
    builder = SparkSession.builder.master(master).appName("job")
    for key, value in {
        "spark.driver.memory": "1g",
        "spark.executor.memory": "1g",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.files.openCostInBytes": ONE_FILE,
        "spark.sql.streaming.minBatchesToRetain": "1000",
    }.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def main(given: list[str]) -> None:
    chosen = options(given)
    folder: Path = chosen.folder
    spark = session(chosen.master)
    spark.sparkContext.setLogLevel("ERROR")
    pipe = Pipeline(spark, folder / "pipeline.sql", folder / "ck", buckets=chosen.buckets, on_error="null")

    def consume(rows: DataFrame, batch: int) -> None:
        with (folder / "seen").open("a") as file:
            file.writelines(f"{json.dumps(r.asDict(), default=str)}\n" for r in rows.collect())
        if batch in chosen.fail_at:
            chosen.fail_at.remove(batch)
            raise RuntimeError(f"The consumer fails at {batch}.")

    if pipe.mirror.catalog.sinks.get("seen") is not None:
        pipe.foreach_batch("seen", consume)
    run = pipe.start(available_now=chosen.until == "all")
    while chosen.until == "told" and run.isActive and not (folder / "finish").exists():
        time.sleep(0.05)
    if chosen.until == "told" and run.isActive:
        run.processAllAvailable()
        run.stop()
    run.awaitTermination()  # raises if the run has failed


if __name__ == "__main__":
    main(sys.argv[1:])

"""A driver program of its own: runs the pipeline below a folder, to be killed, disturbed and started again.

    python -m tests.spark.job FOLDER [--master MASTER] [--over driver|connect] [--until all|told] [--buckets N]

Below the folder it reads `pipeline.sql` and keeps its checkpoint in `ck`. It ends when everything has been processed:
all that is there now, or, `--until told`, all that is there once the file `finish` is. The function `held(a, where)`
gives back `a`, but not while the file `hold WHERE` is there; meanwhile the process that waits is named in the folder
`holding`.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from pyspark.sql import SparkSession

from eddyline.spark import Pipeline

# For a JVM that lives for seconds.
QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
ONE_FILE = str(128 * 2**20)  # as the cost of opening a file, it makes every file a partition of its own


def options(given: list[str]) -> Any:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--over", choices=["driver", "connect"], default="driver")
    parser.add_argument("--until", choices=["all", "told"], default="all")
    parser.add_argument("--buckets", type=int, default=2)
    return parser.parse_args(given)


def session(master: str, folder: Path, over: Literal["driver", "connect"] = "driver") -> SparkSession:
    """`over` says how Spark is reached: its driver is in this process, or a server of Spark Connect has it."""
    local = folder / "spark"  # a process that is killed leaves its files behind
    local.mkdir(exist_ok=True)
    if over == "connect":
        os.environ["SPARK_TESTING"] = "1"  # the server takes a free port
    builder = SparkSession.builder.remote(master) if over == "connect" else SparkSession.builder.master(master)
    builder = builder.appName("job")
    for key, value in {
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": f"{QUICK} -Djava.io.tmpdir={local}",
        "spark.executor.extraJavaOptions": f"{QUICK} -Djava.io.tmpdir={local}",
        "spark.executor.memory": "1g",
        "spark.local.dir": str(local),
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.files.openCostInBytes": ONE_FILE,
        "spark.sql.streaming.minBatchesToRetain": "1000",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def holding(folder: str) -> Callable[[int | None, str], int | None]:
    def held(a: int | None, where: str) -> int | None:
        import os
        import time

        while os.path.exists(f"{folder}/hold {where}"):
            os.makedirs(f"{folder}/holding", exist_ok=True)
            open(f"{folder}/holding/{os.getpid()}", "w").close()
            time.sleep(0.01)
        return a

    return held


def main(given: list[str]) -> None:
    chosen = options(given)
    folder: Path = chosen.folder
    spark = session(chosen.master, folder, chosen.over)
    if chosen.over == "driver":
        spark.sparkContext.setLogLevel("ERROR")
    pipe = Pipeline(spark, folder / "pipeline.sql", folder / "ck", buckets=chosen.buckets, on_error="null")

    if pipe.catalog.catalog.functions.get("held") is None:
        pipe.function("held", holding(str(folder)), ["INT", "STRING"], "INT")
    run = pipe.start(available_now=chosen.until == "all")
    while chosen.until == "told" and run.isActive and not (folder / "finish").exists():
        time.sleep(0.05)
    if chosen.until == "told" and run.isActive:
        run.processAllAvailable()
        run.stop()
    run.awaitTermination()  # raises if the run has failed
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1:])

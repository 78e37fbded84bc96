"""What a local run starts ahead, while Spark itself starts: residents, and the Python workers of every core.

The first micro-batch would otherwise wait for them: a resident imports for one second, a worker for half of one.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any

from pyspark.sql import SparkSession

from eddyline.spark.run import stages
from eddyline.spark.worker.calling import SLOTS, call


def start_residents(master: str, executor: int) -> None:
    """Starts the residents of a local Spark; `executor` is the process id of its JVM."""
    for slot in range(min(cores(master), SLOTS)):
        _in_background(partial(_start_resident, slot, executor))


def start_workers(spark: SparkSession, master: str) -> None:
    """Runs a small job, so that Spark has loaded what Python stages need, and its workers are there."""
    tasks = cores(master)
    _in_background(lambda: spark.range(tasks, numPartitions=tasks).mapInArrow(_nothing, stages.PACKED).collect())


def cores(master: str) -> int:
    """Of a local Spark: local[2] has two, local[*] those of the machine, and local one."""
    number = re.match(r"local\[(\d+|\*)", master)
    if number is None:
        return 1
    return (os.cpu_count() or 1) if number[1] == "*" else int(number[1])


def _start_resident(slot: int, executor: int) -> None:
    call(slot, executor).close()


def _nothing(batches: Iterator[Any]) -> Iterator[Any]:
    """Spark's workers import this module, and with it what stages import."""
    for _ in batches:
        yield from ()


def _in_background(work: Callable[[], Any]) -> None:
    """What goes wrong here goes wrong again, and is told, when it is needed."""

    def attempt() -> None:
        with suppress(Exception):
            work()

    threading.Thread(target=attempt, daemon=True).start()

"""Starts residents and Python workers of a local run in advance, while Spark starts.

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
    """Runs a small job, so that Spark loads the classes of Python stages and starts its workers."""
    tasks = cores(master)
    _in_background(lambda: spark.range(tasks, numPartitions=tasks).mapInArrow(_nothing, stages.PACKED).collect())


def cores(master: str) -> int:
    """The cores of a local Spark: local[2] has two, local[*] those of the machine, and local one."""
    number = re.match(r"local\[(\d+|\*)", master)
    if number is None:
        return 1
    return (os.cpu_count() or 1) if number[1] == "*" else int(number[1])


def _start_resident(slot: int, executor: int) -> None:
    call(slot, executor).close()


def _nothing(batches: Iterator[Any]) -> Iterator[Any]:
    """Yields nothing; its purpose is that Spark's workers import this module and its imports."""
    for _ in batches:
        yield from ()


def _in_background(work: Callable[[], Any]) -> None:
    """Runs `work` in a thread. Errors are ignored: they occur again, and are reported, when the result is needed."""

    def attempt() -> None:
        with suppress(Exception):
            work()

    threading.Thread(target=attempt, daemon=True).start()

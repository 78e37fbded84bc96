"""Parallel work on portions of a batch: threads help because kernels release the interpreter's lock."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TypeVar

LARGEST = 16_384  # rows: the results of a portion stay in the cache, and the order of attributes can change after it
SMALLEST = 1_024

Result = TypeVar("Result")


def in_portions(
    rows: int, threads: int, work: Callable[[int, int], Result], largest: int | None = None
) -> list[Result]:
    """The results of `work(start, stop)` over portions that cover all rows, in their order, `largest` rows at most."""
    size = min(largest or LARGEST, max(SMALLEST, -(-rows // threads)))
    starts = range(0, rows, size)
    if threads == 1 or len(starts) < 2:
        return [work(s, min(s + size, rows)) for s in starts]
    return list(_pool(threads, os.getpid()).map(lambda s: work(s, min(s + size, rows)), starts))


def at_once(work: Sequence[Callable[[], Result]], threads: int) -> list[Result]:
    """The results of calls that do not depend on each other, in their order."""
    if threads == 1 or len(work) < 2:
        return [call() for call in work]
    return list(_pool(threads, os.getpid()).map(lambda call: call(), work))


@cache
def _pool(threads: int, process: int) -> ThreadPoolExecutor:
    """One pool for each process: a forked process has the pool, but not its threads."""
    return ThreadPoolExecutor(threads, thread_name_prefix="eddyline")

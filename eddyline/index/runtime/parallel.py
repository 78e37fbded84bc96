"""Portions of a batch, worked on by several threads at once: kernels let go of the interpreter's lock."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TypeVar

LARGEST = 16_384  # rows: so that what is written about a portion stays in the cache, and an order can change after it
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


@cache
def _pool(threads: int, process: int) -> ThreadPoolExecutor:
    """One for each process: a fork takes the pool along, but not its threads."""
    return ThreadPoolExecutor(threads, thread_name_prefix="eddyline")

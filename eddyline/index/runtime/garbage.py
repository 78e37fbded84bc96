"""Garbage collection: when to compact a structure, and how to return freed memory to the system.

A structure is compacted once more than half of its entries are unused, so compaction costs a constant per entry that
was ever added.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import numpy as np

SPARE = 1000  # unused entries that are never worth a compaction


@cache
def _trim() -> Any:
    """The C library's function that returns memory to the system; None where it has none."""
    return getattr(ctypes.CDLL(None), "malloc_trim", None)


def return_memory() -> None:
    """Returns freed memory to the system, which takes some milliseconds.

    Otherwise the process would keep 470 bytes a query after building the index of a million queries, of 17 bytes each.
    """
    trim = _trim()
    if trim is not None:
        trim(0)


def worth_compacting(total: int, used: int | np.signedinteger[Any]) -> bool:
    """Whether a structure with so many entries, of which some are used, should be compacted."""
    return bool(total > 2 * used + SPARE)

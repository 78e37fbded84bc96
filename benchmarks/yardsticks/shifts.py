"""Sorted columns with room to grow: finding a place by key and id, and making or closing a gap.

What lies behind a gap moves as a block, at the speed of memory: the loops run over views that begin at 0, so that the
compiler sees that no index is negative.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from eddyline.arrays import Ints, Ints32
from eddyline.index.runtime.kernel_cache import kernel


def longer(column: npt.NDArray[Any], room: int) -> npt.NDArray[Any]:
    """A column with so much room, what it held, and zeros behind."""
    found = np.zeros((room, *column.shape[1:]), column.dtype)
    found[: len(column)] = column
    return found


# --- kernels ---------------------------------------------------------------------------------------------------------


@kernel
def first_place(keys: Ints, ids: Ints32, begin: int, end: int, key: int, number: int) -> int:
    """The first place in begin … end, sorted by key and id, that is not before (key, number). O(log (end - begin))."""
    while begin < end:
        middle = (begin + end) // 2
        if keys[middle] < key or (keys[middle] == key and ids[middle] < number):
            begin = middle + 1
        else:
            end = middle
    return begin


@kernel
def open_gap(column: npt.NDArray[Any], at: int, end: int, by: int) -> None:
    """Moves what is in at … end up by so many places. O(end - at)."""
    view = column[at : end + by]
    for i in range(end - at - 1, -1, -1):
        view[i + by] = view[i]


@kernel
def close_gap(column: npt.NDArray[Any], at: int, end: int, by: int) -> None:
    """Moves what is in at … end down by so many places. O(end - at)."""
    view = column[at - by : end]
    for i in range(end - at):
        view[i] = view[i + by]

"""Batches of updates to a set of ranges: a sequence of inserts, under ids that are free, and removals by id."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from eddyline.arrays import Ints, Mask
from eddyline.index.runtime.kernel_cache import kernel

MOST_IDS = 2**31 - 1


class Batch(NamedTuple):
    """By update: whether it inserts a range, or else removes one; the ends of one that is removed do not matter."""

    insert: Mask
    ids: Ints
    low: Ints
    high: Ints


def inserts(ids: npt.ArrayLike, low: npt.ArrayLike, high: npt.ArrayLike) -> Batch:
    ids = np.array(ids, np.int64, ndmin=1)
    return batch(np.ones(len(ids), np.bool_), ids, low, high)


def removals(ids: npt.ArrayLike) -> Batch:
    ids = np.array(ids, np.int64, ndmin=1)
    ends = np.zeros(len(ids), np.int64)
    return batch(np.zeros(len(ids), np.bool_), ids, ends, ends)


def batch(insert: npt.ArrayLike, ids: npt.ArrayLike, low: npt.ArrayLike, high: npt.ArrayLike) -> Batch:
    """Columns of our own, of one length, with ids in bounds and no empty range."""
    ints = (np.array(column, np.int64, ndmin=1) for column in (ids, low, high))
    b = Batch(np.array(insert, np.bool_, ndmin=1), *ints)
    if len({len(column) for column in b}) > 1:
        raise ValueError(f"updates need columns of one length, got {[len(column) for column in b]}")
    if len(b.ids) and (b.ids.min() < 0 or b.ids.max() >= MOST_IDS):
        raise ValueError(f"ids must be in 0 … {MOST_IDS - 1}, got {b.ids.min()} … {b.ids.max()}")
    empty = b.insert & (b.low > b.high)
    if empty.any():
        i = int(empty.argmax())
        raise ValueError(f"range {b.ids[i]} is empty: {b.low[i]} … {b.high[i]}")
    return b


def room_for(b: Batch, room: int) -> int:
    """How long columns by id must be, with some to spare if they have to grow."""
    needed = int(b.ids.max(initial=-1)) + 1
    return room if needed <= room else max(needed, room * 5 // 4, 64)


def check(b: Batch, there: Mask) -> None:
    """Whether all updates are possible, in this order, when these ids are there. O(updates)."""
    wrong = _first_wrong(b.insert, b.ids, there)
    if wrong >= 0:
        raise ValueError(f"range {b.ids[wrong]} is {'already' if b.insert[wrong] else 'not'} there")


# --- kernels ---------------------------------------------------------------------------------------------------------


@kernel
def _first_wrong(insert: Mask, ids: Ints, there: Mask) -> int:
    """The first update that inserts what is there or removes what is not; -1 if there is none. `there` is as before."""
    valid = 0
    while valid < len(ids) and insert[valid] != there[ids[valid]]:
        there[ids[valid]] = insert[valid]
        valid += 1
    for i in range(valid - 1, -1, -1):
        there[ids[i]] = not insert[i]
    return valid if valid < len(ids) else -1

"""Slot boxes: for each query slot a range of integers along each attribute, checked one by one.

A value is accepted if it is within the range; a missing one only if the slot does not restrict the attribute. Boxes
may accept more than the queries do: they prune. Cost: O(rows * slots * attributes), which for some hundred slots is
less than the search of an index. (Document 1, section 3.2: lineage of tuples.)
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from eddyline.arrays import Ints, Mask
from eddyline.index.runtime.kernel_cache import inlined, kernel

LEAST, MOST = int(np.iinfo(np.int64).min), int(np.iinfo(np.int64).max)


class Boxes(NamedTuple):
    """By attribute and slot, the first and the last integer accepted."""

    low: Ints
    high: Ints

    def first(self, attributes: int) -> Boxes:
        """The boxes along the first attributes."""
        return Boxes(self.low[:attributes], self.high[:attributes])


class Values(NamedTuple):
    """By attribute and row, the value as an integer, and whether it is missing."""

    numbers: Ints
    missing: Mask


class Windows(NamedTuple):
    """By slot: how long a probing tuple and a stored row last, and the arrival number from which rows are visible."""

    probing: Ints
    stored: Ints
    since: Ints


class Pairing(NamedTuple):
    """Matches of probing partial results with stored rows: who probes, and the times and the arrival of both."""

    probing: Ints
    origin_ts: Ints
    ts: Ints
    arrival: Ints


@inlined
def _accepts(boxes: Boxes, values: Values, row: int, slot: int) -> bool:
    for a in range(boxes.low.shape[0]):
        low, high = boxes.low[a, slot], boxes.high[a, slot]
        if low == LEAST and high == MOST:
            continue
        if values.missing[a, row] or values.numbers[a, row] < low or values.numbers[a, row] > high:
            return False
    return True


@kernel
def accepted(boxes: Boxes, values: Values, slots: Ints) -> tuple[Ints, Ints]:
    """The pairs (row, slot) of rows and these slots whose boxes accept them, by row."""
    rows = values.numbers.shape[1]
    total = 0
    for i in range(rows):
        for slot in slots:
            if _accepts(boxes, values, i, slot):
                total += 1
    row, by = np.empty(total, np.int64), np.empty(total, np.int64)
    k = 0
    for i in range(rows):
        for slot in slots:
            if _accepts(boxes, values, i, slot):
                row[k] = i
                by[k] = slot
                k += 1
    return row, by


@inlined
def _in_windows(windows: Windows, pairs: Pairing, i: int, slot: int) -> bool:
    """Whether the stored row is visible to the query, and lasts until the probing tuple begins, and the reverse."""
    if pairs.arrival[i] < windows.since[slot]:
        return False
    if pairs.ts[i] <= pairs.origin_ts[i]:
        return bool(pairs.origin_ts[i] - pairs.ts[i] <= windows.stored[slot])
    return bool(pairs.ts[i] - pairs.origin_ts[i] <= windows.probing[slot])


@kernel
def narrowed(
    boxes: Boxes, values: Values, windows: Windows, pairs: Pairing, starts: Ints, slots: Ints
) -> tuple[Ints, Ints]:
    """The pairs (match, slot) that slots still accept. The slots of partial result p are starts[p] … starts[p + 1]."""
    total = 0
    for i in range(len(pairs.probing)):
        p = pairs.probing[i]
        for k in range(starts[p], starts[p + 1]):
            if _in_windows(windows, pairs, i, slots[k]) and _accepts(boxes, values, i, slots[k]):
                total += 1
    match, by = np.empty(total, np.int64), np.empty(total, np.int64)
    n = 0
    for i in range(len(pairs.probing)):
        p = pairs.probing[i]
        for k in range(starts[p], starts[p + 1]):
            if _in_windows(windows, pairs, i, slots[k]) and _accepts(boxes, values, i, slots[k]):
                match[n] = i
                by[n] = slots[k]
                n += 1
    return match, by

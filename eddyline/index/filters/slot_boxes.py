"""Slot boxes: for each query slot a range of integers along each attribute, checked one by one.

Sets of slots are bitmaps, one row of words for each partial result. A value is accepted if it is within the range; a
missing one only if the slot does not restrict the attribute. Boxes may accept more than the queries do: they prune.
Cost: O(rows * slots * attributes), which for some hundred slots is less than the search of an index.
(Document 1, section 3.2: lineage of tuples.)
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from eddyline.arrays import Ints, Mask, Words
from eddyline.index.runtime.kernel_cache import inlined, kernel
from eddyline.index.runtime.vectors import lowest_bit

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
    """How long rows last, by level and slot, and from which arrival number on they are visible, by slot.

    `narrowest` (by level) and `latest` say the same for all slots together: what satisfies these satisfies all.
    """

    widths: Ints
    since: Ints
    narrowest: Ints
    latest: int


class Matched(NamedTuple):
    """Partial results, each with a stored row: the place of the partial result, and the row."""

    place: Ints
    row: Ints


class Times(NamedTuple):
    """The event times of what was joined so far, by level and place; event times and arrival numbers of stored rows."""

    joined: Ints
    stored: Ints
    arrivals: Ints


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
def accepted(boxes: Boxes, values: Values, slots: int) -> Words:
    """By row, a bit for each slot whose box accepts it."""
    rows = values.numbers.shape[1]
    bits = np.zeros((rows, (slots + 63) // 64), np.uint64)
    for i in range(rows):
        for slot in range(slots):
            if _accepts(boxes, values, i, slot):
                bits[i, slot // 64] |= np.uint64(1) << np.uint64(slot % 64)
    return bits


@kernel
def having(bits: Words, mask: Words) -> Ints:
    """The rows that have a bit of the mask."""
    rows = np.empty(len(bits), np.int64)
    n = 0
    for i in range(len(bits)):
        for w in range(len(mask)):
            if bits[i, w] & mask[w]:
                rows[n] = i
                n += 1
                break
    return rows[:n]


@kernel
def wanting(bits: Words, mask: Words, wanted: Ints, nothing: int) -> Ints:
    """What each row wants if it has a bit of the mask; `nothing` if not."""
    wants = np.full(len(bits), nothing)
    for i in range(len(bits)):
        for w in range(len(mask)):
            if bits[i, w] & mask[w]:
                wants[i] = wanted[i]
                break
    return wants


@inlined
def _in_all_windows(windows: Windows, times: Times, place: int, row: int) -> bool:
    """Whether the stored row is visible to all queries, and has an instant in common with each row joined so far."""
    level, ts = len(times.joined), times.stored[row]
    inside = times.arrivals[row] >= windows.latest and windows.narrowest[level] >= 0 and windows.narrowest[0] >= 0
    for d in range(level):
        other = times.joined[d, place]
        inside &= ts - other <= windows.narrowest[d] and other - ts <= windows.narrowest[level]
    return bool(inside)


@inlined
def _in_windows(windows: Windows, times: Times, place: int, row: int, slot: int) -> bool:
    """The same for one query."""
    if times.arrivals[row] < windows.since[slot]:
        return False
    level, ts = len(times.joined), times.stored[row]
    for d in range(level):
        other = times.joined[d, place]
        if (ts - other > windows.widths[d, slot]) if other <= ts else (other - ts > windows.widths[level, slot]):
            return False
    return bool(windows.widths[level, slot] >= 0 and windows.widths[0, slot] >= 0)


@kernel
def narrowed(
    boxes: Boxes, values: Values, windows: Windows, times: Times, matched: Matched, bits: Words, mask: Words
) -> tuple[Ints, Words]:
    """The matches that some slot of the mask still accepts, and by match the slots that do.

    `bits` has the slots of each partial result that probes.
    """
    n, words = len(matched.place), len(mask)
    matches, left = np.empty(n, np.int64), np.empty((n, words), np.uint64)
    kept = 0
    for i in range(n):
        place, row = matched.place[i], matched.row[i]
        sure = _in_all_windows(windows, times, place, row)
        some = np.uint64(0)
        for w in range(words):
            waiting = bits[place, w] & mask[w]
            accepting = np.uint64(0)
            while waiting:
                lowest = waiting & (~waiting + np.uint64(1))
                waiting ^= lowest
                slot = 64 * w + lowest_bit(lowest)
                if _accepts(boxes, values, i, slot) and (sure or _in_windows(windows, times, place, row, slot)):
                    accepting |= lowest
            left[kept, w] = accepting
            some |= accepting
        if some:
            matches[kept] = i
            kept += 1
    return matches[:kept], left[:kept]


@kernel
def listed(bits: Words, mask: Words) -> tuple[Ints, Ints]:
    """The pairs (row, slot) of the bits that are in the mask, by row."""
    total = 0
    for i in range(len(bits)):
        for w in range(len(mask)):
            waiting = bits[i, w] & mask[w]
            while waiting:
                waiting &= waiting - np.uint64(1)
                total += 1
    rows, slots = np.empty(total, np.int64), np.empty(total, np.int64)
    n = 0
    for i in range(len(bits)):
        for w in range(len(mask)):
            waiting = bits[i, w] & mask[w]
            while waiting:
                lowest = waiting & (~waiting + np.uint64(1))
                waiting ^= lowest
                rows[n], slots[n] = i, 64 * w + lowest_bit(lowest)
                n += 1
    return rows, slots

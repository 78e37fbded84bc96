"""Sorted runs: binary search in arrays sorted by key or by (slot, time), and ranges of positions spread into pairs.

The docstring of each kernel states its cost.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from eddyline.arrays import Ints
from eddyline.index.runtime.kernel_cache import kernel

PAIRS_AT_ONCE = 1 << 20


def portions(count: Ints) -> Iterator[tuple[int, int]]:
    """Ranges of rows with about PAIRS_AT_ONCE pairs each, if row i has count[i]."""
    total = np.cumsum(count)
    start = 0
    while start < len(count):
        done = total[start - 1] if start else 0
        stop = max(start + 1, int(np.searchsorted(total, done + PAIRS_AT_ONCE)))
        yield start, stop
        start = stop


def pieces(low: Ints, high: Ints) -> Iterator[tuple[int, Ints, Ints]]:
    """Ranges of positions, about PAIRS_AT_ONCE positions at a time: the index of the first range, and the ranges.

    A longer range is cut, and each part comes alone, so that nothing larger is ever built at once.
    """
    counts = high - low
    total = int(counts.sum())
    if total <= PAIRS_AT_ONCE:
        if total:
            yield 0, low, high
        return
    for start, stop in portions(counts):
        if stop - start > 1 or high[start] - low[start] <= PAIRS_AT_ONCE:
            yield start, low[start:stop], high[start:stop]
            continue
        cuts = np.append(np.arange(low[start], high[start], PAIRS_AT_ONCE), high[start])
        for i in range(len(cuts) - 1):
            yield start, cuts[i : i + 1], cuts[i + 1 : i + 2]


@kernel
def equal_ranges(keys: Ints, wanted: Ints) -> tuple[Ints, Ints]:
    """For each wanted key the half-open range of positions in sorted `keys`. O(w log n)."""
    low = np.searchsorted(keys, wanted, side="left")
    high = np.searchsorted(keys, wanted, side="right")
    return low.astype(np.int64), high.astype(np.int64)


@kernel
def event_ranges(slots: Ints, times: Ints, wanted: Ints, after: Ints, upto: int) -> tuple[Ints, Ints]:
    """In arrays sorted by (slot, time): the range of the events of each wanted slot with after < time <= upto.
    O(w log n)."""
    low = np.empty(len(wanted), np.int64)
    high = np.empty(len(wanted), np.int64)
    for i in range(len(wanted)):
        low[i] = _first_above(slots, times, wanted[i], after[i])
        high[i] = _first_above(slots, times, wanted[i], upto)
    return low, high


@kernel
def last_at(slots: Ints, times: Ints, slot: Ints, time: Ints) -> Ints:
    """In arrays sorted by (slot, time): the last position of each pair, or -1. O(w log n)."""
    positions = np.full(len(slot), -1, np.int64)
    for i in range(len(slot)):
        p = _first_above(slots, times, slot[i], time[i]) - 1
        if p >= 0 and slots[p] == slot[i] and times[p] == time[i]:
            positions[i] = p
    return positions


@kernel
def _first_above(slots: Ints, times: Ints, slot: int, time: int) -> int:
    """The first position whose (slot, time) is above the given pair."""
    a, b = 0, len(slots)
    while a < b:
        middle = (a + b) // 2
        if slots[middle] < slot or (slots[middle] == slot and times[middle] <= time):
            a = middle + 1
        else:
            b = middle
    return a


@kernel
def spread(low: Ints, high: Ints) -> tuple[Ints, Ints]:
    """All positions of many ranges, and which range each belongs to. O(output)."""
    total = 0
    for i in range(len(low)):
        if high[i] > low[i]:
            total += high[i] - low[i]
    owner = np.empty(total, np.int64)
    position = np.empty(total, np.int64)
    k = 0
    for i in range(len(low)):
        for p in range(low[i], high[i]):
            owner[k] = i
            position[k] = p
            k += 1
    return owner, position


@kernel
def match_brackets(opening: Ints, start: Ints, closing: Ints, stop: Ints) -> Ints:
    """Matches events as brackets: each closing one with the latest unmatched opening one of its key at or before it.

    Both sides are sorted by (key, time). Returns, by closing event, the position of the opening one, or -1. O(n).
    """
    partners = np.full(len(closing), -1, np.int64)
    free = np.empty(len(opening), np.int64)  # a stack
    depth = o = 0
    for c in range(len(closing)):
        if c > 0 and closing[c] != closing[c - 1]:
            depth = 0
        while o < len(opening) and (opening[o] < closing[c] or (opening[o] == closing[c] and start[o] <= stop[c])):
            if opening[o] == closing[c]:
                free[depth] = o
                depth += 1
            o += 1
        if depth > 0:
            depth -= 1
            partners[c] = free[depth]
    return partners

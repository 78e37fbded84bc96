"""Slot boxes: for each query slot a range of integers along each attribute, as grouped filters over bitmaps.

The bounds of all slots cut an attribute into intervals, and each interval has a bitmap of the slots that accept its
values. So a row is compared with the cuts of each attribute, and not with each slot: O(attributes * (log of cuts +
words of a bitmap)). A missing value is accepted by slots that do not restrict the attribute. Boxes may accept more than
the queries do: they prune. (Document 1, section 3.2: grouped filters and the lineage of tuples.)
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from eddyline.arrays import Ints, Mask, Words
from eddyline.index.runtime.kernel_cache import inlined, kernel
from eddyline.index.runtime.vectors import lowest_bit

LEAST, MOST = int(np.iinfo(np.int64).min), int(np.iinfo(np.int64).max)


class Boxes(NamedTuple):
    """The cuts of all attributes, end to end, and the bitmaps of their intervals: attribute a has the cuts
    starts[a] … starts[a + 1] - 1, and one interval more. `missing`, by attribute: the slots that accept a NULL."""

    cuts: Ints
    starts: Ints
    accepting: Words
    missing: Words


def boxes_of(low: Ints, high: Ints) -> Boxes:
    """Boxes from the first and the last integer that each slot accepts, by attribute and slot."""
    slots, words = low.shape[1], max(1, -(-low.shape[1] // 64))
    slot = np.arange(slots)
    word, bit = slot // 64, np.uint64(1) << (slot % 64).astype(np.uint64)
    cuts, accepting = list[Ints](), list[Words]()
    missing = np.zeros((len(low), words), np.uint64)
    for a in range(len(low)):
        first, last = low[a], high[a]
        own = np.unique(np.concatenate([first[first > LEAST], last[last < MOST] + 1]))
        changes = np.zeros((len(own) + 2, words), np.uint64)  # by interval: the slots whose answer changes there
        some = first <= last
        np.bitwise_xor.at(changes, (np.searchsorted(own, first[some], "right"), word[some]), bit[some])
        np.bitwise_xor.at(changes, (np.searchsorted(own, last[some], "right") + 1, word[some]), bit[some])
        cuts.append(own)
        accepting.append(np.bitwise_xor.accumulate(changes)[:-1])
        free = (first == LEAST) & (last == MOST)
        np.bitwise_or.at(missing[a], word[free], bit[free])
    starts = np.cumsum([0, *(len(c) for c in cuts)])
    none = np.empty((0, words), np.uint64)
    return Boxes(np.concatenate([np.empty(0, np.int64), *cuts]), starts, np.concatenate([none, *accepting]), missing)


class Values(NamedTuple):
    """By attribute and row, the value as an integer, and whether it is missing."""

    numbers: Ints
    missing: Mask


class Windows(NamedTuple):
    """How long rows last, by level and slot, and from which arrival number on they are visible, by slot.

    What satisfies `narrowest` (by level) and `latest` satisfies all slots of a step; what does not satisfy `widest` and
    `earliest` satisfies none.
    """

    widths: Ints
    since: Ints
    narrowest: Ints
    latest: int
    widest: Ints
    earliest: int


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
def _interval(boxes: Boxes, attribute: int, value: int) -> int:
    """The place of the bitmap of the interval that has a value. The search has no branch that depends on the value: a
    wrongly predicted one costs more than reading a cut."""
    low, left = boxes.starts[attribute], boxes.starts[attribute + 1] - boxes.starts[attribute]
    while left > 0:
        half = (left + 1) // 2
        low += half * (boxes.cuts[low + half - 1] <= value)
        left -= half
    return int(low + attribute)


@inlined
def _narrow(boxes: Boxes, values: Values, row: int, bits: Words) -> None:
    """Removes from a bitmap the slots that do not accept a row."""
    for a in range(len(boxes.missing)):
        if values.missing[a, row]:
            for w in range(len(bits)):
                bits[w] &= boxes.missing[a, w]
        else:
            interval = _interval(boxes, a, values.numbers[a, row])
            for w in range(len(bits)):
                bits[w] &= boxes.accepting[interval, w]


@kernel
def accepted(boxes: Boxes, values: Values, slots: Words) -> Words:
    """By row, those of some slots whose box accepts it."""
    rows = values.numbers.shape[1]
    bits = np.empty((rows, len(slots)), np.uint64)
    for i in range(rows):
        bits[i] = slots
        _narrow(boxes, values, i, bits[i])
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
def _in_no_window(windows: Windows, times: Times, place: int, row: int) -> bool:
    """Whether no query sees the stored row together with the rows joined so far."""
    level, ts = len(times.joined), times.stored[row]
    outside = times.arrivals[row] < windows.earliest
    for d in range(level):
        other = times.joined[d, place]
        outside |= ts - other > windows.widest[d] or other - ts > windows.widest[level]
    return bool(outside)


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


@inlined
def _in_their_windows(windows: Windows, times: Times, place: int, row: int, first: int, slots: np.uint64) -> np.uint64:
    """Those of 64 slots that see the stored row in their windows."""
    waiting, seeing = slots, np.uint64(0)
    while waiting:
        lowest = waiting & (~waiting + np.uint64(1))
        waiting ^= lowest
        if _in_windows(windows, times, place, row, first + lowest_bit(lowest)):
            seeing |= lowest
    return seeing


@kernel
def narrowed(
    boxes: Boxes, values: Values, windows: Windows, times: Times, matched: Matched, bits: Words, mask: Words
) -> tuple[Ints, Ints, Ints, Words]:
    """The matches that some slot of the mask still accepts: place and row, event times by level, and the slots.

    `bits` has the slots of each partial result that probes.
    """
    n, words, levels = len(matched.place), len(mask), len(times.joined)
    places, rows, left = np.empty(n, np.int64), np.empty(n, np.int64), np.empty((n, words), np.uint64)
    kept = 0
    for i in range(n):
        place, row, some = matched.place[i], matched.row[i], np.uint64(0)
        if _in_no_window(windows, times, place, row):
            continue
        for w in range(words):
            left[kept, w] = bits[place, w] & mask[w]
        _narrow(boxes, values, i, left[kept])
        for w in range(words):
            some |= left[kept, w]
        if some and not _in_all_windows(windows, times, place, row):
            some = np.uint64(0)
            for w in range(words):
                left[kept, w] = _in_their_windows(windows, times, place, row, 64 * w, left[kept, w])
                some |= left[kept, w]
        if some:
            places[kept], rows[kept] = place, row
            kept += 1
    joined = np.empty((levels + 1, kept), np.int64)
    for i in range(kept):
        for d in range(levels):
            joined[d, i] = times.joined[d, places[i]]
        joined[levels, i] = times.stored[rows[i]]
    return places[:kept], rows[:kept], joined, left[:kept]


@kernel
def overlapping(bits: Words, mask: Words) -> bool:
    """Whether some row has a bit of the mask."""
    for i in range(len(bits)):
        for w in range(len(mask)):
            if bits[i, w] & mask[w]:
                return True
    return False


@kernel
def by_owner(bits: Words, mask: Words, owner: Ints, owners: int) -> tuple[Ints, Ints, Ints]:
    """The rows of the bits that are in the mask, by the owner of the bit's slot: the owners that have any, where the
    rows of each begin, and the rows in ascending order. A row is listed once for each of its slots."""
    counts, total = np.zeros(owners + 1, np.int64), 0
    for i in range(len(bits)):
        for w in range(len(mask)):
            waiting = bits[i, w] & mask[w]
            while waiting:
                lowest = waiting & (~waiting + np.uint64(1))
                waiting ^= lowest
                counts[owner[64 * w + lowest_bit(lowest)] + 1] += 1
                total += 1
    if not total:
        return np.empty(0, np.int64), np.zeros(1, np.int64), np.empty(0, np.int64)
    having_any = np.nonzero(counts[1:])[0]
    begins = np.cumsum(counts)
    starts = np.append(begins[having_any], total)
    rows = np.empty(total, np.int64)
    for i in range(len(bits)):
        for w in range(len(mask)):
            waiting = bits[i, w] & mask[w]
            while waiting:
                lowest = waiting & (~waiting + np.uint64(1))
                waiting ^= lowest
                of = owner[64 * w + lowest_bit(lowest)]
                rows[begins[of]] = i
                begins[of] += 1
    return having_any, starts, rows

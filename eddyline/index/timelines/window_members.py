"""Members of count windows: the rows of a key that are in the windows of queries, and until when.

Rows of a key are in a hash chain from the newest to the oldest (`index/keys/hash_chains.py`), so a walk ends at the
first row that is too old for the window. Whether a row is in a window follows from its place (`count_windows.py`);
nothing is stored per window.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from eddyline.arrays import Ints
from eddyline.index.keys.hash_chains import Chains
from eddyline.index.runtime.kernel_cache import inlined, kernel
from eddyline.index.timelines.count_windows import CountWindows, OrderedRows, place_of, rank

_MAX = np.iinfo(np.int64).max
EVERY = -1  # instead of a window: all of them
ABSENT = np.iinfo(np.int64).min  # instead of the end of a row
BEFORE, RETRACTED, SHOWN = 0, 1, 2


class Span(NamedTuple):
    """The rows at the places shown:upto enter in a step. BEFORE: windows are as they were before the step. RETRACTED:
    rows that leave have their ends. SHOWN: the rows that enter are in the windows too."""

    shown: int
    upto: int
    phase: int


class Wanted(NamedTuple):
    """For each probing row the key slot, negative if no row has the key, and a window or EVERY."""

    slot: Ints
    window: Ints


class Reach(NamedTuple):
    """By window, a row number before which no row is in the window; and the windows, the largest first."""

    low: Ints
    by_size: Ints


def reach_of(rows: OrderedRows, windows: CountWindows, first_places: Ints) -> Reach:
    low = np.maximum(first_places - rows.disorder, 0)
    return Reach(low, np.argsort(-windows.size, kind="stable"))


@inlined
def _place(rows: OrderedRows, row: int) -> int:
    """The place of a row: by binary search, if rows are out of order."""
    if rows.disorder == 0:
        return row
    low, high = max(row - rows.disorder, 0), min(row + rows.disorder + 1, len(rows.order))
    while low < high:
        middle = (low + high) // 2
        other = rows.order[middle]
        if rows.ts[other] < rows.ts[row] or (rows.ts[other] == rows.ts[row] and other < row):
            low = middle + 1
        else:
            high = middle
    return low


@inlined
def _end(rows: OrderedRows, windows: CountWindows, span: Span, w: int, place: int) -> int:
    """The last instant of a row in a window; ABSENT if it is not in it. A row that was in it before the step may leave
    at its own instant: then it has no instant, but is still retracted."""
    n, g = windows.size[w], windows.group[w]
    k = rank(windows, g, place)
    before, after = rank(windows, g, span.shown), rank(windows, g, span.upto)
    end = ABSENT
    at = windows.offset[g] + k
    visible = place >= windows.begin[g] or (at < windows.offset[g + 1] and windows.mixed[at] == place)
    if visible and n > 0 and before - n <= k < (after if span.phase == SHOWN else before):
        end = _MAX
        if span.phase != BEFORE and k + n < after:
            end = rows.ts[rows.order[place_of(windows, g, k + n)]] - 1
        if k >= before and end < rows.ts[rows.order[place]]:  # such a row is never sent
            end = ABSENT
    return end


@kernel
def count_members(
    chains: Chains, rows: OrderedRows, windows: CountWindows, span: Span, wanted: Wanted, reach: Reach
) -> Ints:
    """How many pairs of a row and a window there are for each probing row. O(rows walked * windows compared)."""
    counts = np.zeros(len(wanted.slot), np.int64)
    least = reach.low.min() if len(reach.low) else _MAX
    alike = len(windows.mixed) == 0
    for i in range(len(wanted.slot)):
        if wanted.slot[i] < 0:
            continue
        w = wanted.window[i]
        low = least if w == EVERY else reach.low[w]
        row = chains.heads[wanted.slot[i]]
        while row >= low and row >= 0:
            place = _place(rows, row)
            if w != EVERY:
                counts[i] += _end(rows, windows, span, w, place) != ABSENT
            else:
                for v in reach.by_size:
                    if alike and windows.size[v] < span.shown - place:  # so are all smaller ones
                        break
                    counts[i] += _end(rows, windows, span, v, place) != ABSENT
            row = chains.older[row]
    return counts


@kernel
def list_members(
    chains: Chains, rows: OrderedRows, windows: CountWindows, span: Span, wanted: Wanted, reach: Reach, counts: Ints
) -> tuple[Ints, Ints, Ints, Ints]:
    """The pairs that `count_members` counted: (probing row, row, window, end), the oldest rows of a slot first."""
    total = counts.sum()
    which, found = np.empty(total, np.int64), np.empty(total, np.int64)
    window, end = np.empty(total, np.int64), np.empty(total, np.int64)
    least = reach.low.min() if len(reach.low) else _MAX
    alike = len(windows.mixed) == 0
    begin = 0
    for i in range(len(wanted.slot)):
        if counts[i] == 0:
            continue
        w, k = wanted.window[i], begin + counts[i] - 1
        low = least if w == EVERY else reach.low[w]
        row = chains.heads[wanted.slot[i]]
        while row >= low and row >= 0:
            place = _place(rows, row)
            if w != EVERY:
                until = _end(rows, windows, span, w, place)
                if until != ABSENT:
                    which[k], found[k], window[k], end[k] = i, row, w, until
                    k -= 1
            else:
                for v in reach.by_size:
                    if alike and windows.size[v] < span.shown - place:
                        break
                    until = _end(rows, windows, span, v, place)
                    if until != ABSENT:
                        which[k], found[k], window[k], end[k] = i, row, v, until
                        k -= 1
            row = chains.older[row]
        begin += counts[i]
    return which, found, window, end

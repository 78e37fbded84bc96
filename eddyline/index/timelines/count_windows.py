"""Count windows over the rows of one log: which rows enter and leave each window while event time passes.

Rows have places in the order (event time, arrival). A window contains the n latest rows that are visible to its
queries: those from some row of the log on. Rows arrive almost in the order of event time: no place differs from the
number of its row by more than `disorder`. So all rows at places after that distance from the first visible row are
visible, none before it, and only those between are compared. Nothing is stored per window: the k-th visible row leaves
when row k + n enters, and both are computed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from eddyline.arrays import Ints, Ints32
from eddyline.index.runtime.kernel_cache import inlined, kernel

_MAX = np.iinfo(np.int64).max


class OrderedRows(NamedTuple):
    """The rows of a log in the order (event time, arrival)."""

    order: Ints32  # by place: the number of the row
    ts: Ints  # by row
    disorder: int  # the greatest distance between the place and the number of a row


class CountWindows(NamedTuple):
    """Windows; those with the same visible rows form a group. The visible rows of group g are at the places
    mixed[offset[g]:offset[g + 1]], and at all places from begin[g] on."""

    size: Ints
    group: Ints
    begin: Ints
    offset: Ints
    mixed: Ints


def count_windows(rows: OrderedRows, size: Ints, since: Ints, shown: int) -> CountWindows:
    """The windows of these sizes, to which rows from number `since` on are visible, if `shown` rows have entered."""
    first_row, group = np.unique(since, return_inverse=True)
    widest = np.zeros(len(first_row), np.int64)
    np.maximum.at(widest, group, size)
    return CountWindows(size, group.astype(np.int64), *_visible_rows(rows, first_row, shown - widest))


@kernel
def _visible_rows(rows: OrderedRows, first_row: Ints, needed: Ints) -> tuple[Ints, Ints, Ints]:
    """`begin`, `offset` and `mixed` of groups whose first visible row is given; visible rows at places before `needed`
    may be left out. O(groups + rows compared)."""
    count, disorder = len(rows.order), rows.disorder
    begin, offset = np.empty(len(first_row), np.int64), np.zeros(len(first_row) + 1, np.int64)
    compared = 0
    for g in range(len(first_row)):
        begin[g] = min(first_row[g] + disorder, count) if first_row[g] > 0 else 0
        if begin[g] > needed[g]:
            compared += begin[g] - min(max(first_row[g] - disorder, 0), begin[g])
    mixed, k = np.empty(compared, np.int64), 0
    for g in range(len(first_row)):
        if begin[g] > needed[g]:
            for place in range(max(first_row[g] - disorder, 0), begin[g]):
                if rows.order[place] >= first_row[g]:
                    mixed[k] = place
                    k += 1
        offset[g + 1] = k
    return begin, offset, mixed[:k]


@inlined
def rank(windows: CountWindows, g: int, place: int) -> int:
    """How many rows at earlier places are visible to a group."""
    low, high = windows.offset[g], windows.offset[g + 1]
    start, after = low, max(place - windows.begin[g], 0)
    while place < windows.begin[g] and low < high:
        middle = (low + high) // 2
        if windows.mixed[middle] < place:
            low = middle + 1
        else:
            high = middle
    earlier: int = high - start + after
    return earlier


@inlined
def place_of(windows: CountWindows, g: int, k: int) -> int:
    """The place of the k-th row that is visible to a group."""
    mixed = windows.offset[g + 1] - windows.offset[g]
    place: int = windows.mixed[windows.offset[g] + k] if k < mixed else windows.begin[g] + k - mixed
    return place


@kernel
def enter_and_leave(
    rows: OrderedRows, windows: CountWindows, shown: int, upto: int
) -> tuple[Ints, Ints, Ints, Ints, Ints, Ints]:
    """The changes of each window while the rows at the places shown:upto enter.

    Returns (window, sign, row, ts, exp, the row that made the change), of each window first the rows that enter, then
    those that leave. Rows that enter and leave within the call are sent with their ends, and not at all if they have no
    instant. O(changes).
    """
    order, at = rows.order, rows.ts
    changes = np.empty((6, 2 * (upto - shown) * np.count_nonzero(windows.size > 0)), np.int64)
    window, sign, row, begin, end, cause = changes[0], changes[1], changes[2], changes[3], changes[4], changes[5]
    k = 0
    for w in range(len(windows.size)):
        n, g = windows.size[w], windows.group[w]
        if n <= 0:
            continue
        before, after = rank(windows, g, shown), rank(windows, g, upto)
        for j in range(before, after):
            entering = order[place_of(windows, g, j)]
            leaves = _MAX
            if j + n < after:
                leaves = at[order[place_of(windows, g, j + n)]]
            if leaves > at[entering]:
                window[k], sign[k], row[k], begin[k], cause[k] = w, 1, entering, at[entering], entering
                end[k] = leaves - 1 if leaves < _MAX else _MAX
                k += 1
        for j in range(max(before - n, 0), min(before, after - n)):
            leaving, pushing = order[place_of(windows, g, j)], order[place_of(windows, g, j + n)]
            window[k], sign[k], row[k], begin[k], end[k], cause[k] = w, -1, leaving, at[pushing], _MAX, pushing
            k += 1
    return window[:k], sign[:k], row[:k], begin[:k], end[:k], cause[:k]


@kernel
def first_places(windows: CountWindows, shown: int) -> Ints:
    """The place of the oldest row in each window, after the first `shown` rows have entered; `shown` if it has none.
    O(windows)."""
    places = np.full(len(windows.size), shown, np.int64)
    for w in range(len(windows.size)):
        before = rank(windows, windows.group[w], shown)
        if windows.size[w] > 0 and before > 0:
            places[w] = place_of(windows, windows.group[w], max(before - windows.size[w], 0))
    return places

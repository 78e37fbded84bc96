"""Ends of windows over stored rows: which rows leave the window of each query, and when the next one will.

A row has a position in the log, and a place in the order of event time. A query is a range of integers along each
attribute, a window, and the arrival number from which on it sees rows. `next` is the instant at which the oldest of its
rows leaves: the search begins at the first row with the event time `next - 1 - width`, and ends in the block of the
first row that leaves later. In every full block of `BLOCK` places, the rows are also sorted by the first attribute.

Cost of a call, for each query: O(log rows), and for each block that it passes O(log BLOCK) and the rows in its range of
the first attribute; where these are many, and in the last block, the rows up to the first that leaves later. (Document
3, section 5.3.2: a window that expires in its own order needs no other structure.)
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from eddyline.arrays import Ints, Ints32, Shorts
from eddyline.index.runtime.kernel_cache import inlined, kernel

NEVER = int(np.iinfo(np.int64).max)
BLOCK = 1024  # rows
MANY = BLOCK // 8  # rows in range, from which on a block is read in the order of time: the first of them may suffice


class WindowRows(NamedTuple):
    """Stored rows. `order`: by place, the position. By position: event time, arrival and attributes. `by_value`: for
    each full block, the places in it, counted from its first, in the order of the first attribute."""

    order: Ints32
    ts: Ints
    arrivals: Ints
    attributes: tuple[Ints, ...]  # at least one
    by_value: Shorts


class WindowQueries(NamedTuple):
    """By attribute and query, the first and last integer that is accepted; by query, the first arrival number that it
    sees, its window, and when the oldest of its rows leaves."""

    low: Ints
    high: Ints
    since: Ints
    width: Ints
    next: Ints


@inlined
def _first_from(rows: WindowRows, ts: int) -> int:
    """The place of the first row with this event time or a later one."""
    low, high = 0, len(rows.order)
    while low < high:
        middle = (low + high) // 2
        if rows.ts[rows.order[middle]] < ts:
            low = middle + 1
        else:
            high = middle
    return low


@inlined
def _accepts(rows: WindowRows, queries: WindowQueries, query: int, row: int) -> bool:
    accepted = rows.arrivals[row] >= queries.since[query]
    for a in range(len(rows.attributes)):
        value = rows.attributes[a][row]
        accepted &= (queries.low[a, query] <= value) & (value <= queries.high[a, query])
    return bool(accepted)


@inlined
def _end(ts: int, width: int) -> int:
    """The first instant at which a row is no longer in a window."""
    return ts + width + 1 if ts < NEVER - width else NEVER


@inlined
def _place_from(rows: WindowRows, block: int, value: int) -> int:
    """In the order of values in a block: the first place whose value is at least this one."""
    first, low, high = block * BLOCK, 0, BLOCK
    while low < high:
        middle = (low + high) // 2
        if rows.attributes[0][rows.order[first + rows.by_value[first + middle]]] < value:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def sort_blocks(order: Ints32, values: Ints, by_value: Shorts, begin: int) -> None:
    """Sorts the places in each block by their values, from block `begin` on."""
    for block in range(begin, len(by_value) // BLOCK):
        first = block * BLOCK
        own = np.empty(BLOCK, np.int64)
        for i in range(BLOCK):
            own[i] = values[order[first + i]]
        by_value[first : first + BLOCK] = np.argsort(own, kind="mergesort")


@kernel
def ended_rows(rows: WindowRows, queries: WindowQueries, upto: int) -> tuple[Ints, Ints, Ints]:
    """The rows that leave windows from `next` up to an instant: query and row, in no order of time; and by query the
    new `next`."""
    n, blocks = len(rows.order), len(rows.by_value) // BLOCK
    following = queries.next.copy()
    query, left, total = np.empty(1024, np.int64), np.empty(1024, np.int64), 0
    for q in range(len(queries.next)):
        if queries.next[q] > upto:
            continue
        width = queries.width[q]
        start, following[q] = _first_from(rows, queries.next[q] - 1 - width), NEVER
        place = start
        while place < n and following[q] == NEVER:
            block = place // BLOCK
            begin, stop, sorted_ = place, min(n, (block + 1) * BLOCK), block < blocks
            if sorted_:
                begin = _place_from(rows, block, queries.low[0, q])
                stop = BLOCK if queries.high[0, q] == NEVER else _place_from(rows, block, queries.high[0, q] + 1)
                if stop - begin > MANY:
                    begin, stop, sorted_ = place, (block + 1) * BLOCK, False
            if total + stop - begin > len(query):
                query, left = _longer(query, total, stop - begin), _longer(left, total, stop - begin)
            for i in range(begin, stop):
                at = block * BLOCK + rows.by_value[block * BLOCK + i] if sorted_ else i
                row = rows.order[at]
                if at < start or not _accepts(rows, queries, q, row):
                    continue
                end = _end(rows.ts[row], width)
                if end <= upto:
                    query[total], left[total] = q, row
                    total += 1
                else:
                    following[q] = min(following[q], end)
                    if not sorted_:
                        break
            place = (block + 1) * BLOCK
    return query[:total], left[:total], following


@inlined
def _longer(values: Ints, used: int, more: int) -> Ints:
    longer = np.empty(2 * (used + more), np.int64)
    longer[:used] = values[:used]
    return longer

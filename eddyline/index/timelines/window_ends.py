"""Ends of windows over stored rows: which rows leave the window of each query, and when the next one will.

Rows are in the order of event time. A query is a range of integers along each attribute, a window, and the arrival
number from which on it sees rows. `next` is the instant at which the oldest of its rows leaves: the search goes on from
there, so over the life of a row every query looks at it once. (Document 3, section 5.3.2: windows that expire in the
order of arrival need no structure but the window itself.)
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from eddyline.arrays import Ints, Ints32
from eddyline.index.runtime.kernel_cache import inlined, kernel

NEVER = int(np.iinfo(np.int64).max)


class WindowRows(NamedTuple):
    """Stored rows: their positions in the order of event time; by position, event time, arrival and attributes."""

    order: Ints32
    ts: Ints
    arrivals: Ints
    attributes: tuple[Ints, ...]  # at least one


class WindowQueries(NamedTuple):
    """By query: the first and last integer that it accepts, by attribute; what it sees; its window; its next end."""

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
    """The instant after the last at which a row is in a window."""
    return ts + width + 1 if ts < NEVER - width else NEVER


@kernel
def ended_rows(rows: WindowRows, queries: WindowQueries, upto: int) -> tuple[Ints, Ints, Ints]:
    """The rows that leave windows from `next` up to an instant: query and row, by query; and each query's next end."""
    n, m = len(rows.order), len(queries.next)
    starts, counts, following = np.empty(m, np.int64), np.zeros(m, np.int64), queries.next.copy()
    for q in range(m):
        if queries.next[q] > upto:
            continue
        width = queries.width[q]
        starts[q] = _first_from(rows, queries.next[q] - 1 - width)
        following[q] = NEVER
        for place in range(starts[q], n):
            row = rows.order[place]
            if _accepts(rows, queries, q, row):
                end = _end(rows.ts[row], width)
                if end > upto:
                    following[q] = end
                    break
                counts[q] += 1
    total = counts.sum()
    query, left = np.empty(total, np.int64), np.empty(total, np.int64)
    at = 0
    for q in range(m):
        place, stop = starts[q], at + counts[q]
        while at < stop:
            row = rows.order[place]
            if _accepts(rows, queries, q, row):
                query[at], left[at] = q, row
                at += 1
            place += 1
    return query, left, following

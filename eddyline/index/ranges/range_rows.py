"""Joined rows: for each arriving tuple and each query it affects, the partners that lie in the query's ranges.

The partners in a query's range along the first axis are consecutive rows of the segment.
Cost for each tuple and query: O(log partners + rows in range); the rows of a tuple are sorted.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from eddyline.arrays import Ints, Ints32
from eddyline.index.ranges.probes import AXES, Arrivals, Axes, AxisRanges, first_from, holds_row, overlaps, place_of
from eddyline.index.runtime.kernel_cache import kernel


class SegmentJoin(NamedTuple):
    """Arriving tuples, the queries that each affects, and its partners in one segment."""

    starts: Ints
    members: Ints32  # tuple i affects the queries members[starts[i]:starts[i + 1]]
    ranges: AxisRanges  # by axis and query
    since: Ints  # by query, the least arrival number of a row that is visible to it
    axes: Axes
    arrivals: Arrivals
    table: Ints  # the segment
    begin: Ints  # by tuple, its partners
    end: Ints


class JoinedRows(NamedTuple):
    """Tuples, positions of rows in their segment, and positions of queries, sorted in that order."""

    tuples: Ints
    places: Ints
    queries: Ints

    @classmethod
    def allocate(cls, rows: int) -> JoinedRows:
        return cls(np.empty(rows, np.int64), np.empty(rows, np.int64), np.empty(rows, np.int64))


_NOWHERE = JoinedRows.allocate(0)


def count_rows(join: SegmentJoin) -> Ints:
    """The number of joined rows of each tuple, over all queries it affects."""
    counts = np.zeros(len(join.begin), np.int64)
    _rows(join, _NOWHERE.places, counts, _NOWHERE)
    return counts


def list_rows(join: SegmentJoin, places: Ints, total: int) -> JoinedRows:
    """The joined rows; `places` has the position of each row of the table, `total` is their number (`count_rows`)."""
    joined = JoinedRows.allocate(total)
    _rows(join, places, np.zeros(len(join.begin), np.int64), joined)
    return joined


# --- kernels ---------------------------------------------------------------------------------------------------------


@kernel
def _rows(join: SegmentJoin, places: Ints, counts: Ints, joined: JoinedRows) -> None:
    """Counts the joined rows of each tuple, and lists them if there is room."""
    starts, members, ranges, since, axes, arrivals, table, begin, end = join
    kind, direction, shift = axes.kinds[0], axes.directions[0], arrivals.shift
    low, high = ranges.low[0], ranges.high[0]
    tuples, rows, queries = joined
    listing = len(tuples) > 0
    at = 0
    for i in range(len(counts)):
        first, last = begin[i], end[i]
        if first == last:
            continue
        ts, exp, by, before = arrivals.ts[i], arrivals.exp[i], shift[0, i], at
        for m in range(starts[i], starts[i + 1]):
            q = members[m]
            if arrivals.first[i] < since[q]:
                continue
            k = first_from(table, first, last, kind, direction, by, low[q])
            while k < last and place_of(kind, direction, table[AXES, k], by) <= high[q]:
                if overlaps(table, k, ts, exp) and holds_row(ranges, q, table, k, axes, shift, i, since[q]):
                    if listing:
                        rows[at] = (places[k] << 32) | np.int64(q)
                    at += 1
                k += 1
        counts[i] = at - before
        if listing:
            rows[before:at].sort()
            for k in range(before, at):
                tuples[k] = i
                queries[k] = rows[k] & 0xFFFFFFFF
                rows[k] >>= 32

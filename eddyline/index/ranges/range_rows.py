"""Which rows a tuple gives to the queries it affects: for every (tuple, query) the rows that the query's ranges hold.

Rows lie along axes (`range_search.py`); those within a query's range along the first one are consecutive.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from eddyline.arrays import Bytes, Ints, Ints32
from eddyline.index.ranges.axes import AXES, EXP, TS, Arrivals, Axes, first_from, place_of, seen
from eddyline.index.runtime.kernel_cache import kernel
from eddyline.index.runtime.row_sets import Lists


@dataclass(frozen=True)
class Asked:
    """By query: its range along each axis, and the least arrival number of a row it sees."""

    low: Ints
    high: Ints
    since: Ints


def count_rows(
    queries: Lists, asked: Asked, axes: Axes, arrivals: Arrivals, segment: Ints, begin: Ints, end: Ints
) -> Ints:
    """How many rows of a segment each tuple gives to its queries together."""
    counts = np.zeros(len(arrivals), np.int64)
    nowhere = np.empty(0, np.int64)
    _rows(
        queries.starts, queries.members, asked.low, asked.high, asked.since, segment, begin, end, axes.kinds,
        axes.directions, arrivals.shift, arrivals.ts, arrivals.exp, arrivals.first, nowhere, counts, nowhere, nowhere,
        nowhere,
    )  # fmt: skip
    return counts


def list_rows(
    queries: Lists, asked: Asked, axes: Axes, arrivals: Arrivals, segment: Ints, begin: Ints, end: Ints, place: Ints,
    total: int,
) -> tuple[Ints, Ints, Ints]:  # fmt: skip
    """(tuple, place of the row, query), in that order; `total` is what `count_rows` gives."""
    found = np.empty(total, np.int64), np.empty(total, np.int64), np.empty(total, np.int64)
    counts = np.zeros(len(arrivals), np.int64)
    _rows(
        queries.starts, queries.members, asked.low, asked.high, asked.since, segment, begin, end, axes.kinds,
        axes.directions, arrivals.shift, arrivals.ts, arrivals.exp, arrivals.first, place, counts, *found,
    )  # fmt: skip
    return found


# --- kernels ---------------------------------------------------------------------------------------------------------


@kernel
def _rows(
    starts: Ints,
    members: Ints32,
    low: Ints,
    high: Ints,
    since: Ints,
    table: Ints,
    begin: Ints,
    end: Ints,
    kinds: Bytes,
    directions: Ints,
    shift: Ints,
    own_ts: Ints,
    own_exp: Ints,
    own_first: Ints,
    place: Ints,
    counts: Ints,
    found_tuple: Ints,
    found_place: Ints,
    found_query: Ints,
) -> None:
    """Counts rows, and lists them if there is room. O(log rows + rows in range) for every tuple and query; a sort of
    what each tuple gives."""
    listing = len(found_tuple) > 0
    at = 0
    for i in range(len(counts)):
        first, last = begin[i], end[i]
        if first == last:
            continue
        before = at
        for m in range(starts[i], starts[i + 1]):
            q = members[m]
            if own_first[i] < since[q]:
                continue
            k = first_from(table, first, last, kinds[0], directions[0], shift[0, i], low[0, q])
            while k < last and place_of(kinds[0], directions[0], table[AXES, k], shift[0, i]) <= high[0, q]:
                if max(table[TS, k], own_ts[i]) <= min(table[EXP, k], own_exp[i]) and seen(
                    table, k, i, q, low, high, kinds, directions, shift, since[q]
                ):
                    if listing:
                        found_place[at] = (place[k] << 32) | np.int64(q)
                    at += 1
                k += 1
        counts[i] = at - before
        if listing:
            found_place[before:at].sort()
            for k in range(before, at):
                found_tuple[k] = i
                found_query[k] = found_place[k] & 0xFFFFFFFF
                found_place[k] >>= 32

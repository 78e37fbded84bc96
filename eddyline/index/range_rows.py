"""Which rows a tuple gives to the queries it affects: for every (tuple, query) the rows that the query's range holds.

Rows lie along an axis (`range_groups.py`); those of a range are consecutive, except that rows which do not count while
the tuple does are passed over.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

from eddyline.index.range_groups import Arrivals, Rows, Values, place_of
from eddyline.index.sets import Lists

Ints = npt.NDArray[np.int64]
Numbers32 = npt.NDArray[np.int32]


def count_rows(
    queries: Lists, low: Ints, high: Ints, arrivals: Arrivals, rows: Rows, begin: Ints, end: Ints
) -> Ints:
    """How many rows each tuple gives to its queries together. low[q] … high[q] is the range of query q."""
    a = arrivals
    counts = np.zeros(len(a), np.int64)
    _count(
        queries.starts, queries.members, low, high, rows.values, rows.ts, rows.exp, begin, end, a.shift, a.direction,
        a.ts, a.exp, counts,
    )  # fmt: skip
    return counts


def list_rows(
    queries: Lists, low: Ints, high: Ints, arrivals: Arrivals, rows: Rows, begin: Ints, end: Ints, place: Ints,
    counts: Ints,
) -> tuple[Ints, Ints, Ints]:  # fmt: skip
    """(tuple, place of the row, query), in that order; `counts` are those of `count_rows`."""
    a = arrivals
    total = int(counts.sum())
    found = np.empty(total, np.int64), np.empty(total, np.int64), np.empty(total, np.int64)
    _list(
        queries.starts, queries.members, low, high, rows.values, rows.ts, rows.exp, begin, end, a.shift, a.direction,
        a.ts, a.exp, place, *found,
    )  # fmt: skip
    return found


# --- kernels ---------------------------------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _first(values: Values, at: int, end: int, by: float, direction: int, low: int) -> int:
    """The first row from `at` on that lies at or above `low`."""
    n = end - at
    while n > 0:
        half = n >> 1
        if place_of(values[at + half], by, direction) < low:
            at += half + 1
            n -= half + 1
        else:
            n = half
    return at


@njit(cache=True, nogil=True)
def _count(
    starts: Ints,
    members: Numbers32,
    low: Ints,
    high: Ints,
    values: Values,
    ts: Ints,
    exp: Ints,
    begin: Ints,
    end: Ints,
    shift: Values,
    direction: int,
    own_ts: Ints,
    own_exp: Ints,
    counts: Ints,
) -> None:
    """O(log rows + rows in range) for every tuple and query."""
    for i in range(len(counts)):
        if begin[i] == end[i]:
            continue
        for m in range(starts[i], starts[i + 1]):
            q = members[m]
            k = _first(values, begin[i], end[i], shift[i], direction, low[q])
            while k < end[i] and place_of(values[k], shift[i], direction) <= high[q]:
                counts[i] += max(ts[k], own_ts[i]) <= min(exp[k], own_exp[i])
                k += 1


@njit(cache=True, nogil=True)
def _list(
    starts: Ints,
    members: Numbers32,
    low: Ints,
    high: Ints,
    values: Values,
    ts: Ints,
    exp: Ints,
    begin: Ints,
    end: Ints,
    shift: Values,
    direction: int,
    own_ts: Ints,
    own_exp: Ints,
    place: Ints,
    found_tuple: Ints,
    found_place: Ints,
    found_query: Ints,
) -> None:
    """As `_count`, and a sort of what each tuple gives."""
    at = 0
    for i in range(len(begin)):
        if begin[i] == end[i]:
            continue
        first = at
        for m in range(starts[i], starts[i + 1]):
            q = members[m]
            k = _first(values, begin[i], end[i], shift[i], direction, low[q])
            while k < end[i] and place_of(values[k], shift[i], direction) <= high[q]:
                if max(ts[k], own_ts[i]) <= min(exp[k], own_exp[i]):
                    found_place[at] = (place[k] << 32) | q
                    at += 1
                k += 1
        found_place[first:at].sort()
        for k in range(first, at):
            found_tuple[k] = i
            found_query[k] = found_place[k] & 0xFFFFFFFF
            found_place[k] >>= 32

"""Input of the range search: arriving tuples, their partners, and the axes along which the partners lie.

The partners of a tuple are the rows of the other input with the same key. Along an axis, a row lies at the place
direction * (value - shift), where the shift belongs to the tuple. Rows are stored in segments: tables of columns that
are sorted by key, then along the first axis. A row and a tuple join only if their time intervals overlap.
(Document 4, section 3.)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from eddyline.arrays import Bytes, Ints, Words
from eddyline.index.runtime.kernel_cache import inlined
from eddyline.index.runtime.vectors import table_at

INTEGERS, DOUBLES = 0, 1  # kinds of axes
_LAST = 9223372036854775807
EVER = -_LAST  # the least arrival number visible to a query that sees all rows
TS, EXP, FIRST, AXES = range(4)  # the columns of a segment; from AXES on, the values along each axis
ADDRESS, ROWS, LATEST_TS, LEAST_EXP, LINKS_FROM, LATEST_FIRST = range(6)  # the columns of segment headers


class Axes(NamedTuple):
    """For each axis, the kind of its values, and whether places grow with the values (1) or against them (-1)."""

    kinds: Bytes
    directions: Ints


class Arrivals(NamedTuple):
    """Arriving tuples."""

    shift: Ints  # by axis and tuple
    ts: Ints
    exp: Ints
    first: Ints  # arrival numbers
    own: Ints  # the attributes that queries restrict, each followed by its complement; by attribute and tuple


class Arrival(NamedTuple):
    """One arriving tuple, along the first axis."""

    i: int  # its position among the arriving tuples
    shift: int
    ts: int
    exp: int


class Partners(NamedTuple):
    """The partners of tuples: rows begin … end of each segment. The caller keeps the segments in memory."""

    headers: Ints  # by segment, see `segment_header`
    begin: Ints  # by segment and tuple
    end: Ints

    @classmethod
    def of(cls, segments: Sequence[Ints], begin: Ints, end: Ints, axes: int = 1) -> Partners:
        return cls(join_headers([segment_header(s, axes) for s in segments]), begin, end)


class Probes(NamedTuple):
    """Arriving tuples that probe the rows of the other input."""

    axes: Axes
    arrivals: Arrivals
    partners: Partners

    @property
    def tuples(self) -> int:
        return len(self.arrivals.ts)

    def slice(self, start: int, stop: int) -> Probes:
        """The tuples start … stop; their columns are contiguous, as kernels expect."""
        if start == 0 and stop == self.tuples:
            return self
        shift, ts, exp, first, own = (np.ascontiguousarray(x[..., start:stop]) for x in self.arrivals)
        begin, end = (np.ascontiguousarray(x[:, start:stop]) for x in self.partners[1:])
        return Probes(self.axes, Arrivals(shift, ts, exp, first, own), Partners(self.partners.headers, begin, end))


class AxisRanges(NamedTuple):
    """Closed ranges of queries, by axis and query (or by axis and bit of a query)."""

    low: Ints
    high: Ints


class Visibility(NamedTuple):
    """Which queries are registered, and which rows are visible to them, by bit.

    Either set may be empty: then all queries are registered, or all rows are visible to all queries."""

    registered: Words
    limited: Words  # the queries to which some rows may not be visible
    since: Ints  # the least arrival number of a row or tuple that is visible to the query


def segment_header(segment: Ints, axes: int) -> Ints:
    """The address of a segment, its number of rows, its latest beginning, earliest end and latest arrival number, and
    the least shift along the second axis for which its links give the skylines (`skylines.py`)."""
    latest_ts, latest_first = segment[TS].max(initial=-_LAST), segment[FIRST].max(initial=EVER)
    links_from = segment[AXES + 1].max() if len(segment) > AXES + axes else _LAST
    header = [segment.ctypes.data, segment.shape[1], latest_ts, segment[EXP].min(initial=_LAST), links_from]
    return np.array([*header, latest_first], np.int64)


def join_headers(headers: Sequence[Ints]) -> Ints:
    return np.array(headers, np.int64).reshape(-1, 6)


# --- kernels ---------------------------------------------------------------------------------------------------------


@inlined
def place_of(kind: int, direction: int, value: int, shift: int) -> int:
    """The place of a row along an axis, as an integer of the same order; NaN is above all."""
    if kind == INTEGERS:
        return direction * (value - shift)
    x = direction * (np.int64(value).view(np.float64) - np.int64(shift).view(np.float64)) + 0.0
    if x != x:
        return _LAST
    bits = np.float64(x).view(np.int64)
    return bits ^ _LAST if bits < 0 else bits  # type: ignore[return-value]


@inlined
def first_from(table: Ints, at: int, end: int, kind: int, direction: int, shift: int, low: int) -> int:
    """The first row from `at` on that lies at or above `low` along the first axis."""
    n = end - at
    while n > 1:
        half = n >> 1
        at += half * (place_of(kind, direction, table[AXES, at + half - 1], shift) < low)  # no branch to mispredict
        n -= half
    if n == 1 and place_of(kind, direction, table[AXES, at], shift) < low:
        at += 1
    return at


@inlined
def overlaps(table: Ints, k: int, ts: int, exp: int) -> bool:
    """Whether the time interval of row k overlaps ts … exp."""
    overlap: bool = max(table[TS, k], ts) <= min(table[EXP, k], exp)
    return overlap


@inlined
def all_overlap(headers: Ints, s: int, ts: int, exp: int) -> bool:
    """Whether the time intervals of all rows of segment s certainly overlap ts … exp."""
    overlap: bool = ts <= headers[s, LEAST_EXP] and headers[s, LATEST_TS] <= exp
    return overlap


@inlined
def segment_table(headers: Ints, s: int, columns: int) -> Ints:
    """Segment s, with its first `columns` columns."""
    return table_at(headers[s, ADDRESS], columns, headers[s, ROWS])


@inlined
def holds_row(ranges: AxisRanges, query: int, table: Ints, k: int, axes: Axes, shift: Ints, i: int, since: int) -> bool:
    """Whether row k lies in the ranges of a query along all axes after the first, and is visible to it."""
    if since > EVER and table[FIRST, k] < since:
        return False
    for axis in range(1, len(axes.kinds)):
        place = place_of(axes.kinds[axis], axes.directions[axis], table[AXES + axis, k], shift[axis, i])
        if place < ranges.low[axis, query] or place > ranges.high[axis, query]:
            return False
    return True

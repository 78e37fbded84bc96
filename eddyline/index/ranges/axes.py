"""Rows along axes, as kernels see them.

A tuple arrives; the rows of the other input that have its key lie at direction * (value - shift) along one or several
axes, where the shift is the tuple's own. Rows come in segments, tables of columns, each sorted by key and then along
the first axis. Rows whose interval does not meet the tuple's do not count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from eddyline.arrays import Bytes, Ints, Words
from eddyline.index.runtime.kernel_cache import kernel

INTEGERS, DOUBLES = 0, 1  # kinds of axes
_LAST = 9223372036854775807
EVER = -_LAST  # the least arrival number for who sees all rows
TS, EXP, FIRST, AXES = range(4)  # the columns of a segment; from AXES on, the values along each axis


@dataclass(frozen=True)
class Axes:
    """How places along each axis are computed: values are integers or doubles, and grow with the place or against."""

    kinds: Bytes
    directions: Ints


@dataclass(frozen=True)
class Partners:
    """Rows that tuples may join with: segments of columns, and by segment and tuple where its partners are."""

    segments: Sequence[Ints]
    begin: Ints
    end: Ints
    addresses: Ints  # of the segments, as `address` gives them

    @classmethod
    def of(cls, segments: Sequence[Ints], begin: Ints, end: Ints, axes: int = 1) -> Partners:
        return cls(segments, begin, end, all_addresses([address(s, axes) for s in segments]))

    def slice(self, start: int, stop: int) -> Partners:
        begin, end = (np.ascontiguousarray(x[:, start:stop]) for x in (self.begin, self.end))
        return Partners(self.segments, begin, end, self.addresses)


def address(segment: Ints, axes: int) -> Ints:
    """Where a segment stands in memory, how many rows it has, when the last of them begins and the first one ends, the
    least shift along the second axis for which links tell its skylines (`skylines.py`), and the last arrival number."""
    begin, end, last = (
        segment[TS].max(initial=-_LAST),
        segment[EXP].min(initial=_LAST),
        segment[FIRST].max(initial=EVER),
    )
    latest = segment[AXES + 1].max() if len(segment) > AXES + axes else _LAST
    return np.array([segment.ctypes.data, segment.shape[1], begin, end, latest, last], np.int64)


def all_addresses(found: Sequence[Ints]) -> Ints:
    return np.array(found, np.int64).reshape(-1, 6)


@dataclass(frozen=True)
class Arrivals:
    """Arriving tuples: by axis what is taken from a row's value, the interval in which they count, their arrival
    numbers, and `own`: their own attributes, each followed by its complement."""

    shift: Ints
    ts: Ints
    exp: Ints
    first: Ints
    own: Ints

    def __len__(self) -> int:
        return len(self.ts)

    def slice(self, start: int, stop: int) -> Arrivals:
        ts, exp, first = (x[start:stop] for x in (self.ts, self.exp, self.first))
        shift, own = (np.ascontiguousarray(x[:, start:stop]) for x in (self.shift, self.own))  # as kernels know them
        return Arrivals(shift, ts, exp, first, own)


@dataclass(frozen=True)
class Doubts:
    """Which bits count, and by bit the least arrival number of a row or tuple that its number sees; `young` are those
    that may not see all rows. Either set may be empty: all bits count, none is young."""

    living: Words
    young: Words
    since: Ints


# --- kernels ---------------------------------------------------------------------------------------------------------


@kernel
def place_of(kind: int, direction: int, value: int, shift: int) -> int:
    """Where a row lies along an axis, as an integer of the same order; NaN is above all."""
    if kind == INTEGERS:
        return direction * (value - shift)
    x = direction * (np.int64(value).view(np.float64) - np.int64(shift).view(np.float64)) + 0.0
    if x != x:
        return _LAST
    bits = np.float64(x).view(np.int64)
    return bits ^ _LAST if bits < 0 else bits  # type: ignore[return-value]


@kernel
def first_from(table: Ints, at: int, end: int, kind: int, direction: int, shift: int, low: int) -> int:
    """The first row from `at` on that lies at or above `low` along the first axis."""
    n = end - at
    while n > 1:
        half = n >> 1
        at += half * (
            place_of(kind, direction, table[AXES, at + half - 1], shift) < low
        )  # which way cannot be foreseen
        n -= half
    if n == 1 and place_of(kind, direction, table[AXES, at], shift) < low:
        at += 1
    return at


@kernel
def seen(
    table: Ints,
    k: int,
    i: int,
    bit: int,
    low: Ints,
    high: Ints,
    kinds: Bytes,
    directions: Ints,
    shift: Ints,
    since: int,
) -> bool:
    """Whether row k is what a number asks for along the further axes, and did not come before it."""
    if since > EVER and table[FIRST, k] < since:
        return False
    for axis in range(1, len(kinds)):
        place = place_of(kinds[axis], directions[axis], table[AXES + axis, k], shift[axis, i])
        if place < low[axis, bit] or place > high[axis, bit]:
            return False
    return True

"""Queries' ranges over an attribute of the rows they join with, in stabbing groups (document 4, section 3).

A tuple arrives and joins with rows that lie along an axis. For a group of ranges that all hold a point, only two rows
matter: the nearest at or below the point, and the nearest above it. A range that holds any row holds one of these. So
the affected queries of a group are those whose low end is not above the one, and those whose high end is not below the
other: a first part of the group in the order of low ends, and one in the order of high ends.

Structure: every number has a bit; bits are by group, then by low end, so that the first part is a run of bits, and the
second a prefix set. What the numbers accept of the arriving tuple's own attributes are prefix sets over all bits.
Cost of a tuple: two searches a group, and a few passes over n / 64 words.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from numba import njit, types
from numba.extending import overload

from eddyline.index.prefix_sets import PrefixSets, prefix_sets, rank
from eddyline.index.rooms import room
from eddyline.index.sets import Containers, Kinds, put
from eddyline.index.stabbing import canonical
from eddyline.index.vectors import SET_WORDS, copy_set, intersect, members

Ints = npt.NDArray[np.int64]
Numbers32 = npt.NDArray[np.int32]
Flags = npt.NDArray[np.bool_]
Words = npt.NDArray[np.uint64]
Halves = npt.NDArray[np.uint16]
Values = npt.NDArray[np.int64] | npt.NDArray[np.float64]

BLOCK = 64 * SET_WORDS
NOTHING_BELOW = int(np.iinfo(np.int64).min)
NOTHING_ABOVE = int(np.iinfo(np.int64).max)


@dataclass(frozen=True)
class RangeGroups:
    numbers: Numbers32  # by bit; -1 for bits that stand for none
    points: Ints  # ascending
    word_starts: Ints  # by group: where its bits begin, in words
    starts: Ints  # by group: where its low ends begin
    lows: Ints
    highs: PrefixSets  # an order for each group, of ~high
    own: PrefixSets  # two orders for each attribute of the arriving tuples: low, and ~high
    ends: Ints  # the high ends, in the order of the low ones

    def __len__(self) -> int:
        return len(self.lows)

    @property
    def words(self) -> int:
        return len(self.numbers) // 64

    @property
    def nbytes(self) -> int:
        return self.numbers.nbytes + self.lows.nbytes + self.ends.nbytes + self.highs.nbytes + self.own.nbytes


def range_groups(low: Ints, high: Ints, own: Sequence[tuple[Ints, Ints]]) -> RangeGroups:
    """Numbers 0, 1, … with ranges low … high, none empty; `own` has further ranges, one pair of ends an attribute."""
    partition = canonical(low, high)
    sizes, starts = partition.sizes, partition.starts
    widths = -(-sizes // 64)
    word_starts = np.append(0, np.cumsum(widths))
    words = max(SET_WORDS, -(-int(word_starts[-1]) // SET_WORDS) * SET_WORDS)
    group = np.repeat(np.arange(len(sizes)), sizes)
    within = np.arange(len(low)) - starts[:-1][group]
    bits = (word_starts[:-1][group] * 64 + within).astype(np.int32)
    numbers = np.full(words * 64, -1, np.int32)
    numbers[bits] = partition.order
    by_high = np.lexsort((~high[partition.order], group))
    highs = prefix_sets(~high[partition.order][by_high], within[by_high].astype(np.int32), starts, widths)
    ends = [e[partition.order] for a, b in own for e in (a, ~b)]
    orders = [np.argsort(e, kind="stable") for e in ends]
    keys = np.concatenate([np.empty(0, np.int64), *(e[o] for e, o in zip(ends, orders, strict=True))])
    of_own = np.concatenate([np.empty(0, np.int32), *(bits[o] for o in orders)])
    every = np.arange(len(ends) + 1) * len(low)
    own_sets = prefix_sets(keys, of_own, every, np.full(len(ends), words))
    return RangeGroups(
        numbers, partition.last, word_starts, starts, low[partition.order], highs, own_sets, high[partition.order]
    )


@dataclass(frozen=True)
class Rows:
    """The rows of one segment by key and then along the axis: where they lie, and the interval in which they count."""

    values: Values
    ts: Ints
    exp: Ints


@dataclass(frozen=True)
class Arrivals:
    """Arriving tuples: what is taken from a row's value, and the interval in which they count.

    A row lies at direction * (value - shift). `own` has the tuples' own attributes, each followed by its complement.
    """

    shift: Values
    direction: int
    ts: Ints
    exp: Ints
    own: Ints

    def __len__(self) -> int:
        return len(self.ts)


@dataclass(frozen=True)
class Nearest:
    """By tuple and group: the places of the nearest rows, and by tuple whether there is any."""

    below: Ints
    above: Ints

    @classmethod
    def none(cls, tuples: int, groups: RangeGroups) -> Nearest:
        shape = (tuples, len(groups.points))
        return cls(np.full(shape, NOTHING_BELOW, np.int64), np.full(shape, NOTHING_ABOVE, np.int64))

    def look(self, groups: RangeGroups, arrivals: Arrivals, rows: Rows, begin: Ints, end: Ints) -> None:
        """Takes some more rows into account: those at begin[i] … end[i] are the partners of tuple i."""
        a = arrivals
        _nearest(
            rows.values, rows.ts, rows.exp, begin, end, a.shift, a.direction, a.ts, a.exp, groups.points,
            self.below, self.above,
        )  # fmt: skip


def affected(
    groups: RangeGroups, arrivals: Arrivals, nearest: Nearest, living: Words, *, listing: bool
) -> tuple[Ints, Containers | None]:
    """How many numbers each tuple affects, and their sets if `listing`. `living` has the bits that count, or none."""
    tuples, blocks = len(arrivals), groups.words // SET_WORDS
    counts = np.zeros(tuples, np.int64)
    shape = (blocks, tuples) if listing else (0, 0)
    kind, size, start = np.zeros(shape, np.uint8), np.zeros(shape, np.uint16), np.zeros(shape, np.int64)
    words = room(shape[0] * shape[1] * (SET_WORDS + 8))
    highs, own = groups.highs, groups.own
    end = _affected(
        nearest.below, nearest.above, groups.word_starts, groups.starts, groups.lows,
        highs.keys, highs.bits, highs.spacing, highs.set_starts, highs.sets,
        own.keys, own.bits, own.starts, own.spacing, own.set_starts, own.sets, arrivals.own,
        living, groups.words, counts, kind, size, start, words, words.view(np.uint16),
    )  # fmt: skip
    return counts, Containers(kind, size, start, words[:end], groups.numbers, ascending=False) if listing else None


# --- kernels ---------------------------------------------------------------------------------------------------------


def place_of(value: float, shift: float, direction: int) -> int:
    """Where a row lies, as an integer of the same order."""
    raise TypeError("only kernels ask this")


@overload(place_of, inline="always")
def _place_of(value, shift, direction):  # type: ignore[no-untyped-def]
    if isinstance(value, types.Integer):

        def of_integers(value, shift, direction):  # type: ignore[no-untyped-def]
            return direction * (value - shift)

        return of_integers

    def of_doubles(value, shift, direction):  # type: ignore[no-untyped-def]
        x = direction * (value - shift) + 0.0
        bits = np.float64(x).view(np.int64)
        if x != x:
            return np.int64(9223372036854775806)  # NaN is above all, but not where nothing is
        if bits < 0:
            return bits ^ np.int64(9223372036854775807)
        return bits

    return of_doubles


@njit(cache=True, nogil=True)
def _nearest(
    values: Values,
    ts: Ints,
    exp: Ints,
    begin: Ints,
    end: Ints,
    shift: Values,
    direction: int,
    own_ts: Ints,
    own_exp: Ints,
    points: Ints,
    below: Ints,
    above: Ints,
) -> None:
    """Rows whose interval does not meet the tuple's are passed over. O(log rows) a group, from where the last was."""
    for i in range(len(begin)):
        first, last = begin[i], end[i]
        if first == last:
            continue
        by, since, until = shift[i], own_ts[i], own_exp[i]
        at = first  # all rows before it are at or below the point
        for g in range(len(points)):
            point = points[g]
            step = 1
            while at + step <= last and place_of(values[at + step - 1], by, direction) <= point:
                at += step
                step *= 2
            n = min(step, last - at)
            while n > 1:
                half = n >> 1
                if place_of(values[at + half - 1], by, direction) <= point:
                    at += half
                n -= half
            if n == 1 and place_of(values[at], by, direction) <= point:
                at += 1
            k = at - 1
            while k >= first and max(ts[k], since) > min(exp[k], until):
                k -= 1
            if k >= first:
                below[i, g] = max(below[i, g], place_of(values[k], by, direction))
            k = at
            while k < last and max(ts[k], since) > min(exp[k], until):
                k += 1
            if k < last:
                above[i, g] = min(above[i, g], place_of(values[k], by, direction))


@njit(cache=True, nogil=True)
def _affected(
    below: Ints,
    above: Ints,
    word_starts: Ints,
    starts: Ints,
    lows: Ints,
    high_keys: Ints,
    high_bits: Numbers32,
    high_spacing: Ints,
    high_set_starts: Ints,
    high_sets: Words,
    own_keys: Ints,
    own_bits: Numbers32,
    own_starts: Ints,
    own_spacing: Ints,
    own_set_starts: Ints,
    own_sets: Words,
    own: Ints,
    living: Words,
    words: int,
    counts: Ints,
    kind: Kinds,
    size: Halves,
    start: Ints,
    room: Words,
    halves: Halves,
) -> int:
    """O(groups * log + words) a tuple; returns how many words of room were written."""
    one = np.uint64(1)
    now = np.zeros(words, np.uint64)
    then = np.zeros(words, np.uint64)
    block_words = np.empty(64, np.uint64)
    end = 0
    for i in range(len(counts)):
        something = False
        for g in range(len(word_starts) - 1):
            word, width = word_starts[g], word_starts[g + 1] - word_starts[g]
            a, b = starts[g], starts[g + 1]
            first = second = 0
            if below[i, g] != NOTHING_BELOW:
                first = rank(lows, a, b, below[i, g])
            if above[i, g] != NOTHING_ABOVE and first < b - a:
                second = rank(high_keys, a, b, ~above[i, g])
            something |= first + second > 0
            full = first >> 6
            for w in range(word, word + full):
                now[w] = ~np.uint64(0)
            kept = second // high_spacing[g]
            base = high_set_starts[g] + kept * width
            for w in range(full, width):
                now[word + w] = high_sets[base + w]
            if first & 63:
                now[word + full] |= (one << np.uint64(first & 63)) - one
            for k in range(a + kept * high_spacing[g], a + second):
                bit = high_bits[k]
                now[word + (bit >> 6)] |= one << np.uint64(bit & 63)
        if not something:
            continue
        if len(living) > 0:
            for w in range(0, words, 64):
                intersect(now, w, now, w, living, w, now, w)
        for order in range(len(own_spacing)):
            upto = rank(own_keys, own_starts[order], own_starts[order + 1], own[order, i])
            kept = upto // own_spacing[order]
            base = own_set_starts[order] + kept * words
            for w in range(0, words, 64):
                intersect(then, w, now, w, own_sets, base + w, now, w)
            for k in range(own_starts[order] + kept * own_spacing[order], own_starts[order] + upto):
                bit = own_bits[k]
                then[bit >> 6] |= now[bit >> 6] & (one << np.uint64(bit & 63))
            now, then = then, now
        count = 0
        for w in range(0, words, 64):
            count += members(now, w)
        counts[i] = count
        if len(kind) > 0 and count > 0:
            for block in range(words // 64):
                copy_set(block_words, 0, now, block * 64)
                end = put(block_words, block, i, kind, size, start, room, halves, end)
    return end

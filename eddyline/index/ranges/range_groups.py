"""Queries' ranges over attributes of the rows they join with, in stabbing groups (document 4, section 3).

A tuple arrives and joins with rows that lie along an axis. For a group of ranges that all hold a point, only two rows
matter: the nearest at or below the point, and the nearest above it. A range that holds any row holds one of these. So
the affected queries of a group are those whose low end is not above the one, and those whose high end is not below the
other: a first part of the group in the order of low ends, and one in the order of high ends.

Structure: every number has a bit; bits are by group, then by low end, so that the first part is a run of bits, and the
second a prefix set. What the numbers accept of the arriving tuple's own attributes are prefix sets over all bits.
Large groups (*hotspots*, section 2.2) come first, so that the scattered rest can be treated in another way. Ranges
along further axes are prefix sets too, each over the bits of a group.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from eddyline.arrays import Ints, Ints32, Words
from eddyline.index.ranges.prefix_sets import NO_SETS, PrefixSets, prefix_sets
from eddyline.index.ranges.stabbing import canonical
from eddyline.index.runtime.vectors import SET_WORDS

HOT = 0.001  # the least share of all ranges that makes a group a hotspot
_NOTHING = np.empty(0, np.int64)


@dataclass(frozen=True)
class RangeGroups:
    numbers: Ints32  # by bit; -1 for bits that stand for none
    hot: int  # so many groups are hotspots
    points: Ints  # by group
    word_starts: Ints  # by group: where its bits begin, in words
    sizes: Ints  # by group
    low: Ints  # by axis and bit; ascending along the first axis within a group
    high: Ints
    ends: Ints  # by bit: both ends along the first axis, side by side for who looks at single numbers
    highs: PrefixSets  # an order for each group, of ~high along the first axis
    own: PrefixSets  # two orders for each attribute of the arriving tuples: low, and ~high
    further: PrefixSets  # for each further axis two orders for each group, low and ~high
    around_zero: bool  # whether there is one further axis, and all ranges hold its 0

    def __len__(self) -> int:
        return int(self.sizes.sum())

    @property
    def words(self) -> int:
        return len(self.numbers) // 64

    @property
    def bits(self) -> Ints:
        """Those that stand for a number."""
        return np.nonzero(self.numbers >= 0)[0]

    @cached_property
    def present(self) -> Words:
        """The bits that stand for a number, as a set."""
        return as_words(self.numbers >= 0)

    @cached_property
    def stabbing(self) -> PrefixSets:
        """Two orders over all bits: of the ends along the first axis, low and ~high."""
        return _orders([self.low[0][self.bits], ~self.high[0][self.bits]], self.bits, self.words)

    @cached_property
    def own_ranges(self) -> tuple[Ints, Ints]:
        """By own attribute and bit: what the numbers accept."""
        attributes = len(self.own.widths) // 2
        low, high = (
            np.zeros((attributes, len(self.numbers)), np.int64),
            np.zeros((attributes, len(self.numbers)), np.int64),
        )
        for order in range(2 * attributes):
            mine = slice(self.own.starts[order], self.own.starts[order + 1])
            to = high if order % 2 else low
            to[order // 2, self.own.bits[mine]] = ~self.own.keys[mine] if order % 2 else self.own.keys[mine]
        return low, high

    @property
    def nbytes(self) -> int:
        """Without what is derived when a strategy asks for it."""
        return (
            self.numbers.nbytes
            + self.low.nbytes
            + self.high.nbytes
            + self.ends.nbytes
            + self.highs.nbytes
            + self.own.nbytes
            + self.further.nbytes
        )


def range_groups(
    numbers: Ints, low: Ints, high: Ints, own: Sequence[tuple[Ints, Ints]], hot: float = HOT
) -> RangeGroups:
    """Numbers with the ranges low … high, by axis; none is empty along the first one. `own` has the ends of what they
    accept, one pair an attribute of the arriving tuples."""
    partition = canonical(low[0], high[0])
    large = partition.sizes >= max(2.0, hot * len(numbers))
    by_size = np.argsort(~large, kind="stable")  # groups; hotspots first
    sizes = partition.sizes[by_size]
    starts = np.append(0, np.cumsum(sizes))
    widths = -(-sizes // 64)
    word_starts = np.append(0, np.cumsum(widths))
    words = max(SET_WORDS, -(-int(word_starts[-1]) // SET_WORDS) * SET_WORDS)
    group = np.repeat(np.arange(len(sizes)), sizes)
    within = np.arange(len(numbers)) - starts[:-1][group]
    order = partition.order[partition.starts[:-1][by_size][group] + within]
    bits = word_starts[:-1][group] * 64 + within
    by_high = np.lexsort((~high[0][order], group))
    lows, high_ends = (np.stack([_at_bits(a[order], bits, words, f) for a in e]) for e, f in ((low, 1), (high, 0)))
    return RangeGroups(
        _at_bits(numbers[order].astype(np.int32), bits, words, -1),
        int(large.sum()),
        partition.last[by_size],
        word_starts,
        sizes,
        lows,
        high_ends,
        np.stack([lows[0], high_ends[0]], axis=1),
        prefix_sets(~high[0][order][by_high], within[by_high].astype(np.int32), starts, widths),
        _orders([e[order] for a, b in own for e in (a, ~b)], bits, words),
        _by_group([e[order] for a, b in zip(low[1:], high[1:], strict=True) for e in (a, ~b)], group, within, widths),
        len(low) == 2 and bool((low[1] <= 0).all() and (high[1] >= 0).all()),
    )


def _by_group(ends: Sequence[Ints], group: Ints, within: Ints, widths: Ints) -> PrefixSets:
    """For each of some ends an order for each group, over the group's own bits."""
    if not ends:
        return NO_SETS
    by_end = [np.lexsort((e, group)) for e in ends]
    keys = np.concatenate([e[o] for e, o in zip(ends, by_end, strict=True)])
    bits = np.concatenate([within[o] for o in by_end]).astype(np.int32)
    sizes = np.tile(np.bincount(group, minlength=len(widths)), len(ends))
    return prefix_sets(keys, bits, np.append(0, np.cumsum(sizes)), np.tile(widths, len(ends)))


def _at_bits(values: npt.NDArray[Any], bits: Ints, words: int, filler: int) -> npt.NDArray[Any]:
    found = np.full(words * 64, filler, values.dtype)
    found[bits] = values
    return found


def _orders(ends: Sequence[Ints], bits: Ints, words: int) -> PrefixSets:
    """Orders over all bits."""
    by_end = [np.argsort(e, kind="stable") for e in ends]
    keys = np.concatenate([_NOTHING, *(e[o] for e, o in zip(ends, by_end, strict=True))])
    of_keys = np.concatenate([_NOTHING, *(bits[o] for o in by_end)]).astype(np.int32)
    return prefix_sets(keys, of_keys, np.arange(len(ends) + 1) * len(bits), np.full(len(ends), words))


def as_words(flags: npt.NDArray[np.bool_]) -> Words:
    """Flags, a multiple of 64, as a set."""
    return np.packbits(flags, bitorder="little").view(np.uint64)

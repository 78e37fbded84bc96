"""Range groups: an index of query ranges in stabbing groups, for finding the queries that a tuple affects.

All ranges of a stabbing group contain a point. A range that holds any of a tuple's partners holds the nearest one at or
below the point, or the nearest one above it. So the affected queries of a group are a prefix of the group in the order
of low ends, and a prefix in the order of high ends.

Every query slot has a bit. Bits are sorted by group, then by low end: the first prefix is a run of bits, the second a
prefix set. The ranges over the arriving tuple's own attributes are prefix sets over all bits, and ranges along further
axes are prefix sets over the bits of each group. Large groups (hotspots) come first.
Building costs O(n log n). (Document 4, sections 2.2 and 3.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from eddyline.arrays import Ints, Ints32, Mask, Words
from eddyline.index.ranges.prefix_sets import NO_SETS, PrefixSets, prefix_sets
from eddyline.index.ranges.probes import AxisRanges
from eddyline.index.ranges.stabbing import canonical
from eddyline.index.runtime.vectors import SET_WORDS

HOT = 0.001  # the least share of all ranges that makes a group a hotspot
_NOTHING = np.empty(0, np.int64)


class StabbingGroups(NamedTuple):
    """The groups along the first axis."""

    points: Ints  # by group
    word_starts: Ints  # by group: the word where its bits begin
    sizes: Ints  # by group
    low: Ints  # by bit; ascending within a group
    highs: PrefixSets  # an order for each group: ~high


class GroupColumns(NamedTuple):
    """The index as kernels read it."""

    hot: int  # the number of hotspots
    stabbing: StabbingGroups
    present: Words  # the bits that have a query slot
    ranges: AxisRanges  # by axis and bit
    ends: Ints  # by bit: both ends along the first axis, side by side for reading single queries
    own: PrefixSets  # two orders for each own attribute of arriving tuples: low, and ~high
    further: PrefixSets  # for each further axis, two orders for each group: low, and ~high
    around_zero: bool  # whether there is exactly one further axis, and all ranges contain its 0


@dataclass(frozen=True)
class RangeGroups:
    slots: Ints32  # by bit: the query slot, -1 for bits without one
    columns: GroupColumns

    def __len__(self) -> int:
        return int(self.columns.stabbing.sizes.sum())

    @property
    def words(self) -> int:
        return len(self.columns.present)

    @property
    def bits(self) -> Ints:
        """The bits that have a query slot."""
        return np.nonzero(self.slots >= 0)[0]

    @cached_property
    def by_ends(self) -> PrefixSets:
        """Two orders over all bits: the low ends along the first axis, and ~high."""
        low, high = (e[0][self.bits] for e in self.columns.ranges)
        return _orders([low, ~high], self.bits, self.words)

    @cached_property
    def own_ranges(self) -> AxisRanges:
        """By own attribute and bit: the range that the query accepts."""
        own = self.columns.own
        ends = np.zeros((len(own.widths), len(self.slots)), np.int64)
        for order, line in enumerate(ends):
            entries = slice(own.starts[order], own.starts[order + 1])
            line[own.bits[entries]] = own.keys[entries]
        return AxisRanges(ends[::2].copy(), ~ends[1::2])

    @property
    def nbytes(self) -> int:
        """Without the columns that are derived when a strategy needs them."""
        c = self.columns
        return sum(x.nbytes for x in (self.slots, *c.ranges, c.ends, c.stabbing.highs, c.own, c.further))


def range_groups(slots: Ints, low: Ints, high: Ints, own: Sequence[tuple[Ints, Ints]], hot: float = HOT) -> RangeGroups:
    """An index of query slots with the ranges low … high, by axis; no range is empty along the first axis. `own` has
    the ends of the ranges over each own attribute."""
    partition = canonical(low[0], high[0])
    large = partition.sizes >= max(2.0, hot * len(slots))
    by_size = np.argsort(~large, kind="stable")  # groups; hotspots first
    sizes = partition.sizes[by_size]
    starts = np.append(0, np.cumsum(sizes))
    widths = -(-sizes // 64)
    word_starts = np.append(0, np.cumsum(widths))
    words = max(SET_WORDS, -(-int(word_starts[-1]) // SET_WORDS) * SET_WORDS)
    group = np.repeat(np.arange(len(sizes)), sizes)
    within = np.arange(len(slots)) - starts[:-1][group]
    order = partition.order[partition.starts[:-1][by_size][group] + within]
    bits = word_starts[:-1][group] * 64 + within
    by_bit = _at_bits(slots[order].astype(np.int32), bits, words, -1)
    ranges = AxisRanges(*(np.stack([_at_bits(a[order], bits, words, f) for a in e]) for e, f in ((low, 1), (high, 0))))
    by_high = np.lexsort((~high[0][order], group))
    highs = prefix_sets(~high[0][order][by_high], within[by_high].astype(np.int32), starts, widths)
    further = [e[order] for a, b in zip(low[1:], high[1:], strict=True) for e in (a, ~b)]
    columns = GroupColumns(
        hot=int(large.sum()),
        stabbing=StabbingGroups(partition.last[by_size], word_starts, sizes, ranges.low[0], highs),
        present=as_words(by_bit >= 0),
        ranges=ranges,
        ends=np.stack([ranges.low[0], ranges.high[0]], axis=1),
        own=_orders([e[order] for a, b in own for e in (a, ~b)], bits, words),
        further=_by_group(further, group, within, widths),
        around_zero=len(low) == 2 and bool((low[1] <= 0).all() and (high[1] >= 0).all()),
    )
    return RangeGroups(by_bit, columns)


def _by_group(ends: Sequence[Ints], group: Ints, within: Ints, widths: Ints) -> PrefixSets:
    """For each kind of end, an order for each group, over the group's own bits."""
    if not ends:
        return NO_SETS
    by_end = [np.lexsort((e, group)) for e in ends]
    keys = np.concatenate([e[o] for e, o in zip(ends, by_end, strict=True)])
    bits = np.concatenate([within[o] for o in by_end]).astype(np.int32)
    sizes = np.tile(np.bincount(group, minlength=len(widths)), len(ends))
    return prefix_sets(keys, bits, np.append(0, np.cumsum(sizes)), np.tile(widths, len(ends)))


def _orders(ends: Sequence[Ints], bits: Ints, words: int) -> PrefixSets:
    """For each kind of end, an order over all bits."""
    by_end = [np.argsort(e, kind="stable") for e in ends]
    keys = np.concatenate([_NOTHING, *(e[o] for e, o in zip(ends, by_end, strict=True))])
    of_keys = np.concatenate([_NOTHING, *(bits[o] for o in by_end)]).astype(np.int32)
    return prefix_sets(keys, of_keys, np.arange(len(ends) + 1) * len(bits), np.full(len(ends), words))


def _at_bits(values: npt.NDArray[Any], bits: Ints, words: int, filler: int) -> npt.NDArray[Any]:
    by_bit = np.full(words * 64, filler, values.dtype)
    by_bit[bits] = values
    return by_bit


def as_words(flags: Mask) -> Words:
    """A set from flags; their number is a multiple of 64."""
    return np.packbits(flags, bitorder="little").view(np.uint64)

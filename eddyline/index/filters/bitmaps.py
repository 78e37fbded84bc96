"""Bitmaps: for every attribute and code, the set of queries that accept it, one bit each (document 1, section 3.2.6).

For queries that accept many rows. Their conditions are in conjunctive normal form (`clauses.py`). Layer 0 holds, by
attribute, what the clauses over that attribute alone accept; a clause over several attributes stands in a layer above
0, where it is enough that one attribute accepts (one bit per disjunct, section 3.2.7). A row's set is the intersection
over the attributes of layer 0, and over the further layers of the union of their attributes' sets.

Structure: queries stand in blocks of 4,096, so that the bitmaps of a block, 512 bytes for each attribute and bin, stay
in the second-level cache while all rows of a batch pass. A bin is a code where an attribute has few, else a run of
codes; a query whose range ends inside a bin is *possible* there but not *certain*, and its codes are compared. Cost of
a row: 8 vectors per attribute and block, until no query is left that an attribute still to come could reject. So the
order of attributes matters, and the search (`bitmap_search.py`) counts how often each was entered.

In document 1's words (section 3.1 to 3.2.3): the attributes that a row has entered are its *done* bits; those still to
come over which a query that is left has a clause are its *ready* bits; the queries not in its set are its
*queriesCompleted*; and a query's *completionMask* is the set of attributes it has clauses over, kept the other way
round: `with_clause` has, by attribute, the queries whose mask contains it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from eddyline.arrays import Codes, Ints, Ints32, Mask, Words
from eddyline.index.filters.clauses import CodeRanges
from eddyline.index.runtime.kernel_cache import kernel
from eddyline.index.runtime.vectors import SET_WORDS, on_lines

BLOCK = 64 * SET_WORDS
MOST_BINS = 256


class Bitmaps(NamedTuple):
    """Bitmaps are in groups, one for each pair of a layer and an attribute, layer 0 first."""

    slots: Ints32  # the query slot that each bit stands for
    queries: Words  # by block: the bits that stand for a query
    group_layer: Ints
    group_attribute: Ints
    group_start: Ints  # the first bin of each group, and the number of all bins
    bin_of: Codes  # by attribute and code
    exact: Mask  # by attribute: whether codes decide
    possible: Words  # by block, bin and word
    certain: Words  # the same; empty if what is possible is certain
    with_clause: Words  # by group of layer 0 and block: the queries with a clause there
    without_clause: Words  # by layer above 0 and block: the queries with no clause there
    predicates: Ints  # by group of layer 0: how many queries have a clause over its attribute
    accepting: Ints  # by bin of layer 0: how many of these queries accept it
    ranges: CodeRanges  # of the bits, in their order; empty if what is possible is certain
    range_start: Ints32  # the first range of each bit

    @property
    def blocks(self) -> int:
        return len(self.possible)

    @property
    def attributes(self) -> Ints:
        """The attributes of layer 0 in the order of their groups, which a search can enter in any order."""
        attributes: Ints = self.group_attribute[self.group_layer == 0]
        return attributes

    def accepted(self, codes: Codes) -> Ints:
        """By group of layer 0: how many of its predicates the rows of a batch satisfy together."""
        return np.array([self.accepting[self.bins(g, codes)].sum() for g in range(len(self.with_clause))], np.int64)

    def bins(self, group: int, codes: Codes) -> Ints32:
        """The bin of a group that each row of a batch is in."""
        attribute = self.group_attribute[group]
        bins: Ints32 = self.bin_of[attribute].take(codes[attribute]).astype(np.int32)
        bins += np.int32(self.group_start[group])
        return bins


def bitmaps(slots: Ints32, ranges: CodeRanges, sizes: Sequence[int], exact: Mask) -> Bitmaps:
    """The bitmaps of the queries in these slots; owner i of the ranges is slots[i].

    `sizes` and `exact` are those of the attributes' domains. O(queries · bins).
    """
    layer, attribute = np.unique(np.stack([ranges.layer, ranges.attribute]), axis=1).astype(np.int64)
    bin_of = np.zeros((len(sizes), max(sizes, default=0)), np.uint16)
    bins = np.zeros(len(sizes), np.int64)
    for a, size in enumerate(sizes):
        few = min(MOST_BINS - 1, size - 1)
        bin_of[a, 1:size] = 1 + np.arange(size - 1) * few // (size - 1)
        bins[a] = few + 1
    start = np.cumsum([0, *bins[attribute]])
    blocks = max(1, -(-len(slots) // BLOCK))
    coarse = any(sizes[a] > MOST_BINS or not exact[a] for a in attribute)
    maps = Bitmaps(
        slots,
        _first_bits(len(slots), blocks),
        layer,
        attribute,
        start,
        bin_of,
        np.asarray(exact, np.bool_),
        possible=on_lines((blocks, int(start[-1]), SET_WORDS), np.uint64),
        certain=on_lines((blocks if coarse else 0, int(start[-1]), SET_WORDS), np.uint64),
        with_clause=on_lines((int((layer == 0).sum()), blocks, SET_WORDS), np.uint64),
        without_clause=on_lines((int(layer.max(initial=0)), blocks, SET_WORDS), np.uint64),
        predicates=np.zeros(int((layer == 0).sum()), np.int64),
        accepting=np.zeros(int(start[-1]), np.int64),
        ranges=ranges,
        range_start=np.searchsorted(ranges.owner, np.arange(len(slots) + 1)).astype(np.int32),
    )
    _fill(maps)
    return maps if coarse else maps._replace(ranges=ranges.take(np.empty(0, np.int64)))


def _first_bits(n: int, blocks: int) -> Words:
    bits = np.arange(blocks * BLOCK) < n
    return np.packbits(bits, bitorder="little").view(np.uint64).reshape(blocks, SET_WORDS)


@kernel
def _fill(maps: Bitmaps) -> None:
    group_layer, group_start, bin_of, exact = maps.group_layer, maps.group_start, maps.bin_of, maps.exact
    possible, certain, range_start = maps.possible, maps.certain, maps.range_start
    _, layer, clause, attribute, low, high = maps.ranges
    most_bins = 0
    for g in range(len(group_layer)):
        most_bins = max(most_bins, group_start[g + 1] - group_start[g])
    accepts = np.empty((2, most_bins), np.uint8)  # possible, certain: what all clauses so far accept
    one_of = np.empty((2, most_bins), np.uint8)  # what some range of the current clause accepts
    for i in range(len(range_start) - 1):
        block, word, bit = i // BLOCK, (i % BLOCK) // 64, np.uint64(1) << np.uint64(i % 64)
        for g in range(len(group_layer)):
            first, bins, a = group_start[g], group_start[g + 1] - group_start[g], maps.group_attribute[g]
            for b in range(bins):
                accepts[0, b] = accepts[1, b] = 1
            current = -1
            has_layer = False
            for p in range(range_start[i], range_start[i + 1]):
                if layer[p] != group_layer[g]:
                    continue
                has_layer = True
                if attribute[p] != a:
                    continue
                if clause[p] != current:
                    if current >= 0:
                        for b in range(bins):
                            accepts[0, b] &= one_of[0, b]
                            accepts[1, b] &= one_of[1, b]
                    current = clause[p]
                    for b in range(bins):
                        one_of[0, b] = one_of[1, b] = 0
                begin, end = bin_of[a, low[p]], bin_of[a, high[p]]
                # an end inside a bin, or at a code that does not decide: possible there, not certain
                whole_begin = low[p] <= 1 or (exact[a] and bin_of[a, low[p] - 1] != begin)
                whole_end = exact[a] and (high[p] + 1 >= bin_of.shape[1] or bin_of[a, high[p] + 1] != end)
                for b in range(begin, end + 1):
                    one_of[0, b] = 1
                    one_of[1, b] |= (b > begin or whole_begin) and (b < end or whole_end)
            if current < 0 and group_layer[g] > 0:
                if not has_layer:
                    maps.without_clause[group_layer[g] - 1, block, word] |= bit
                continue
            if current >= 0:
                for b in range(bins):
                    accepts[0, b] &= one_of[0, b]
                    accepts[1, b] &= one_of[1, b]
                if group_layer[g] == 0:
                    maps.with_clause[g, block, word] |= bit
                    maps.predicates[g] += 1
                    for b in range(bins):
                        maps.accepting[first + b] += accepts[0, b]
            for b in range(bins):
                if accepts[0, b]:
                    possible[block, first + b, word] |= bit
                if len(certain) > 0 and accepts[1, b]:
                    certain[block, first + b, word] |= bit

"""Bitmaps: for every attribute and code the set of numbers that accept it, one bit each (document 1, section 3.2.6).

For queries that accept many rows. Their conditions are in conjunctive normal form (`Pieces`). *Layer* 0 holds, by
attribute, what the clauses over that attribute alone accept; the i-th clause over several attributes stands in layer i,
where it is enough that one attribute accepts (one bit per disjunct, section 3.2.7). A row's set is the intersection
over the attributes of layer 0, and over the further layers of the union of their attributes' sets.

Structure: numbers stand in blocks of 4,096, so that the bitmaps of a block, 512 bytes for each attribute and bin, stay
in the second-level cache while all rows of a batch pass. A bin is a code where an attribute has few, else a run of
codes; a number whose range ends inside a bin is *possible* there but not *certain*, and its codes are compared. Cost of
a row: 8 vectors per attribute and block, until no number is left that an attribute still to come could reject: the
order of attributes counts, and the search (`bitmap_search.py`) tells how often each was entered.

In document 1's words (section 3.1 to 3.2.3): the steps of `order` taken so far are the row's *done* bits, the rest its
*ready* bits; the numbers not in its set are its *queriesCompleted*; and a number's *completionMask* are the attributes
it has clauses over, kept turned around: `awaiting` has, by step, the numbers whose mask is not yet covered.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from eddyline.arrays import Codes, Ints, Ints32, Mask, Words
from eddyline.index.filters.terms import Pieces
from eddyline.index.runtime.kernel_cache import kernel
from eddyline.index.runtime.vectors import SET_WORDS, on_lines

WORDS = SET_WORDS
BLOCK = 64 * WORDS
MOST_BINS = 256


@dataclass(frozen=True)
class Bitmaps:
    numbers: Ints32  # which number each bit stands for
    group_layer: Ints  # the groups of bitmaps: a layer and an attribute, layer 0 first
    group_attribute: Ints
    group_start: Ints  # where its bins begin
    free: Words  # by layer above 0: the numbers that have no clause there
    bin_of: npt.NDArray[np.uint16]  # by attribute and code
    possible: Words  # by block, bin and word
    certain: Words  # the same; empty if what is possible is certain
    concerned: Words  # by group of layer 0 and block: the numbers with a clause there
    passed: Ints  # by bin: of the numbers concerned, how many accept it
    exact: Mask  # by attribute: whether codes tell all
    pieces: Pieces  # of the bits, in their order; empty if not needed
    piece_start: Ints32

    @property
    def nbytes(self) -> int:
        return self.numbers.nbytes + self.possible.nbytes + self.certain.nbytes + self.pieces.nbytes

    @cached_property
    def predicates(self) -> Ints:
        """By group of layer 0: how many numbers have a clause over its attribute."""
        found: Ints = np.bitwise_count(self.concerned).sum(axis=(1, 2), dtype=np.int64)
        return found

    def accepted(self, codes: Codes) -> Ints:
        """By group of layer 0: how many of its predicates the rows of a batch satisfy together."""
        return np.array([self.passed[self.places(g, codes)].sum() for g in range(len(self.concerned))], np.int64)

    def places(self, group: int, codes: Codes) -> Ints32:
        """Which bitmap the rows of a batch find in a group."""
        attribute = self.group_attribute[group]
        found: Ints32 = self.bin_of[attribute].take(codes[attribute]).astype(np.int32)
        found += np.int32(self.group_start[group])
        return found

    @property
    def blocks(self) -> int:
        return len(self.possible)

    @property
    def attributes(self) -> Ints:
        """Those of layer 0, in the order of their groups: what a search can be ordered by."""
        found: Ints = self.group_attribute[self.group_layer == 0]
        return found


def bitmaps(numbers: Ints32, pieces: Pieces, sizes: Sequence[int], exact: Mask) -> Bitmaps:
    """The bitmaps of some numbers, whose conditions are `pieces` (owner i is the i-th number).

    `sizes` and `exact` are those of the attributes' domains. O(numbers · bins).
    """
    keys = np.unique(np.stack([pieces.layer, pieces.attribute]), axis=1).astype(np.int64)
    bin_of = np.zeros((len(sizes), max(sizes, default=0)), np.uint16)
    bins = np.zeros(len(sizes), np.int64)
    for a, size in enumerate(sizes):
        few = min(MOST_BINS - 1, size - 1)
        bin_of[a, 1:size] = 1 + np.arange(size - 1) * few // (size - 1)
        bins[a] = few + 1
    start = np.cumsum([0, *bins[keys[1]]])
    blocks = max(1, -(-len(numbers) // BLOCK))
    coarse = any(sizes[a] > MOST_BINS or not exact[a] for a in keys[1])
    possible = on_lines((blocks, int(start[-1]), WORDS), np.uint64)
    certain = on_lines((blocks if coarse else 0, int(start[-1]), WORDS), np.uint64)
    layers = int(keys[0].max(initial=0))
    free = on_lines((layers, blocks, WORDS), np.uint64)
    own = int((keys[0] == 0).sum())
    concerned = on_lines((own, blocks, WORDS), np.uint64)
    passed = np.zeros(int(start[-1]), np.int64)
    piece_start = np.searchsorted(pieces.owner, np.arange(len(numbers) + 1)).astype(np.int32)
    _fill(
        pieces.layer,
        pieces.clause,
        pieces.attribute,
        pieces.low,
        pieces.high,
        piece_start,
        keys[0],
        keys[1],
        start,
        bin_of,
        np.asarray(exact, np.bool_),
        possible,
        certain,
        free,
        concerned,
        passed,
    )
    kept = pieces if coarse else pieces.take(np.empty(0, np.int64))
    return Bitmaps(
        numbers, keys[0], keys[1], start, free, bin_of, possible, certain, concerned, passed, exact, kept, piece_start
    )


# --- kernel ---------------------------------------------------------------------------------------------------------


@kernel
def _fill(
    layer: Ints32,
    clause: Ints32,
    attribute: Ints32,
    low: Codes,
    high: Codes,
    piece_start: Ints32,
    group_layer: Ints,
    group_attribute: Ints,
    group_start: Ints,
    bin_of: Codes,
    exact: Mask,
    possible: Words,
    certain: Words,
    free: Words,
    concerned: Words,
    passed: Ints,
) -> None:
    most_bins = 0
    for g in range(len(group_layer)):
        most_bins = max(most_bins, group_start[g + 1] - group_start[g])
    accepts = np.empty((2, most_bins), np.uint8)  # possible, certain: what all clauses so far accept
    one_of = np.empty((2, most_bins), np.uint8)  # what some piece of the present clause accepts
    for i in range(len(piece_start) - 1):
        block, word, bit = i // BLOCK, (i % BLOCK) // 64, np.uint64(1) << np.uint64(i % 64)
        for g in range(len(group_layer)):
            first, bins, a = group_start[g], group_start[g + 1] - group_start[g], group_attribute[g]
            for b in range(bins):
                accepts[0, b] = accepts[1, b] = 1
            present = -1
            has_layer = False
            for p in range(piece_start[i], piece_start[i + 1]):
                if layer[p] != group_layer[g]:
                    continue
                has_layer = True
                if attribute[p] != a:
                    continue
                if clause[p] != present:
                    if present >= 0:
                        for b in range(bins):
                            accepts[0, b] &= one_of[0, b]
                            accepts[1, b] &= one_of[1, b]
                    present = clause[p]
                    for b in range(bins):
                        one_of[0, b] = one_of[1, b] = 0
                begin, end = bin_of[a, low[p]], bin_of[a, high[p]]
                # an end inside a bin, or at a code that does not tell all: possible there, not certain
                whole_begin = low[p] <= 1 or (exact[a] and bin_of[a, low[p] - 1] != begin)
                whole_end = exact[a] and (high[p] + 1 >= bin_of.shape[1] or bin_of[a, high[p] + 1] != end)
                for b in range(begin, end + 1):
                    one_of[0, b] = 1
                    one_of[1, b] |= (b > begin or whole_begin) and (b < end or whole_end)
            if present >= 0:
                for b in range(bins):
                    accepts[0, b] &= one_of[0, b]
                    accepts[1, b] &= one_of[1, b]
            if group_layer[g] == 0:
                if present >= 0:
                    concerned[g, block, word] |= bit
                    for b in range(bins):
                        passed[first + b] += accepts[0, b]
            elif present < 0:
                if not has_layer:
                    free[group_layer[g] - 1, block, word] |= bit
                continue
            for b in range(bins):
                if accepts[0, b]:
                    possible[block, first + b, word] |= bit
                if len(certain) > 0 and accepts[1, b]:
                    certain[block, first + b, word] |= bit

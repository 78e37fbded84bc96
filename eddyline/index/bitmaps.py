"""Bitmaps: for every attribute and code the set of numbers that accept it, one bit each (document 1, section 3.2.6).

For queries that accept many rows. Their conditions are in conjunctive normal form (`Pieces`). *Layer* 0 holds, by
attribute, what the clauses over that attribute alone accept; the i-th clause over several attributes stands in layer i,
where it is enough that one attribute accepts (one bit per disjunct, section 3.2.7). A row's set is the intersection
over the attributes of layer 0, and over the further layers of the union of their attributes' sets.

Structure: numbers stand in blocks of 4,096, so that the bitmaps of a block, 512 bytes for each attribute and bin, stay
in the second-level cache while all rows of a batch pass. A bin is a code where an attribute has few, else a run of
codes; a number whose range ends inside a bin is *possible* there but not *certain*, and its codes are compared. Cost of
a row: 8 vectors per attribute and block, until no number is left that an attribute still to come could reject: the
order of attributes counts, and `search` tells how often each was entered.

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
from numba import njit

from eddyline.index.boxes import Found
from eddyline.index.rooms import room
from eddyline.index.sets import Containers, Kinds, put
from eddyline.index.vectors import (
    SET_WORDS,
    copy_set,
    intersect,
    lowest_bit,
    meets,
    members,
    on_lines,
    run_starts,
    stream_set,
    unite,
)

Ints = npt.NDArray[np.int64]
Numbers32 = npt.NDArray[np.int32]
Codes = npt.NDArray[np.uint16]
Flags = npt.NDArray[np.bool_]
Words = npt.NDArray[np.uint64]

WORDS = SET_WORDS
BLOCK = 64 * WORDS
MOST_BINS = 256


@dataclass(frozen=True)
class Pieces:
    """Conditions in conjunctive normal form: a clause holds if one of its pieces does, a piece if low <= code <= high.

    Sorted by owner, then layer, then clause. `layer` is 0 for a clause over one attribute; a clause over several has a
    layer above 0, of which its owner has no other clause.
    """

    owner: Numbers32
    layer: Numbers32
    clause: Numbers32
    attribute: Numbers32
    low: Codes
    high: Codes

    def __len__(self) -> int:
        return len(self.owner)

    def take(self, which: npt.NDArray[np.bool_] | Ints) -> Pieces:
        return Pieces(*(getattr(self, n)[which] for n in self.__dataclass_fields__))

    @property
    def nbytes(self) -> int:
        return sum(getattr(self, n).nbytes for n in self.__dataclass_fields__)


@dataclass(frozen=True)
class Bitmaps:
    numbers: Numbers32  # which number each bit stands for
    group_layer: Ints  # the groups of bitmaps: a layer and an attribute, layer 0 first
    group_attribute: Ints
    group_start: Ints  # where its bins begin
    free: Words  # by layer above 0: the numbers that have no clause there
    bin_of: npt.NDArray[np.uint16]  # by attribute and code
    possible: Words  # by block, bin and word
    certain: Words  # the same; empty if what is possible is certain
    concerned: Words  # by group of layer 0 and block: the numbers with a clause there
    passed: Ints  # by bin: of the numbers concerned, how many accept it
    exact: Flags  # by attribute: whether codes tell all
    pieces: Pieces  # of the bits, in their order; empty if not needed
    piece_start: Ints

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

    def places(self, group: int, codes: Codes) -> Numbers32:
        """Which bitmap the rows of a batch find in a group."""
        attribute = self.group_attribute[group]
        found: Numbers32 = self.bin_of[attribute].take(codes[attribute]).astype(np.int32)
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


def bitmaps(numbers: Numbers32, pieces: Pieces, sizes: Sequence[int], exact: Flags) -> Bitmaps:
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
    piece_start = np.searchsorted(pieces.owner, np.arange(len(numbers) + 1))
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


def search(
    bitmaps: Bitmaps, codes: Codes, alive: Flags, order: Ints, counts: Ints, found: Found, *, listing: bool
) -> tuple[Ints, Containers | None]:
    """Adds the matches of every row to `counts`, and gives them as sets if `listing`. Unsure matches go to `found`.

    `order` says in which order the groups of layer 0 are entered. Also returns, by group of layer 0, how many
    (row, block) entered it.
    """
    rows = codes.shape[1]
    entered = np.zeros(len(order), np.int64)
    shape = (bitmaps.blocks, rows) if listing else (0, 0)
    kind, size, start = np.zeros(shape, np.uint8), np.zeros(shape, np.uint16), np.zeros(shape, np.int64)
    words = room(shape[0] * shape[1] * (WORDS + 8))  # for the worst case; what is not written takes none
    end = 0
    living = _living(bitmaps, alive)
    places = np.empty((len(bitmaps.group_layer), rows), np.int32)
    for g in range(len(places)):
        places[g] = bitmaps.places(g, codes)
    block = row = 0
    while block < bitmaps.blocks:
        block, row, found.used, end = _walk(
            bitmaps.possible.reshape(-1),
            bitmaps.certain.reshape(-1),
            bitmaps.free.reshape(-1),
            bitmaps.group_layer,
            bitmaps.exact,
            bitmaps.pieces.clause,
            bitmaps.pieces.layer,
            bitmaps.pieces.attribute,
            bitmaps.pieces.low,
            bitmaps.pieces.high,
            bitmaps.piece_start,
            bitmaps.numbers,
            living.reshape(-1),
            _awaiting(bitmaps, order).reshape(-1),
            codes,
            places,
            order,
            counts,
            kind,
            size,
            start,
            words,
            words.view(np.uint16),
            end,
            found.rows,
            found.numbers,
            found.used,
            entered,
            bitmaps.blocks,
            bitmaps.possible.shape[1],
            block,
            row,
        )
        if block < bitmaps.blocks:
            found.grow()
    sets = Containers(kind, size, start, words[:end], bitmaps.numbers) if listing else None
    return entered, sets


def _awaiting(bitmaps: Bitmaps, order: Ints) -> Words:
    """By step and block: the numbers that a step still to come, or a further layer, could reject."""
    later = np.zeros((len(order), bitmaps.blocks, WORDS), np.uint64)
    if len(order):
        for layer in bitmaps.free:
            later[-1] |= ~layer
        for step in range(len(order) - 1, 0, -1):
            later[step - 1] = later[step] | bitmaps.concerned[order[step]]
    return later


def _living(bitmaps: Bitmaps, alive: Flags) -> Words:
    """Which bits count; empty if all that are set in the bitmaps do."""
    if not len(alive) and len(bitmaps.group_layer):
        return np.empty((0, 0), np.uint64)
    bits = np.zeros(bitmaps.blocks * BLOCK, np.bool_)
    bits[: len(bitmaps.numbers)] = alive[bitmaps.numbers] if len(alive) else True
    return np.packbits(bits, bitorder="little").view(np.uint64).reshape(bitmaps.blocks, WORDS)


# --- kernels ---------------------------------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _fill(
    layer: Numbers32,
    clause: Numbers32,
    attribute: Numbers32,
    low: Codes,
    high: Codes,
    piece_start: Ints,
    group_layer: Ints,
    group_attribute: Ints,
    group_start: Ints,
    bin_of: Codes,
    exact: Flags,
    possible: Words,
    certain: Words,
    free: Words,
    concerned: Words,
    passed: Ints,
) -> None:
    accepts = np.empty((2, 256), np.uint8)  # possible, certain: what all clauses so far accept
    one_of = np.empty((2, 256), np.uint8)  # what some piece of the present clause accepts
    for i in range(len(piece_start) - 1):
        block, word, bit = i // 4096, (i % 4096) // 64, np.uint64(1) << np.uint64(i % 64)
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


@njit(cache=True, nogil=True)
def _walk(
    possible: Words,
    certain: Words,
    free: Words,
    group_layer: Ints,
    exact: Flags,
    clause: Numbers32,
    layer: Numbers32,
    attribute: Numbers32,
    low: Codes,
    high: Codes,
    piece_start: Ints,
    numbers: Numbers32,
    living: Words,
    awaiting: Words,
    codes: Codes,
    places: Numbers32,
    order: Ints,
    counts: Ints,
    kind: Kinds,
    size: Codes,
    start: Ints,
    words: Words,
    halves: Codes,
    end: int,
    found_rows: Numbers32,
    found_numbers: Numbers32,
    used: int,
    entered: Ints,
    blocks: int,
    bins: int,
    first_block: int,
    first_row: int,
) -> tuple[int, int, int, int]:
    """From a block and row on, blocks outermost. Stops where pairs have no room; returns where, the pairs used, and the
    words."""
    rows = codes.shape[1]
    r = np.empty(64, np.uint64)
    s = np.empty(64, np.uint64)
    t = np.empty(64, np.uint64)
    one = np.uint64(1)
    steps = len(order)
    for block in range(first_block, blocks):
        base = block * bins
        for row in range(first_row if block == first_block else 0, rows):
            step = 0  # taken so far
            more = np.uint64(1)  # whether something still to come could reject a number that is left
            if steps == 0:
                r[:] = ~np.uint64(0)
            else:
                x = (base + places[order[0], row]) * 64
                step = 1
                if steps == 1 or meets(possible, x, awaiting, block * 64) == 0:
                    more = intersect(r, 0, possible, x, possible, x, awaiting, block * 64)
                else:
                    y = (base + places[order[1], row]) * 64
                    more = intersect(r, 0, possible, x, possible, y, awaiting, (blocks + block) * 64)
                    step = 2
                    while step < steps and more != 0:
                        g = order[step]
                        y = (base + places[g, row]) * 64
                        more = intersect(r, 0, r, 0, possible, y, awaiting, (step * blocks + block) * 64)
                        step += 1
            g = steps
            while g < len(group_layer) and more != 0:
                g = _one_of(possible, base, free, block, blocks, group_layer, places, row, g, s)
                intersect(r, 0, r, 0, s, 0, s, 0)
            if len(living) > 0:
                intersect(r, 0, r, 0, living, block * 64, r, 0)
            if len(certain) > 0 and meets(r, 0, r, 0) != 0:
                copy_set(s, 0, r, 0)
                for g in range(steps):
                    intersect(s, 0, s, 0, certain, (base + places[g, row]) * 64, r, 0)
                g = steps
                while g < len(group_layer):
                    g = _one_of(certain, base, free, block, blocks, group_layer, places, row, g, t)
                    intersect(s, 0, s, 0, t, 0, t, 0)
                before = used
                for w in range(64):
                    doubtful = r[w] & ~s[w]
                    while doubtful != 0:
                        k = lowest_bit(doubtful)
                        doubtful &= doubtful - one
                        i = block * 4096 + w * 64 + k
                        verdict = _verdict(clause, layer, attribute, low, high, piece_start, exact, codes, row, i)
                        if verdict <= 0:
                            r[w] &= ~(one << np.uint64(k))
                        if verdict == 0:
                            if used == len(found_rows):
                                return block, row, before, end
                            found_rows[used] = row
                            found_numbers[used] = ~numbers[i]
                            used += 1
            for i in range(step):
                entered[order[i]] += 1
            count = members(r, 0)
            counts[row] += count
            if len(kind) > 0:
                if count >= 256 and run_starts(r, 0) >= 128:  # what is most often put, without a call
                    end = (end + 7) // 8 * 8
                    kind[block, row], size[block, row], start[block, row] = 3, count, end
                    stream_set(words, end, r, 0)
                    end += 64
                else:
                    end = put(r, block, row, kind, size, start, words, halves, end)
    return blocks, 0, used, end


@njit(cache=True, nogil=True)
def _one_of(
    maps: Words,
    base: int,
    free: Words,
    block: int,
    blocks: int,
    group_layer: Ints,
    places: Numbers32,
    row: int,
    g: int,
    to: Words,
) -> int:
    """The union over the groups of one layer, from group g on; returns the first group of the next layer."""
    layer = group_layer[g]
    at = ((layer - 1) * blocks + block) * 64
    copy_set(to, 0, free, at)
    while g < len(group_layer) and group_layer[g] == layer:
        unite(to, 0, maps, (base + places[g, row]) * 64)
        g += 1
    return g


@njit(cache=True, nogil=True)
def _verdict(
    clause: Numbers32,
    layer: Numbers32,
    attribute: Numbers32,
    low: Codes,
    high: Codes,
    piece_start: Ints,
    exact: Flags,
    codes: Codes,
    row: int,
    i: int,
) -> int:
    """1 if the codes of a row satisfy the pieces of bit i, -1 if not, 0 if they do not tell."""
    sure = True
    p, end = piece_start[i], piece_start[i + 1]
    while p < end:
        now_layer, now = layer[p], clause[p]
        best = -1
        while p < end and clause[p] == now and layer[p] == now_layer:
            a = attribute[p]
            x = codes[a, row]
            if low[p] <= x <= high[p]:
                at_end = not exact[a] and ((x == low[p] and x > 0) or (x == high[p] and x > 0))
                best = max(best, 0 if at_end else 1)
            p += 1
        if best < 0:
            return -1
        sure &= best == 1
    return 1 if sure else 0

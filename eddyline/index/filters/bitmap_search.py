"""The search of bitmaps: rows pass block after block, attribute after attribute (see `bitmaps.py`)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from eddyline.arrays import Codes, Ints, Ints32, Mask, Words
from eddyline.index.filters.bitmaps import BLOCK, Bitmaps
from eddyline.index.filters.boxes import MatchPairs
from eddyline.index.filters.clauses import CodeRanges
from eddyline.index.runtime.kernel_cache import kernel
from eddyline.index.runtime.row_sets import BITMAP, NO_CONTAINERS, ContainerArrays, Containers, put
from eddyline.index.runtime.vectors import (
    SET_WORDS,
    copy_set,
    intersect,
    lowest_bit,
    meets,
    members,
    run_starts,
    stream_set,
    unite,
)


class _Batch(NamedTuple):
    """What a search is about: rows, and which queries count."""

    codes: Codes
    bins: Ints32  # by group and row
    order: Ints  # the groups of layer 0 in the order in which they are entered
    awaiting: Words  # by step and block: the queries that a later step or a layer above 0 could reject
    alive: Words  # by block: the queries that count; empty if all do


class _Progress(NamedTuple):
    """The next block and row to search, and how many pairs and words of containers have been written."""

    block: int
    row: int
    pairs: int
    words: int


class _Undecided(NamedTuple):
    """What deciding about possible matches reads."""

    ranges: CodeRanges
    range_start: Ints32
    exact: Mask
    slots: Ints32
    codes: Codes


def search_bitmaps(
    maps: Bitmaps, codes: Codes, alive: Mask, order: Ints, counts: Ints, pairs: MatchPairs, *, listing: bool
) -> tuple[Ints, Containers | None]:
    """Adds the matches of every row to `counts`, and returns them as sets if `listing`. Unsure matches go to `pairs`.

    `order` says in which order the groups of layer 0 are entered. Also returns, by group of layer 0, how many
    (row, block) entered it.
    """
    rows = codes.shape[1]
    entered = np.zeros(len(order), np.int64)
    containers = ContainerArrays.allocate(maps.blocks, rows) if listing else NO_CONTAINERS
    bins = np.empty((len(maps.group_layer), rows), np.int32)
    for g in range(len(bins)):
        bins[g] = maps.bins(g, codes)
    batch = _Batch(codes, bins, order, _awaiting(maps, order), _alive_bits(maps, alive))
    progress = _Progress(0, 0, pairs.used, 0)
    while progress.block < maps.blocks:
        progress = _Progress(*_walk(maps, batch, progress, counts, entered, containers, pairs.table))
        pairs.used = progress.pairs
        if progress.block < maps.blocks:
            pairs.grow()
    return entered, Containers(containers, progress.words, maps.slots) if listing else None


def _awaiting(maps: Bitmaps, order: Ints) -> Words:
    later = np.zeros((len(order), maps.blocks, SET_WORDS), np.uint64)
    if len(order):
        for layer in maps.without_clause:
            later[-1] |= ~layer
        for step in range(len(order) - 1, 0, -1):
            later[step - 1] = later[step] | maps.with_clause[order[step]]
    return later


def _alive_bits(maps: Bitmaps, alive: Mask) -> Words:
    """The bits that count; empty if all that are set in the bitmaps do."""
    if not len(alive) and len(maps.group_layer):
        return np.empty((0, 0), np.uint64)
    bits = np.zeros(maps.blocks * BLOCK, np.bool_)
    bits[: len(maps.slots)] = alive[maps.slots] if len(alive) else True
    return np.packbits(bits, bitorder="little").view(np.uint64).reshape(maps.blocks, SET_WORDS)


# --- kernels ---------------------------------------------------------------------------------------------------------


@kernel
def _walk(
    maps: Bitmaps,
    batch: _Batch,
    progress: _Progress,
    counts: Ints,
    entered: Ints,
    containers: ContainerArrays,
    pairs: Ints32,
) -> tuple[int, int, int, int]:
    """Searches from a block and row on, blocks outermost. Stops before a row and block whose pairs do not fit."""
    possible, certain, without_clause, group_layer = maps.possible, maps.certain, maps.without_clause, maps.group_layer
    codes, bins, order, awaiting, alive = batch
    first_block, first_row, used, end = progress
    undecided = _Undecided(maps.ranges, maps.range_start, maps.exact, maps.slots, codes)
    kind, size, start, words, _ = containers
    r = np.empty(64, np.uint64)  # possible matches, then certain ones
    s = np.empty(64, np.uint64)
    t = np.empty(64, np.uint64)
    blocks, steps, groups = len(possible), len(order), len(group_layer)
    for block in range(first_block, blocks):
        base = block * possible.shape[1]
        for row in range(first_row if block == first_block else 0, codes.shape[1]):
            step = 0  # taken so far
            more = np.uint64(1)  # whether something still to come could reject a query that is left
            if steps == 0:
                r[:] = ~np.uint64(0)
            else:
                x = (base + bins[order[0], row]) * 64
                step = 1
                if steps == 1 or meets(possible, x, awaiting, block * 64) == 0:
                    more = intersect(r, 0, possible, x, possible, x, awaiting, block * 64)
                else:
                    y = (base + bins[order[1], row]) * 64
                    more = intersect(r, 0, possible, x, possible, y, awaiting, (blocks + block) * 64)
                    step = 2
                    while step < steps and more != 0:
                        y = (base + bins[order[step], row]) * 64
                        more = intersect(r, 0, r, 0, possible, y, awaiting, (step * blocks + block) * 64)
                        step += 1
            g = steps
            while g < groups and more != 0:
                g = _unite_layer(possible, without_clause, group_layer, bins, block, row, g, s)
                intersect(r, 0, r, 0, s, 0, s, 0)
            if len(alive) > 0:
                intersect(r, 0, r, 0, alive, block * 64, r, 0)
            if len(certain) > 0 and meets(r, 0, r, 0) != 0:
                copy_set(s, 0, r, 0)
                for g in range(steps):
                    intersect(s, 0, s, 0, certain, (base + bins[g, row]) * 64, r, 0)
                g = steps
                while g < groups:
                    g = _unite_layer(certain, without_clause, group_layer, bins, block, row, g, t)
                    intersect(s, 0, s, 0, t, 0, t, 0)
                decided = _decide(undecided, r, s, block, row, pairs, used)
                if decided < 0:
                    return block, row, used, end
                used = decided
            for i in range(step):
                entered[order[i]] += 1
            count = members(r, 0)
            counts[row] += count
            if len(kind) > 0:
                if count >= 256 and run_starts(r, 0) >= 128:  # the most frequent case of `put`, without a call
                    end = (end + 7) // 8 * 8
                    kind[block, row], size[block, row], start[block, row] = BITMAP, count, end
                    stream_set(words, end, r, 0)
                    end += 64
                else:
                    end = put(r, block, row, containers, end)
    return blocks, 0, used, end


@kernel
def _unite_layer(
    sets: Words, without_clause: Words, group_layer: Ints, bins: Ints32, block: int, row: int, g: int, to: Words
) -> int:
    """Writes the union over the groups of one layer, from group g on; returns the first group of the next layer."""
    layer = group_layer[g]
    copy_set(to, 0, without_clause, ((layer - 1) * without_clause.shape[1] + block) * 64)
    while g < len(group_layer) and group_layer[g] == layer:
        unite(to, 0, sets, (block * sets.shape[1] + bins[g, row]) * 64)
        g += 1
    return g


@kernel
def _decide(
    undecided: _Undecided, possible: Words, certain: Words, block: int, row: int, pairs: Ints32, used: int
) -> int:
    """Compares the codes of queries that are possible and not certain; leaves in `possible` what is certain.

    Adds unsure matches to the pairs, and returns the number of pairs; -1 if they do not fit.
    """
    one = np.uint64(1)
    for w in range(64):
        doubtful = possible[w] & ~certain[w]
        while doubtful != 0:
            k = lowest_bit(doubtful)
            doubtful &= doubtful - one
            i = block * 4096 + w * 64 + k
            verdict = _verdict(undecided, row, i)
            if verdict <= 0:
                possible[w] &= ~(one << np.uint64(k))
            if verdict == 0:
                if used == pairs.shape[1]:
                    return -1
                pairs[0, used] = row
                pairs[1, used] = ~undecided.slots[i]
                used += 1
    return used


@kernel
def _verdict(undecided: _Undecided, row: int, i: int) -> int:
    """1 if the codes of a row satisfy the condition of bit i, -1 if not, 0 if they do not decide."""
    ranges, range_start, exact, _, codes = undecided
    _, layer, clause, attribute, low, high = ranges
    sure = True
    p, end = range_start[i], range_start[i + 1]
    while p < end:
        now_layer, now = layer[p], clause[p]
        best = -1
        while p < end and clause[p] == now and layer[p] == now_layer:
            a = attribute[p]
            x = codes[a, row]
            if low[p] <= x <= high[p]:
                at_end = not exact[a] and x > 0 and (x == low[p] or x == high[p])
                best = max(best, 0 if at_end else 1)
            p += 1
        if best < 0:
            return -1
        sure &= best == 1
    return 1 if sure else 0

"""The search of bitmaps: rows pass block after block, attribute after attribute (see `bitmaps.py`).

A row enters an attribute only if a living query that is left for it has a clause over the attribute: its ready bits. It
leaves the block when no query is left that anything still to come could reject. So a search reads the codes of exactly
the attributes that a row enters. (Document 1, sections 3.1.1 and 3.2.2.)

The queries that are left are a value in registers (`index/runtime/set_values.py`): a step reads the set of the row's
bin and the set of queries that the next step is for, and writes nothing.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from eddyline.arrays import Codes, Ints, Ints32, Mask, Words
from eddyline.index.filters.bitmaps import Bitmaps
from eddyline.index.filters.boxes import MatchPairs
from eddyline.index.filters.clauses import CodeRanges
from eddyline.index.filters.steps import Steps
from eddyline.index.runtime.kernel_cache import kernel
from eddyline.index.runtime.row_sets import BITMAP, NO_CONTAINERS, ContainerArrays, Containers, put
from eddyline.index.runtime.set_values import intersected, load_set, overlaps, size_of, store_set
from eddyline.index.runtime.vectors import (
    SET_WORDS,
    copy_set,
    lowest_bit,
    meets,
    on_lines,
    run_starts,
    stream_set,
    unite,
)


class _Batch(NamedTuple):
    """The rows of a search."""

    codes: Codes
    bins: Ints32  # by group and row
    scratch: Words  # two sets that begin with a cache line, for what needs them in memory


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
    maps: Bitmaps, codes: Codes, steps: Steps, counts: Ints, pairs: MatchPairs, *, listing: bool
) -> tuple[Ints, Containers | None]:
    """Adds the matches of every row to `counts`, and returns them as sets if `listing`. Unsure matches go to `pairs`.

    A row needs the codes of the attributes that it enters. Also returns, by group of layer 0, how many (row, block)
    entered it.
    """
    entered = np.zeros(len(steps.order), np.int64)
    containers = ContainerArrays.allocate(maps.blocks, codes.shape[1]) if listing else NO_CONTAINERS
    bins = np.empty((len(maps.group_layer), codes.shape[1]), np.int32)
    for g in range(len(bins)):
        bins[g] = maps.bins(g, codes)
    batch = _Batch(codes, bins, on_lines((2, SET_WORDS), np.uint64))
    progress = _Progress(0, 0, pairs.used, 0)
    while progress.block < maps.blocks:
        progress = _Progress(*_walk(maps, batch, steps, progress, counts, entered, containers, pairs.table))
        pairs.used = progress.pairs
        if progress.block < maps.blocks:
            pairs.grow()
    return entered, Containers(containers, progress.words, maps.slots) if listing else None


def open_rows(maps: Bitmaps, codes: Codes, steps: Steps, first: int) -> Ints:
    """The rows that have to enter something after the first steps, in some block. Reads the codes of these steps."""
    flags = np.zeros(codes.shape[1], np.bool_)
    bins = np.empty((first, codes.shape[1]), np.int32)
    for step, g in enumerate(steps.order[:first].tolist()):
        bins[step] = maps.bins(g, codes)
    _open(maps, bins, steps, flags)
    return np.nonzero(flags)[0]


# --- kernels ---------------------------------------------------------------------------------------------------------


@kernel
def _walk(
    maps: Bitmaps,
    batch: _Batch,
    steps: Steps,
    progress: _Progress,
    counts: Ints,
    entered: Ints,
    containers: ContainerArrays,
    pairs: Ints32,
) -> tuple[int, int, int, int]:
    """Searches from a block and row on, blocks outermost. Stops before a row and block whose pairs do not fit."""
    possible, certain, without_clause, group_layer = maps.possible, maps.certain, maps.without_clause, maps.group_layer
    codes, bins = batch.codes, batch.bins
    needing, awaiting, expected, living = steps.needing, steps.awaiting, steps.expected, steps.living
    step_groups, sure_steps = steps.groups, steps.certain
    first_block, first_row, used, end = progress
    undecided = _Undecided(maps.ranges, maps.range_start, maps.exact, maps.slots, codes)
    kind, size, start, words, _ = containers
    r, s = batch.scratch[0], batch.scratch[1]
    blocks, groups, width = len(possible), len(group_layer), len(steps.order)
    visited = np.empty(width, np.int64)  # the groups of layer 0 that a row has entered
    for block in range(first_block, blocks):
        base, count = block * possible.shape[1], steps.lengths[block]
        y = block * width * 64  # where the sets of the block's first step are
        complete = 0  # rows that enter all groups of the block
        for row in range(first_row if block == first_block else 0, codes.shape[1]):
            entries = step = 0
            more = np.uint64(1)  # whether something still to come could reject a query that is left
            if count == 0:
                left = load_set(living, block * 64)
            else:
                visited[0] = step_groups[block, 0]
                left = load_set(possible, (base + bins[visited[0], row]) * 64)
                more = overlaps(left, expected, y)
                entries = step = 1
            while step < count:
                if more == 0:
                    if not sure_steps[block, step]:
                        more = overlaps(left, awaiting, y + (step - 1) * 64)
                    if more == 0:
                        break
                    while step < count and overlaps(left, needing, y + step * 64) == 0:
                        step += 1
                    if step == count:
                        break
                group = step_groups[block, step]
                visited[entries] = group
                left = intersected(left, possible, (base + bins[group, row]) * 64)
                more = overlaps(left, expected, y + step * 64)
                entries += 1
                step += 1
            g = width
            while g < groups and more != 0:
                if overlaps(left, steps.needing_layer, ((group_layer[g] - 1) * blocks + block) * 64) == 0:
                    g = _next_layer(group_layer, g)
                else:
                    g = _unite_layer(possible, without_clause, group_layer, bins, block, row, g, s)
                    left = intersected(left, s, 0)
            if steps.some_dropped:
                left = intersected(left, living, block * 64)
            matches = size_of(left)
            if len(certain) > 0 and matches != 0:
                # queries that are left have no clause over what the row did not enter
                store_set(r, 0, left)
                for i in range(entries):
                    left = intersected(left, certain, (base + bins[visited[i], row]) * 64)
                g = width
                while g < groups and more != 0:
                    g = _unite_layer(certain, without_clause, group_layer, bins, block, row, g, s)
                    left = intersected(left, s, 0)
                store_set(s, 0, left)
                decided = _decide(undecided, r, s, block, row, pairs, used)
                if decided < 0:
                    for i in range(count):
                        entered[step_groups[block, i]] += complete
                    return block, row, used, end
                used = decided
                left = load_set(r, 0)
                matches = size_of(left)
            if entries == count:
                complete += 1
            else:
                for i in range(entries):
                    entered[visited[i]] += 1
            counts[row] += matches
            if len(kind) > 0:
                store_set(r, 0, left)
                if matches >= 256 and run_starts(r, 0) >= 128:  # the most frequent case of `put`, without a call
                    end = (end + 7) // 8 * 8
                    kind[block, row], size[block, row], start[block, row] = BITMAP, matches, end
                    stream_set(words, end, r, 0)
                    end += 64
                else:
                    end = put(r, block, row, containers, end)
        for i in range(count):
            entered[step_groups[block, i]] += complete
    return blocks, 0, used, end


@kernel
def _open(maps: Bitmaps, bins: Ints32, steps: Steps, flags: Mask) -> None:
    """Flags the rows of which some block has queries left that await more than the steps with `bins`."""
    possible, awaiting, living = maps.possible, steps.awaiting, steps.living
    first, width = len(bins), len(steps.order)
    for block in range(len(possible)):
        base = block * possible.shape[1]
        mine = 0  # steps of the block that are among the first
        while mine < steps.lengths[block] and steps.places[block, mine] < first:
            mine += 1
        if mine > 0 and meets(living, block * 64, awaiting, (block * width + mine - 1) * 64) == 0:
            continue
        if steps.lengths[block] == 0 and len(steps.needing_layer) == 0:
            continue
        for row in range(bins.shape[1]):
            if flags[row]:
                continue
            left = load_set(living, block * 64)
            more = np.uint64(1)
            for step in range(mine):
                left = intersected(left, possible, (base + bins[steps.places[block, step], row]) * 64)
                more = overlaps(left, awaiting, (block * width + step) * 64)
                if more == 0:
                    break
            flags[row] = more != 0


@kernel
def _next_layer(group_layer: Ints, g: int) -> int:
    """The first group of the layer after that of group g."""
    layer = group_layer[g]
    while g < len(group_layer) and group_layer[g] == layer:
        g += 1
    return g


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

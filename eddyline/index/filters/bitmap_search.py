"""The search of bitmaps: rows pass block after block, attribute after attribute (see `bitmaps.py`)."""

from __future__ import annotations

import numpy as np

from eddyline.arrays import Codes, Ints, Ints32, Mask, Words
from eddyline.index.filters.bitmaps import BLOCK, WORDS, Bitmaps
from eddyline.index.filters.boxes import Found
from eddyline.index.runtime.kernel_cache import kernel
from eddyline.index.runtime.row_sets import BITMAP, NO_CONTAINERS, ContainerArrays, Containers, put
from eddyline.index.runtime.vectors import (
    copy_set,
    intersect,
    lowest_bit,
    meets,
    members,
    run_starts,
    stream_set,
    unite,
)


def search(
    bitmaps: Bitmaps, codes: Codes, alive: Mask, order: Ints, counts: Ints, found: Found, *, listing: bool
) -> tuple[Ints, Containers | None]:
    """Adds the matches of every row to `counts`, and gives them as sets if `listing`. Unsure matches go to `found`.

    `order` says in which order the groups of layer 0 are entered. Also returns, by group of layer 0, how many
    (row, block) entered it.
    """
    rows = codes.shape[1]
    entered = np.zeros(len(order), np.int64)
    containers = ContainerArrays.allocate(bitmaps.blocks, rows) if listing else NO_CONTAINERS
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
            containers,
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
    sets = Containers(containers, end, bitmaps.numbers) if listing else None
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


def _living(bitmaps: Bitmaps, alive: Mask) -> Words:
    """Which bits count; empty if all that are set in the bitmaps do."""
    if not len(alive) and len(bitmaps.group_layer):
        return np.empty((0, 0), np.uint64)
    bits = np.zeros(bitmaps.blocks * BLOCK, np.bool_)
    bits[: len(bitmaps.numbers)] = alive[bitmaps.numbers] if len(alive) else True
    return np.packbits(bits, bitorder="little").view(np.uint64).reshape(bitmaps.blocks, WORDS)


# --- kernels ---------------------------------------------------------------------------------------------------------


@kernel
def _walk(
    possible: Words,
    certain: Words,
    free: Words,
    group_layer: Ints,
    exact: Mask,
    clause: Ints32,
    layer: Ints32,
    attribute: Ints32,
    low: Codes,
    high: Codes,
    piece_start: Ints32,
    numbers: Ints32,
    living: Words,
    awaiting: Words,
    codes: Codes,
    places: Ints32,
    order: Ints,
    counts: Ints,
    containers: ContainerArrays,
    end: int,
    found_rows: Ints32,
    found_numbers: Ints32,
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
    kind, size, start, words, _ = containers
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
                    kind[block, row], size[block, row], start[block, row] = BITMAP, count, end
                    stream_set(words, end, r, 0)
                    end += 64
                else:
                    end = put(r, block, row, containers, end)
    return blocks, 0, used, end


@kernel
def _one_of(
    maps: Words,
    base: int,
    free: Words,
    block: int,
    blocks: int,
    group_layer: Ints,
    places: Ints32,
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


@kernel
def _verdict(
    clause: Ints32,
    layer: Ints32,
    attribute: Ints32,
    low: Codes,
    high: Codes,
    piece_start: Ints32,
    exact: Mask,
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

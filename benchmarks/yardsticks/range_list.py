"""Ranges sorted by low end, in blocks that know enough to be passed over (document 4, Appendix A).

The canonical stabbing partition is found by going through ranges by their low ends. Here they lie in blocks of at most
`BLOCK`; a block tells its greatest low end and its least high end. If the greatest low end is above neither the least
high end of the block nor that of the group so far, then no group begins within the block. If it is, one does: so of
the blocks only as many are looked into as there are groups.

Structure: the *directory* has a row for each block along the axis (its slot, how many ranges it has, the (low, id) of
its last range, its least high end); what a block holds is at its slot, sorted by (low, id). Neighbours with no more
than half a block between them are made one, so that there are O(n / BLOCK) blocks. To add or drop a range is
O(log n + BLOCK), and O(n / BLOCK) where a block is split or vanishes, which takes O(BLOCK) updates to happen again.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from benchmarks.yardsticks.shifts import close_gap, first_place, longer, open_gap
from eddyline.arrays import Ints, Ints32
from eddyline.index.runtime.kernel_cache import kernel

BLOCK = 256
USED, FREE = 0, 1  # of `counts`: blocks in the directory; slots below len(free) that are free


class Blocks(NamedTuple):
    counts: Ints
    slot: Ints  # the directory, by place along the axis
    size: Ints
    last_low: Ints
    last_id: Ints32
    least_high: Ints
    free: Ints  # slots; the first counts[FREE] are free
    low: Ints  # by slot, then by place within the block
    high: Ints
    ids: Ints32


class Tally(NamedTuple):
    """What going through the ranges finds, by group of the canonical partition along the axis."""

    bound: Ints  # the least low end
    first: Ints  # the greatest low end, and
    last: Ints  # the least high end: all ranges hold what is between them
    size: Ints
    witness: Ints  # which range has the least high end. Witnesses of different groups have no point in common
    witness_low: Ints


def empty_blocks() -> Blocks:
    ints, numbers = np.empty(0, np.int64), np.empty(0, np.int32)
    low, high = (np.empty((0, BLOCK), np.int64) for _ in range(2))
    none = Blocks(
        np.zeros(2, np.int64), ints, ints, ints, numbers, ints, ints, low, high, np.empty((0, BLOCK), np.int32)
    )
    return with_more_slots(none)


def with_more_slots(b: Blocks) -> Blocks:
    """The same blocks and at least as many slots again. O(n)."""
    before = len(b.free)
    room = 2 * before + 4
    free = longer(b.free, room)
    added = room - before
    free[b.counts[FREE] : b.counts[FREE] + added] = np.arange(room - 1, before - 1, -1)
    counts = b.counts.copy()
    counts[FREE] += added
    rest = {name: longer(column, room) for name, column in b._asdict().items() if name not in ("counts", "free")}
    return b._replace(counts=counts, free=free, **rest)


def empty_tally(room: int) -> Tally:
    return Tally(*(np.zeros(room, np.int64) for _ in range(6)))


# --- kernels ---------------------------------------------------------------------------------------------------------


@kernel
def add(b: Blocks, number: int, low: int, high: int) -> None:
    """A range more; a slot must be free."""
    used = b.counts[USED]
    if used == 0:
        _open_block(b, 0)
        block = 0
    else:
        block = min(first_place(b.last_low, b.last_id, 0, used, low, number), used - 1)
        if b.size[block] == BLOCK:
            _split(b, block)
            if low > b.last_low[block] or (low == b.last_low[block] and number > b.last_id[block]):
                block += 1
    slot, size = b.slot[block], b.size[block]
    lows, highs, ids = b.low[slot], b.high[slot], b.ids[slot]
    at = first_place(lows, ids, 0, size, low, number)
    open_gap(lows, at, size, 1)
    open_gap(highs, at, size, 1)
    open_gap(ids, at, size, 1)
    lows[at], highs[at], ids[at] = low, high, number
    b.size[block] = size + 1
    if at == size:
        b.last_low[block], b.last_id[block] = low, number
    if size == 0 or high < b.least_high[block]:
        b.least_high[block] = high


@kernel
def drop(b: Blocks, number: int, low: int) -> None:
    """A range less; it must be there."""
    block = first_place(b.last_low, b.last_id, 0, b.counts[USED], low, number)
    slot, size = b.slot[block], b.size[block]
    lows, highs, ids = b.low[slot], b.high[slot], b.ids[slot]
    at = first_place(lows, ids, 0, size, low, number)
    high = highs[at]
    close_gap(lows, at + 1, size, 1)
    close_gap(highs, at + 1, size, 1)
    close_gap(ids, at + 1, size, 1)
    b.size[block] = size - 1
    if size == 1:
        _close_block(b, block)
        return
    if at == size - 1 or high == b.least_high[block]:
        _describe(b, block)
    if block > 0 and b.size[block - 1] + size - 1 <= BLOCK // 2:
        _join(b, block - 1)
    elif block + 1 < b.counts[USED] and b.size[block + 1] + size - 1 <= BLOCK // 2:
        _join(b, block)


@kernel
def tally(b: Blocks, t: Tally) -> int:
    """Finds the canonical partition, for which `t` must have room; returns how many groups it has.

    O(groups x BLOCK + n / BLOCK), and never more than O(n).
    """
    group = -1
    least = np.int64(0)  # of the high ends in the group
    held = -1  # the block that has it, if it was passed over
    for block in range(b.counts[USED]):
        if group >= 0 and b.last_low[block] <= min(least, b.least_high[block]):
            if b.least_high[block] < least:
                least, held = b.least_high[block], block
            t.size[group] += b.size[block]
            t.first[group] = b.last_low[block]
            continue
        slot = b.slot[block]
        for i in range(b.size[block]):
            low, high = b.low[slot, i], b.high[slot, i]
            if group < 0 or low > least:
                _end_group(b, t, group, least, held)
                group += 1
                t.bound[group], t.size[group] = low, 0
                t.witness[group], t.witness_low[group] = b.ids[slot, i], low
                least, held = high, -1
            elif high < least:
                t.witness[group], t.witness_low[group] = b.ids[slot, i], low
                least, held = high, -1
            t.size[group] += 1
            t.first[group] = low
    _end_group(b, t, group, least, held)
    return group + 1


@kernel
def _end_group(b: Blocks, t: Tally, group: int, least: np.int64, held: int) -> None:
    if group >= 0:
        t.last[group] = least
    if held >= 0:
        slot, i = b.slot[held], 0
        while b.high[slot, i] != least:
            i += 1
        t.witness[group], t.witness_low[group] = b.ids[slot, i], b.low[slot, i]


@kernel
def _describe(b: Blocks, block: int) -> None:
    """Brings the directory up to date with what a block holds. O(BLOCK)."""
    slot, size = b.slot[block], b.size[block]
    highs = b.high[slot]
    least = highs[0]
    for i in range(1, size):
        least = min(least, highs[i])
    b.least_high[block] = least
    b.last_low[block], b.last_id[block] = b.low[slot, size - 1], b.ids[slot, size - 1]


@kernel
def _open_block(b: Blocks, block: int) -> None:
    """An empty block at this place of the directory."""
    used = b.counts[USED]
    open_gap(b.slot, block, used, 1)
    open_gap(b.size, block, used, 1)
    open_gap(b.last_low, block, used, 1)
    open_gap(b.last_id, block, used, 1)
    open_gap(b.least_high, block, used, 1)
    b.counts[USED] = used + 1
    b.counts[FREE] -= 1
    b.slot[block], b.size[block] = b.free[b.counts[FREE]], 0


@kernel
def _close_block(b: Blocks, block: int) -> None:
    used = b.counts[USED]
    b.free[b.counts[FREE]] = b.slot[block]
    b.counts[FREE] += 1
    close_gap(b.slot, block + 1, used, 1)
    close_gap(b.size, block + 1, used, 1)
    close_gap(b.last_low, block + 1, used, 1)
    close_gap(b.last_id, block + 1, used, 1)
    close_gap(b.least_high, block + 1, used, 1)
    b.counts[USED] = used - 1


@kernel
def _split(b: Blocks, block: int) -> None:
    """The second half of a full block becomes the next one."""
    _open_block(b, block + 1)
    _append(b, block, BLOCK // 2, block + 1)
    b.size[block] = BLOCK // 2
    _describe(b, block)
    _describe(b, block + 1)


@kernel
def _join(b: Blocks, block: int) -> None:
    """What the next block holds goes to the end of this one."""
    _append(b, block + 1, 0, block)
    _describe(b, block)
    _close_block(b, block + 1)


@kernel
def _append(b: Blocks, source: int, begin: int, target: int) -> None:
    """Copies what a block holds from a place on to the end of another."""
    s, t, at = b.slot[source], b.slot[target], b.size[target]
    end = b.size[source]
    for i in range(begin, end):
        b.low[t, at], b.high[t, at], b.ids[t, at] = b.low[s, i], b.high[s, i], b.ids[s, i]
        at += 1
    b.size[target] = at

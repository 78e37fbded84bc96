"""Numbers that a tuple affects, found one by one, by sets over all numbers, or by merging them with its partners."""

from __future__ import annotations

import numpy as np

from eddyline.arrays import Bytes, Ints, Ints32, Words
from eddyline.index.ranges.axes import AXES, EXP, TS, first_from, place_of, seen
from eddyline.index.ranges.prefix_sets import rank
from eddyline.index.runtime.kernel_cache import kernel
from eddyline.index.runtime.vectors import intersect, lowest_bit, table_at

# --- kernels ---------------------------------------------------------------------------------------------------------


@kernel
def some_row(
    addresses: Ints,
    begin: Ints,
    end: Ints,
    i: int,
    bit: int,
    first: int,
    last: int,
    low: Ints,
    high: Ints,
    kinds: Bytes,
    directions: Ints,
    shift: Ints,
    ts: int,
    exp: int,
    since: int,
) -> bool:
    """Whether there is a row for tuple i and the number of a bit, whose range along the first axis is first … last."""
    kind, direction, by = kinds[0], directions[0], shift[0, i]
    for s in range(len(addresses)):
        stop = end[s, i]
        if begin[s, i] == stop or addresses[s, 5] < since:
            continue
        table = table_at(addresses[s, 0], AXES + len(kinds), addresses[s, 1])
        k = first_from(table, begin[s, i], stop, kind, direction, by, first)
        all_count = ts <= addresses[s, 3] and addresses[s, 2] <= exp
        while k < stop and place_of(kind, direction, table[AXES, k], by) <= last:
            counts = all_count or max(table[TS, k], ts) <= min(table[EXP, k], exp)
            if counts and seen(table, k, i, bit, low, high, kinds, directions, shift, since):
                return True
            k += 1
    return False


@kernel
def accept(
    keys: Ints,
    bits: Ints32,
    starts: Ints,
    spacing: Ints,
    set_starts: Ints,
    sets: Words,
    order: int,
    x: int,
    now: Words,
    then: Words,
) -> None:
    """then = now ∩ the numbers that come up to x in an order over all bits."""
    start = starts[order]
    upto = rank(keys, start, starts[order + 1], x)
    kept = upto // spacing[order]
    base = set_starts[order] + kept * len(now)
    for w in range(0, len(now), 64):
        intersect(then, w, now, w, sets, base + w, now, w)
    for k in range(start + kept * spacing[order], start + upto):
        bit = bits[k]
        then[bit >> 6] |= now[bit >> 6] & (np.uint64(1) << np.uint64(bit & 63))


@kernel
def sweep(
    keys: Ints,
    bits: Ints32,
    starts: Ints,
    spacing: Ints,
    set_starts: Ints,
    sets: Words,
    lows: int,
    highs: int,
    x: int,
    present: Words,
    accepting: Words,
    spare: Words,
) -> tuple[int, int]:
    """Brings the numbers that accept x, as the first own attribute, from those that accept the x before: the first
    `lows` in the order of low ends and the first `highs` in that of high ends. Returns the new `lows` and `highs`. A
    wide step, or one back, is begun from the sets that are kept."""
    one = np.uint64(1)
    low_end, high_end = rank(keys, 0, starts[1], x), rank(keys, starts[1], starts[2], ~x)
    back = low_end < lows or high_end > highs
    if lows < 0 or back or low_end - lows + highs - high_end > 2 * spacing[0]:
        accept(keys, bits, starts, spacing, set_starts, sets, 0, x, present, spare)
        accept(keys, bits, starts, spacing, set_starts, sets, 1, ~x, spare, accepting)
        return low_end, high_end
    for k in range(lows, low_end):
        bit = bits[k]
        accepting[bit >> 6] |= one << np.uint64(bit & 63)
    for k in range(starts[1] + high_end, starts[1] + highs):
        bit = bits[k]
        accepting[bit >> 6] &= ~(one << np.uint64(bit & 63))
    return low_end, high_end


@kernel
def by_merging(
    stab_keys: Ints,
    stab_bits: Ints32,
    numbers: int,
    high: Ints,
    addresses: Ints,
    begin: Ints,
    end: Ints,
    i: int,
    kinds: Bytes,
    directions: Ints,
    by: int,
    ts: int,
    exp: int,
    now: Words,
) -> None:
    """O(numbers + partners)."""
    kind, direction, columns = kinds[0], directions[0], AXES + len(kinds)
    now[:] = 0
    for s in range(len(addresses)):
        table = table_at(addresses[s, 0], columns, addresses[s, 1])
        k, last = begin[s, i], end[s, i]
        for n in range(numbers):
            while k < last and (
                place_of(kind, direction, table[AXES, k], by) < stab_keys[n]
                or max(table[TS, k], ts) > min(table[EXP, k], exp)
            ):
                k += 1
            if k == last:
                break
            bit = stab_bits[n]
            if place_of(kind, direction, table[AXES, k], by) <= high[bit]:
                now[bit >> 6] |= np.uint64(1) << np.uint64(bit & 63)


@kernel
def accepting_numbers(own_low: Ints, own_high: Ints, own: Ints, i: int, present: Words, now: Words) -> None:
    """The numbers that accept a tuple's own attributes, compared one by one."""
    for w in range(len(present)):
        rest = present[w]
        now[w] = 0
        while rest != 0:
            k = lowest_bit(rest)
            rest &= rest - np.uint64(1)
            accepts = True
            for a in range(len(own_low)):
                accepts &= own_low[a, w * 64 + k] <= own[2 * a, i] <= own_high[a, w * 64 + k]
            if accepts:
                now[w] |= np.uint64(1) << np.uint64(k)

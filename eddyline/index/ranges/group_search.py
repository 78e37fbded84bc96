"""The numbers of stabbing groups that a tuple affects, by the rows nearest to each group's point."""

from __future__ import annotations

import numpy as np

from eddyline.arrays import Bytes, Ints, Ints32, Words
from eddyline.index.ranges.axes import AXES, EXP, TS, place_of
from eddyline.index.ranges.prefix_sets import rank
from eddyline.index.runtime.kernel_cache import kernel
from eddyline.index.runtime.vectors import copy_words, fill_words, table_at

# --- kernels ---------------------------------------------------------------------------------------------------------


@kernel
def by_groups(
    groups: int,
    points: Ints,
    word_starts: Ints,
    sizes: Ints,
    low: Ints,
    high_keys: Ints,
    high_bits: Ints32,
    high_starts: Ints,
    high_spacing: Ints,
    high_set_starts: Ints,
    high_sets: Words,
    addresses: Ints,
    begin: Ints,
    end: Ints,
    i: int,
    kinds: Bytes,
    directions: Ints,
    by: int,
    ts: int,
    exp: int,
    at: Ints,
    now: Words,
) -> bool:
    """The numbers of the first so many groups that tuple i affects, as far as the first axis tells; whether any.

    Two searches a group, the first from where the group before it ended: groups follow one another along the axis.
    """
    one = np.uint64(1)
    kind, direction, columns = kinds[0], directions[0], AXES + len(kinds)
    something = False
    for g in range(groups):
        point = points[g]
        if g == 0 or point < points[g - 1]:  # hotspots are in order, and so are the others
            for s in range(len(addresses)):
                at[s] = begin[s, i]
        has_below = has_above = False
        below = above = 0
        for s in range(len(addresses)):
            first, last = begin[s, i], end[s, i]
            if first == last:
                continue
            table = table_at(addresses[s, 0], columns, addresses[s, 1])
            p = at[s]
            step = 1
            while p + step <= last and place_of(kind, direction, table[AXES, p + step - 1], by) <= point:
                p += step
                step *= 2
            n = min(step, last - p)
            while n > 0:
                half = n >> 1
                if place_of(kind, direction, table[AXES, p + half], by) <= point:
                    p += half + 1
                    n -= half + 1
                else:
                    n = half
            at[s] = p
            all_count = ts <= addresses[s, 3] and addresses[s, 2] <= exp
            k = p - 1
            while not all_count and k >= first and max(table[TS, k], ts) > min(table[EXP, k], exp):
                k -= 1
            if k >= first:
                x = place_of(kind, direction, table[AXES, k], by)
                below = max(below, x) if has_below else x
                has_below = True
            k = p
            while not all_count and k < last and max(table[TS, k], ts) > min(table[EXP, k], exp):
                k += 1
            if k < last:
                x = place_of(kind, direction, table[AXES, k], by)
                above = min(above, x) if has_above else x
                has_above = True
        word, width, many = word_starts[g], word_starts[g + 1] - word_starts[g], sizes[g]
        first_part = rank(low, word * 64, word * 64 + many, below) if has_below else 0
        second_part = 0
        if has_above and first_part < many:
            second_part = rank(high_keys, high_starts[g], high_starts[g + 1], ~above)
        something |= first_part + second_part > 0
        full = first_part >> 6
        fill_words(now, word, full)
        kept = second_part // high_spacing[g]
        base = high_set_starts[g] + kept * width
        copy_words(now, word + full, high_sets, base + full, width - full)
        if first_part & 63:
            now[word + full] |= (one << np.uint64(first_part & 63)) - one
        for k in range(high_starts[g] + kept * high_spacing[g], high_starts[g] + second_part):
            bit = high_bits[k]
            now[word + (bit >> 6)] |= one << np.uint64(bit & 63)
    return something

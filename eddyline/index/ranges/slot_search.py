"""Search without groups: queries one by one, by bitmaps over all queries, or merged with the partners in order.

These are the parts of the strategies select_first, join_first, merge and vanilla (`range_search.py`), and the test of a
tuple's own attributes, which all strategies share. (Document 4, sections 3.1.1 and 4.1.)
"""

from __future__ import annotations

import numpy as np

from eddyline.arrays import Ints, Words
from eddyline.index.ranges.prefix_sets import PrefixSets, accept, rank
from eddyline.index.ranges.probes import (
    AXES,
    LATEST_FIRST,
    AxisRanges,
    Probes,
    all_overlap,
    first_from,
    holds_row,
    overlaps,
    place_of,
    segment_table,
)
from eddyline.index.runtime.kernel_cache import kernel
from eddyline.index.runtime.vectors import lowest_bit, unite

# --- kernels ---------------------------------------------------------------------------------------------------------


@kernel
def some_row(ranges: AxisRanges, bit: int, first: int, last: int, probes: Probes, i: int, since: int) -> bool:
    """Whether a partner of tuple i lies in the ranges of a query and is visible to it. `first` … `last` is the query's
    range along the first axis. O(log partners), and the partners in that range if there are further axes."""
    (headers, begin, end), axes, shift = probes.partners, probes.axes, probes.arrivals.shift
    kind, direction, by = axes.kinds[0], axes.directions[0], shift[0, i]
    ts, exp = probes.arrivals.ts[i], probes.arrivals.exp[i]
    for s in range(len(headers)):
        stop = end[s, i]
        if begin[s, i] == stop or headers[s, LATEST_FIRST] < since:
            continue
        table = segment_table(headers, s, AXES + len(axes.kinds))
        k = first_from(table, begin[s, i], stop, kind, direction, by, first)
        sure = all_overlap(headers, s, ts, exp)
        while k < stop and place_of(kind, direction, table[AXES, k], by) <= last:
            if (sure or overlaps(table, k, ts, exp)) and holds_row(ranges, bit, table, k, axes, shift, i, since):
                return True
            k += 1
    return False


@kernel
def sweep(
    own: PrefixSets, lows: int, highs: int, x: int, present: Words, accepting: Words, spare: Words
) -> tuple[int, int]:
    """Updates `accepting`, the queries that accept x as the first own attribute, from those for the previous x.

    These were the first `lows` in the order of low ends and the first `highs` in the order of high ends (-1: none yet);
    returns the new `lows` and `highs`. A wide step, or a step back, starts from the stored sets."""
    one = np.uint64(1)
    keys, bits, starts = own.keys, own.bits, own.starts
    low_end, high_end = rank(keys, 0, starts[1], x), rank(keys, starts[1], starts[2], ~x)
    back = low_end < lows or high_end > highs
    if lows < 0 or back or low_end - lows + highs - high_end > 2 * own.spacing[0]:
        accept(own, 0, x, present, spare)
        accept(own, 1, ~x, spare, accepting)
        return low_end, high_end
    for k in range(lows, low_end):
        bit = bits[k]
        accepting[bit >> 6] |= one << np.uint64(bit & 63)
    for k in range(starts[1] + high_end, starts[1] + highs):
        bit = bits[k]
        accepting[bit >> 6] &= ~(one << np.uint64(bit & 63))
    return low_end, high_end


@kernel
def by_partners(
    by_ends: PrefixSets, present: Words, probes: Probes, i: int, matches: Words, spare: Words, other: Words
) -> None:
    """Writes the queries whose range along the first axis holds some partner of tuple i, found partner by partner.
    `spare` and `other` are scratch memory. O(partners * words)."""
    (headers, begin, end), axes, words = probes.partners, probes.axes, len(present)
    ts, exp, by = probes.arrivals.ts[i], probes.arrivals.exp[i], probes.arrivals.shift[0, i]
    matches[:] = 0
    for s in range(len(headers)):
        table = segment_table(headers, s, AXES + len(axes.kinds))
        for k in range(begin[s, i], end[s, i]):
            if overlaps(table, k, ts, exp):
                x = place_of(axes.kinds[0], axes.directions[0], table[AXES, k], by)
                accept(by_ends, 0, x, present, spare)
                accept(by_ends, 1, ~x, spare, other)
                for w in range(0, words, 64):
                    unite(matches, w, other, w)


@kernel
def by_merging(by_ends: PrefixSets, high: Ints, probes: Probes, i: int, matches: Words) -> None:
    """Writes the same queries, found by merging queries and partners in the order of the axis.
    O(queries + partners)."""
    (headers, begin, end), (kinds, directions), arrivals = probes.partners, probes.axes, probes.arrivals
    kind, direction, by, ts, exp = kinds[0], directions[0], arrivals.shift[0, i], arrivals.ts[i], arrivals.exp[i]
    keys, bits, queries = by_ends.keys, by_ends.bits, by_ends.starts[1]
    matches[:] = 0
    for s in range(len(headers)):
        table = segment_table(headers, s, AXES + len(kinds))
        n = 0  # the next query by low end that no partner so far reaches
        for k in range(begin[s, i], end[s, i]):
            if overlaps(table, k, ts, exp):
                x = place_of(kind, direction, table[AXES, k], by)
                while n < queries and keys[n] <= x:
                    bit = bits[n]
                    if x <= high[bit]:
                        matches[bit >> 6] |= np.uint64(1) << np.uint64(bit & 63)
                    n += 1


@kernel
def by_comparing(accepted: AxisRanges, own: Ints, i: int, present: Words, matches: Words) -> None:
    """Writes the queries that accept the own attributes of tuple i, compared one by one. O(queries)."""
    low, high = accepted
    for w in range(len(present)):
        rest = present[w]
        matches[w] = 0
        while rest != 0:
            k = lowest_bit(rest)
            rest &= rest - np.uint64(1)
            accepts = True
            for a in range(len(low)):
                accepts &= low[a, w * 64 + k] <= own[2 * a, i] <= high[a, w * 64 + k]
            if accepts:
                matches[w] |= np.uint64(1) << np.uint64(k)

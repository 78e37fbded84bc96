"""Which numbers does an arriving tuple affect? The strategies of document 4, over `RangeGroups`.

    ssi           every group: the nearest rows to its point, then the two parts of the group (sections 3.1.2, 3.2.2)
    hotspot       the same for hotspots, and for the scattered rest as select_first
    select_first  what the tuple's own attributes leave, number by number: is there a row in its range? (section 4.1)
    join_first    partner by partner: the numbers whose range holds it
    merge         all numbers by low end, along with the partners: is the next one in the range? (section 3.1.1)
    vanilla       every number: its conditions on the tuple, then a search for a row

All give the same sets. Rows of the other input come in segments, each sorted by key and then along the first axis; a
row lies at direction * (value - shift) along an axis. Rows whose interval does not meet the tuple's are passed over.
"""

from __future__ import annotations

import numpy as np

from eddyline.arrays import Bytes, Ints, Ints32, Words
from eddyline.index.ranges.axes import AXES, EVER, EXP, TS, Arrivals, Axes, Doubts, Partners, place_of
from eddyline.index.ranges.box_search import by_boxes
from eddyline.index.ranges.group_search import by_groups
from eddyline.index.ranges.prefix_sets import NO_SETS
from eddyline.index.ranges.range_groups import RangeGroups
from eddyline.index.ranges.slot_search import accept, accepting_numbers, by_merging, some_row, sweep
from eddyline.index.runtime.kernel_cache import kernel
from eddyline.index.runtime.row_sets import NO_CONTAINERS, ContainerArrays, Containers, put
from eddyline.index.runtime.vectors import (
    SET_WORDS,
    copy_set,
    copy_words,
    intersect,
    lowest_bit,
    members,
    table_at,
    unite,
)

STRATEGIES = ("ssi", "hotspot", "select_first", "join_first", "merge", "vanilla")
SSI, HOTSPOT, SELECT_FIRST, JOIN_FIRST, MERGE, VANILLA = range(len(STRATEGIES))

_NO_RANGES = np.empty((0, 0), np.int64), np.empty((0, 0), np.int64)


def affected(
    groups: RangeGroups,
    axes: Axes,
    arrivals: Arrivals,
    partners: Partners,
    doubts: Doubts,
    how: Bytes,
    *,
    listing: bool,
) -> tuple[Ints, Containers | None]:
    """How many numbers each tuple affects, and their sets if `listing`; `how` has the strategy for each tuple."""
    tuples, blocks = len(arrivals), groups.words // SET_WORDS
    counts = np.zeros(tuples, np.int64)
    containers = ContainerArrays.allocate(blocks, tuples) if listing else NO_CONTAINERS
    highs, own, further = groups.highs, groups.own, groups.further
    stabbing, own_ranges = NO_SETS, _NO_RANGES
    if tuples and how.max() >= JOIN_FIRST:  # the strategies that need what is not always there
        stabbing = groups.stabbing if np.isin(how, (JOIN_FIRST, MERGE)).any() else NO_SETS
        own_ranges = groups.own_ranges if (how == VANILLA).any() else _NO_RANGES
    end = _affected(
        how, _sequence(how, arrivals, partners), groups.hot, groups.points, groups.word_starts, groups.sizes,
        groups.low, groups.high, groups.ends, groups.present,
        highs.keys, highs.bits, highs.starts, highs.spacing, highs.set_starts, highs.sets,
        further.keys, further.bits, further.starts, further.spacing, further.set_starts, further.sets,
        groups.around_zero,
        own.keys, own.bits, own.starts, own.spacing, own.set_starts, own.sets, arrivals.own, *own_ranges,
        stabbing.keys, stabbing.bits, stabbing.starts, stabbing.spacing, stabbing.set_starts, stabbing.sets,
        partners.addresses, partners.begin, partners.end, axes.kinds, axes.directions, arrivals.shift, arrivals.ts,
        arrivals.exp, arrivals.first, doubts.living, doubts.young, doubts.since, counts, containers,
    )  # fmt: skip
    return counts, Containers(containers, end, groups.numbers, ascending=False) if listing else None


def _sequence(how: Bytes, arrivals: Arrivals, partners: Partners) -> Ints:
    """The order in which tuples are processed: by strategy, for each has its own things in the caches; then by their
    first own attribute, or else by where their partners are."""
    if len(arrivals) < 2 or not len(partners.begin):
        return np.arange(len(arrivals))
    if len(arrivals.own):
        return np.lexsort((arrivals.own[0], how))
    return np.lexsort((arrivals.shift[0], partners.begin[0], how))


# --- kernels ---------------------------------------------------------------------------------------------------------


@kernel
def _affected(
    how: Bytes,
    sequence: Ints,
    hot: int,
    points: Ints,
    word_starts: Ints,
    sizes: Ints,
    low: Ints,
    high: Ints,
    ends: Ints,
    present: Words,
    high_keys: Ints,
    high_bits: Ints32,
    high_starts: Ints,
    high_spacing: Ints,
    high_set_starts: Ints,
    high_sets: Words,
    further_keys: Ints,
    further_bits: Ints32,
    further_starts: Ints,
    further_spacing: Ints,
    further_set_starts: Ints,
    further_sets: Words,
    around_zero: bool,
    own_keys: Ints,
    own_bits: Ints32,
    own_starts: Ints,
    own_spacing: Ints,
    own_set_starts: Ints,
    own_sets: Words,
    own: Ints,
    own_low: Ints,
    own_high: Ints,
    stab_keys: Ints,
    stab_bits: Ints32,
    stab_starts: Ints,
    stab_spacing: Ints,
    stab_set_starts: Ints,
    stab_sets: Words,
    addresses: Ints,
    begin: Ints,
    end: Ints,
    kinds: Bytes,
    directions: Ints,
    shift: Ints,
    own_ts: Ints,
    own_exp: Ints,
    own_first: Ints,
    living: Words,
    young: Words,
    since: Ints,
    counts: Ints,
    containers: ContainerArrays,
) -> int:
    """Tuples in the sequence given. Returns how many words of result memory were written."""
    one = np.uint64(1)
    words = len(present)
    now, then, accepting = np.empty(words, np.uint64), np.empty(words, np.uint64), np.empty(words, np.uint64)
    united = np.empty(words if len(stab_spacing) + len(further_spacing) > 0 else 0, np.uint64)
    lows = highs = -1
    at = np.empty(len(addresses), np.int64)
    block_words = np.empty(64, np.uint64)
    written = 0
    for i in sequence:
        some = False
        for s in range(len(addresses)):
            some |= begin[s, i] < end[s, i]
        if not some:
            continue
        strategy, ts, exp, by = how[i], own_ts[i], own_exp[i], shift[0, i]
        unchecked = words  # from this word on, numbers have not been compared with rows
        all_axes = len(kinds) == 1  # whether all have been looked at
        if strategy == VANILLA:
            accepting_numbers(own_low, own_high, own, i, present, now)
            unchecked = 0
        elif strategy == JOIN_FIRST:
            united[:] = 0
            for s in range(len(addresses)):
                table = table_at(addresses[s, 0], AXES + len(kinds), addresses[s, 1])
                for k in range(begin[s, i], end[s, i]):
                    if max(table[TS, k], ts) > min(table[EXP, k], exp):
                        continue
                    x = place_of(kinds[0], directions[0], table[AXES, k], by)
                    accept(
                        stab_keys, stab_bits, stab_starts, stab_spacing, stab_set_starts, stab_sets, 0, x, present, now
                    )
                    accept(
                        stab_keys, stab_bits, stab_starts, stab_spacing, stab_set_starts, stab_sets, 1, ~x, now, then
                    )
                    for w in range(0, words, 64):
                        unite(united, w, then, w)
            now, united = united, now
        elif strategy == MERGE:
            by_merging(
                stab_keys, stab_bits, stab_starts[1], high[0], addresses, begin, end, i, kinds, directions, by, ts, exp,
                now,
            )  # fmt: skip
        else:
            groups = len(points) if strategy == SSI else hot if strategy == HOTSPOT else 0
            if len(further_spacing) > 0 and groups > 0:
                all_axes = True
                some = by_boxes(
                    groups, points, word_starts, sizes, low, high_keys, high_bits, high_starts, high_spacing,
                    high_set_starts, high_sets, further_keys, further_bits, further_starts, further_spacing,
                    further_set_starts, further_sets, around_zero, addresses, begin, end, i, kinds, directions, shift,
                    ts, exp, then, united, now,
                )  # fmt: skip
            else:
                some = by_groups(
                    groups, points, word_starts, sizes, low[0], high_keys, high_bits, high_starts, high_spacing,
                    high_set_starts, high_sets, addresses, begin, end, i, kinds, directions, by, ts, exp, at, now,
                )  # fmt: skip
            unchecked = word_starts[groups]
            copy_words(now, unchecked, present, unchecked, words - unchecked)
            if not some and groups == len(points):
                continue
        if len(living) > 0:
            for w in range(0, words, 64):
                intersect(now, w, now, w, living, w, now, w)
        if strategy != VANILLA and len(own_spacing) > 0:
            lows, highs = sweep(
                own_keys, own_bits, own_starts, own_spacing, own_set_starts, own_sets, lows, highs, own[0, i], present,
                accepting, then,
            )  # fmt: skip
            for w in range(0, words, 64):
                intersect(now, w, now, w, accepting, w, now, w)
            for order in range(2, len(own_spacing)):
                x = own[order, i]
                accept(own_keys, own_bits, own_starts, own_spacing, own_set_starts, own_sets, order, x, now, then)
                now, then = then, now
        if not all_axes:
            unchecked = 0
        for w in range(0 if len(young) > 0 else unchecked, words):
            rest = now[w] if w >= unchecked else now[w] & young[w]
            while rest != 0:
                bit = w * 64 + lowest_bit(rest)
                mask = rest & (~rest + one)
                rest ^= mask
                seen_from = since[bit] if len(young) > 0 else EVER
                if own_first[i] < seen_from or not some_row(
                    addresses, begin, end, i, bit, ends[bit, 0], ends[bit, 1], low, high, kinds, directions, shift, ts,
                    exp, seen_from,
                ):  # fmt: skip
                    now[w] ^= mask
        count = 0
        for w in range(0, words, 64):
            count += members(now, w)
        counts[i] = count
        if len(containers.kind) > 0 and count > 0:
            for block in range(words // 64):
                copy_set(block_words, 0, now, block * 64)
                written = put(block_words, block, i, containers, written)
    return written

"""Range search: the queries that arriving tuples affect, by one of six strategies for each tuple, over `RangeGroups`.

    ssi           every group: the rows nearest to its point, then two prefixes of the group (sections 3.1.2, 3.2.2)
    hotspot       the same for hotspots; the queries in other groups as in select_first
    select_first  each query that accepts the tuple's own attributes: is there a row in its range? (section 4.1)
    join_first    each partner: the queries whose range holds it
    merge         all queries by low end, merged with the partners: is the next one in the range? (section 3.1.1)
    vanilla       each query: its conditions on the tuple, then a search for a row

All strategies give the same sets; costs are in `routing/join_costs.py`. (Sections are those of document 4.)
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from eddyline.arrays import Bytes, Ints, Words
from eddyline.index.ranges.box_search import by_boxes
from eddyline.index.ranges.group_search import by_groups
from eddyline.index.ranges.prefix_sets import NO_SETS, PrefixSets, accept
from eddyline.index.ranges.probes import EVER, Arrival, AxisRanges, Probes, Visibility
from eddyline.index.ranges.range_groups import GroupColumns, RangeGroups
from eddyline.index.ranges.slot_search import by_comparing, by_merging, by_partners, some_row, sweep
from eddyline.index.runtime.kernel_cache import kernel
from eddyline.index.runtime.row_sets import NO_CONTAINERS, ContainerArrays, Containers, put
from eddyline.index.runtime.vectors import SET_WORDS, copy_set, copy_words, intersect, lowest_bit, members

STRATEGIES = ("ssi", "hotspot", "select_first", "join_first", "merge", "vanilla")
SSI, HOTSPOT, SELECT_FIRST, JOIN_FIRST, MERGE, VANILLA = range(len(STRATEGIES))


class _DerivedColumns(NamedTuple):
    """Columns of the index that only some strategies need; empty if no tuple uses such a strategy."""

    by_ends: PrefixSets
    accepted: AxisRanges


_NO_RANGES = AxisRanges(np.empty((0, 0), np.int64), np.empty((0, 0), np.int64))


def affected(
    groups: RangeGroups, probes: Probes, visibility: Visibility, strategies: Bytes, *, listing: bool
) -> tuple[Ints, Containers | None]:
    """How many queries each tuple affects by its strategy, and their sets if `listing`."""
    counts = np.zeros(probes.tuples, np.int64)
    sets = ContainerArrays.allocate(groups.words // SET_WORDS, probes.tuples) if listing else NO_CONTAINERS
    derived = _DerivedColumns(NO_SETS, _NO_RANGES)
    if probes.tuples and strategies.max() >= JOIN_FIRST:
        derived = _DerivedColumns(
            groups.by_ends if np.isin(strategies, (JOIN_FIRST, MERGE)).any() else NO_SETS,
            groups.own_ranges if (strategies == VANILLA).any() else _NO_RANGES,
        )
    sequence = _sequence(strategies, probes)
    end = _affected(groups.columns, derived, probes, visibility, strategies, sequence, counts, sets)
    return counts, Containers(sets, end, groups.slots, ascending=False) if listing else None


def _sequence(strategies: Bytes, probes: Probes) -> Ints:
    """The order in which tuples are processed, so that data stays in the CPU caches: by strategy, then by the first own
    attribute, or by the position of the partners if there is none."""
    own, begin = probes.arrivals.own, probes.partners.begin
    if probes.tuples < 2 or not len(begin):
        return np.arange(probes.tuples)
    return np.lexsort((own[0], strategies) if len(own) else (probes.arrivals.shift[0], begin[0], strategies))


# --- kernels ---------------------------------------------------------------------------------------------------------


@kernel
def _affected(
    groups: GroupColumns,
    derived: _DerivedColumns,
    probes: Probes,
    visibility: Visibility,
    strategies: Bytes,
    sequence: Ints,
    counts: Ints,
    sets: ContainerArrays,
) -> int:
    """Processes the tuples in a sequence; returns how many words of sets were written."""
    present, registered, own, stabbing = groups.present, visibility.registered, groups.own, groups.stabbing
    word_starts, many_groups, by_ends = stabbing.word_starts, len(stabbing.points), derived.by_ends
    axes, arrivals, partners = probes
    words, further = len(present), len(groups.further.spacing) > 0
    matches, spare, accepting = np.empty(words, np.uint64), np.empty(words, np.uint64), np.empty(words, np.uint64)
    other = np.empty(words if further or len(by_ends.spacing) > 0 else 0, np.uint64)
    lows = highs = -1
    at = np.empty(len(partners.headers), np.int64)
    written = 0
    for i in sequence:
        if not _has_partners(partners.begin, partners.end, i):
            continue
        # Candidates: queries that match as far as the first axis tells, or all axes; from the word `unchecked` on,
        # they have not been compared with rows.
        strategy, unchecked = strategies[i], words
        all_axes = len(axes.kinds) == 1
        if strategy == VANILLA:
            by_comparing(derived.accepted, arrivals.own, i, present, matches)
            unchecked = 0
        elif strategy == JOIN_FIRST:
            by_partners(by_ends, present, probes, i, matches, spare, other)
        elif strategy == MERGE:
            by_merging(by_ends, groups.ranges.high[0], probes, i, matches)
        else:
            count = many_groups if strategy == SSI else groups.hot if strategy == HOTSPOT else 0
            if further and count > 0:
                all_axes = True
                some = by_boxes(groups, count, probes, i, spare, other, matches)
            else:
                arrival = Arrival(i, arrivals.shift[0, i], arrivals.ts[i], arrivals.exp[i])
                some = by_groups(stabbing, count, axes, partners, arrival, at, matches)
            copy_words(matches, word_starts[count], present, word_starts[count], words - word_starts[count])
            if count < many_groups:
                unchecked = word_starts[count]
            elif not some:
                continue
        # Conditions on the query and on the tuple itself.
        if len(registered) > 0:
            for w in range(0, words, 64):
                intersect(matches, w, matches, w, registered, w, matches, w)
        if strategy != VANILLA and len(own.spacing) > 0:
            lows, highs = sweep(own, lows, highs, arrivals.own[0, i], present, accepting, spare)
            for w in range(0, words, 64):
                intersect(matches, w, matches, w, accepting, w, matches, w)
            for order in range(2, len(own.spacing), 2):
                accept(own, order, arrivals.own[order, i], matches, spare)
                accept(own, order + 1, arrivals.own[order + 1, i], spare, matches)
        if not all_axes:
            unchecked = 0
        if unchecked < words or len(visibility.limited) > 0:
            _check_rows(groups.ranges, groups.ends, probes, i, visibility, unchecked, matches)
        count = 0
        for w in range(0, words, 64):
            count += members(matches, w)
        counts[i] = count
        if len(sets.kind) > 0 and count > 0:
            written = _store(matches, i, sets, written)
    return written


@kernel
def _has_partners(begin: Ints, end: Ints, i: int) -> bool:
    partners = 0
    for s in range(len(begin)):
        partners += end[s, i] - begin[s, i]
    return partners > 0


@kernel
def _check_rows(
    ranges: AxisRanges, ends: Ints, probes: Probes, i: int, visibility: Visibility, unchecked: int, matches: Words
) -> None:
    """Removes the queries that hold no row visible to them: of those from the word `unchecked` on, and of those to
    which some rows are not visible."""
    limited, since = visibility.limited, visibility.since
    first = probes.arrivals.first[i]
    for w in range(0 if len(limited) > 0 else unchecked, len(matches)):
        rest = matches[w] if w >= unchecked else matches[w] & limited[w]
        while rest != 0:
            bit = w * 64 + lowest_bit(rest)
            mask = rest & (~rest + np.uint64(1))
            rest ^= mask
            visible_from = since[bit] if len(limited) > 0 else EVER
            if first < visible_from or not some_row(ranges, bit, ends[bit, 0], ends[bit, 1], probes, i, visible_from):
                matches[w] ^= mask


@kernel
def _store(matches: Words, i: int, sets: ContainerArrays, written: int) -> int:
    """Stores the set of tuple i in containers."""
    block_words = np.empty(SET_WORDS, np.uint64)
    for block in range(len(sets.kind)):
        copy_set(block_words, 0, matches, block * SET_WORDS)
        written = put(block_words, block, i, sets, written)
    return written

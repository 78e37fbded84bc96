"""Search by stabbing groups, along one axis: the queries of each group that a tuple affects.

Only the rows nearest to a group's point matter: the last one at or below it, and the first one above. The affected
queries are those whose low end is at most the one, and those whose high end is at least the other.
Cost for each group: two binary searches among partners, two among queries, and the words of the group.
(Document 4, section 3.1.2.)
"""

from __future__ import annotations

import numpy as np

from eddyline.arrays import Ints, Words
from eddyline.index.ranges.prefix_sets import rank, write_prefix
from eddyline.index.ranges.probes import AXES, Arrival, Axes, Partners, all_overlap, overlaps, place_of, segment_table
from eddyline.index.ranges.range_groups import StabbingGroups
from eddyline.index.runtime.kernel_cache import inlined
from eddyline.index.runtime.vectors import fill_words

# --- kernels ---------------------------------------------------------------------------------------------------------


@inlined
def by_groups(
    groups: StabbingGroups, count: int, axes: Axes, partners: Partners, arrival: Arrival, at: Ints, matches: Words
) -> bool:
    """Writes the queries of the first `count` groups that a tuple affects along the first axis; returns whether there
    are any. `at` is scratch memory, by segment: the search of a group starts where the one before it ended, because
    groups are sorted along the axis."""
    points, word_starts, sizes, low, highs = groups
    headers, begin, end = partners
    kind, direction, columns = axes.kinds[0], axes.directions[0], AXES + len(axes.kinds)
    i, by, ts, exp = arrival
    one = np.uint64(1)
    any_match = False
    for g in range(count):
        point = points[g]
        if g == 0 or point < points[g - 1]:  # the hotspots are sorted, and so are the other groups
            for s in range(len(headers)):
                at[s] = begin[s, i]
        has_below = has_above = False
        below = above = 0
        for s in range(len(headers)):
            first, last = begin[s, i], end[s, i]
            if first == last:
                continue
            table = segment_table(headers, s, columns)
            at[s] = k = _first_above(table, at[s], last, kind, direction, by, point)
            sure = all_overlap(headers, s, ts, exp)
            while not sure and k < last and not overlaps(table, k, ts, exp):
                k += 1
            if k < last:
                x = place_of(kind, direction, table[AXES, k], by)
                above = min(above, x) if has_above else x
                has_above = True
            k = at[s] - 1
            while not sure and k >= first and not overlaps(table, k, ts, exp):
                k -= 1
            if k >= first:
                x = place_of(kind, direction, table[AXES, k], by)
                below = max(below, x) if has_below else x
                has_below = True
        word, size = word_starts[g], sizes[g]
        reach_below = rank(low, word * 64, word * 64 + size, below) if has_below else 0
        reach_above = 0
        if has_above and reach_below < size:
            reach_above = rank(highs.keys, highs.starts[g], highs.starts[g + 1], ~above)
        any_match |= reach_below + reach_above > 0
        full = reach_below >> 6
        fill_words(matches, word, full)
        write_prefix(highs, g, reach_above, matches, word, full)
        if reach_below & 63:
            matches[word + full] |= (one << np.uint64(reach_below & 63)) - one
    return any_match


@inlined
def _first_above(table: Ints, at: int, last: int, kind: int, direction: int, by: int, point: int) -> int:
    """The first row from `at` on that lies above a point, by steps that double, then by a binary search."""
    step = 1
    while at + step <= last and place_of(kind, direction, table[AXES, at + step - 1], by) <= point:
        at += step
        step *= 2
    n = min(step, last - at)
    while n > 0:
        half = n >> 1
        if place_of(kind, direction, table[AXES, at + half], by) <= point:
            at += half + 1
            n -= half + 1
        else:
            n = half
    return at

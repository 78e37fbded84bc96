"""Search by stabbing groups, along several axes: the queries of each group that a tuple affects.

From the point of a group outwards along the first axis, rows are visited one by one as far as the longest ranges of the
group reach. The queries that hold a row are the intersection of a prefix set along the first axis with two along every
other axis. If all ranges contain 0 along a second axis, as time windows do, only the rows of a skyline are visited.
Cost for each group and visited row: the words of the group, once per axis. (Document 4, sections 3.2.2 and 3.3.2.)
"""

from __future__ import annotations

import numpy as np

from eddyline.arrays import Words
from eddyline.index.ranges.prefix_sets import keep_prefix, rank, write_prefix
from eddyline.index.ranges.probes import (
    AXES,
    LATEST_TS,
    LINKS_FROM,
    Probes,
    first_from,
    overlaps,
    place_of,
    segment_table,
)
from eddyline.index.ranges.range_groups import GroupColumns, StabbingGroups
from eddyline.index.runtime.kernel_cache import inlined, kernel

MAX = 9223372036854775807

# --- kernels ---------------------------------------------------------------------------------------------------------


@kernel
def by_boxes(
    groups: GroupColumns, count: int, probes: Probes, i: int, reached: Words, spare: Words, matches: Words
) -> bool:
    """Writes the queries of the first `count` groups that tuple i affects along all axes; returns whether a row was
    visited. `reached` and `spare` are scratch memory.

    If the ranges are `around_zero`, only rows that are nearer to 0 along the second axis than all rows before them
    matter, and the walk ends with a row that all queries of the group reach along it. If no row lies beyond 0 there
    and all have begun, links lead from one such row to the next (`skylines.py`).
    """
    points, word_starts, sizes, low, highs = groups.stabbing
    further, around_zero, many_groups = groups.further, groups.around_zero, len(points)
    (kinds, directions), (headers, begin, end) = probes.axes, probes.partners
    shift, ts, exp = probes.arrivals.shift, probes.arrivals.ts[i], probes.arrivals.exp[i]
    columns = AXES + len(kinds)
    any_row = False
    for g in range(count):
        word, width, size = word_starts[g], word_starts[g + 1] - word_starts[g], sizes[g]
        matches[word : word + width] = 0
        for s in range(len(headers)):
            first, last = begin[s, i], end[s, i]
            if first == last:
                continue
            links = around_zero and shift[1, i] >= headers[s, LINKS_FROM] and exp >= headers[s, LATEST_TS]
            table = segment_table(headers, s, columns + 2 * links)
            middle = first_from(table, first, last, kinds[0], directions[0], shift[0, i], points[g])
            for side in range(2):  # below the point, then above
                k = middle - 1 if side == 0 else middle
                older, newer = -MAX, MAX
                while first <= k < last:
                    row = k
                    k = table[columns + side, k] if links else k + 2 * side - 1
                    if not overlaps(table, row, ts, exp):
                        continue
                    far = place_of(kinds[1], directions[1], table[AXES + 1, row], shift[1, i])
                    if around_zero and not (older < far <= 0 or 0 < far < newer):
                        continue
                    x = place_of(kinds[0], directions[0], table[AXES, row], shift[0, i])
                    if x < low[word * 64] if side == 0 else ~x < highs.keys[highs.starts[g]]:
                        break  # rows further out are in no range
                    any_row = True
                    _write_reaching(groups.stabbing, g, side, x, reached)
                    left = size
                    if around_zero:
                        order = g if far <= 0 else many_groups + g
                        left = keep_prefix(further, order, far if far <= 0 else ~far, reached, spare)
                        older, newer = (far, newer) if far <= 0 else (older, far)
                    else:
                        for axis in range(1, len(kinds)):
                            place = place_of(kinds[axis], directions[axis], table[AXES + axis, row], shift[axis, i])
                            order = (2 * axis - 2) * many_groups + g
                            if left > 0:
                                left = keep_prefix(further, order, place, reached, spare)
                            if left > 0:
                                left = keep_prefix(further, order + many_groups, ~place, reached, spare)
                    if left > 0:
                        for w in range(width):
                            matches[word + w] |= reached[w]
                    if around_zero and left == size:
                        break
    return any_row


@inlined
def _write_reaching(groups: StabbingGroups, g: int, side: int, x: int, to: Words) -> None:
    """Writes the queries of a group whose ranges reach from its point to x along the first axis: downwards (side 0), or
    upwards."""
    _, word_starts, sizes, low, highs = groups
    if side == 1:
        write_prefix(highs, g, rank(highs.keys, highs.starts[g], highs.starts[g + 1], ~x), to, 0, 0)
        return
    size = rank(low, word_starts[g] * 64, word_starts[g] * 64 + sizes[g], x)
    for w in range(word_starts[g + 1] - word_starts[g]):
        to[w] = ~np.uint64(0) if (w + 1) * 64 <= size else np.uint64(0)
    if size & 63:
        to[size >> 6] = (np.uint64(1) << np.uint64(size & 63)) - np.uint64(1)

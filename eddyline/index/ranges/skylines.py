"""Skylines of rows that lie along two axes, such as a value and time (document 4, section 3.3.2).

Seen from a point of the first axis outwards, rows matter that are further along the second axis, later, than all that
are nearer to the point. Behind every row on such a skyline stands the next one that is later than itself, wherever the
point is: two links for each row, to the next later one on either side, hold the skylines of all points. They are made
in one pass when a segment is first asked, and a segment never changes.

Links are followed over rows that no longer count. That is right if no row that ends earlier is later: where each lasts
equally long, or all end at once. Where rows are later than the tuple that asks, or begin only when it has ended,
skylines are other ones: those tuples go from row to row.
"""

from __future__ import annotations

import numpy as np

from eddyline.arrays import Ints
from eddyline.index.ranges.axes import AXES, EXP, TS
from eddyline.index.runtime.kernel_cache import kernel


def linked(segment: Ints) -> Ints:
    """A segment with two axes, with two more columns if links tell its skylines: the next later row before each, and
    the one behind; -1 and the number of rows where there is none."""
    later, end = segment[AXES + 1], segment[EXP]
    lasting = end - segment[TS]
    if not segment.shape[1] or not ((end == end[0]).all() or ((lasting == lasting[0]) & (later == segment[TS])).all()):
        return segment
    return np.vstack([segment, *_links(later)])


# --- kernels ---------------------------------------------------------------------------------------------------------


@kernel
def _links(later: Ints) -> tuple[Ints, Ints]:
    """For each value the next larger one before it, and behind. Each link is followed at most twice: O(n)."""
    n = len(later)
    before, behind = np.empty(n, np.int64), np.empty(n, np.int64)
    for k in range(n):
        j = k - 1
        while j >= 0 and later[j] <= later[k]:
            j = before[j]
        before[k] = j
    for k in range(n - 1, -1, -1):
        j = k + 1
        while j < n and later[j] <= later[k]:
            j = behind[j]
        behind[k] = j
    return before, behind

"""Skylines: links between the rows of a segment with a second axis of time, so that late rows are found in few steps.

Seen from a point of the first axis outwards, only rows matter that are later along the second axis than all rows nearer
to the point (the skyline). The next row of a skyline is the next later row, whatever the point is. So two links for
each row, to the next later row on either side, contain the skylines of all points.
Links are made in one pass, O(rows), when a segment is first probed; a segment never changes.

Links lead over rows that have expired. That is right if no row that ends earlier is later: all rows last equally long,
or end at the same time. If a row is later than the probing tuple, or begins after the tuple's end, the skyline is a
different one, and the search visits row after row. (Document 4, section 3.3.2.)
"""

from __future__ import annotations

import numpy as np

from eddyline.arrays import Ints
from eddyline.index.ranges.probes import AXES, EXP, TS
from eddyline.index.runtime.kernel_cache import kernel


def linked(segment: Ints) -> Ints:
    """A segment with two axes, with two more columns if links give its skylines: the next later row before each row,
    and the next one after it; -1 and the number of rows if there is none."""
    times, end = segment[AXES + 1], segment[EXP]
    lasting = end - segment[TS]
    if not segment.shape[1] or not ((end == end[0]).all() or ((lasting == lasting[0]) & (times == segment[TS])).all()):
        return segment
    return np.vstack([segment, *_links(times)])


# --- kernels ---------------------------------------------------------------------------------------------------------


@kernel
def _links(times: Ints) -> tuple[Ints, Ints]:
    """For each time the next later one before it, and after it. Each link is followed at most twice: O(n)."""
    n = len(times)
    before, after = np.empty(n, np.int64), np.empty(n, np.int64)
    for k in range(n):
        j = k - 1
        while j >= 0 and times[j] <= times[k]:
            j = before[j]
        before[k] = j
    for k in range(n - 1, -1, -1):
        j = k + 1
        while j < n and times[j] <= times[k]:
            j = after[j]
        after[k] = j
    return before, after

"""Stabbing partitions: ranges in groups, so that all ranges of a group contain a common point.

Ranges are closed, over integers, and not empty. The canonical partition visits them by their low ends and starts a
group when a range begins after the least high end of the current group. No partition has fewer groups. Groups are
sorted along the axis, and so are the intersections of their ranges. O(n log n). (Document 4, section 2.1.)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from eddyline.arrays import Ints
from eddyline.index.runtime.kernel_cache import kernel


@dataclass(frozen=True)
class Partition:
    """Ranges sorted by group, then by low end: group g has the ranges starts[g] … starts[g + 1] of `order`, and their
    intersection is first[g] … last[g]."""

    order: Ints
    starts: Ints
    first: Ints
    last: Ints

    def __len__(self) -> int:
        return len(self.first)

    @property
    def sizes(self) -> Ints:
        return np.diff(self.starts)


def canonical(low: Ints, high: Ints) -> Partition:
    """The partition with the fewest groups. O(n log n)."""
    order = np.argsort(low, kind="stable")
    sorted_low, sorted_high = low[order], high[order]
    starts = np.append(_begins(sorted_low, sorted_high), len(low))
    begins = starts[:-1]
    if not len(begins):
        none = np.empty(0, np.int64)
        return Partition(order, starts, none, none)
    first = sorted_low[starts[1:] - 1]
    return Partition(order, starts, first, np.minimum.reduceat(sorted_high, begins))


# --- kernels ---------------------------------------------------------------------------------------------------------


@kernel
def _begins(low: Ints, high: Ints) -> Ints:
    """The positions where groups begin, among ranges sorted by their low ends. O(n)."""
    begins = np.empty(len(low), np.int64)
    groups = 0
    least = np.int64(0)  # high end in the group
    for i in range(len(low)):
        if groups == 0 or low[i] > least:
            begins[groups] = i
            groups += 1
            least = high[i]
        else:
            least = min(least, high[i])
    return begins[:groups]

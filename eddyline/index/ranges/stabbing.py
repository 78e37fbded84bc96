"""Stabbing partitions: ranges in groups, each with a point that all its ranges hold (document 4, section 2.1).

Ranges are closed, over integers, and not empty. The canonical partition goes through them by their low ends and begins
a group when a range lies beyond the ends of all before it: no partition has fewer groups. Its groups follow one another
along the axis, and so do the parts that the ranges of each have in common.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from eddyline.arrays import Ints
from eddyline.index.runtime.kernel_cache import kernel


@dataclass(frozen=True)
class Partition:
    """Ranges by group, and by low end within a group; group g has those at starts[g] … starts[g + 1] of the order.

    All its ranges hold what lies between first[g] and last[g].
    """

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
    """Where groups begin among ranges sorted by their low ends. O(n)."""
    found = np.empty(len(low), np.int64)
    groups = 0
    least = np.int64(0)  # of the high ends in the group
    for i in range(len(low)):
        if groups == 0 or low[i] > least:
            found[groups] = i
            groups += 1
            least = high[i]
        else:
            least = min(least, high[i])
    return found[:groups]

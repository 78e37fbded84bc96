"""Two histograms of stabbing counts to compare others with: buckets of equal width, and the optimal one.

The terms are those of `eddyline/index/ranges/histograms.py`: a histogram is a step function that estimates how many
ranges hold a point. (Document 5, section 4.4.)
"""

from __future__ import annotations

import numpy as np

from eddyline.arrays import Ints
from eddyline.index.ranges.histograms import (
    BUCKETS,
    Counts,
    Histogram,
    Measure,
    check_buckets,
    coarsened,
    empty,
    pieces,
    stabbing_counts,
)


def equal_width(low: Ints, high: Ints, buckets: int = BUCKETS) -> Histogram:
    """Buckets as wide as each other, but for 1, with the average count over each. O(n log n)."""
    check_buckets(buckets)
    if not len(low):
        return empty()
    counts = stabbing_counts(low, high)
    first, width = int(counts.starts[0]), counts.last - int(counts.starts[0]) + 1
    buckets = min(buckets, width)
    starts = np.array([first + width * i // buckets for i in range(buckets)], np.int64)
    return pieces(_cut(counts, starts), starts, "squared")


def optimal(low: Ints, high: Ints, buckets: int = BUCKETS, measure: Measure = "relative") -> Histogram:
    """The histogram of so many buckets that errs least, by dynamic programming.

    O(n log n + steps² · buckets) at worst: for a few thousand steps.
    """
    check_buckets(buckets)
    if not len(low):
        return empty()
    counts = stabbing_counts(low, high)
    return coarsened(counts, counts.starts, buckets, measure)


def _cut(counts: Counts, starts: Ints) -> Counts:
    """The same function, in steps that start at these points too."""
    every = np.union1d(counts.starts, starts)
    return Counts(every, counts.at(every), counts.last)

"""Histograms that estimate how many of some ranges hold a point: their stabbing count (document 5, section 4.4).

Ranges are closed, over integers, and not empty. Their stabbing count is a step function, zero outside the least low and
the greatest high end; a histogram is one with fewer steps. Where points are uniform between these ends, its error is
the mean of (estimate - count)² / count², the *relative* measure, or of (estimate - count)², the *squared* one. A count
of 0 divides as 1. The value that errs least over a piece is then the mean of the counts, weighted by width / count² or
by width.

`near_optimal` errs hardly more than the best histogram of as many pieces, and is far cheaper than that one;
`benchmarks/yardsticks/` has others to compare it with.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from eddyline.arrays import Doubles, Ints
from eddyline.index.runtime.kernel_cache import kernel

Measure = Literal["relative", "squared"]

BUCKETS = 100  # are enough to choose among strategies (document 5, section 4.6.7)
FINE = 8  # places where a piece may start, for each bucket
_NO_STARTS, _NO_VALUES = np.empty(0, np.int64), np.empty(0, np.float64)


@dataclass(frozen=True)
class Histogram:
    """values[i] from starts[i], ascending, up to where the next piece starts; the last piece ends with `last`."""

    starts: Ints
    values: Doubles
    last: int

    def __len__(self) -> int:
        return len(self.starts)

    def estimate(self, points: Ints) -> Doubles:
        """About how many ranges hold each point. O(log pieces) for a point."""
        piece = np.searchsorted(self.starts, points, "right")
        found = np.append(0.0, self.values)[piece]
        found[points > self.last] = 0.0
        return found


@dataclass(frozen=True)
class Counts:
    """The stabbing count itself: counts[i] from starts[i] up to where the next step starts; the last ends with `last`.

    Every low end starts a step, and so does every number that follows a high end, but for the greatest.
    """

    starts: Ints
    counts: Ints
    last: int

    def __len__(self) -> int:
        return len(self.starts)

    @cached_property
    def widths(self) -> Doubles:
        """How many integers each step has."""
        ends = np.append(self.starts[1:] - 1, np.int64(self.last))
        return (ends.view(np.uint64) - self.starts.view(np.uint64)).astype(np.float64) + 1.0

    def weights(self, measure: Measure) -> Doubles:
        """What an error of 1 over each step costs."""
        if measure == "squared":
            return self.widths
        return self.widths / np.maximum(self.counts, 1).astype(np.float64) ** 2

    def at(self, points: Ints) -> Ints:
        """The count at points from the first start to the last end. O(log steps) for a point."""
        found: Ints = self.counts[np.searchsorted(self.starts, points, "right") - 1]
        return found


def stabbing_counts(low: Ints, high: Ints) -> Counts:
    """The exact function, of one range at least. O(n log n) to sort the ends, O(n) from there on."""
    return Counts(*_sweep(np.sort(low), np.sort(high)), last=int(high.max()))


def near_optimal(low: Ints, high: Ints, buckets: int = BUCKETS, measure: Measure = "relative") -> Histogram:
    """The best histogram of so many buckets whose pieces start at a few places, chosen well (not of the document).

    O(n log n) to sort, O(n) from there on, and O(buckets³) at worst for the choice among places.
    """
    check_buckets(buckets)
    if not len(low):
        return empty()
    counts = stabbing_counts(low, high)
    return coarsened(counts, _places(counts, FINE * buckets, measure), buckets, measure)


def _places(counts: Counts, most: int, measure: Measure) -> Ints:
    """Starts of about so many steps, between which the count is about equally hard to approximate. O(n log n) to sort.

    With many pieces, the best have equal shares of the sum of ∛(weight · jump²) over their steps, where the weight of a
    jump is that of the two steps about it. A jump of more than a share is a place, and the others share the rest.
    """
    if len(counts) <= most:
        return counts.starts
    weights = counts.weights(measure)
    about = weights[1:] * weights[:-1] / (weights[1:] + weights[:-1])
    hard = np.cbrt(about * np.diff(counts.counts).astype(np.float64) ** 2)
    ascending = np.sort(hard)
    shares = np.cumsum(ascending)[-most:] / np.arange(1, most + 1)  # if the larger jumps are places
    share = shares[np.nonzero(ascending[-most:] <= shares)[0].max()]
    passed = np.floor(np.cumsum(np.minimum(hard, share)) / (share or 1.0))  # 0 if there are fewer jumps
    places = (np.diff(passed, prepend=0.0) > 0) | (hard > share)
    found: Ints = counts.starts[np.append(True, places)]
    return found


def coarsened(counts: Counts, starts: Ints, buckets: int, measure: Measure) -> Histogram:
    """The best histogram of so many buckets among those whose pieces start at some of these starts of steps, the first
    of all included. O(steps + starts² · buckets) at worst; pieces that err too much are not looked at.
    """
    if buckets < len(starts):
        fine = pieces(counts, starts, measure)
        weights = np.add.reduceat(counts.weights(measure), np.searchsorted(counts.starts, starts))
        starts = starts[_best_starts(fine.values, weights, buckets)]
    return pieces(counts, starts, measure)


def pieces(counts: Counts, starts: Ints, measure: Measure) -> Histogram:
    """The best values for pieces that start at these starts of steps, the first of all included. O(steps)."""
    weights = counts.weights(measure)
    at = np.searchsorted(counts.starts, starts)
    values = np.add.reduceat(weights * counts.counts, at) / np.add.reduceat(weights, at)
    return Histogram(starts, values, counts.last)


def empty() -> Histogram:
    """Of no ranges."""
    return Histogram(_NO_STARTS, _NO_VALUES, 0)


def check_buckets(buckets: int) -> None:
    if buckets < 1:
        raise ValueError(f"a histogram of {buckets} buckets; it has at least 1")


# --- kernels ---------------------------------------------------------------------------------------------------------


@kernel
def _sweep(low: Ints, high: Ints) -> tuple[Ints, Ints]:
    """Where the steps of ranges start, and the counts from there, of the ends in ascending order. O(n)."""
    starts, counts = np.empty(2 * len(low), np.int64), np.empty(2 * len(low), np.int64)
    found = begun = ended = 0
    while begun < len(low) or high[ended] < high[-1]:
        if begun < len(low) and low[begun] <= high[ended]:
            start = low[begun]
        else:
            start = high[ended] + 1  # is not beyond the greatest high end
        while begun < len(low) and low[begun] == start:
            begun += 1
        while high[ended] < start:
            ended += 1
        starts[found], counts[found] = start, begun - ended
        found += 1
    return starts[:found], counts[:found]


@kernel
def _best_starts(values: Doubles, weights: Doubles, buckets: int) -> Ints:
    """Which of the steps start a piece, so that the weighted squared error of the pieces' means is least.

    Row by row: the least error of the first j steps in at most so many pieces, from that of fewer steps in fewer pieces
    and one piece more. That piece grows from j backward, with its mean and its error, which only rises: once it is no
    less than the best found, no longer piece can be better. O(steps² · buckets) at worst, O(steps · buckets) memory.
    """
    steps = len(values)
    least, row = np.full(steps + 1, np.inf), np.full(steps + 1, np.inf)
    least[0] = row[0] = 0.0
    begins = np.zeros((buckets, steps + 1), np.int32)
    for b in range(buckets):
        for j in range(1, steps + 1):
            best, weight, mean, error = np.inf, 0.0, 0.0, 0.0
            for i in range(j - 1, -1, -1):
                weight += weights[i]
                apart = values[i] - mean
                mean += apart * (weights[i] / weight)
                error += weights[i] * apart * (values[i] - mean)
                if error >= best:
                    break
                if least[i] + error < best:
                    best, begins[b, j] = least[i] + error, i
            row[j] = best
        least, row = row, least
        least[0] = row[0] = 0.0
    found = np.empty(buckets, np.int64)
    at, j = buckets, steps
    while j > 0:
        at -= 1
        j = begins[at, j]
        found[at] = j
    return found[at:]

"""SSI-HIST: a histogram of stabbing counts, from the stabbing groups of the ranges (document 5, section 4.4).

Seen from outside, the count of a group rises in steps up to its stabbing point: on its left *side*, and on its right.
To approximate a side by few values is to cluster the heights of its steps along a line: each height weighs what an
error there costs, and the best clusters are runs of steps.

In the document, the histogram is the sum of all sides, each with buckets by the size of its group. Where groups overlap
that is poor: what one loses while another gains is not seen in the sum, but takes buckets, and an error that is large
for a side is small for the sum. Here errors of a side weigh what they cost in the sum, sides get clusters by how hard
they are to approximate, several for each bucket, and where those begin, pieces of the histogram may: it is the best one
of its size among them. With far more groups than clusters it misses what only the sum shows; `near_optimal` in
`histograms.py` looks at the sum alone, errs less and takes half the time, and is the one to use.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from eddyline.arrays import Doubles, Ints
from eddyline.index.ranges.histograms import (
    BUCKETS,
    FINE,
    Counts,
    Histogram,
    Measure,
    check_buckets,
    coarsened,
    empty,
    stabbing_counts,
)
from eddyline.index.ranges.stabbing import Partition, canonical
from eddyline.index.runtime.kernel_cache import kernel

ROUNDS = 20  # of k-means, at most


@dataclass(frozen=True)
class Sides:
    """The steps of all sides, from outside in: those of side s are at starts[s] … starts[s + 1]; left sides come first.

    A step goes from `outer` to `inner`, numbers of starts of the steps of all ranges' count, which on a right side
    descend. The innermost step of a right side, behind the least high end of its group, is of no width.
    """

    starts: Ints
    outer: Ints
    inner: Ints
    heights: Ints


def ssi_histogram(low: Ints, high: Ints, buckets: int = BUCKETS, measure: Measure = "relative") -> Histogram:
    """One that errs hardly more than the optimal one.

    O(n log n) to sort, O(n) from there on, O(buckets · log n) for each round of k-means, and O(buckets³) at worst for
    the choice among clusters.
    """
    check_buckets(buckets)
    if not len(low):
        return empty()
    counts = stabbing_counts(low, high)
    found = sides(low, high, counts, canonical(low, high))
    reach = np.append(0.0, np.cumsum(counts.weights(measure)))
    weights = np.abs(reach[found.inner] - reach[found.outer])
    rises = np.diff(found.heights, prepend=0)
    rises[found.starts[:-1]] = found.heights[found.starts[:-1]]
    hard = np.cbrt(weights * rises.astype(np.float64) ** 2)
    shares = _shares(np.add.reduceat(hard, found.starts[:-1]), FINE * buckets)
    begins = _begins(found.starts, found.outer, found.inner, found.heights, weights, hard, shares, len(counts), ROUNDS)
    return coarsened(counts, counts.starts[begins], buckets, measure)


def sides(low: Ints, high: Ints, counts: Counts, partition: Partition) -> Sides:
    """The sides of the groups of a partition, whose stabbing points are the last their ranges have in common."""
    group = np.repeat(np.arange(len(partition)), partition.sizes)
    left = np.searchsorted(counts.starts, low[partition.order])
    right = np.searchsorted(counts.starts, high[partition.order], "right")  # the greatest high end has no start behind
    right = right[np.lexsort((-right, group))]
    points = np.searchsorted(counts.starts, partition.last, "right")
    return _steps(
        np.concatenate((left, right)),
        np.concatenate((partition.starts, partition.starts[1:] + len(low))),
        np.tile(points, 2),
    )


def _steps(ends: Ints, starts: Ints, points: Ints) -> Sides:
    """Of the ends of ranges by side, from outside in. O(n)."""
    last = np.append(ends[1:] != ends[:-1], True)  # of the ends that are equal
    last[starts[1:] - 1] = True
    at = np.nonzero(last)[0]
    side = np.searchsorted(starts, at, "right") - 1
    firsts = np.searchsorted(at, starts)
    inner = np.append(ends[at[1:]], 0)
    inner[firsts[1:] - 1] = points
    return Sides(firsts, ends[at], inner, at + 1 - starts[side])


def _shares(hard: Doubles, clusters: int) -> Ints:
    """Clusters in proportion, all of them: what is left after rounding down goes to the largest remainders."""
    exact = hard * (clusters / (hard.sum() or 1.0))
    found: Ints = np.floor(exact).astype(np.int64)
    found[np.argsort(found - exact, kind="stable")[: clusters - int(found.sum())]] += 1
    return found


# --- kernels ---------------------------------------------------------------------------------------------------------


@kernel
def _clusters(heights: Ints, weights: Doubles, hard: Doubles, most: int, rounds: int) -> Ints:
    """The first step of each cluster of ascending heights, at most so many of them.

    Lloyd's k-means: each height goes to the nearest mean, means are taken anew, until nothing moves. Clusters are runs,
    so prefix sums give a mean and a binary search its run: O(steps), and O(most · log steps) for a round. It begins
    with clusters of equal shares of ∛(weight · rise²), which are nearly the best when there are many.
    """
    steps = len(heights)
    if most >= steps:
        return np.arange(steps)
    weight, moment, passed = np.zeros(steps + 1), np.zeros(steps + 1), np.zeros(steps + 1)
    for i in range(steps):
        weight[i + 1] = weight[i] + weights[i]
        moment[i + 1] = moment[i] + weights[i] * heights[i]
        passed[i + 1] = passed[i] + hard[i]
    begins = np.searchsorted(passed[:-1], np.arange(most) * (passed[steps] / most))
    means = np.empty(most)
    for _ in range(rounds):
        found = 0
        for k in range(most):
            end = begins[k + 1] if k + 1 < most else steps
            if weight[end] > weight[begins[k]]:  # else nothing is in it, or nothing that costs
                begins[found] = begins[k]
                means[found] = (moment[end] - moment[begins[k]]) / (weight[end] - weight[begins[k]])
                found += 1
        moved = found < most
        most = found
        for k in range(1, most):
            begin = np.searchsorted(heights, (means[k - 1] + means[k]) / 2)
            moved |= begin != begins[k]
            begins[k] = begin
        if not moved:
            break
    first: Ints = begins[:most]
    return first


@kernel
def _begins(
    starts: Ints, outer: Ints, inner: Ints, heights: Ints, weights: Doubles, hard: Doubles, shares: Ints, steps: int,
    rounds: int,
) -> Ints:  # fmt: skip
    """The steps of the whole count at which a cluster begins, or a side ends; the first of all is one. O(steps) and
    k-means."""
    is_begin = np.zeros(steps + 1, np.bool_)
    is_begin[0] = True
    for side in range(len(shares)):
        a, b = starts[side], starts[side + 1]
        if shares[side] > 0:
            is_begin[inner[b - 1]] = True
            for k in _clusters(heights[a:b], weights[a:b], hard[a:b], shares[side], rounds):
                is_begin[outer[a + k]] = True
    found: Ints = np.nonzero(is_begin[:steps])[0]
    return found

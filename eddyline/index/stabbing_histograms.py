"""SSI-HIST: a histogram of stabbing counts, from the stabbing groups of the ranges (document 5, section 4.4).

Seen from outside, the count of a group rises in steps up to its stabbing point: on its left *side*, and on its right.
To approximate a side by few values is to cluster the heights of its steps along a line: each height weighs what an
error there costs, and the best clusters are runs of steps.

Every group gets buckets by its size, each side is clustered by itself, and the histogram is the sum of all sides. It
is exact with enough buckets. With few it is poor where groups overlap: what one loses while another gains is not seen
in the sum, but takes buckets; and the value that errs least relative to a side is far too low for the sum. The one to
use is `near_optimal` in `histograms.py`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit

from eddyline.index.histograms import (
    BUCKETS,
    Counts,
    Floats,
    Histogram,
    Ints,
    Measure,
    check_buckets,
    empty,
    stabbing_counts,
)
from eddyline.index.stabbing import Partition, canonical

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
    """The sum of the groups' own histograms, with so many buckets for all together.

    O(n log n) to sort, O(n) from there on, and O(buckets · log n) for each round of k-means.
    """
    check_buckets(buckets)
    if not len(low):
        return empty()
    counts = stabbing_counts(low, high)
    partition = canonical(low, high)
    found = sides(low, high, counts, partition)
    reach = np.append(0.0, np.cumsum(counts.widths))
    weights = np.abs(reach[found.inner] - reach[found.outer])
    if measure == "relative":
        weights /= found.heights.astype(np.float64) ** 2
    shares = _shares(np.tile(partition.sizes, 2), buckets)
    jumps = _summed(found.starts, found.outer, found.inner, found.heights, weights, shares, len(counts), ROUNDS)
    kept = np.append(0, 1 + np.nonzero(jumps[1:-1])[0])
    return Histogram(counts.starts[kept], np.maximum(np.cumsum(jumps[:-1])[kept], 0.0), counts.last)


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


def _shares(sizes: Ints, buckets: int) -> Ints:
    """Buckets in proportion to sizes, all of them: what is left after rounding down goes to the largest remainders."""
    exact = sizes * (buckets / sizes.sum())
    found: Ints = np.floor(exact).astype(np.int64)
    found[np.argsort(found - exact, kind="stable")[: buckets - int(found.sum())]] += 1
    return found


# --- kernels ---------------------------------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _clusters(heights: Floats, weights: Floats, most: int, rounds: int) -> tuple[Ints, Floats]:
    """The first step of each cluster of ascending heights, at most so many of them, and the clusters' means.

    Lloyd's k-means: each height goes to the nearest mean, means are taken anew, until nothing moves. Clusters are runs,
    so prefix sums give a mean and a binary search its run: O(steps), and O(most · log steps) for a round. It begins
    with clusters of equal shares of ∛(weight · rise²), which are nearly the best when there are many.
    """
    steps = len(heights)
    weight, moment, hard = np.zeros(steps + 1), np.zeros(steps + 1), np.zeros(steps + 1)
    below = 0.0
    for i in range(steps):
        weight[i + 1] = weight[i] + weights[i]
        moment[i + 1] = moment[i] + weights[i] * heights[i]
        hard[i + 1] = hard[i] + np.cbrt(weights[i] * (heights[i] - below) ** 2)
        below = heights[i]
    if most >= steps:
        return np.arange(steps), heights.copy()
    begins = np.searchsorted(hard[:-1], np.arange(most) * (hard[steps] / most))
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
    return begins[:most], means[:most]


@njit(cache=True, nogil=True)
def _summed(
    starts: Ints, outer: Ints, inner: Ints, heights: Ints, weights: Floats, shares: Ints, steps: int, rounds: int
) -> Floats:
    """How much the sum of all sides' clusters rises with each step of the whole count. O(steps) and k-means."""
    jumps = np.zeros(steps + 1)
    half = len(shares) // 2
    for side in range(len(shares)):
        if shares[side] == 0:
            continue
        a, b = starts[side], starts[side + 1]
        begins, means = _clusters(heights[a:b].astype(np.float64), weights[a:b], shares[side], rounds)
        sign = 1.0 if side < half else -1.0
        below = 0.0
        for k in range(len(begins)):
            jumps[outer[a + begins[k]]] += sign * (means[k] - below)
            below = means[k]
        jumps[inner[b - 1]] -= sign * below
    return jumps

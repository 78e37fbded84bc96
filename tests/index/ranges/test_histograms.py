"""Histograms of stabbing counts against counting the ranges that hold every point, in plain lines."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations, pairwise

import numpy as np
import pytest

from benchmarks.yardsticks.plain_histograms import equal_width, optimal
from benchmarks.yardsticks.stabbing_histograms import ssi_histogram
from eddyline.arrays import Doubles, Ints
from eddyline.index.ranges.histograms import FINE, Histogram, Measure, near_optimal, stabbing_counts

Ranges = tuple[Ints, Ints]
Build = Callable[..., Histogram]
BUILDS = [equal_width, optimal, near_optimal, ssi_histogram]
LEAST, MOST = np.iinfo(np.int64).min, np.iinfo(np.int64).max
TOP = 3000

every_build = pytest.mark.parametrize("build", BUILDS)
every_measure = pytest.mark.parametrize("measure", ["relative", "squared"])


def ranges(*pairs: tuple[int, int]) -> Ranges:
    low, high = np.array(pairs, np.int64).reshape(-1, 2).T
    return low.copy(), high.copy()


def clustered(seed: int, n: int = 2000, spreads: tuple[int, ...] = (5, 50, 300)) -> Ranges:
    """Ranges about six centres, of very different numbers, within 0 … TOP."""
    rnd = np.random.default_rng(seed)
    centre = rnd.integers(0, TOP + 1, 6)[rnd.choice(6, n, p=rnd.dirichlet(np.full(6, 0.5)))]
    spread = rnd.exponential(rnd.choice(spreads), (2, n)).astype(np.int64)
    return np.maximum(centre - spread[0], 0), np.minimum(centre + spread[1], TOP)


def some(seed: int) -> Ranges:
    """A few ranges among 0 … 19, with duplicates and points among them."""
    rnd = np.random.default_rng(seed)
    low = rnd.integers(0, 20, int(rnd.integers(1, 9)))
    return low, np.minimum(low + rnd.integers(0, 8, len(low)), 19)


def plainly(low: Ints, high: Ints, points: Ints) -> Ints:
    return np.array([np.count_nonzero((low <= x) & (x <= high)) for x in points], np.int64)


def covered(low: Ints, high: Ints) -> Ints:
    """All points from the least low to the greatest high end."""
    return np.arange(low.min(), high.max() + 1)


def error(estimate: Doubles, count: Ints, measure: Measure) -> float:
    over = np.maximum(count, 1) if measure == "relative" else np.ones(len(count))
    return float(np.mean(((estimate - count) / over) ** 2))


def error_of(found: Histogram, of: Ranges, measure: Measure) -> float:
    points = covered(*of)
    return error(found.estimate(points), plainly(*of, points), measure)


@pytest.mark.parametrize("seed", range(40))
def test_counts_are_how_many_ranges_hold_each_point(seed: int) -> None:
    low, high = some(seed)
    points = covered(low, high)
    counts = stabbing_counts(low, high)
    assert counts.at(points).tolist() == plainly(low, high, points).tolist(), f"seed {seed}"
    starts = sorted({*low.tolist(), *(high[high < high.max()] + 1).tolist()})
    assert (counts.starts.tolist(), counts.widths.sum()) == (starts, len(points)), f"seed {seed}"


@pytest.mark.parametrize("buckets", [1, 2, 7, 20, 100])
@pytest.mark.parametrize("seed", range(10))
def test_a_bucket_of_equal_width_has_the_average_of_the_counts_in_it(seed: int, buckets: int) -> None:
    low, high = some(seed)
    points = covered(low, high)
    count = plainly(low, high, points)
    edges = [len(points) * i // buckets for i in range(buckets + 1)]
    averages = [np.full(b - a, count[a:b].mean()) for a, b in pairwise(edges) if b > a]
    found = equal_width(low, high, buckets)
    assert len(found) == min(buckets, len(points))
    np.testing.assert_allclose(found.estimate(points), np.concatenate(averages), rtol=1e-12, err_msg=f"seed {seed}")


@every_measure
@pytest.mark.parametrize("seed", range(12))
def test_no_choice_of_pieces_errs_less_than_the_optimal_one(seed: int, measure: Measure) -> None:
    low, high = some(seed)
    points = covered(low, high)
    count = plainly(low, high, points)
    weight = 1 / np.maximum(count, 1) ** 2 if measure == "relative" else np.ones(len(count))
    for buckets in (1, 2, 3):
        least = np.inf
        for cuts in combinations(range(1, len(points)), min(buckets, len(points)) - 1):
            bounds = [0, *cuts, len(points)]
            parts = [slice(a, b) for a, b in pairwise(bounds)]
            means = [np.full(p.stop - p.start, np.average(count[p], weights=weight[p])) for p in parts]
            least = min(least, error(np.concatenate(means), count, measure))
        found = optimal(low, high, buckets, measure)
        assert len(found) <= buckets
        assert error_of(found, (low, high), measure) == pytest.approx(least, abs=1e-12), f"seed {seed}"


@every_measure
@pytest.mark.parametrize("seed", range(10))
def test_with_a_bucket_for_every_step_nothing_is_lost(seed: int, measure: Measure) -> None:
    low, high = of = clustered(seed, 300)
    steps = len(stabbing_counts(low, high))
    points = covered(low, high)
    count = plainly(*of, points)
    for found in (
        near_optimal(low, high, steps, measure),
        optimal(low, high, steps, measure),
        ssi_histogram(low, high, steps, measure),
    ):
        np.testing.assert_allclose(found.estimate(points), count, rtol=1e-9, atol=1e-9, err_msg=f"seed {seed}")


@every_measure
@pytest.mark.parametrize("buckets", [10, 30])
@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("build", [near_optimal, ssi_histogram])
def test_a_histogram_errs_little_more_than_the_optimal_one(
    build: Build, seed: int, buckets: int, measure: Measure
) -> None:
    of = clustered(seed, spreads=(50, 300))
    assert len(stabbing_counts(*of)) > FINE * buckets, "so few steps that it is the optimal one"
    found = build(*of, buckets, measure)
    least = error_of(optimal(*of, buckets, measure), of, measure)
    assert len(found) <= buckets
    assert error_of(found, of, measure) <= 1.1**2 * least, f"seed {seed}"


@every_measure
@pytest.mark.parametrize("buckets", [5, 10, 30, 100])
@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("build", [near_optimal, ssi_histogram])
def test_a_histogram_errs_no_more_than_equal_width(build: Build, seed: int, buckets: int, measure: Measure) -> None:
    of = clustered(seed)
    equal = error_of(equal_width(*of, buckets), of, measure)
    assert error_of(build(*of, buckets, measure), of, measure) <= equal, f"seed {seed}"


@pytest.mark.parametrize("buckets", [1, 4, 16, 64])
@pytest.mark.parametrize("seed", range(6))
def test_estimates_add_up_to_the_widths_of_all_ranges(seed: int, buckets: int) -> None:
    low, high = of = clustered(seed)
    points = covered(*of)
    total = (high - low + 1).sum()
    others = [build(*of, buckets, "squared") for build in (optimal, near_optimal, ssi_histogram)]
    for found in (equal_width(*of, buckets), *others):
        assert found.estimate(points).sum() == pytest.approx(total), f"seed {seed}"


@every_build
@pytest.mark.parametrize("buckets", [1, 3, 20, 500])
def test_no_estimate_is_negative_and_none_is_above_zero_outside_the_ranges(build: Build, buckets: int) -> None:
    for seed in range(6):
        low, high = clustered(seed, 500)
        found = build(low, high, buckets)
        assert (found.estimate(covered(low, high)) >= 0).all(), f"seed {seed}"
        outside = np.array([LEAST, low.min() - 1, high.max() + 1, MOST])
        assert found.estimate(outside).tolist() == [0, 0, 0, 0], f"seed {seed}"


@every_build
def test_of_no_ranges_every_estimate_is_zero(build: Build) -> None:
    found = build(*ranges())
    assert len(found) == 0
    assert found.estimate(np.array([LEAST, 0, MOST])).tolist() == [0, 0, 0]
    assert found.estimate(np.empty(0, np.int64)).tolist() == []


@every_build
@pytest.mark.parametrize(
    "pairs",
    [
        [(3, 8)],
        [(5, 5)],
        [(3, 8)] * 7,
        [(5, 5)] * 4,
        [(1, 4), (5, 9)],
        [(i, i) for i in range(10)],
        [(10 * i, 10 * i + 3) for i in range(8)],
        [(0, 9), (1, 8), (2, 7), (3, 6)],
        [(0, 20), (5, 5), (5, 9), (9, 9)],
    ],
)
def test_simple_sets_are_exact_with_enough_buckets(build: Build, pairs: list[tuple[int, int]]) -> None:
    low, high = ranges(*pairs)
    points = np.arange(-2, 90)
    np.testing.assert_allclose(build(low, high).estimate(points), plainly(low, high, points), rtol=1e-12, atol=1e-12)


@every_measure
@pytest.mark.parametrize("build", [optimal, near_optimal, ssi_histogram])
def test_the_ends_of_int64_are_ends_like_others(build: Build, measure: Measure) -> None:
    low, high = ranges((LEAST, MOST), (LEAST, LEAST), (MOST, MOST), (LEAST, -1), (0, MOST), (MOST - 1, MOST))
    points = np.array([LEAST, LEAST + 1, -1, 0, 1, MOST - 2, MOST - 1, MOST])
    assert build(low, high, 100, measure).estimate(points).tolist() == plainly(low, high, points).tolist()


def test_equal_width_spans_all_of_int64() -> None:
    found = equal_width(*ranges((LEAST, MOST), (LEAST, -1)), 4)
    assert found.starts.tolist() == [LEAST, LEAST // 2, 0, 2**62]
    assert found.estimate(np.array([LEAST, -1, 0, MOST])).tolist() == [2, 2, 1, 1]


@every_measure
def test_few_buckets_are_kept_when_there_are_more_groups(measure: Measure) -> None:
    low = np.arange(0, 40_000, 10)
    of = low, low + np.random.default_rng(1).integers(0, 9, len(low))
    for buckets in (1, 5, 20):
        found = near_optimal(*of, buckets, measure)
        equal = error_of(equal_width(*of, buckets), of, measure)
        assert len(found) <= buckets and error_of(found, of, measure) <= 1.02 * equal
        assert len(ssi_histogram(*of, buckets, measure)) <= buckets


def test_ranges_that_follow_one_another_without_a_jump_are_one_piece() -> None:
    low = np.arange(0, 10_000, 10)
    of = np.append(low, [500, 500, 7000]), np.append(low + 9, [600, 800, 7000])
    points = np.arange(10_000)
    np.testing.assert_allclose(near_optimal(*of, 7).estimate(points), plainly(*of, points), rtol=1e-12)


def test_a_gap_between_distant_clusters_is_seen() -> None:
    rnd = np.random.default_rng(2)
    centre = np.repeat([-(10**17), 0, 10**17], 1000)
    spread = rnd.integers(1, 10**6, (2, 3000))
    found = near_optimal(centre - spread[0], centre + spread[1], 30)
    np.testing.assert_allclose(found.estimate(np.array([-(10**16), 10**16])), 0, atol=1e-6)
    np.testing.assert_allclose(found.estimate(np.unique(centre)), 1000, rtol=0.3)


@every_build
def test_less_than_one_bucket_is_refused(build: Build) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        build(*ranges((1, 2)), 0)

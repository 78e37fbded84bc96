"""Estimates for the choice of a join's strategy, against counting the queries."""

from __future__ import annotations

import numpy as np
import pytest

from eddyline.index.ranges.histograms import BUCKETS
from eddyline.index.ranges.range_groups import range_groups
from eddyline.operators.joins.range_choice import Acceptance


@pytest.mark.parametrize("queries", [1, 30, 1_000, 150_000])
def test_few_queries_have_few_buckets_and_the_queries_that_accept_a_value_are_estimated_well(queries: int) -> None:
    rng = np.random.default_rng(queries)
    low = np.clip(rng.normal(500, 200, queries), 0, 1000).astype(np.int64)
    high = low + rng.integers(50, 150, queries)
    axis = np.zeros((1, queries), np.int64)
    groups = range_groups(np.arange(queries), axis, axis, [(low, high)])
    acceptance = Acceptance(groups, groups.bits)
    (histogram,) = acceptance.histograms
    assert len(histogram) <= min(BUCKETS, 3 * queries ** (1 / 3))
    values = np.arange(0, 1200, 7)
    accepting = np.array([np.count_nonzero((low <= v) & (v <= high)) for v in values])
    error = np.abs(acceptance.estimate(np.stack([values, ~values])) - accepting).mean()
    assert error <= 0.02 * queries

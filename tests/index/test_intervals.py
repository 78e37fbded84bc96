"""The index of intervals finds what a plain comparison finds."""

import numpy as np
import pytest

from eddyline.index.intervals import intervals, sortable


@pytest.mark.parametrize("seed", range(20))
def test_intervals_that_hold_a_value_are_found(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.choice([0, 1, 63, 64, 65, 4095, 4097, 9000]))
    low = rng.integers(-50, 50, n)
    high = low + rng.integers(-3, int(rng.choice([2, 200])), n)  # some are empty
    values = rng.integers(-60, 260, 40)
    index = intervals(low, high)
    owner, found = index.holding(values)
    got = sorted(zip(owner.tolist(), found.tolist(), strict=True))
    want = sorted((i, j) for i, x in enumerate(values) for j in np.nonzero((low <= x) & (x <= high))[0].tolist())
    assert got == want
    assert index.count(values).tolist() == [sum(i == k for i, _ in want) for k in range(len(values))]


def test_doubles_keep_their_order_as_integers() -> None:
    values = [-np.inf, -1e300, -1.5, -5e-324, 0.0, 5e-324, 1.0, 1e300, np.inf, np.nan]
    numbers = sortable(np.array(values))
    assert (np.diff(numbers) > 0).all()
    assert sortable(np.array([-0.0]))[0] == sortable(np.array([0.0]))[0]
    assert sortable(np.array([np.nan]))[0] == sortable(np.array([-np.nan]))[0]

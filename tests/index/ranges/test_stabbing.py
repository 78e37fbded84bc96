"""The canonical stabbing partition against the least number of groups, in plain lines."""

from __future__ import annotations

import pytest

from eddyline.index.ranges.stabbing import canonical
from tests.benchmarks.moving_ranges import SHAPES, MovingRanges, ends, fewest


@pytest.mark.parametrize("shape", SHAPES)
def test_no_partition_has_fewer_groups_than_the_canonical_one(shape: str) -> None:
    for seed in range(20):
        moving = MovingRanges(seed, shape)
        moving.updates(1 + 10 * seed, 1.0)
        assert len(canonical(*ends(moving.held))) == fewest(moving.held.values()), f"seed {seed}"

"""Hotspots against a plain record of the ranges: invariants I1 to I3 of document 4, section 2.2."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.yardsticks.hotspots import SCATTERED, Hotspots
from eddyline.index.ranges.stabbing import canonical
from tests.benchmarks.moving_ranges import SHAPES, MovingRanges, Range


def assert_invariants(hotspots: Hotspots, held: dict[int, Range], told: str) -> None:
    n, alpha = len(held), hotspots.alpha
    assert hotspots.ranges == n, told
    low, high = np.array(list(held.values()), np.int64).reshape(-1, 2).T
    scattered = hotspots.scattered
    assert (hotspots.sizes >= alpha / 2 * n).all() and (scattered.sizes < alpha * n).all(), f"I1: {told}"
    assert len(hotspots) <= (1 + scattered.eps) * len(canonical(low, high)) + 2 / alpha, f"I2: {told}"
    assert hotspots.moves <= 5 * hotspots.updates, f"I3: {told}"


def assert_groups(hotspots: Hotspots, held: dict[int, Range], told: str) -> None:
    """Every range is in one group, hot or scattered; those of a hot group hold what it has in common."""
    seen: list[int] = []
    for number, first, last, size in zip(
        hotspots.numbers.tolist(), hotspots.first.tolist(), hotspots.last.tolist(), hotspots.sizes.tolist(), strict=True
    ):
        members = hotspots.members(number).tolist()
        assert len(members) == size and (hotspots.hot_group_of(members) == number).all(), told
        assert first <= last and all(held[i][0] <= first and last <= held[i][1] for i in members), told
        seen += members
    rest = hotspots.scattered.by_group()[1].tolist()
    assert (hotspots.hot_group_of(rest) == SCATTERED).all(), told
    assert sorted(seen + rest) == sorted(held), told


@pytest.mark.parametrize("shape", SHAPES)
def test_after_every_update_all_hotspots_are_hot_and_nothing_else(shape: str) -> None:
    for seed, alpha in enumerate((0.02, 0.1, 0.5)):
        moving, hotspots = MovingRanges(seed, shape), Hotspots(alpha, 0.5)
        for share in (0.9, 0.5, 0.1, 0.7, 0.0, 0.6):
            for step in range(40):
                hotspots.apply(moving.updates(1, share))
                assert_invariants(hotspots, moving.held, f"seed {seed}, step {step} at share {share}")
            assert_groups(hotspots, moving.held, f"seed {seed}, after share {share}")


@pytest.mark.parametrize("shape", SHAPES)
def test_a_hundred_thousand_updates_keep_the_invariants(shape: str) -> None:
    """In all shapes together, in batches of all sizes, with shapes that change on the way."""
    seed = len(shape)
    moving, hotspots = MovingRanges(seed, shape), Hotspots(0.05, 1.0)
    batches = [(1, 0.7)] * 300 + [(20, 0.8)] * 100 + [(100, 0.5)] * 50 + [(20, 0.1)] * 100 + [(100, 0.6)] * 40
    for step, (count, share) in enumerate(batches):
        if step % 100 == 99:
            moving.shape = moving.random.choice(list(SHAPES))
        hotspots.apply(moving.updates(count, share))
        assert_invariants(hotspots, moving.held, f"seed {seed}, step {step}")
        if step % 25 == 0:
            assert_groups(hotspots, moving.held, f"seed {seed}, step {step}")
    assert hotspots.updates * len(SHAPES) >= 100_000
    assert_groups(hotspots, moving.held, f"seed {seed}, in the end")


def test_a_hotspot_that_cools_is_demoted_and_one_that_grows_is_promoted() -> None:
    hotspots = Hotspots(0.2, 1.0)
    hotspots.insert(range(100), [0] * 100, [10] * 100)
    assert hotspots.sizes.tolist() == [100]
    far = [1_000 * i for i in range(1, 951)]
    told = hotspots.insert(range(100, 1050), far, far)
    assert [ids.tolist() for _, ids in told.demoted] == [list(range(100))]
    assert not len(hotspots.numbers) and hotspots.scattered.ranges == 1050
    told = hotspots.remove(range(100, 650))
    assert [ids.tolist() for _, ids in told.promoted] == [list(range(100))]
    assert hotspots.moves == 300


def test_replaying_what_updates_tell_gives_the_members_of_hot_groups() -> None:
    """Whoever keeps a structure for each hot group needs nothing else."""
    moving, hotspots = MovingRanges(11, "skewed"), Hotspots(0.03, 1.0)
    replayed: dict[int, set[int]] = {}
    moves = 0
    for _ in range(400):
        updates = moving.updates(moving.random.choice((1, 5, 50)), moving.random.choice((0.3, 0.8)))
        told = hotspots.apply(updates)
        for insert, number, group in zip(updates.insert, updates.ids.tolist(), told.group.tolist(), strict=True):
            if group != SCATTERED:
                (replayed[group].add if insert else replayed[group].remove)(number)
        replayed = {group: ids for group, ids in replayed.items() if ids}
        for group, ids in told.demoted:
            assert replayed.pop(group) == set(ids.tolist())
        for group, ids in told.promoted:
            assert group not in replayed
            replayed[group] = set(ids.tolist())
        moves += sum(len(ids) for _, ids in told.demoted + told.promoted)
        assert replayed == {g: set(hotspots.members(g).tolist()) for g in hotspots.numbers.tolist()}
    assert moves == hotspots.moves > 0


def test_a_batch_with_an_impossible_update_changes_nothing() -> None:
    hotspots = Hotspots(0.5)
    hotspots.insert([1, 2], [0, 5], [9, 9])
    with pytest.raises(ValueError, match="range 3 is not there"):
        hotspots.update([False, False], [1, 3], [0, 0], [0, 0])
    assert_groups(hotspots, {1: (0, 9), 2: (5, 9)}, "as before")

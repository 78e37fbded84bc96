"""The dynamic stabbing partition against a plain record of the ranges: what groups share, and how few they are."""

from __future__ import annotations

from typing import get_args

import numpy as np
import pytest

from benchmarks.yardsticks.dynamic_stabbing import DynamicPartition, Trigger
from benchmarks.yardsticks.range_list import BLOCK
from eddyline.index.ranges.stabbing import canonical
from tests.benchmarks.moving_ranges import GREATEST, LEAST, SHAPES, MovingRanges, Range, ends

TRIGGERS: tuple[Trigger, ...] = get_args(Trigger)


def assert_few(partition: DynamicPartition, held: dict[int, Range], told: str) -> None:
    """Few enough groups, in order, without overlap."""
    tau = len(canonical(*ends(held)))
    assert len(partition) <= (1 + partition.eps) * tau, told
    first, last = partition.first, partition.last
    assert (first <= last).all() and (last[:-1] < first[1:]).all(), told


def assert_partition(partition: DynamicPartition, held: dict[int, Range], told: str) -> None:
    """Every range is in one group, and holds what the group has in common."""
    assert_few(partition, held, told)
    assert partition.ranges == len(held), told
    starts, ids = partition.by_group()
    assert sorted(ids.tolist()) == sorted(held), told
    assert np.diff(starts).tolist() == partition.sizes.tolist(), told
    place = np.repeat(np.arange(len(partition)), partition.sizes)
    assert (partition.group_of(ids) == partition.numbers[place]).all(), told
    low, high = np.array([held[i] for i in ids.tolist()], np.int64).reshape(-1, 2).T
    assert (low <= partition.first[place]).all() and (partition.last[place] <= high).all(), told
    assert all((part[:-1] <= part[1:]).all() for part in np.split(low, starts[1:-1])), told
    assert [e.tolist() for e in partition.ends(ids)] == [low.tolist(), high.tolist()], told


@pytest.mark.parametrize("trigger", TRIGGERS)
@pytest.mark.parametrize("shape", SHAPES)
def test_after_every_update_groups_are_few_and_in_order(shape: str, trigger: Trigger) -> None:
    for seed, eps in enumerate((0.01, 0.5, 3.0)):
        moving, partition = MovingRanges(seed, shape), DynamicPartition(eps, trigger)
        for share in (0.9, 0.5, 0.1, 0.7, 0.0, 0.6):  # in the end nearly all are gone, and it begins again
            for step in range(60):
                partition.apply(moving.updates(1, share))
                assert_few(partition, moving.held, f"seed {seed}, step {step} at share {share}")
            assert_partition(partition, moving.held, f"seed {seed}, after share {share}")


@pytest.mark.parametrize("trigger", TRIGGERS)
@pytest.mark.parametrize("shape", SHAPES)
def test_a_hundred_thousand_updates_leave_every_range_in_one_group_of_few(shape: str, trigger: Trigger) -> None:
    """So many for every trigger, in batches of all sizes, over more than one block."""
    seed = len(shape)
    moving, partition = MovingRanges(seed, shape), DynamicPartition(0.5, trigger)
    made = 0
    for share in (0.95, 0.5, 0.05, 0.8, 0.4):
        for _ in range(25):
            count = moving.random.choice((1, 10, 100, 200))
            partition.apply(moving.updates(count, share))
            assert_partition(partition, moving.held, f"seed {seed}, after {made} updates, share {share}")
            made += count
    while made < 100_000 // len(SHAPES):
        partition.apply(moving.updates(500, 0.5))
        assert_partition(partition, moving.held, f"seed {seed}, after {made} updates")
        made += 500


@pytest.mark.parametrize("shape", ["uniform", "of few values", "scattered", "extreme"])
def test_a_regrouping_gives_the_canonical_partition(shape: str) -> None:
    """With a trigger that is due after every update; blocks split, join and vanish."""
    moving, partition = MovingRanges(7, shape), DynamicPartition(1e-6, "simple")
    for share in (1.0, 0.5, 0.2, 0.0, 0.9):
        for _ in range(10):
            partition.apply(moving.updates(BLOCK // 2, share))
            if not moving.held:
                continue
            ids = np.array(sorted(moving.held))
            low, high = ends({i: moving.held[i] for i in ids.tolist()})
            plain = canonical(low, high)
            assert partition.first.tolist() == plain.first.tolist()
            assert partition.last.tolist() == plain.last.tolist()
            assert partition.by_group()[0].tolist() == plain.starts.tolist()
            assert partition.by_group()[1].tolist() == ids[plain.order].tolist()
    assert partition.version - 1 == partition.rebuilds == 50 * BLOCK // 2


def test_updates_tell_the_group_that_was_joined_or_left_and_the_ends() -> None:
    partition = DynamicPartition(3.0)
    partition.insert([0, 1], [0, 100], [10, 110])
    version = partition.version
    told = partition.update([True, False, True], [2, 1, 1], [5, 0, 8], [7, 0, 9])
    assert partition.version == version
    assert told.group.tolist()[0] == partition.group_of([0])[0] != told.group[1]
    assert told.low.tolist() == [5, 100, 8] and told.high.tolist() == [7, 110, 9]
    assert partition.group_of([1]) == told.group[2]
    assert sorted(partition.members(int(told.group[0]))) == [0, 2]


def test_between_regroupings_a_range_stays_in_its_group() -> None:
    moving, partition = MovingRanges(3, "uniform"), DynamicPartition(2.0)
    stays = 0
    for _ in range(300):
        before = {i: partition.group_of([i])[0] for i in list(moving.held)[:50]}
        version = partition.version
        updates = moving.updates(5, 0.6)
        partition.apply(updates)
        touched = set(updates.ids.tolist())
        if partition.version == version:
            stays += 1
            assert all(partition.group_of([i])[0] == group for i, group in before.items() if i not in touched)
    assert stays > 150


def test_witnesses_regroup_less_often_than_the_relaxed_trigger_and_that_less_often_than_the_simple_one() -> None:
    regroupings = {}
    for trigger in TRIGGERS:
        moving, partition = MovingRanges(5, "uniform"), DynamicPartition(1.0, trigger)
        partition.apply(moving.updates(2_000, 1.0))
        partition.apply(moving.updates(4_000, 0.5))
        regroupings[trigger] = partition.version
    assert regroupings["witnesses"] < regroupings["relaxed"] < regroupings["simple"]


def test_a_group_that_ends_gives_its_number_back() -> None:
    partition = DynamicPartition(3.0)
    for i in range(10_000):
        partition.insert([i % 7], [100 * i], [100 * i + 1])
        partition.remove([i % 7])
    assert len(partition) == partition.ranges == 0 and partition.nbytes < 100_000


@pytest.mark.parametrize(
    "updates, message",
    [
        (([True], [5], [1], [2]), "range 5 is already there"),
        (([False], [6], [0], [0]), "range 6 is not there"),
        (([True, True, False], [6, 7, 8], [1, 1, 0], [2, 2, 0]), "range 8 is not there"),
        (([False, False], [5, 5], [0, 0], [0, 0]), "range 5 is not there"),
        (([True], [6], [2], [1]), "range 6 is empty: 2 … 1"),
        (([True], [-1], [1], [2]), "ids must be in 0"),
        (([True], [2**31], [1], [2]), "ids must be in 0"),
        (([True], [6, 7], [1], [2]), "columns of one length"),
    ],
)
def test_a_batch_with_an_impossible_update_changes_nothing(updates: tuple[list[int], ...], message: str) -> None:
    partition = DynamicPartition()
    partition.insert([5], [LEAST], [GREATEST])
    with pytest.raises(ValueError, match=message):
        partition.update(*updates)
    assert_partition(partition, {5: (LEAST, GREATEST)}, "as before")

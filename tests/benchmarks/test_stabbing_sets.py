"""The stabbing set index and its lists for band joins against a plain record of the ranges."""

from __future__ import annotations

from typing import get_args

import numpy as np
import pytest

from benchmarks.yardsticks.band_lists import BandLists
from benchmarks.yardsticks.dynamic_stabbing import Trigger
from benchmarks.yardsticks.stabbing_sets import StabbingSets, net
from eddyline.arrays import Ints
from tests.benchmarks.moving_ranges import GREATEST, LEAST, SHAPES, MovingRanges, Range


class PlainSet:
    """A structure that is a dict, and insists on what the index promises."""

    def __init__(self, ids: Ints, low: Ints, high: Ints) -> None:
        assert len(ids) and (low[:-1] <= low[1:]).all()
        self.held: dict[int, Range] = {}
        self.insert(ids, low, high)

    def insert(self, ids: Ints, low: Ints, high: Ints) -> None:
        for i, a, b in zip(ids.tolist(), low.tolist(), high.tolist(), strict=True):
            assert i not in self.held
            self.held[i] = a, b

    def remove(self, ids: Ints, low: Ints, high: Ints) -> None:
        for i, a, b in zip(ids.tolist(), low.tolist(), high.tolist(), strict=True):
            assert self.held.pop(i) == (a, b)


@pytest.mark.parametrize("trigger", get_args(Trigger))
@pytest.mark.parametrize("shape", SHAPES)
def test_the_structure_of_a_group_holds_just_its_ranges(shape: str, trigger: Trigger) -> None:
    moving, sets = MovingRanges(len(shape), shape), StabbingSets(PlainSet, 1.0, trigger)
    for share in (0.9, 0.5, 0.1, 0.7, 0.0, 0.6):
        for _ in range(20):
            sets.apply(moving.updates(moving.random.choice((1, 1, 10, 80)), share))
            held: dict[int, Range] = {}
            for first, last, structure in sets:
                assert structure.held and all(a <= first and last <= b for a, b in structure.held.values())
                held |= structure.held
            assert held == moving.held and len(sets) == len(sets._structures)


def test_of_a_batch_only_first_removals_and_last_inserts_count() -> None:
    insert = np.array([False, True, True, False, True, False, True])
    ids = np.array([4, 4, 7, 7, 9, 4, 4])
    went, came = net(insert, ids)
    assert went.tolist() == [0] and came.tolist() == [4, 6]


def reaching(held: dict[int, Range], below: int | None, above: int | None) -> list[int]:
    return sorted(
        i for i, (a, b) in held.items() if (below is not None and a <= below) or (above is not None and b >= above)
    )


@pytest.mark.parametrize("shape", SHAPES)
def test_band_lists_give_the_ranges_that_reach_a_row_each_once(shape: str) -> None:
    """Whether or not they have a point in common: two orders of any ranges."""
    for seed in range(3):
        moving = MovingRanges(seed, shape)
        moving.updates(1 + seed * 50, 1.0)
        lists = BandLists(*columns(moving.held))
        for share in (0.9, 0.4, 0.1, 0.0, 0.8):
            for _ in range(12):
                before = dict(moving.held)
                moving.updates(moving.random.choice((1, 2, 40)), share)
                went = {i: r for i, r in before.items() if moving.held.get(i) != r}
                came = {i: r for i, r in moving.held.items() if before.get(i) != r}
                if went:
                    lists.remove(*columns(went))
                if came:
                    lists.insert(*columns(came))
                assert len(lists) == len(moving.held), f"seed {seed}"
                points = [None, LEAST, GREATEST, 0, *(e for r in list(moving.held.values())[:3] for e in r)]
                below, above = moving.random.choice(points), moving.random.choice(points)
                found = lists.affected(below, above).tolist()
                assert sorted(found) == reaching(moving.held, below, above), f"seed {seed}: {below}, {above}"


def test_band_lists_by_group_find_the_queries_that_rows_affect() -> None:
    """BJ-SSI: around every group's point the nearest rows tell which of its ranges hold any row."""
    moving, sets = MovingRanges(2, "uniform"), StabbingSets(BandLists, 1.0)
    for _ in range(60):
        sets.apply(moving.updates(40, 0.6))
        rows = np.sort([moving.random.randrange(-110_000, 110_000) for _ in range(15)])
        found: list[int] = []
        for _, last, lists in sets:
            at = int(np.searchsorted(rows, last, side="right"))
            below = int(rows[at - 1]) if at else None
            above = int(rows[at]) if at < len(rows) else None
            found += lists.affected(below, above).tolist()
        assert sorted(found) == sorted(i for i, (a, b) in moving.held.items() if ((a <= rows) & (rows <= b)).any())


def columns(held: dict[int, Range]) -> tuple[Ints, Ints, Ints]:
    ids = np.array(list(held), np.int64)
    low, high = np.array(list(held.values()), np.int64).reshape(-1, 2).T.copy()
    return ids, low, high

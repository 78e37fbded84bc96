"""Orders of attributes against all orders, and their cost against what a search of the same rows counts."""

from __future__ import annotations

from itertools import permutations
from random import Random

import numpy as np
import pytest

from eddyline.arrays import Codes, Doubles, Ints, Mask
from eddyline.index.filters.bitmap_search import open_rows, search_bitmaps
from eddyline.index.filters.bitmaps import Bitmaps, bitmaps
from eddyline.index.filters.boxes import MatchPairs
from eddyline.index.filters.clauses import CodeRanges
from eddyline.index.filters.order_search import better_order
from eddyline.index.filters.steps import steps_in

ALL = np.empty(0, np.bool_)
Ranges = list[tuple[int, int, int, int]]  # owner, attribute, low, high


def maps_of(n: int, ranges: Ranges, sizes: list[int]) -> Bitmaps:
    table = np.array(sorted(ranges), np.int64).reshape(-1, 4)
    owner, attribute = table[:, 0].astype(np.int32), table[:, 1].astype(np.int32)
    low, high = table[:, 2].astype(np.uint16), table[:, 3].astype(np.uint16)
    coded = CodeRanges(owner, np.zeros_like(owner), attribute, attribute, low, high)
    return bitmaps(np.arange(n, dtype=np.int32), coded, sizes, np.ones(len(sizes), np.bool_))


def counted(maps: Bitmaps, codes: Codes, order: Ints, alive: Mask, cost: Doubles) -> float:
    """What a row costs in a search in this order, by the groups that were entered."""
    steps = steps_in(maps, order, alive)
    counts = np.zeros(codes.shape[1], np.int64)
    entered, _ = search_bitmaps(maps, codes, steps, counts, MatchPairs(), listing=False)
    return float((entered * cost).sum()) / codes.shape[1]


@pytest.mark.parametrize("seed", range(40))
def test_an_order_is_near_the_best_of_all_and_costs_what_a_search_counts(seed: int) -> None:
    rnd = Random(seed)
    width, n = rnd.randint(1, 5), rnd.choice([1, 2, 5, 20, 5000])
    sizes = [10] * width
    ranges: Ranges = []
    for owner in range(n):
        for a in sorted(rnd.sample(range(width), rnd.randint(1, width))):
            low = rnd.randint(1, 9)
            ranges.append((owner, a, low, rnd.choice([9, min(9, low + 2)])))
    maps = maps_of(n, ranges, sizes)
    width = len(maps.attributes)
    codes = np.array([[rnd.randint(1, 9) for _ in range(100)] for _ in sizes], np.uint16)
    alive = np.array([rnd.random() < 0.7 for _ in range(n)], np.bool_) if rnd.random() < 0.5 else ALL
    cost = np.array([rnd.choice([1.0, 1.0, 7.0]) for _ in range(width)])
    start = np.array(rnd.sample(range(width), width), np.int64)
    ordered = better_order(maps, codes, steps_in(maps, start, alive), cost)
    assert sorted(ordered.order.tolist()) == list(range(width))
    assert ordered.cost_before == pytest.approx(counted(maps, codes, start, alive, cost)), f"seed {seed}"
    assert ordered.cost == pytest.approx(counted(maps, codes, ordered.order, alive, cost)), f"seed {seed}"
    best = min(counted(maps, codes, np.array(p, np.int64), alive, cost) for p in permutations(range(width)))
    assert best <= ordered.cost * (1 + 1e-9) <= max(1.1 * best, 1e-6), f"seed {seed}"
    steps = steps_in(maps, ordered.order, alive)
    for place in range(1, width):
        assert ordered.reaching[place] == pytest.approx(len(open_rows(maps, codes, steps, place)) / 100), f"seed {seed}"


def test_an_attribute_that_every_row_enters_anyway_comes_first() -> None:
    """Workload 3 of document 1: tickets begin with the attribute that rejects most, and enter all five."""
    ranges = [(k, i, 11 + 20 * i + 1, 100) for k in range(5) for i in range(k + 1)]
    maps = maps_of(5, ranges, [101] * 5)
    codes = np.random.default_rng(0).integers(1, 101, (5, 200)).astype(np.uint16)
    ordered = better_order(maps, codes, steps_in(maps, np.arange(5)[::-1].copy(), ALL), np.ones(5))
    assert ordered.order.tolist() == [0, 1, 2, 3, 4] and ordered.cost_before == 5 and ordered.cost < 3.1


def test_an_attribute_that_costs_more_than_it_saves_comes_later() -> None:
    ranges = [(0, 0, 1, 2), (0, 1, 1, 4)]  # attribute 0 accepts a fifth of the rows, attribute 1 two fifths
    maps = maps_of(1, ranges, [11, 11])
    codes = np.random.default_rng(0).integers(1, 11, (2, 200)).astype(np.uint16)
    steps = steps_in(maps, np.arange(2), ALL)
    assert better_order(maps, codes, steps, np.array([1.0, 1.0])).order.tolist() == [0, 1]
    assert better_order(maps, codes, steps, np.array([5.0, 1.0])).order.tolist() == [1, 0]

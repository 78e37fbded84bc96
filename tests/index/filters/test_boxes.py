"""Box trees against comparing every box with every row: what matches, what is certain, and what is counted."""

from __future__ import annotations

import numpy as np
import pytest

from eddyline.arrays import Codes, Ints, Mask
from eddyline.index.filters.boxes import BoxTree, MatchPairs, box_tree, search_tree, tiles

SIZES = [1, 2, 31, 32, 33, 64, 65, 1023, 1024, 1025, 4095, 4096, 4097]
NONE_DEAD = np.empty(0, np.bool_)
NOTHING_SHARED = np.empty((0, 3), np.int64)


def some_boxes(rnd: np.random.Generator, attributes: int, n: int, top: int, width: int) -> tuple[Codes, Codes]:
    low = rnd.integers(0, top + 1, (attributes, n)).astype(np.uint16)
    high = np.minimum(low + rnd.integers(0, width + 1, low.shape), top).astype(np.uint16)
    return low, high


def plainly(
    low: Codes, high: Codes, exact: Mask, shared: Ints, looked_at: Ints, codes: Codes
) -> tuple[set[tuple[int, int]], set[tuple[int, int]]]:
    """(row, box) of all matches, and of those where codes do not decide."""
    x = codes[looked_at][:, :, None]
    inside = ((low[:, None, :] <= x) & (x <= high[:, None, :])).all(axis=0)
    for attribute, first, last in shared.tolist():
        inside &= ((first <= codes[attribute]) & (codes[attribute] <= last))[:, None]
    at_end = (((x == low[:, None, :]) | (x == high[:, None, :])) & ~exact[:, None, None]).any(axis=0)
    return {(int(r), int(b)) for r, b in np.argwhere(inside)}, {
        (int(r), int(b)) for r, b in np.argwhere(inside & at_end)
    }


def found_by(
    tree: BoxTree, codes: Codes, alive: Mask, capacity: int
) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """(row, owner) of certain and of unsure matches; counts alone must say the same."""
    listed, counted = (MatchPairs(np.empty((2, capacity), np.int32)) for _ in range(2))
    counts, nothing = np.zeros(codes.shape[1], np.int64), np.zeros(codes.shape[1], np.int64)
    search_tree(tree, codes, alive, nothing, listed, list_all=True)
    search_tree(tree, codes, alive, counts, counted, list_all=False)
    pairs = list(zip(listed.rows.tolist(), listed.slots.tolist(), strict=True))
    certain, unsure = [p for p in pairs if p[1] >= 0], [(r, ~i) for r, i in pairs if i < 0]
    assert not nothing.any()
    assert counts.tolist() == np.bincount([r for r, _ in certain], minlength=len(counts)).tolist()
    again = zip(counted.rows.tolist(), (~counted.slots).tolist(), strict=True)
    assert sorted(again) == sorted(unsure)
    return certain, unsure


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("attributes", [1, 2, 3, 5])
def test_a_tree_finds_the_boxes_that_hold_a_row_and_no_others(n: int, attributes: int) -> None:
    note = f"seed {n} {attributes}"
    rnd = np.random.default_rng([n, attributes])
    top = int(rnd.choice([1, 40, 65_534]))
    low, high = some_boxes(rnd, attributes, n, top, max(1, top // 3))
    owners = rnd.permutation(n).astype(np.int32)
    exact = rnd.random(attributes) < 0.5
    looked_at = np.sort(rnd.choice(attributes + 2, attributes, replace=False))
    beside = np.setdiff1d(np.arange(attributes + 2), looked_at)[: int(rnd.integers(0, 3))]
    shared = np.array([(a, *np.sort(rnd.integers(0, top + 1, 2))) for a in beside], np.int64).reshape(-1, 3)
    codes = rnd.integers(0, top + 1, (attributes + 2, 40)).astype(np.uint16)
    codes[:, rnd.random(40) < 0.2] = 0
    codes[looked_at, 0], codes[looked_at, 1] = low[:, 0], high[:, -1]
    tree = box_tree(looked_at, shared, exact, owners, low, high, unsure=False)
    every, ends = plainly(low, high, exact, shared, looked_at, codes)
    for capacity in (0, 1024):
        certain, unsure = found_by(tree, codes, NONE_DEAD, capacity)
        assert sorted(certain) == sorted((r, owners[b]) for r, b in every - ends), note
        assert sorted(unsure) == sorted((r, owners[b]) for r, b in ends), note


@pytest.mark.parametrize("seed", range(6))
def test_boxes_of_dropped_queries_do_not_match(seed: int) -> None:
    rnd = np.random.default_rng(seed)
    low, high = some_boxes(rnd, 2, 500, 20, 6)
    owners = rnd.integers(0, 100, 500).astype(np.int32)
    alive = rnd.random(100) < 0.5
    codes = rnd.integers(0, 21, (2, 30)).astype(np.uint16)
    exact = np.array([True, bool(seed % 2)])
    tree = box_tree(np.arange(2), NOTHING_SHARED, exact, owners, low, high, unsure=False)
    every, ends = plainly(low, high, exact, NOTHING_SHARED, np.arange(2), codes)
    certain, unsure = found_by(tree, codes, alive, 64)
    assert sorted(certain) == sorted((r, owners[b]) for r, b in every - ends if alive[owners[b]]), f"seed {seed}"
    assert sorted(unsure) == sorted((r, owners[b]) for r, b in ends if alive[owners[b]]), f"seed {seed}"


@pytest.mark.parametrize("n", [1, 33, 1025])
def test_an_unsure_tree_is_certain_of_nothing(n: int) -> None:
    rnd = np.random.default_rng(n)
    low, high = some_boxes(rnd, 2, n, 10, 4)
    codes = rnd.integers(0, 11, (2, 30)).astype(np.uint16)
    exact = np.ones(2, np.bool_)
    tree = box_tree(np.arange(2), NOTHING_SHARED, exact, np.arange(n, dtype=np.int32), low, high, unsure=True)
    every, _ = plainly(low, high, exact, NOTHING_SHARED, np.arange(2), codes)
    certain, unsure = found_by(tree, codes, NONE_DEAD, 1024)
    assert not certain and sorted(unsure) == sorted(every)


@pytest.mark.parametrize("attributes", [1, 2, 3, 4])
def test_a_tree_of_no_boxes_finds_nothing(attributes: int) -> None:
    none = np.empty((attributes, 0), np.uint16)
    exact = np.ones(attributes, np.bool_)
    tree = box_tree(np.arange(attributes), NOTHING_SHARED, exact, np.empty(0, np.int32), none, none, unsure=False)
    codes = np.array([[0, 1, 65_534]] * attributes, np.uint16)
    assert found_by(tree, codes, NONE_DEAD, 1024) == ([], [])


def test_more_matches_of_one_row_than_fit_are_all_kept() -> None:
    n = 5000
    low, high = np.zeros((1, n), np.uint16), np.full((1, n), 65_534, np.uint16)
    owners = np.arange(n, dtype=np.int32)
    tree = box_tree(np.arange(1), NOTHING_SHARED, np.ones(1, np.bool_), owners, low, high, unsure=False)
    certain, unsure = found_by(tree, np.array([[0, 65_534, 7]], np.uint16), NONE_DEAD, 1)
    assert sorted(certain) == [(r, i) for r in range(3) for i in range(n)] and not unsure


def test_a_search_adds_to_earlier_pairs() -> None:
    tree = box_tree(
        np.arange(1),
        NOTHING_SHARED,
        np.ones(1, np.bool_),
        np.array([7], np.int32),
        *[np.array([[3]], np.uint16)] * 2,
        unsure=False,
    )
    counts, pairs = np.array([10, 10]), MatchPairs(np.empty((2, 1), np.int32))
    pairs.add(np.array([5]), np.array([~2]))
    search_tree(tree, np.array([[3, 4]], np.uint16), NONE_DEAD, counts, pairs, list_all=False)
    search_tree(tree, np.array([[3, 4]], np.uint16), NONE_DEAD, counts, pairs, list_all=True)
    assert counts.tolist() == [11, 10]
    assert (pairs.rows.tolist(), pairs.slots.tolist()) == ([5, 0], [~2, 7])


@pytest.mark.parametrize("n", SIZES)
def test_tiles_are_an_order_of_all_boxes(n: int) -> None:
    rnd = np.random.default_rng(n)
    for attributes in (1, 2, 3, 4):
        assert sorted(tiles(*some_boxes(rnd, attributes, n, 60, 9)).tolist()) == list(range(n)), f"seed {n}"


def test_every_box_lies_within_the_hull_of_its_node() -> None:
    rnd = np.random.default_rng(3)
    low, high = some_boxes(rnd, 2, 3000, 65_534, 500)
    tree = box_tree(
        np.arange(2), NOTHING_SHARED, np.ones(2, np.bool_), np.arange(3000, dtype=np.int32), low, high, unsure=False
    )
    nodes = tree.nodes.reshape(-1, 2, 2, 32).astype(np.int64)
    for level in range(1, len(tree.levels)):
        first, below = tree.levels[level], tree.levels[level - 1]
        for child in range(below, first):
            parent, lane = divmod(child - below, 32)
            hull_low, hull_width = nodes[first + parent, :, 0, lane], nodes[first + parent, :, 1, lane]
            used = nodes[child, 0, 0] != 65_535
            lows, widths = nodes[child, :, 0][:, used], nodes[child, :, 1][:, used]
            assert (lows.min(axis=1) == hull_low).all() and ((lows + widths).max(axis=1) == hull_low + hull_width).all()

"""Bitmaps against evaluating every condition on the codes of every row: sets, counts, unsure pairs, counted work."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from eddyline.arrays import Codes, Ints, Mask
from eddyline.index.filters import bitmaps as module
from eddyline.index.filters.bitmap_search import open_rows, search_bitmaps
from eddyline.index.filters.bitmaps import Bitmaps, bitmaps
from eddyline.index.filters.boxes import MatchPairs
from eddyline.index.filters.clauses import CodeRanges
from eddyline.index.filters.steps import steps_in
from eddyline.index.runtime.row_sets import merged

SIZES = [0, 1, 31, 32, 33, 64, 65, 1025, 4095, 4096, 4097, 8193]
NONE_DEAD = np.empty(0, np.bool_)
Plain = list[tuple[int, int, int, int, int]]  # of one query: layer, clause, attribute, low, high
Pairs = set[tuple[int, int]]


def empty_pairs(capacity: int) -> MatchPairs:
    return MatchPairs(np.empty((2, capacity), np.int32))


def some_ranges(rnd: Random, sizes: list[int], layers: int) -> Plain:
    """Clauses over one attribute, then at most one clause of several attributes per layer."""
    ranges: Plain = []
    clause = 0

    def a_range(layer: int, attribute: int) -> tuple[int, int, int, int, int]:
        if rnd.random() < 0.1:
            return layer, clause, attribute, 0, 0
        low = rnd.choice([1, rnd.randint(1, sizes[attribute] - 1)])
        high = rnd.choice([sizes[attribute] - 1, rnd.randint(low, sizes[attribute] - 1), low])
        return layer, clause, attribute, low, high

    for _ in range(rnd.choice([0, 1, 1, 2, 3])):
        own = rnd.randrange(len(sizes))
        ranges += [a_range(0, own) for _ in range(rnd.choice([1, 1, 3]))]
        clause += 1
    for layer in range(1, 1 + rnd.randint(0, layers)):
        ranges += [a_range(layer, a) for a in sorted(rnd.choices(range(len(sizes)), k=rnd.randint(2, 4)))]
        clause += 1
    return ranges


def as_ranges(conditions: list[Plain]) -> CodeRanges:
    rows = [(owner, *p) for owner, c in enumerate(conditions) for p in c]
    table = np.array(rows, np.int64).reshape(-1, 6)
    owner, layer, clause, attribute = (table[:, i].astype(np.int32) for i in range(4))
    return CodeRanges(owner, layer, clause, attribute, table[:, 4].astype(np.uint16), table[:, 5].astype(np.uint16))


def tells(x: int, low: int, high: int, exact: bool) -> bool:
    """Whether a code within a range says that the value is; a range from code 1 on has no end below."""
    return exact or x == 0 or low < x < high or low == x == 1 < high


def plainly(conditions: list[Plain], codes: Codes, exact: Mask) -> tuple[Pairs, Pairs]:
    """(row, place) where the codes satisfy a condition; and where they do so without ends that do not decide."""
    possible, certain = set(), set()
    for row in range(codes.shape[1]):
        x = [int(c) for c in codes[:, row]]
        for i, condition in enumerate(conditions):
            clauses = {p[1] for p in condition}
            within = {c for _, c, a, low, high in condition if low <= x[a] <= high}
            inside = {c for _, c, a, low, high in condition if low <= x[a] <= high and tells(x[a], low, high, exact[a])}
            if within == clauses:
                possible.add((row, i))
            if inside == clauses:
                certain.add((row, i))
    return possible, certain


def found_by(maps: Bitmaps, codes: Codes, alive: Mask, order: Ints, capacity: int) -> tuple[Pairs, Pairs]:
    """(row, slot) of certain and unsure matches; counts without sets must say the same."""
    counts, again = np.zeros(codes.shape[1], np.int64), np.zeros(codes.shape[1], np.int64)
    pairs, others = empty_pairs(capacity), empty_pairs(capacity)
    _, sets = search_bitmaps(maps, codes, steps_in(maps, order, alive), counts, pairs, listing=True)
    _, none = search_bitmaps(maps, codes, steps_in(maps, order, alive), again, others, listing=False)
    assert sets is not None and none is None and len(sets) == codes.shape[1]
    found = merged(codes.shape[1], [sets])
    rows = np.repeat(np.arange(codes.shape[1]), found.counts)
    assert sets.counts.tolist() == counts.tolist()
    certain = list(zip(rows.tolist(), found.members.tolist(), strict=True))
    assert certain == sorted(certain)
    unsure = list(zip(pairs.rows.tolist(), (~pairs.slots).tolist(), strict=True))
    assert len(set(certain)) == len(certain) and len(set(unsure)) == len(unsure)
    assert counts.tolist() == again.tolist() == np.bincount(rows, minlength=len(counts)).tolist()
    assert sorted(unsure) == sorted(zip(others.rows.tolist(), (~others.slots).tolist(), strict=True))
    return set(certain), set(unsure)


def check(seed: str, n: int, sizes: list[int], exact: Mask, layers: int, rows: int) -> None:
    rnd = Random(seed)
    conditions = [some_ranges(rnd, sizes, layers) for _ in range(n)]
    slots = np.array(sorted(rnd.sample(range(2 * n + 1), n)), np.int32)
    alive = np.array([rnd.random() < 0.6 for _ in range(2 * n + 1)], np.bool_)
    codes = np.array(
        [[0 if rnd.random() < 0.1 else rnd.randint(1, s - 1) for _ in range(rows)] for s in sizes], np.uint16
    )
    maps = bitmaps(slots, as_ranges(conditions), sizes, exact)
    possible, inside = plainly(conditions, codes, exact)
    for flags in (NONE_DEAD, alive):
        order = np.array(rnd.sample(range(len(maps.attributes)), len(maps.attributes)), np.int64)
        certain, unsure = found_by(maps, codes, flags, order, rnd.choice([0, 1024]))
        living = {(r, int(slots[i])) for r, i in possible if not len(flags) or flags[slots[i]]}
        safe = {(r, int(slots[i])) for r, i in inside}
        assert certain | unsure == living and not certain & unsure, f"seed {seed}"
        assert certain <= safe, f"seed {seed}: certain, though at an end that does not decide"
        assert not unsure or not exact.all(), f"seed {seed}: all codes decide"


@pytest.mark.parametrize("n", SIZES)
def test_exact_codes_give_certain_sets_and_no_unsure_pair(n: int) -> None:
    check(f"{n}", n, [2, 9, 40], np.ones(3, np.bool_), layers=2, rows=6)


@pytest.mark.parametrize("n", [1, 33, 500, 4097])
@pytest.mark.parametrize("bins", [2, 3, 8, 256])
def test_codes_that_do_not_decide_give_pairs_to_decide_and_no_wrong_set(
    monkeypatch: pytest.MonkeyPatch, n: int, bins: int
) -> None:
    monkeypatch.setattr(module, "MOST_BINS", bins)
    for kind, exact in enumerate(([True, True, True], [False, True, False], [False, False, False])):
        check(f"{n} {bins} {kind}", n, [5, 30, 400], np.array(exact), layers=2, rows=5)


@pytest.mark.parametrize("seed", range(20))
def test_layers_and_attributes_of_any_number_agree_with_plain_evaluation(
    monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    rnd = Random(seed)
    monkeypatch.setattr(module, "MOST_BINS", rnd.choice([4, 256]))
    sizes = [rnd.choice([2, 3, 255, 256, 257, 1000]) for _ in range(rnd.randint(1, 6))]
    exact = np.array([rnd.random() < 0.5 for _ in sizes])
    check(f"sizes {seed}", rnd.choice([3, 100, 700]), sizes, exact, layers=rnd.choice([0, 1, 5]), rows=10)


def test_the_largest_domain_finds_its_first_and_last_codes() -> None:
    sizes = [65_535, 2]
    conditions: list[Plain] = [
        *([(0, 0, 0, low, high)] for low, high in [(1, 1), (65_534, 65_534), (2, 65_533), (1, 65_534), (0, 0)]),
        [],
    ]
    codes = np.array([[0, 1, 2, 32_000, 65_533, 65_534], [1] * 6], np.uint16)
    maps = bitmaps(np.arange(6, dtype=np.int32), as_ranges(conditions), sizes, np.ones(2, np.bool_))
    certain, unsure = found_by(maps, codes, NONE_DEAD, np.arange(1), 0)
    assert certain == plainly(conditions, codes, np.ones(2, np.bool_))[0] and not unsure


@pytest.mark.parametrize("n", [1, 64, 4096, 5000])
def test_conditions_without_a_clause_hold_for_every_row(n: int) -> None:
    maps = bitmaps(np.arange(n, dtype=np.int32), as_ranges([[]] * n), [], np.empty(0, np.bool_))
    codes = np.empty((0, 3), np.uint16)
    certain, unsure = found_by(maps, codes, NONE_DEAD, np.arange(0), 0)
    assert certain == {(r, i) for r in range(3) for i in range(n)} and not unsure
    alive = np.arange(n) % 2 == 0
    assert found_by(maps, codes, alive, np.arange(0), 0)[0] == {(r, i) for r in range(3) for i in range(0, n, 2)}


def test_a_batch_of_no_rows_has_no_matches() -> None:
    maps = bitmaps(np.arange(2, dtype=np.int32), as_ranges([[(0, 0, 0, 1, 1)], []]), [3], np.ones(1, np.bool_))
    assert found_by(maps, np.empty((1, 0), np.uint16), NONE_DEAD, np.arange(1), 0) == (set(), set())


@pytest.mark.parametrize("seed", range(5))
def test_predicates_and_those_accepted_are_counted_by_attribute(seed: int) -> None:
    rnd = Random(seed)
    sizes = [4, 30, 12]
    conditions = [some_ranges(rnd, sizes, 1) for _ in range(200)]
    codes = np.array([[rnd.randint(0, s - 1) for _ in range(9)] for s in sizes], np.uint16)
    maps = bitmaps(np.arange(200, dtype=np.int32), as_ranges(conditions), sizes, np.ones(3, np.bool_))
    for group, attribute in enumerate(maps.attributes.tolist()):
        own = [[p for p in c if p[0] == 0 and p[2] == attribute] for c in conditions]
        own = [c for c in own if c]
        accepted = sum(len(plainly([c], codes, np.ones(3, np.bool_))[0]) for c in own)
        assert maps.predicates[group] == len(own), f"seed {seed}"
        assert maps.accepted(codes)[group] == accepted, f"seed {seed}"


def test_a_row_enters_no_attribute_that_could_reject_nothing_more() -> None:
    """Attribute 0 rejects all queries of block 0 for code 1; those of block 1 have a clause over attribute 1 too."""
    conditions: list[Plain] = [[(0, 0, 0, 2, 2)]] * 4096 + [[(0, 0, 0, 1, 2), (0, 1, 1, 1, 1)]] * 10
    maps = bitmaps(np.arange(4106, dtype=np.int32), as_ranges(conditions), [3, 3], np.ones(2, np.bool_))
    codes, counts = np.array([[1, 1, 2], [1, 2, 2]], np.uint16), np.zeros(3, np.int64)
    steps = steps_in(maps, np.array([0, 1]), NONE_DEAD)
    entered, _ = search_bitmaps(maps, codes, steps, counts, empty_pairs(0), listing=False)
    assert counts.tolist() == [10, 0, 4096] and entered.tolist() == [6, 3]
    steps, none = steps_in(maps, np.array([1, 0]), NONE_DEAD), np.zeros(3, np.int64)
    entered, _ = search_bitmaps(maps, codes, steps, none, empty_pairs(0), listing=False)
    assert entered.tolist() == [4, 3]  # of block 1, only row 0 leaves something to reject


def needed(conditions: list[Plain], row: Ints, order: list[int], alive: Mask) -> list[int]:
    """The attributes that a row enters: those over which a living query has a clause that all before left to it."""
    left = {i for i in range(len(conditions)) if alive[i]}
    entered = []
    for attribute in order:
        own = {i: [p for p in conditions[i] if p[0] == 0 and p[2] == attribute] for i in left}
        if any(own.values()):
            entered.append(attribute)
        for i, ranges in own.items():
            clauses = {c for _, c, _, _, _ in ranges}
            if clauses != {c for _, c, _, low, high in ranges if low <= row[attribute] <= high}:
                left.discard(i)
    return entered


@pytest.mark.parametrize("seed", range(30))
def test_a_row_enters_the_attributes_that_a_living_query_left_for_it_needs_and_no_other(seed: int) -> None:
    rnd = Random(f"ready {seed}")
    sizes = [rnd.choice([3, 5, 9]) for _ in range(rnd.randint(1, 5))]
    conditions = [some_ranges(rnd, sizes, 0) for _ in range(rnd.choice([1, 2, 5, 30]))]
    codes = np.array([[rnd.randint(0, s - 1) for _ in range(20)] for s in sizes], np.uint16)
    maps = bitmaps(np.arange(len(conditions), dtype=np.int32), as_ranges(conditions), sizes, np.ones(len(sizes), bool))
    own = maps.attributes.tolist()
    for alive in (np.ones(len(conditions), np.bool_), np.array([rnd.random() < 0.5 for _ in conditions], np.bool_)):
        order = rnd.sample(range(len(own)), len(own))
        steps = steps_in(maps, np.array(order, np.int64), alive)
        entered, _ = search_bitmaps(maps, codes, steps, np.zeros(20, np.int64), empty_pairs(0), listing=False)
        by_row = [needed(conditions, row, [own[g] for g in order], alive) for row in codes.T]
        assert entered.tolist() == [sum(a in x for x in by_row) for a in own], f"seed {seed}"
        for first in range(1, len(own) + 1):
            ahead = [own[g] for g in order[:first]]
            rest = [i for i, x in enumerate(by_row) if set(x) - set(ahead)]
            assert open_rows(maps, codes, steps, first).tolist() == rest, f"seed {seed}"


def test_the_counted_work_does_not_depend_on_the_capacity_for_pairs() -> None:
    conditions: list[Plain] = [[(0, 0, 0, 2, 5), (0, 1, 1, 1, 4)]] * 100
    maps = bitmaps(np.arange(100, dtype=np.int32), as_ranges(conditions), [9, 9], np.zeros(2, np.bool_))
    codes = np.array([[2, 3, 5, 8], [1, 4, 2, 2]], np.uint16)
    counted = []
    for capacity in (0, 10_000):
        counts, pairs = np.zeros(4, np.int64), empty_pairs(capacity)
        entered, _ = search_bitmaps(
            maps, codes, steps_in(maps, np.array([0, 1]), NONE_DEAD), counts, pairs, listing=False
        )
        counted.append((entered.tolist(), counts.tolist(), pairs.used))
    assert counted[0] == counted[1] and counted[0][2] > 0

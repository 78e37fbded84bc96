"""Sets of slots in lists and containers against Python sets: every kind, at its limits, there and back again."""

from __future__ import annotations

from itertools import pairwise
from random import Random
from typing import Any

import numpy as np
import pytest

from eddyline.index.runtime.row_sets import (
    KINDS,
    SHORT,
    ContainerArrays,
    Containers,
    Lists,
    lists,
    merged,
    put,
    tally,
)

BLOCK = 4096
SHAPES: dict[str, list[int]] = {  # members of one block
    "none": [],
    "the first": [0],
    "the last": [BLOCK - 1],
    "both ends": [0, BLOCK - 1],
    "all": list(range(BLOCK)),
    "all but the first": list(range(1, BLOCK)),
    "all but the last": list(range(BLOCK - 1)),
    "all but one in the middle": [i for i in range(BLOCK) if i != 2048],
    "alternating": list(range(0, BLOCK, 2)),
    "alternating, from the second": list(range(1, BLOCK, 2)),
    "one run within a word": list(range(70, 80)),
    "one run of a word": list(range(64, 128)),
    "one run across words": list(range(50, 700)),
    "a run at the end": list(range(4000, BLOCK)),
    "runs that touch the ends of words": [i for w in range(0, 64, 2) for i in range(64 * w, 64 * w + 64)],
    "pairs": [i for i in range(BLOCK) if i % 16 < 2],
    "255 apart": list(range(0, 255 * 16, 16)),
    "256 apart": list(range(0, 256 * 16, 16)),
    "257 near each other": list(range(0, 257 * 3, 3)),
}
KIND_OF = {
    "none": "empty",
    "the first": "list",
    "both ends": "list",
    "255 apart": "list",
    "256 apart": "bitmap",
    "257 near each other": "bitmap",
    "alternating": "bitmap",
    "alternating, from the second": "bitmap",
    "all": "runs",
    "all but one in the middle": "runs",
    "one run of a word": "runs",
    "one run across words": "runs",
    "a run at the end": "runs",
}


def containers(sets: list[set[int]], slots: np.ndarray) -> Containers:
    """The containers of sets of bits, which stand for these slots."""
    blocks = max(1, -(-len(slots) // BLOCK))
    bits = np.zeros((len(sets), blocks * BLOCK), np.bool_)
    for row, members in enumerate(sets):
        bits[row, sorted(members)] = True
    packed = np.packbits(bits, axis=1, bitorder="little").view(np.uint64)
    shape = (blocks, len(sets))
    arrays = ContainerArrays.allocate(*shape)
    for column in (arrays.kind, arrays.size, arrays.start):
        column[:] = 9
    write: Any = put
    end = 0
    for block, row in np.ndindex(shape):
        r = packed[row, 64 * block : 64 * block + 64].copy()
        end = write(r, block, row, arrays, end)
    assert end <= len(arrays.words)
    return Containers(arrays, end, slots)


def as_sets(found: Lists) -> list[list[int]]:
    return [found.members[a:b].tolist() for a, b in zip(found.starts[:-1], found.starts[1:], strict=True)]


def some_members(rnd: Random, n: int) -> set[int]:
    """Of 0 … n - 1: a few, a share, or runs."""
    kind = rnd.randrange(4)
    if kind == 0 or n == 0:
        return set(rnd.sample(range(n), rnd.randint(0, min(n, 40))))
    if kind == 1:
        share = rnd.choice([0.01, 0.06, 0.07, 0.5, 0.99])
        return {i for i in range(n) if rnd.random() < share}
    if kind == 2:
        ends = [rnd.randrange(n) for _ in range(rnd.choice([1, 3, 60, 140]))]
        return {i for e in ends for i in range(e, min(n, e + rnd.choice([1, 5, 40])))}
    return set(range(n)) - set(rnd.sample(range(n), min(n, rnd.choice([0, 1, 30]))))


@pytest.mark.parametrize("name", SHAPES)
def test_a_set_comes_back_from_its_container(name: str) -> None:
    members = SHAPES[name]
    found = containers([set(members)], np.arange(BLOCK, dtype=np.int32))
    assert as_sets(merged(1, [found])) == [members]
    assert found.counts.tolist() == [len(members)] and len(found) == 1
    assert tally(found, np.arange(BLOCK, dtype=np.int32), BLOCK).tolist() == [int(i in members) for i in range(BLOCK)]


@pytest.mark.parametrize("name", KIND_OF)
def test_a_set_has_the_kind_of_container_that_is_smallest(name: str) -> None:
    found = containers([set(SHAPES[name])], np.arange(BLOCK, dtype=np.int32))
    assert found.kinds() == {k: int(k == KIND_OF[name]) for k in KINDS}


@pytest.mark.parametrize("seed", range(40))
def test_a_container_takes_no_more_room_than_any_kind_would(seed: int) -> None:
    """Up to whole words; a list is good enough for 32 members or less, and a run is counted in each of its words."""
    rnd = Random(seed)
    members = sorted(some_members(rnd, BLOCK))
    found = containers([set(members)], np.arange(BLOCK, dtype=np.int32))
    runs = sum(i % 64 == 0 or before != i - 1 for before, i in pairwise([-2, *members]))
    smallest = min(2 * len(members), 512, 4 * runs if len(members) > 32 else 512)
    assert 8 * found.used <= (smallest + 7) // 8 * 8, f"seed {seed}: {found.kinds()}"
    assert found.nbytes == 8 * found.used + 1 + 2 + 8, f"seed {seed}"


@pytest.mark.parametrize("n", [0, 1, 63, 64, 65, 4095, 4096, 4097, 8191, 8192, 8193])
@pytest.mark.parametrize("rows", [0, 1, 6])
def test_sets_in_several_blocks_and_rows_come_back_with_their_own_numbers(n: int, rows: int) -> None:
    rnd = Random(f"{n} {rows}")
    numbers = np.array(sorted(rnd.sample(range(3 * n + 1), n)), np.int32)
    sets = [some_members(rnd, n) for _ in range(rows)]
    if rows > 1 and n:
        sets[0], sets[1] = set(range(n)), {0, n - 1}
    found = containers(sets, numbers)
    assert as_sets(merged(rows, [found])) == [numbers[sorted(s)].tolist() for s in sets], f"seed {n} {rows}"
    assert found.counts.tolist() == [len(s) for s in sets] and len(found) == rows
    assert sum(found.kinds().values()) == rows * max(1, -(-n // BLOCK)) and list(found.kinds()) == list(KINDS)


@pytest.mark.parametrize("seed", range(10))
def test_bitmaps_begin_with_a_cache_line_and_containers_do_not_overlap(seed: int) -> None:
    rnd = Random(seed)
    found = containers([some_members(rnd, 9000) for _ in range(8)], np.arange(9000, dtype=np.int32))
    begins = sorted(
        (int(s), int(k))
        for s, k in zip(found.arrays.start.flat, found.arrays.kind.flat, strict=True)
        if KINDS[k] != "empty"
    )
    for (at, kind), (following, _) in zip(begins, [*begins[1:], (found.used, 0)], strict=True):
        assert at < following and (KINDS[kind] != "bitmap" or following - at >= 64), f"seed {seed}"
        assert KINDS[kind] != "bitmap" or (found.arrays.words.ctypes.data + 8 * at) % 64 == 0, f"seed {seed}"


@pytest.mark.parametrize("seed", range(20))
def test_lists_of_pairs_in_any_order_are_those_of_each_row(seed: int) -> None:
    rnd = Random(seed)
    rows = rnd.choice([0, 1, 3, 50])
    universe = rnd.choice([64, 2000, 5_000_000])
    pairs = list(
        {(rnd.randrange(rows), rnd.randrange(universe)) for _ in range(rnd.choice([0, 5, 300, 3000]))} if rows else ()
    )
    rnd.shuffle(pairs)
    found = lists(rows, *(np.array([p[i] for p in pairs], np.int32) for i in range(2)))
    plain = [sorted(m for r, m in pairs if r == row) for row in range(rows)]
    assert as_sets(found) == plain and len(found) == rows, f"seed {seed}"
    assert found.counts.tolist() == [len(p) for p in plain], f"seed {seed}"
    assert found.nbytes == 8 * (rows + 1) + 4 * len(pairs), f"seed {seed}"


@pytest.mark.parametrize("seed", range(20))
def test_disjoint_sets_are_merged_and_tallied_as_python_does(seed: int) -> None:
    """Each number belongs to one of the parts, which are lists and containers."""
    rnd = Random(seed)
    n, rows = rnd.choice([50, 4096, 9000]), rnd.choice([1, 7])
    owner = [rnd.randrange(4) for _ in range(n)]
    parts: list[Lists | Containers] = []
    wanted: list[set[int]] = [set() for _ in range(rows)]
    for k in range(4):
        mine = np.array([i for i in range(n) if owner[i] == k], np.int32)
        sets = [some_members(rnd, len(mine)) for _ in range(rows)]
        own = [set(mine[sorted(s)].tolist()) for s in sets]
        pairs = [(r, m) for r, s in enumerate(own) for m in s]
        as_lists = lists(rows, *(np.array([p[i] for p in pairs], np.int32) for i in range(2)))
        parts.append(containers(sets, mine) if k % 2 else as_lists)
        for row, s in zip(wanted, own, strict=True):
            row |= s
    found = merged(rows, parts)
    assert as_sets(found) == [sorted(s) for s in wanted], f"seed {seed}"
    slot_of = np.array([rnd.randrange(5) for _ in range(n)], np.int32)
    total = sum(tally(p, slot_of, 6) for p in parts)
    plain = np.bincount([slot_of[m] for s in wanted for m in s], minlength=6)
    assert np.array_equal(total, plain), f"seed {seed}"
    assert np.array_equal(tally(found, slot_of, 6), plain), f"seed {seed}"


@pytest.mark.parametrize("length", [SHORT - 1, SHORT, SHORT + 1])
def test_rows_around_the_length_at_which_sorting_changes(length: int) -> None:
    members = [4095, 64, 63, 0, 65, 4096, 262_143, 262_144, *range(5000, 5000 - length + 8, -1)]
    found = lists(3, np.repeat(np.arange(3, dtype=np.int32), length), np.array(members * 3, np.int32))
    assert as_sets(found) == [sorted(members)] * 3


def test_no_parts_are_an_empty_set_for_each_row() -> None:
    assert as_sets(merged(3, [])) == [[], [], []]
    assert as_sets(merged(0, [])) == []
    none = lists(3, np.empty(0, np.int32), np.empty(0, np.int32))
    assert as_sets(merged(3, [none, none])) == [[], [], []]
    assert tally(none, np.empty(0, np.int32), 2).tolist() == [0, 0]

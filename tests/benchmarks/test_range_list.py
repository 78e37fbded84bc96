"""Ranges in blocks against a plain record of them: order, what the directory tells, and what a walk over it finds."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from benchmarks.yardsticks.range_list import (
    BLOCK,
    FREE,
    USED,
    Blocks,
    add,
    drop,
    empty_blocks,
    empty_tally,
    tally,
    with_more_slots,
)
from eddyline.index.ranges.stabbing import canonical
from tests.benchmarks.moving_ranges import SHAPES, MovingRanges, Range, around


def assert_directory(b: Blocks, held: dict[int, Range]) -> None:
    """Blocks are in order, describe what they hold, and are not too many."""
    listed: list[tuple[int, int, int]] = []
    used = int(b.counts[USED])
    for slot, size, last_low, last_id, least in zip(
        *(c[:used].tolist() for c in (b.slot, b.size, b.last_low, b.last_id, b.least_high)), strict=True
    ):
        rows = list(zip(*(c[slot, :size].tolist() for c in (b.low, b.ids, b.high)), strict=True))
        assert rows[-1][:2] == (last_low, last_id) and min(high for _, _, high in rows) == least
        listed += rows
    assert listed == sorted((low, i, high) for i, (low, high) in held.items())
    assert used <= 4 * len(held) // BLOCK + 1
    assert sorted([*b.slot[:used], *b.free[: b.counts[FREE]]]) == list(range(len(b.free)))


def assert_walk(b: Blocks, held: dict[int, Range]) -> None:
    """A walk finds the canonical partition, and in each group a range with the least high end."""
    low, high = np.array(list(held.values()), np.int64).reshape(-1, 2).T
    plain = canonical(low, high)
    t = empty_tally(len(held) + 1)
    groups = tally(b, t)
    assert t.first[:groups].tolist() == plain.first.tolist() and t.last[:groups].tolist() == plain.last.tolist()
    assert t.size[:groups].tolist() == plain.sizes.tolist()
    assert t.bound[:groups].tolist() == low[plain.order][plain.starts[:-1]].tolist()
    witnesses = [held[i] for i in t.witness[:groups].tolist()]
    assert [low for low, _ in witnesses] == t.witness_low[:groups].tolist()
    assert [high for _, high in witnesses] == t.last[:groups].tolist()
    assert all(a[1] < b[0] for a, b in pairwise(witnesses))


@pytest.mark.parametrize("shape", [*SHAPES, "in two large groups"])
def test_a_walk_over_blocks_finds_the_canonical_partition_and_its_witnesses(
    shape: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over blocks that are passed over, looked into, split, joined and gone."""
    monkeypatch.setitem(
        SHAPES, "in two large groups", lambda random: around(random, random.choice((0, 15_000)), 10_000)
    )
    moving, b = MovingRanges(len(shape), shape), empty_blocks()
    for share in (1.0, 1.0, 0.5, 0.1, 0.0, 0.9):
        for _ in range(3):
            before: dict[int, Range] = dict(moving.held)
            for insert, number, low, high in zip(*(c.tolist() for c in moving.updates(400, share)), strict=True):
                if b.counts[FREE] == 0:
                    b = with_more_slots(b)
                if insert:
                    before[number] = low, high
                    add(b, number, low, high)
                else:
                    drop(b, number, before.pop(number)[0])
            assert_directory(b, moving.held)
            assert_walk(b, moving.held)

"""Slot lists against a dictionary of lists."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import numpy as np
import pytest

from eddyline.index.timelines.slot_lists import SlotLists


@pytest.mark.parametrize("width", [1, 2])
@pytest.mark.parametrize("seed", range(10))
def test_lists_are_what_was_put_into_them(seed: int, width: int) -> None:
    rnd = Random(seed)
    lists, plain = SlotLists(width), list[list[list[int]]]()
    for _ in range(300):
        if rnd.random() < 0.2:
            plain += [[] for _ in range(rnd.randint(1, 20))]
            lists.grow(len(plain))
        slots = np.array(sorted(rnd.sample(range(len(plain)), min(len(plain), rnd.randint(0, 8)))), np.int64)
        for s in slots:
            plain[s] = [[rnd.randint(0, 99) for _ in range(width)] for _ in range(rnd.choice([0, 0, 1, 2, 30]))]
        flat = [row for s in slots for row in plain[s]]
        at = np.cumsum([0, *(len(plain[s]) for s in slots)])
        lists.replace(slots, at, np.array(flat, np.int64).reshape(-1, width))
        if rnd.random() < 0.02:
            used = np.array([rnd.random() < 0.7 for _ in plain], np.bool_)
            plain = [p for p, u in zip(plain, used, strict=True) if u]
            lists.keep(used)
        at, rows = lists.of(np.arange(len(plain)))
        assert [rows[a:b].tolist() for a, b in pairwise(at)] == plain
        assert len(lists) == sum(map(len, plain))


def test_memory_follows_the_rows_that_are_there() -> None:
    lists = SlotLists(1)
    lists.grow(1)
    slot, at = np.zeros(1, np.int64), np.array([0, 100_000])
    lists.replace(slot, at, np.zeros((100_000, 1), np.int64))
    assert len(lists._rows) >= 100_000
    lists.replace(slot, np.array([0, 1]), np.zeros((1, 1), np.int64))
    assert len(lists._rows) < 1000

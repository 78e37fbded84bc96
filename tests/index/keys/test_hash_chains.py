"""Hash chains: the rows of wanted slots in a range of positions, as a scan gives them."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from eddyline.arrays import Ints
from eddyline.index.keys.hash_chains import END, count_matches, link, list_matches, without_oldest


def scan(slots: list[int], wanted: list[int], low: int, high: int) -> list[tuple[int, int]]:
    return [(i, r) for i, w in enumerate(wanted) for r in range(low, high) if w >= 0 and slots[r] == w]


def listed(wanted: Ints, low: int, high: int, heads: np.ndarray, older: np.ndarray) -> list[tuple[int, int]]:
    counts = count_matches(wanted, low, high, heads, older)
    which, rows = list_matches(wanted, low, high, heads, older, counts, int(counts.sum()))
    assert np.bincount(which, minlength=len(wanted)).tolist() == counts.tolist()
    return list(zip(which.tolist(), rows.tolist(), strict=True))


@pytest.mark.parametrize("seed", range(20))
def test_rows_of_wanted_slots_are_listed_in_order_of_arrival(seed: int) -> None:
    rnd = Random(seed)
    n, keys = rnd.randint(0, 200), rnd.randint(1, 20)
    slots = [rnd.randint(-1, keys - 1) for _ in range(n)]
    heads, older = np.full(keys, END, np.int32), np.full(n, END, np.int32)
    cut = rnd.randint(0, n)
    link(np.array(slots[:cut], np.int64), 0, heads, older)
    link(np.array(slots[cut:], np.int64), cut, heads, older)
    wanted = [rnd.randint(-2, keys - 1) for _ in range(10)]
    low = rnd.randint(0, n)
    high = rnd.randint(low, n)
    assert listed(np.array(wanted), low, high, heads, older) == scan(slots, wanted, low, high)
    dropped = rnd.randint(0, n)
    older = older[dropped:].copy()
    without_oldest(dropped, heads, older)
    assert listed(np.array(wanted), 0, n - dropped, heads, older) == scan(slots[dropped:], wanted, 0, n - dropped)

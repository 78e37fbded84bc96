"""Exact sums of many slots: which windows they have, and what they hold, against lists of values."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from eddyline.index.runtime import garbage
from eddyline.index.sums.exact_sums import NARROW, ExactSums
from eddyline.index.timelines.accumulate import accumulate


def add(sums: ExactSums, slot: list[int], values: list[float]) -> list[float]:
    """Adds one value to each of these slots, which are sorted; returns the sums just after."""
    slots, floats = np.array(slot, np.int64), np.array(values)[:, None]
    n = len(slot)
    sums.grow(max(slot) + 1)
    sums.reserve(slots, floats)
    counts = np.ones((len(sums.arrays.wide_row), 1), np.int64)
    no_ints, ints = np.empty(0, np.int64), np.zeros((n, 1), np.int64)
    _, _, after = accumulate(slots, np.arange(n), ints, floats, counts, no_ints, sums.arrays, np.array([-1]))
    sums.release(slots)
    return [float(x) for x in after[:, 0]]


def held(sums: ExactSums, slots: int) -> list[Fraction]:
    slot, values = sums.expansions(slots)
    return [sum(map(Fraction, values[slot == s, 0].tolist()), Fraction(0)) for s in range(slots)]


def test_prices_take_four_limbs_a_group() -> None:
    sums = ExactSums(1)
    prices = np.random.default_rng(1).uniform(1, 1000, 5000).round(2)
    add(sums, list(range(5000)), prices.tolist())
    assert sums.arrays.narrow.shape[2] == 4 and len(sums.arrays.wide) == 0


def test_an_outlier_costs_memory_in_its_own_group_only_until_it_leaves() -> None:
    sums = ExactSums(1)
    add(sums, list(range(100)), [0.1] * 100)
    add(sums, [7, 8], [1.7e308, 5e-324])
    assert len(sums.arrays.wide) == 2 and sums.arrays.narrow.shape[2] <= NARROW
    assert held(sums, 100)[6:10] == [
        Fraction(0.1), Fraction(0.1) + Fraction(1.7e308), Fraction(0.1) + Fraction(5e-324), Fraction(0.1)
    ]  # fmt: skip
    assert add(sums, [7], [-1.7e308]) == [0.1]
    assert sums.arrays.wide_row[:10].tolist() == [-1] * 8 + [1, -1]


def test_outliers_among_the_first_values_do_not_decide_the_window() -> None:
    values = np.random.default_rng(2).uniform(1, 1000, 1000)
    values[[3, 500]] = 1e-300, 1e300
    sums = ExactSums(1)
    assert add(sums, list(range(1000)), values.tolist()) == values.tolist()
    assert (sums.arrays.wide_row >= 0).nonzero()[0].tolist() == [3, 500]


def test_rows_that_no_slot_needs_are_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(garbage, "SPARE", 0)
    sums = ExactSums(1)
    add(sums, list(range(10)), [1.0] * 10)
    add(sums, list(range(10)), [1e300] * 10)
    assert len(sums.arrays.wide) == 10
    add(sums, list(range(9)), [-1e300] * 9)
    assert len(sums.arrays.wide) < 5
    assert held(sums, 10) == [Fraction(1)] * 9 + [Fraction(1) + Fraction(1e300)]
    add(sums, [9], [-1e300])
    assert sums.arrays.wide.size == 0 and held(sums, 10) == [Fraction(1)] * 10


@pytest.mark.parametrize("seed", range(30))
def test_slots_hold_what_was_added_through_growth_and_removal(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sums, lists = ExactSums(1), list[list[float]]()
    for _ in range(12):
        lists += [[] for _ in range(int(rng.integers(1, 4)))]
        slot = np.sort(rng.integers(0, len(lists), int(rng.integers(1, 9)))).tolist()
        values = []
        for s in slot:
            scale = 2.0 ** float(rng.choice([0, 0, 0, 5, 60, -60, 900, -1000]))
            back = lists[s] and rng.random() < 0.4
            values.append(-lists[s].pop(int(rng.integers(len(lists[s])))) if back else float(rng.normal()) * scale)
            if not back:
                lists[s].append(values[-1])
        sums.grow(len(lists))
        add(sums, slot, values)
        if rng.random() < 0.2:
            kept = rng.random(len(lists)) < 0.7
            sums.keep(kept)
            lists = [x for x, k in zip(lists, kept, strict=True) if k]
            sums.grow(len(lists))
        assert held(sums, len(lists)) == [sum(map(Fraction, x), Fraction(0)) for x in lists], f"seed {seed}"

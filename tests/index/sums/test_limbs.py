"""Limbs against fractions: what a double adds to them, how they are rounded and divided, and written as doubles."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from eddyline.index.sums.limbs import (
    CARRY_AT,
    LIMBS,
    add_double,
    decompose,
    expand,
    fits,
    limb_range,
    quotient,
    to_magnitude,
)

UNIT = Fraction(1, 2**1074)
GREATEST = float(np.finfo(np.float64).max)
FINITE = st.floats(allow_nan=False, allow_infinity=False)
EXTREMES = [5e-324, 1e-310, 2.0**-1022, 1e-3, 0.1, 1.0, 1e15, 1e30, 1.7e308, GREATEST]


def whole() -> np.ndarray:
    return np.zeros((1, 1, LIMBS + 1), np.int64)


def value(limbs: np.ndarray, base: int = 0) -> Fraction:
    return sum((Fraction(int(v)) * 2 ** (32 * (base + j)) for j, v in enumerate(limbs)), Fraction(0)) * UNIT


def rounded(limbs: np.ndarray, base: int = 0, divisor: int = 1) -> float:
    digits = np.concatenate([limbs, [0, 0]])
    negative = to_magnitude(digits, len(limbs))
    x = quotient(digits, len(digits), base, divisor)
    return -x if negative else x


def nearest(exact: Fraction) -> float:
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


@settings(deadline=None)
@given(FINITE)
@example(-5e-324)
@example(GREATEST)
def test_a_double_is_the_sum_of_its_limbs_in_the_least_window_it_fits(x: float) -> None:
    low, high = limb_range(np.array([[x]]))
    base, size = (low, high - low + 2) if low <= high else (0, 0)
    assert fits(x, base, size)
    assert not x or not (fits(x, base + 1, size - 1) or fits(x, base, size - 1))
    assert value(decompose(np.array([[x]]), base, size)[0, 0], base) == Fraction(x)


@settings(deadline=None)
@given(st.lists(st.one_of(FINITE, st.sampled_from(EXTREMES)), max_size=20), st.integers(1, 2**46))
@example([5e-324], 2)  # a tie, to even: 0
@example([5e-324, 5e-324, 5e-324], 2)  # a tie, to even: 2 units
@example([2.0**-1022], 3)  # below the normal doubles
@example([GREATEST, GREATEST], 2)
@example([GREATEST, 2.0**969], 1)  # less than half of the last bit above the greatest double
@example([GREATEST, 2.0**970], 1)  # half of it: infinity
@example([1.0, 2.0**-53], 1)  # ties
@example([1.0 + 2.0**-52, 2.0**-53], 1)
@example([1.0, 2.0**-53, 5e-324], 1)  # just above one
@example([0.1, 0.1, 0.1], 3)
def test_a_sum_and_a_mean_are_the_nearest_doubles(xs: list[float], divisor: int) -> None:
    limbs = whole()
    for x in xs:
        add_double(limbs, 0, 0, 0, x)
    exact = sum(map(Fraction, xs), Fraction(0))
    assert value(limbs[0, 0]) == exact
    assert rounded(limbs[0, 0]) == nearest(exact)
    assert rounded(limbs[0, 0], divisor=divisor) == nearest(exact / divisor)


@pytest.mark.parametrize("divisor", [1, 2, 3, 10, 2**31 - 1, 2**31, 2**31 + 1, 2**46 + 7])
def test_quotients_of_single_digits_are_the_nearest_doubles_wherever_the_window_begins(divisor: int) -> None:
    rng = np.random.default_rng(divisor)
    for base in (0, 1, 2, 30, 33, 63):
        for _ in range(200):
            limbs = rng.integers(-(2**62), 2**62, 3) >> rng.integers(0, 62, 3)
            assert rounded(limbs, base, divisor) == nearest(value(limbs, base) / divisor), (base, limbs)


def test_sums_whose_exact_value_is_halfway_between_doubles_round_to_even() -> None:
    rng = np.random.default_rng(5)
    for _ in range(500):
        x = float(rng.integers(2**52, 2**53)) * 2.0 ** int(rng.integers(-1000, 900))
        half = math.ulp(x) / 2
        for rest in (0.0, 5e-324, -5e-324):
            limbs = whole()
            for part in (x, half, rest):
                add_double(limbs, 0, 0, 0, part)
            assert rounded(limbs[0, 0]) == nearest(Fraction(x) + Fraction(half) + Fraction(rest))


def test_a_limb_passes_on_what_it_cannot_hold() -> None:
    limbs = whole()
    limbs[0, 0, 10:12] = CARRY_AT - 1, -CARRY_AT + 1
    before, x = value(limbs[0, 0]), float(2 ** (32 * 10 + 31)) * 2.0**-1074
    for sign, times in ((1, 5), (-1, 9)):
        for _ in range(times):
            add_double(limbs, 0, 0, 0, sign * x)
            add_double(limbs, 0, 0, 0, -sign * x * 2.0**32)
    assert value(limbs[0, 0]) == before - 4 * Fraction(x) + 4 * Fraction(x) * 2**32
    assert abs(int(limbs[0, 0, 10])) < 2**40  # carried, not kept


@settings(deadline=None)
@given(st.lists(st.lists(st.one_of(FINITE, st.sampled_from([*EXTREMES, -GREATEST])), max_size=8), max_size=5))
@example([[GREATEST] * 7, [], [1e30, 1e-3, 5e-324]])
def test_expanded_sums_add_up_to_them_with_no_more_doubles_than_were_added(rows: list[list[float]]) -> None:
    limbs = np.zeros((len(rows), 2, LIMBS + 1), np.int64)
    for r, xs in enumerate(rows):
        for x in xs:
            add_double(limbs, r, 0, 0, x)
    at, values = expand(limbs, 0)
    assert np.unique(at).tolist() == list(range(len(rows))) and (np.diff(at) >= 0).all()
    for r, xs in enumerate(rows):
        mine = values[at == r]
        assert sum(map(Fraction, mine[:, 0].tolist()), Fraction(0)) == sum(map(Fraction, xs), Fraction(0))
        assert len(mine) <= max(len(xs), 1) and not mine[:, 1].any()


def test_a_sum_of_many_like_values_expands_to_two_doubles() -> None:
    values = np.random.default_rng(3).uniform(1, 1000, (1000, 1))
    limbs = decompose(values, 31, 5).sum(axis=0, keepdims=True)
    at, doubles = expand(limbs, 31)
    assert len(at) == 2 and doubles[0, 0] == math.fsum(values[:, 0])

"""Sets as values of kernels against NumPy, at any place of an array."""

from __future__ import annotations

import numpy as np
import pytest
from numba import njit

from eddyline.index.runtime.set_values import intersected, load_set, overlaps, size_of, store_set
from eddyline.index.runtime.vectors import SET_WORDS

Words = np.ndarray


@njit
def _intersect_until_disjoint(to: Words, to_at: int, a: Words, places: Words, c: Words, c_at: int) -> tuple[int, int]:
    """Stores the intersection of sets up to the first after which it is disjoint from c; their number, and its size."""
    left = load_set(a, places[0])  # type: ignore[call-arg]
    used = 1
    while used < len(places) and overlaps(left, c, c_at) != 0:  # type: ignore[call-arg]
        left = intersected(left, a, places[used])  # type: ignore[call-arg]
        used += 1
    store_set(to, to_at, left)  # type: ignore[call-arg]
    return used, size_of(left)  # type: ignore[call-arg]


@pytest.mark.parametrize("seed", range(20))
def test_a_loop_over_values_gives_the_intersection_of_sets_in_memory(seed: int) -> None:
    rng = np.random.default_rng(seed)
    a = rng.integers(0, 2**64, 40 * SET_WORDS, np.uint64) | rng.integers(0, 2**64, 40 * SET_WORDS, np.uint64)
    places = rng.integers(0, 39 * SET_WORDS, 1 + seed % 8)
    c = np.zeros(SET_WORDS + 3, np.uint64)
    c[3 + rng.integers(SET_WORDS)] = np.uint64(1) << np.uint64(rng.integers(64))  # one query: rejected early or never
    to = np.zeros(SET_WORDS + 7, np.uint64)
    used, size = _intersect_until_disjoint(to, 5, a, places, c, 3)

    left, expected = a[places[0] : places[0] + SET_WORDS], 1
    while expected < len(places) and (left & c[3:]).any():
        left = left & a[places[expected] : places[expected] + SET_WORDS]
        expected += 1
    assert used == expected
    assert size == np.bitwise_count(left).sum()
    assert (to[5 : 5 + SET_WORDS] == left).all()
    assert not to[:5].any() and not to[5 + SET_WORDS :].any()


def test_a_single_bit_of_any_word_counts() -> None:
    none = np.zeros(SET_WORDS, np.uint64)
    every = ~none
    for word in range(SET_WORDS):
        one = none.copy()
        one[word] = np.uint64(1) << np.uint64(63 - word)
        two = np.concatenate([every, one])
        used, size = _intersect_until_disjoint(none.copy(), 0, two, np.array([0, SET_WORDS, 0]), one, 0)
        assert (used, size) == (3, 1)

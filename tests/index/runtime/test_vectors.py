"""Vector instructions against NumPy: tests of 32 lanes, and sets of 4,096 bits at any place of an array."""

from __future__ import annotations

import numpy as np
import pytest
from numba import njit

from eddyline.index.runtime.vectors import (
    LANES,
    LINE,
    SET_WORDS,
    bits_set,
    copy_set,
    intersect,
    lanes_within,
    lowest_bit,
    meets,
    members,
    on_lines,
    run_starts,
    stream_set,
    unite,
)

Words = np.ndarray


@njit
def _within(block: Words, at: int, x: np.uint16) -> int:
    return lanes_within(block, at, x)  # type: ignore[call-arg]


@njit
def _lowest(words: Words) -> Words:
    return np.array([lowest_bit(w) for w in words])  # type: ignore[call-arg]


@njit
def _bits(words: Words) -> Words:
    return np.array([bits_set(w) for w in words])  # type: ignore[call-arg]


@njit
def _intersect(to: Words, to_at: int, a: Words, a_at: int, b: Words, b_at: int, c: Words, c_at: int) -> int:
    return intersect(to, to_at, a, a_at, b, b_at, c, c_at)  # type: ignore[call-arg]


@njit
def _unite(to: Words, to_at: int, a: Words, a_at: int) -> None:
    unite(to, to_at, a, a_at)  # type: ignore[call-arg]


@njit
def _meets(a: Words, a_at: int, b: Words, b_at: int) -> int:
    return meets(a, a_at, b, b_at)  # type: ignore[call-arg]


@njit
def _members(a: Words, at: int) -> int:
    return members(a, at)  # type: ignore[call-arg]


@njit
def _runs(a: Words, at: int) -> int:
    return run_starts(a, at)  # type: ignore[call-arg]


@njit
def _copy(to: Words, to_at: int, a: Words, a_at: int) -> None:
    copy_set(to, to_at, a, a_at)  # type: ignore[call-arg]


@njit
def _stream(to: Words, to_at: int, a: Words, a_at: int) -> None:
    stream_set(to, to_at, a, a_at)  # type: ignore[call-arg]


def some_words(rnd: np.random.Generator, n: int, density: float) -> Words:
    bits = rnd.random(n * 64) < density
    return np.packbits(bits, bitorder="little").view(np.uint64)


@pytest.mark.parametrize("seed", range(10))
def test_a_lane_is_set_where_a_number_is_within_its_range(seed: int) -> None:
    rnd = np.random.default_rng(seed)
    low = rnd.integers(0, 65_536, 96).astype(np.uint16)
    width = (rnd.random(96) * (65_535 - low)).astype(np.uint16)
    low[:3], width[:3] = [0, 65_535, 0], [65_535, 0, 0]
    block = np.concatenate([np.concatenate([low[i : i + 32], width[i : i + 32]]) for i in (0, 32, 64)])
    for group in range(3):
        mine = slice(32 * group, 32 * group + 32)
        for x in [0, 1, 65_534, 65_535, *low[mine], *(low + width)[mine], *rnd.integers(0, 65_536, 20)]:
            inside = (low[mine] <= x) & (x <= low[mine].astype(np.int64) + width[mine])
            found = _within(block, 64 * group, np.uint16(x))
            assert [found >> k & 1 for k in range(LANES)] == inside.astype(int).tolist(), f"seed {seed}"


def test_the_lowest_bit_and_the_number_of_bits_are_those_of_python() -> None:
    rnd = np.random.default_rng(0)
    for dtype, width in ((np.uint64, 64), (np.uint32, 32)):
        plain = [1, 2**width - 1, 2 ** (width - 1), *(int(x) | 1 << int(k) for x, k in rnd.integers(0, width, (50, 2)))]
        words = np.array(plain, dtype)
        assert _lowest(words).tolist() == [(x & -x).bit_length() - 1 for x in plain]
        assert _bits(words).tolist() == [x.bit_count() for x in plain]


@pytest.mark.parametrize("density", [0.0, 0.0005, 0.5, 1.0])
@pytest.mark.parametrize("seed", range(4))
def test_sets_meet_unite_and_are_counted_as_plain_words(seed: int, density: float) -> None:
    rnd = np.random.default_rng([seed, int(density * 10_000)])
    a, b, c = (some_words(rnd, 3 * SET_WORDS + 7, density) for _ in range(3))
    at, other, third = (int(x) for x in rnd.integers(0, 2 * SET_WORDS, 3))
    x, y, z = a[at : at + SET_WORDS], b[other : other + SET_WORDS], c[third : third + SET_WORDS]
    note = f"seed {seed} {density}"
    assert _members(a, at) == sum(int(w).bit_count() for w in x), note
    assert (_meets(a, at, b, other) != 0) == bool((x & y).any()), note
    to = np.arange(3 * SET_WORDS, dtype=np.uint64)
    before = to.copy()
    common = _intersect(to, 9, a, at, b, other, c, third)
    assert (common != 0) == bool((x & y & z).any()), note
    assert (to[9 : 9 + SET_WORDS] == x & y).all(), note
    _unite(to, 9, c, third)
    assert (to[9 : 9 + SET_WORDS] == x & y | z).all(), note
    assert (to[:9] == before[:9]).all() and (to[9 + SET_WORDS :] == before[9 + SET_WORDS :]).all(), note


@pytest.mark.parametrize("seed", range(4))
def test_a_set_is_copied_to_any_place_and_past_the_caches_to_a_cache_line(seed: int) -> None:
    rnd = np.random.default_rng(seed)
    a = some_words(rnd, 3 * SET_WORDS, 0.5)
    for copy, places in ((_copy, [0, 1, 9, 100]), (_stream, [0, 8, 64, 104])):
        for to_at in places:
            at = int(rnd.integers(0, 2 * SET_WORDS))
            to = on_lines((3 * SET_WORDS,), np.uint64)
            to[:] = wanted = some_words(rnd, 3 * SET_WORDS, 0.5)
            wanted[to_at : to_at + SET_WORDS] = a[at : at + SET_WORDS]
            copy(to, to_at, a, at)
            assert (to == wanted).all(), f"seed {seed}, place {to_at}"


@pytest.mark.parametrize("density", [0.0, 0.01, 0.5, 0.99, 1.0])
@pytest.mark.parametrize("seed", range(4))
def test_runs_are_counted_word_by_word(seed: int, density: float) -> None:
    rnd = np.random.default_rng([seed, int(density * 100)])
    a = some_words(rnd, 3 * SET_WORDS, density)
    for at in (0, 5, 2 * SET_WORDS):
        words = [f"{int(w):064b}" for w in a[at : at + SET_WORDS]]
        assert _runs(a, at) == sum(len([r for r in w.split("0") if r]) for w in words), f"seed {seed} {density}"


def test_every_member_of_a_set_is_met_counted_and_added() -> None:
    everything = np.full(SET_WORDS, 2**64 - 1, np.uint64)
    for member in range(64 * SET_WORDS):
        one, to = np.zeros(SET_WORDS, np.uint64), np.zeros(SET_WORDS, np.uint64)
        one[member // 64] = np.uint64(1) << np.uint64(member % 64)
        assert _members(one, 0) == 1 and _runs(one, 0) == 1 and _meets(one, 0, everything, 0) != 0, f"member {member}"
        assert _meets(everything ^ one, 0, one, 0) == 0, f"member {member}"
        _unite(to, 0, one, 0)
        assert (to == one).all(), f"member {member}"


def test_a_set_may_be_intersected_into_itself() -> None:
    rnd = np.random.default_rng(1)
    a, b = some_words(rnd, SET_WORDS, 0.5), some_words(rnd, SET_WORDS, 0.5)
    wanted = a & b
    _intersect(a, 0, a, 0, b, 0, a, 0)
    assert (a == wanted).all()


@pytest.mark.parametrize("shape", [(0,), (1,), (3, 0, 64), (2, 5, 64), (7,)])
def test_arrays_on_lines_are_zeros_that_begin_with_a_cache_line(shape: tuple[int, ...]) -> None:
    for dtype in (np.uint16, np.uint64):
        found = on_lines(shape, dtype)
        assert found.shape == shape and found.dtype == dtype and not found.any()
        assert found.size == 0 or found.ctypes.data % LINE == 0

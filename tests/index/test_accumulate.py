"""`accumulate` against sums taken from scratch at every instant."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eddyline.index.accumulate import accumulate

Event = tuple[int, int, int, float]  # slot, time, count, value
SLOTS = 4


def run(events: list[Event], state: tuple[np.ndarray, ...]) -> list[tuple[int, int, int, float]]:
    """(slot, time, count, sum) after each distinct (slot, time)."""
    events = sorted(events, key=lambda e: e[:2])
    slot, time = (np.array([e[i] for e in events], np.int64) for i in (0, 1))
    ints = np.array([[e[2]] for e in events], np.int64).reshape(-1, 1)
    floats = np.array([[e[3]] for e in events], np.float64).reshape(-1, 1)
    at, counts, sums = accumulate(slot, time, ints, floats, *state)
    return list(zip(slot[at].tolist(), time[at].tolist(), counts[:, 0].tolist(), sums[:, 0].tolist(), strict=True))


def nothing() -> tuple[np.ndarray, ...]:
    return np.zeros((SLOTS, 1), np.int64), np.zeros((SLOTS, 1)), np.zeros((SLOTS, 1))


def expected(events: list[Event], known: list[Event]) -> list[tuple[int, int, int, float]]:
    found = []
    for slot, time in sorted({e[:2] for e in events}):
        upto = known + [e for e in events if e[0] == slot and e[1] <= time]
        mine = [e for e in upto if e[0] == slot]
        found.append((slot, time, sum(e[2] for e in mine), float(sum(Fraction(e[3]) for e in mine))))
    return found


@st.composite
def rows(draw: st.DrawFn) -> list[Event]:
    """Rows that come and go as events: +1, +x at one time, -1, -x at a later one or the same."""
    found: list[Event] = []
    values = st.one_of(st.integers(-8, 8).map(float), st.sampled_from([1e15, -1e15, 0.1, 1e-9]))
    for _ in range(draw(st.integers(0, 12))):
        slot, start, value = draw(st.integers(0, SLOTS - 1)), draw(st.integers(0, 9)), draw(values)
        found.append((slot, start, 1, value))
        if draw(st.booleans()):
            found.append((slot, start + draw(st.integers(0, 5)), -1, -value))
    return draw(st.permutations(found))


@settings(deadline=None)
@given(rows(), st.integers(0, 12))
def test_counters_after_each_instant_equal_sums_from_scratch_in_any_order_and_cut(
    events: list[Event], clock: int
) -> None:
    state = nothing()
    early, late = [e for e in events if e[1] <= clock], [e for e in events if e[1] > clock]
    for batch, known in ((early, []), (late, early)):
        got = run(batch, state)
        for (*place, count, total), (*same, n, exact) in zip(got, expected(batch, known), strict=True):
            assert (place, count) == (same, n)
            assert total == pytest.approx(exact, rel=1e-12, abs=1e-12)


def test_a_value_that_leaves_before_it_comes_within_an_instant_leaves_the_others_alone() -> None:
    state = nothing()
    assert run([(0, 1, 1, 5.0)], state) == [(0, 1, 1, 5.0)]
    assert run([(0, 2, -1, -7.0), (0, 2, 1, 7.0)], state) == [(0, 2, 1, 5.0)]


def test_a_small_value_survives_a_great_one_that_comes_and_goes() -> None:
    state = nothing()
    run([(0, 1, 1, 0.1), (0, 2, 1, 1e16)], state)
    assert run([(0, 3, -1, -1e16)], state) == [(0, 3, 1, 0.1)]


def test_a_sum_beyond_all_doubles_is_infinite_only_while_it_is() -> None:
    state = nothing()
    sums = run([(0, 1, 1, 1e308), (0, 2, 1, 1e308), (0, 3, 1, 5.0), (0, 4, -1, -1e308), (0, 5, -1, -1e308)], state)
    assert [s[3] for s in sums[:4]] == [1e308, float("inf"), float("inf"), 1e308]
    assert [s[3] for s in run([(1, 1, 1, -1e308), (1, 1, 1, -1e308), (1, 2, -1, 1e308)], state)] == [-np.inf, -1e308]


def test_an_empty_slot_holds_exactly_nothing() -> None:
    state = nothing()
    values = [0.1 * i for i in range(1, 40)]
    run([(1, i, 1, v) for i, v in enumerate(values)], state)
    assert run([(1, 100, -1, -v) for v in values], state) == [(1, 100, 0, 0.0)]
    assert all(not counter[1].any() for counter in state)


def test_without_events_nothing_changes() -> None:
    state = nothing()
    assert run([], state) == []
    assert all(not counter.any() for counter in state)

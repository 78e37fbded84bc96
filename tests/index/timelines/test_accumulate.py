"""`accumulate` against sums taken from scratch, in fractions, at every instant."""

import math
from fractions import Fraction

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from eddyline.index.sums.exact_sums import ExactSums
from eddyline.index.timelines.accumulate import accumulate

Event = tuple[int, int, int, float]  # slot, time, count, value
SLOTS = 4
NO_HALVES = np.empty(0, np.int64)
SUM_AND_MEAN = np.array([-1, 0])  # the second sum is divided by the first counter


class State:
    def __init__(self) -> None:
        self.totals = np.zeros((SLOTS, 1), np.int64)
        self.sums = ExactSums(2)
        self.sums.grow(SLOTS)

    def run(self, events: list[Event]) -> list[tuple[int, int, int, float, float]]:
        """(slot, time, count, sum, mean) after each distinct (slot, time)."""
        events = sorted(events, key=lambda e: e[:2])
        slot, time = (np.array([e[i] for e in events], np.int64) for i in (0, 1))
        ints = np.array([[e[2]] for e in events], np.int64).reshape(-1, 1)
        floats = np.array([[e[3], e[3]] for e in events], np.float64).reshape(-1, 2)
        self.sums.reserve(slot, floats)
        at, counts, sums = accumulate(slot, time, ints, floats, self.totals, NO_HALVES, self.sums.arrays, SUM_AND_MEAN)
        self.sums.release(slot)
        return [
            (int(slot[a]), int(time[a]), int(n), *s) for a, n, s in zip(at, counts[:, 0], sums.tolist(), strict=True)
        ]

    def holds_nothing(self) -> bool:
        return not self.totals.any() and not self.sums.arrays.narrow.any() and not self.sums.arrays.wide.any()


def nearest(exact: Fraction) -> float:
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def expected(events: list[Event], known: list[Event]) -> list[tuple[int, int, int, float, float]]:
    found = []
    for slot, time in sorted({e[:2] for e in events}):
        upto = known + [e for e in events if e[0] == slot and e[1] <= time]
        mine = [e for e in upto if e[0] == slot]
        count, exact = sum(e[2] for e in mine), sum((Fraction(e[3]) for e in mine), Fraction(0))
        found.append((slot, time, count, nearest(exact), nearest(exact / max(count, 1))))
    return found


EXTREMES = [1e30, 1e15, 1e-3, 5e-324, -5e-324, 1.7e308, -1.7e308, 2.0**-1022, 1e-310, 0.1, 1e-9, -0.0]


@st.composite
def rows(draw: st.DrawFn) -> list[Event]:
    """Rows that come and go as events: +1, +x at one time, -1, -x at a later one or the same."""
    found: list[Event] = []
    values = st.one_of(
        st.integers(-8, 8).map(float), st.sampled_from(EXTREMES), st.floats(allow_nan=False, allow_infinity=False)
    )
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
    state = State()
    early, late = [e for e in events if e[1] <= clock], [e for e in events if e[1] > clock]
    assert state.run(early) == expected(early, [])
    assert state.run(late) == expected(late, early)


def test_a_value_that_leaves_before_it_comes_within_an_instant_leaves_the_others_alone() -> None:
    state = State()
    assert state.run([(0, 1, 1, 5.0)]) == [(0, 1, 1, 5.0, 5.0)]
    assert state.run([(0, 2, -1, -7.0), (0, 2, 1, 7.0)]) == [(0, 2, 1, 5.0, 5.0)]


def test_a_small_value_survives_great_ones_that_come_and_go() -> None:
    state = State()
    state.run([(0, 1, 1, 5e-324), (0, 2, 1, 1e16), (0, 2, 1, 1.7e308), (0, 2, 1, 1e300)])
    assert state.run([(0, 3, -3, -1e300), (0, 3, 0, -1.7e308), (0, 3, 0, -1e16)]) == [(0, 3, 1, 5e-324, 5e-324)]


def test_a_sum_beyond_all_doubles_is_infinite_only_while_it_is_and_the_mean_never() -> None:
    state = State()
    sums = state.run([(0, 1, 1, 1e308), (0, 2, 1, 1e308), (0, 3, 1, 1e308), (0, 4, -1, -1e308), (0, 5, -1, -1e308)])
    assert [s[3] for s in sums] == [1e308, math.inf, math.inf, math.inf, 1e308]
    assert [s[4] for s in sums] == [1e308] * 5
    sums = state.run([(1, 1, 1, -1e308), (1, 1, 1, -1e308), (1, 2, -1, 1e308)])
    assert [s[3:] for s in sums] == [(-math.inf, -1e308), (-1e308, -1e308)]


def test_an_empty_slot_holds_exactly_nothing() -> None:
    state = State()
    values = [0.1 * i for i in range(1, 40)] + EXTREMES
    state.run([(1, i, 1, v) for i, v in enumerate(values)])
    assert state.run([(1, 100, -1, -v) for v in values]) == [(1, 100, 0, 0.0, 0.0)]
    assert state.holds_nothing()


def test_without_events_nothing_changes() -> None:
    state = State()
    assert state.run([]) == []
    assert state.holds_nothing()


def test_the_lower_half_of_a_sum_of_integers_never_overflows() -> None:
    totals = np.zeros((1, 3), np.int64)
    nothing = ExactSums(0)
    nothing.grow(1)
    events, part = 40, 2**61 + 12345
    ints = np.array([[1, 0, part]] * events)
    slot, time = np.zeros(events, np.int64), np.arange(events)
    accumulate(slot, time, ints, np.zeros((events, 0)), totals, np.array([1]), nothing.arrays, np.empty(0, np.int64))
    count, upper, lower = totals[0].tolist()
    assert (count, (upper << 32) + lower) == (events, events * part)

"""The kernels over sorted arrays against plain loops."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eddyline.index.keys import sorted_runs
from eddyline.index.keys.sorted_runs import equal_ranges, event_ranges, last_at, match_brackets, spread
from eddyline.state.delta import MAX, MIN

untimed = settings(deadline=None)

KEYS = st.lists(st.integers(-3, 5), max_size=30)
TIMES = st.one_of(st.integers(-3, 6), st.sampled_from([MIN, MAX]))
PAIRS = st.lists(st.tuples(st.integers(0, 4), TIMES), max_size=30)


def ints(values: object) -> np.ndarray:
    return np.array(values, np.int64)


def columns(pairs: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    return ints([p[0] for p in pairs]), ints([p[1] for p in pairs])


@untimed
@given(KEYS, KEYS)
def test_equal_ranges_hold_the_positions_of_each_key_and_no_others(keys: list[int], wanted: list[int]) -> None:
    keys.sort()
    low, high = equal_ranges(ints(keys), ints(wanted))
    for i, key in enumerate(wanted):
        assert list(range(low[i], high[i])) == [p for p, k in enumerate(keys) if k == key]


@untimed
@given(PAIRS, PAIRS, TIMES)
def test_event_ranges_hold_the_events_after_one_time_and_up_to_another(
    events: list[tuple[int, int]], wanted: list[tuple[int, int]], upto: int
) -> None:
    events.sort()
    low, high = event_ranges(*columns(events), *columns(wanted), upto)
    for i, (slot, after) in enumerate(wanted):
        expected = [p for p, (s, t) in enumerate(events) if s == slot and after < t <= upto]
        assert list(range(low[i], high[i])) == expected


@untimed
@given(PAIRS, PAIRS)
def test_last_at_is_the_last_position_of_a_pair_or_minus_one(
    events: list[tuple[int, int]], wanted: list[tuple[int, int]]
) -> None:
    events.sort()
    expected = [max((p for p, e in enumerate(events) if e == w), default=-1) for w in wanted]
    assert last_at(*columns(events), *columns(wanted)).tolist() == expected


@untimed
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=20))
def test_spread_lists_every_position_of_every_range_with_its_owner(ranges: list[tuple[int, int]]) -> None:
    owner, position = spread(*columns(ranges))
    expected = [(i, p) for i, (low, high) in enumerate(ranges) for p in range(low, high)]
    assert list(zip(owner.tolist(), position.tolist(), strict=True)) == expected


def brackets(opening: list[tuple[int, int]], closing: list[tuple[int, int]]) -> list[int]:
    free, found = set(range(len(opening))), []
    for key, stop in closing:
        of_key = [i for i in free if opening[i][0] == key and opening[i][1] <= stop]
        found.append(max(of_key, key=lambda i: (opening[i][1], i), default=-1))
        free.discard(found[-1])
    return found


@untimed
@given(PAIRS, PAIRS)
def test_a_closing_bracket_takes_the_latest_opening_one_that_is_still_free(
    opening: list[tuple[int, int]], closing: list[tuple[int, int]]
) -> None:
    opening.sort()
    closing.sort()
    assert match_brackets(*columns(opening), *columns(closing)).tolist() == brackets(opening, closing)


@pytest.mark.parametrize("seed", range(3))
def test_long_runs_equal_plain_search(seed: int) -> None:
    rng = np.random.default_rng(seed)
    slots, times = rng.integers(0, 300, 5000), rng.integers(0, 50, 5000)
    order = np.lexsort((times, slots))
    slots, times = slots[order], times[order]
    wanted, after = rng.integers(-5, 310, 400), rng.integers(-2, 52, 400)
    low, high = event_ranges(slots, times, wanted, after, 30)
    for i in range(len(wanted)):
        expected = np.nonzero((slots == wanted[i]) & (times > after[i]) & (times <= 30))[0]
        assert np.array_equal(np.arange(low[i], high[i]), expected), f"seed {seed}"


@pytest.mark.parametrize("seed", range(5))
def test_pieces_are_all_positions_in_order_and_none_is_much_too_long(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sorted_runs, "PAIRS_AT_ONCE", 10)
    rng = np.random.default_rng(seed)
    low = rng.integers(0, 50, 40)
    high = low + rng.choice([0, 1, 3, 9, 10, 11, 25, 100], 40)
    expected = [(i, p) for i in range(40) for p in range(low[i], high[i])]
    found = []
    for start, begins, ends in sorted_runs.pieces(low, high):
        owner, place = sorted_runs.spread(begins, ends)
        assert len(owner) <= 20
        found += list(zip((owner + start).tolist(), place.tolist(), strict=True))
    assert found == expected, f"seed {seed}"

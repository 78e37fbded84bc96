"""`paint` against looking at every interval for every instant."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eddyline.index.timelines.painted_extremes import paint
from eddyline.state.delta import MAX, MIN

TIMES = st.one_of(st.integers(-2, 9), st.sampled_from([MIN, MAX]))
Intervals = list[tuple[int, int, int]]


def winners(instants: list[list[int]], intervals: Intervals) -> list[int]:
    return [
        next((i for i, (g, start, end) in enumerate(intervals) if g == group and start <= t <= end), -1)
        for group, times in enumerate(instants)
        for t in times
    ]


def painted(instants: list[list[int]], intervals: Intervals) -> list[int]:
    instant_at = np.cumsum([0, *(len(times) for times in instants)])
    flat = np.array([t for times in instants for t in times], np.int64)
    group, start, end = np.array(intervals, np.int64).reshape(-1, 3).T.copy()
    return paint(instant_at, flat, group, start, end).tolist()


@st.composite
def groups(draw: st.DrawFn) -> tuple[list[list[int]], Intervals]:
    instants = draw(st.lists(st.lists(TIMES, max_size=10).map(sorted), min_size=1, max_size=4))
    interval = st.tuples(st.integers(0, len(instants) - 1), TIMES, TIMES)
    return instants, draw(st.lists(interval, max_size=20))


@settings(deadline=None)
@given(groups())
def test_every_instant_goes_to_the_first_interval_of_its_group_that_covers_it(
    drawn: tuple[list[list[int]], Intervals],
) -> None:
    assert painted(*drawn) == winners(*drawn)


@pytest.mark.parametrize("seed", range(3))
def test_many_overlapping_intervals_paint_as_plain_search_does(seed: int) -> None:
    rng = np.random.default_rng(seed)
    instants = [sorted(rng.choice(200, 60, replace=False).tolist()) for _ in range(5)]
    starts = rng.integers(0, 200, 300)
    intervals = list(zip(rng.integers(0, 5, 300).tolist(), starts.tolist(), (starts + 30).tolist(), strict=True))
    assert painted(instants, intervals) == winners(instants, intervals), f"seed {seed}"


def test_an_interval_that_ends_before_it_begins_paints_nothing() -> None:
    assert painted([[1, 2, 3]], [(0, 3, 1), (0, 2, 2)]) == [-1, 1, -1]


def test_without_intervals_every_instant_stays_bare() -> None:
    assert painted([[1, 2], []], []) == [-1, -1]

"""Rates and selectivities that are measured while joins run."""

from __future__ import annotations

from random import Random

import pytest

from eddyline.routing.join_graph import ThetaStatistics
from eddyline.routing.stream_statistics import ArrivalRate, PredicateStatistics


@pytest.mark.parametrize("seed", range(5))
def test_a_constant_rate_is_measured_exactly_however_the_stream_is_cut(seed: int) -> None:
    rnd, measured, now = Random(seed), ArrivalRate(half_life=100.0, latest=0.0), 0
    for _ in range(50):
        span = rnd.randint(1, 40)
        measured.arrive(3 * span, now + 1, now + span)
        now += span
        assert measured.rate == pytest.approx(3.0), f"seed {seed}"


def test_after_one_half_life_a_new_rate_counts_half() -> None:
    measured = ArrivalRate(half_life=100.0)
    measured.arrive(1_000_000, 0.0, 100_000.0)
    for _ in range(100):
        measured.arrive(30, measured.latest or 0.0, (measured.latest or 0.0) + 1.0)
    assert measured.rate == pytest.approx(20.0, rel=0.01)


def test_a_silent_stream_becomes_slower() -> None:
    measured = ArrivalRate(half_life=100.0)
    measured.arrive(1000, 0.0, 100.0)
    assert measured.rate == 10.0
    measured.advance(200.0)
    assert measured.rate == pytest.approx(10.0 * 0.5 / 1.5)


def test_rows_behind_the_latest_time_are_counted_and_time_does_not_go_back() -> None:
    measured = ArrivalRate(half_life=1e9)
    measured.arrive(100, 0.0, 10.0)
    measured.arrive(100, 0.0, 5.0)
    assert measured.rate == pytest.approx(20.0) and measured.latest == 10.0


def test_before_time_passes_there_is_no_rate() -> None:
    measured = ArrivalRate(half_life=10.0)
    assert measured.rate == 0.0
    measured.arrive(5, 7.0, 7.0)
    assert measured.rate == 0.0


def test_selectivity_and_cost_of_a_predicate_follow_what_it_sees() -> None:
    measured = PredicateStatistics(half_life=100.0)
    assert measured.statistics() == ThetaStatistics(1.0)
    measured.evaluate(1_000_000, 1_000_000, cost=1_000_000.0)
    for _ in range(10):
        measured.evaluate(10, 0, cost=30.0)
    later = measured.statistics()
    assert later.selectivity == pytest.approx(0.5, rel=0.05)
    assert later.cost == pytest.approx(2.0, rel=0.05)

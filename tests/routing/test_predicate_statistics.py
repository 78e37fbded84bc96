"""Selectivities that are measured while joins run."""

from __future__ import annotations

import pytest

from eddyline.routing.join_graph import ThetaStatistics
from eddyline.routing.predicate_statistics import PredicateStatistics


def test_selectivity_and_cost_of_a_predicate_follow_what_it_sees() -> None:
    measured = PredicateStatistics(half_life=100.0)
    assert measured.statistics() == ThetaStatistics(1.0)
    measured.evaluate(1_000_000, 1_000_000, cost=1_000_000.0)
    for _ in range(10):
        measured.evaluate(10, 0, cost=30.0)
    later = measured.statistics()
    assert later.selectivity == pytest.approx(0.5, rel=0.05)
    assert later.cost == pytest.approx(2.0, rel=0.05)

"""The eddy's tickets and orders, against what they mean in plain arithmetic."""

from __future__ import annotations

from itertools import permutations
from random import Random

import pytest

from eddyline.routing.eddy import Eddy


def test_rows_visit_first_what_rejects_most_per_cost() -> None:
    eddy = Eddy()
    eddy.learn("few", rows=10, applied=100, satisfied=90)
    eddy.learn("many", rows=10, applied=100, satisfied=10)
    eddy.learn("none", rows=10, applied=100, satisfied=100)
    assert eddy.order(["few", "many", "none"]) == [1, 0, 2]
    eddy.learn_cost("many", 100.0)
    assert eddy.order(["few", "many", "none"]) == [0, 1, 2]


@pytest.mark.parametrize("seed", range(10))
def test_the_order_is_by_predicates_rejected_per_row_whatever_the_order_asked_in(seed: int) -> None:
    rnd = Random(seed)
    eddy, rejected = Eddy(half_life=10**9), {}
    for name in "abcd":
        rows, applied = rnd.randint(1, 50), rnd.randint(1, 1000)
        satisfied = rnd.randint(0, applied - 1)
        eddy.learn(name, rows, applied, satisfied)
        rejected[name] = (applied - satisfied) / rows
    for names in permutations("abcd"):
        found = [names[i] for i in eddy.order(names)]
        assert [rejected[n] for n in found] == sorted(rejected.values(), reverse=True), f"seed {seed}"


def test_equals_stay_in_the_order_in_which_they_are_given() -> None:
    eddy = Eddy()
    assert eddy.order(["a", "b", "c"]) == [0, 1, 2]
    for name in "cab":
        eddy.learn(name, 10, 100, 50)
    assert eddy.order(["b", "c", "a"]) == [0, 1, 2]
    assert eddy.order([]) == []


def test_what_was_learnt_a_half_life_ago_counts_half() -> None:
    eddy = Eddy(half_life=100)
    eddy.learn("a", rows=100, applied=1000, satisfied=0)
    eddy.learn("a", rows=100, applied=1000, satisfied=1000)
    account = eddy.account("a")
    assert account.rows == pytest.approx(150) and account.applied == pytest.approx(1500)
    assert account.satisfied == pytest.approx(1000) and account.selectivity == pytest.approx(2 / 3)
    assert account.tickets == pytest.approx(500 / 150)


def test_the_order_follows_the_data() -> None:
    eddy = Eddy(half_life=100)
    for a, b, first in [(10, 90, "a"), (90, 10, "b"), (10, 90, "a")]:
        for _ in range(10):
            eddy.learn("a", 100, 100, a)
            eddy.learn("b", 100, 100, b)
        assert ["a", "b"][eddy.order(["a", "b"])[0]] == first


def test_an_operator_nobody_told_of_has_a_few_tickets_and_no_selectivity() -> None:
    eddy = Eddy()
    account = eddy.account("new")
    assert 0 < account.tickets < 1e-6 and account.selectivity is None
    eddy.learn("known", 1, 1, 0)
    assert eddy.order(["new", "known"]) == [1, 0]
    assert sum(eddy.shares(["new", "known"])) == pytest.approx(1) and eddy.shares(["new", "other"]) == [0.5, 0.5]


def test_a_cost_told_again_moves_by_half_the_factor_and_at_most_doubles() -> None:
    eddy = Eddy()
    for cost, known in [(10.0, 10.0), (14.4, 12.0), (3.0, 6.0), (10_000.0, 12.0)]:
        eddy.learn_cost("a", cost)
        assert eddy.account("a").cost == pytest.approx(known)


def test_an_operator_that_costs_nothing_measurable_still_has_tickets() -> None:
    """A clock may tell the same time twice."""
    eddy = Eddy()
    eddy.learn("a", 10, 10, 5)
    eddy.learn("b", 10, 10, 5)
    eddy.learn_cost("a", 0.0)
    assert eddy.order(["b", "a"]) == [1, 0]


def test_visits_add_up() -> None:
    eddy = Eddy()
    eddy.learn("a", 10, 100, 0)
    eddy.entered("a", 5)
    eddy.entered("a", 7)
    assert eddy.account("a").entered == 12

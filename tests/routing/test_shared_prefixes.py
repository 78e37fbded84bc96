"""Credit for steps that other joins take anyway."""

from __future__ import annotations

from itertools import combinations

import pytest

from benchmarks.yardsticks.document_windows import time_window
from eddyline.routing.join_graph import Inputs, JoinGraph, JoinStatistics, ThetaStatistics
from eddyline.routing.probe_costs import ProbeCosts
from eddyline.routing.probe_orders import best_orders
from eddyline.routing.route_search import Paid, pass_cost
from eddyline.routing.shared_prefixes import SharedPrefixes
from tests.routing.document_joins import FOUR, TABLE_5

ALL = (1.0, 1.0, 1.0)


def probes(usable: list[Paid]) -> list[tuple[int, ...]]:
    return [paid.probes for paid in usable]


def test_a_route_follows_a_paid_prefix_if_what_remains_is_cheaper() -> None:
    plain = best_orders(TABLE_5, FOUR)
    assert plain[1].probes == (0, 2, 3)
    shared = best_orders(TABLE_5, FOUR, {1: [Paid((2,), (1.0,)), Paid((2, 0), (1.0, 1.0))]})
    assert [r.probes for r in shared] == [plain[0].probes, (2, 0, 3), plain[2].probes, plain[3].probes]
    assert shared[1].cost == pytest.approx(8 * 300), "8 partial results scan the 300 rows of the last window"
    # One step of it makes the rest dearer than the whole plain route: 4 * 1000 + 8 * 300 against 3800.
    assert best_orders(TABLE_5, FOUR, {1: [Paid((2,), (1.0,))]}) == plain


def test_credit_is_a_share_of_the_cost_of_the_prefix() -> None:
    whole = pass_cost(ProbeCosts(TABLE_5, FOUR, 0), (0, 3, 2, 1))
    credited = {c: best_orders(TABLE_5, FOUR, {0: [Paid((3, 2), (c, c))]})[0] for c in (0.0, 0.5, 1.0)}
    assert credited[0.0] == best_orders(TABLE_5, FOUR)[0], "without credit a shared prefix changes nothing"
    assert credited[1.0].probes == (3, 2, 1)
    prefix = whole - credited[1.0].cost
    assert credited[0.5].cost == pytest.approx(min(credited[0.0].cost, whole - prefix / 2))


def test_usable_paths_are_those_whose_steps_the_join_has() -> None:
    shared = SharedPrefixes()
    shared.add("a", [("b", "k"), ("c", "k")])
    shared.add("a", [("d", "k"), ("b", "k")])
    shared.add("b", [("a", "k")])

    def name(bound: Inputs, new: int) -> tuple[str, str]:
        return "abd"[new], "k"

    assert probes(shared.usable("a", 0, name, ALL)) == [(1,), (2,), (2, 1)]
    assert probes(shared.usable("b", 1, name, ALL)) == [(0,)]
    assert shared.usable("d", 2, name, ALL) == []
    shared.remove("a", [("d", "k"), ("b", "k")])
    assert probes(shared.usable("a", 0, name, ALL)) == [(1,)]
    with pytest.raises(KeyError):
        shared.remove("a", [("d", "k")])


def test_both_inputs_of_a_self_join_can_follow_one_path() -> None:
    shared = SharedPrefixes()
    shared.add("a", ["a"])
    assert probes(shared.usable("a", 0, lambda bound, new: "a", ALL)) == [(1,), (2,)]


def test_removing_every_route_leaves_no_node() -> None:
    shared, routes = SharedPrefixes(), [("a", "bc"), ("a", "bd"), ("b", "ac"), ("a", "bc")]
    for origin, steps in routes:
        shared.add(origin, steps)
    assert shared.nodes() == 5
    for origin, steps in routes:
        shared.remove(origin, steps)
    assert shared.nodes() == 0


def test_joins_over_common_streams_share_first_probes() -> None:
    """All three-way joins of 8 equal streams: with credit an origin needs 6 first probes, not 7, and 21 second ones."""
    streams = range(8)
    shared, graph = SharedPrefixes(), JoinGraph.on_common_key(3)
    statistics = JoinStatistics((time_window(1, 100, 50),) * 3)
    for join in combinations(streams, 3):

        def name(bound: Inputs, new: int, join: tuple[int, ...] = join) -> int:
            return join[new]

        prefixes = {i: shared.usable(join[i], i, name, ALL) for i in range(3)}
        for route in best_orders(statistics, graph, prefixes):
            shared.add(join[route.origin], [join[i] for i in route.probes])
    assert shared.nodes() == 8 * (6 + 21)


def test_routes_divide_the_cost_of_a_step_by_what_they_need_of_it() -> None:
    def credits_of(selected: tuple[float, ...]) -> list[tuple[float, ...]]:
        return [paid.credits for paid in shared.usable("a", 0, lambda bound, new: "abc"[new], selected)]

    shared = SharedPrefixes()
    shared.add("a", ["b", "c"])
    assert credits_of(ALL) == [(0.5,), (0.5, 0.5)], "two that need everything pay half each"
    shared.remove("a", ["b", "c"])
    shared.add("a", ["b", "c"], (0.5, 0.01))
    together = 1 - 0.99 * (1 - 0.5 * 0.02)
    first, second = credits_of((0.5, 0.02, 1.0))
    assert first == pytest.approx((1 - 0.75 / 1.0,))
    assert second == pytest.approx((0.25, 1 - together / (0.01 + 0.01)))
    shared.add("a", ["b"])
    assert credits_of((0.01, 1.0, 1.0))[0] == pytest.approx((1 - 1 / 1.51,))
    shared.remove("a", ["b"])
    shared.remove("a", ["b", "c"], (0.5, 0.01))
    assert not credits_of(ALL) and not shared.nodes()


def test_joins_do_not_keep_each_other_on_a_costly_path() -> None:
    """Two joins that select few rows of their third stream both probe the second first, and can do better."""
    statistics = JoinStatistics(
        (time_window(1, 100, 50),) * 3, (ThetaStatistics(1.0), ThetaStatistics(1.0), ThetaStatistics(0.01))
    )
    graph = JoinGraph(3, (frozenset(range(3)),), tuple(frozenset((i,)) for i in range(3)))
    shared, selected = SharedPrefixes(), (1.0, 1.0, 0.01)
    for steps in ("bc", "bc"):
        shared.add("a", steps)
    for _ in range(2):
        shared.remove("a", "bc")
        usable = shared.usable("a", 0, lambda bound, new: "abc"[new], selected)
        assert best_orders(statistics, graph, {0: usable})[0].probes == (2, 1)
        shared.add("a", "cb", (1.0, 0.01))

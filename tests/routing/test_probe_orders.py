"""The choice of probe orders: those that the document names, and never dearer than what trying all orders gives."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations
from math import inf
from random import Random

import pytest

from benchmarks.yardsticks.document_windows import time_window
from benchmarks.yardsticks.general_orders import general_heuristic_order, general_orders
from eddyline.routing.global_orders import by_selectivity, heuristic_order
from eddyline.routing.index_choice import choose_indexes
from eddyline.routing.join_graph import (
    EAGER,
    InputStatistics,
    JoinGraph,
    JoinStatistics,
    Schedule,
    ThetaStatistics,
    drift,
)
from eddyline.routing.probe_costs import ProbeCosts
from eddyline.routing.probe_orders import EXHAUSTIVE, best_orders
from eddyline.routing.route_search import Step, join_cost, multiway_cost, pass_cost
from tests.routing.document_joins import EQUAL, FAST_FOURTH, FOUR, TABLE_5, TABLE_6, TABLE_7, streams


def random_join(rnd: Random, inputs: int, *, predicates: int = 0) -> tuple[JoinStatistics, JoinGraph]:
    """A connected join graph with random statistics: a common key, or a tree of keys and further equalities."""
    classes = [frozenset(range(inputs))]
    if rnd.random() < 0.6:
        classes = [frozenset((i, rnd.randrange(i))) for i in range(1, inputs)]
    reads = [frozenset(rnd.sample(range(inputs), rnd.randint(1, min(3, inputs)))) for _ in range(predicates)]
    of_inputs = tuple(
        InputStatistics(
            rnd.choice([0.0, 1.0, 10.0]),
            rnd.randint(1, 1000),
            {c: rnd.randint(1, 300) for c, members in enumerate(classes) if i in members},
            rnd.choice([1.0, 5.0, inf]),
            rnd.choice([0.0, 2.0]),
        )
        for i in range(inputs)
    )
    thetas = tuple(ThetaStatistics(rnd.uniform(0.01, 1.0), rnd.choice([0.0, 5.0, 500.0])) for _ in range(predicates))
    return JoinStatistics(of_inputs, thetas), JoinGraph(inputs, tuple(classes), tuple(reads))


def best_global_order(statistics: JoinStatistics, graph: JoinGraph) -> tuple[int, ...]:
    """The cheapest of all n! orders that origins could follow together."""
    return min(permutations(range(graph.inputs)), key=lambda order: multiway_cost(statistics, graph, order, EAGER))


def avoids_cross_products(graph: JoinGraph, order: tuple[int, ...]) -> bool:
    return all(order[k] in graph.extensions(frozenset(order[:k])) for k in range(1, len(order)))


def test_the_heuristic_picks_the_orders_that_the_document_names() -> None:
    assert heuristic_order(TABLE_5, FOUR) == (0, 1, 2, 3)
    assert heuristic_order(TABLE_6, FOUR) == (1, 0, 2, 3)
    assert heuristic_order(TABLE_7, FOUR) == (2, 0, 3, 1)


def test_before_fast_streams_move_up_the_order_is_by_selectivity() -> None:
    named = {id(TABLE_5): [(0, 1, 2, 3), (1, 0, 2, 3)], id(TABLE_6): [(1, 2, 0, 3), (1, 2, 3, 0)]}
    named[id(TABLE_7)] = [(2, 3, 0, 1)]
    for table in (TABLE_5, TABLE_6, TABLE_7):
        order = by_selectivity(ProbeCosts(table, FOUR, None), lambda o, t=table: multiway_cost(t, FOUR, o, EAGER))  # type: ignore[misc]
        assert order in named[id(table)]


def test_with_equal_distinct_counts_windows_go_by_ascending_size() -> None:
    statistics = streams((3, 100, 50), (1, 100, 50), (4, 100, 50), (2, 100, 50))
    assert heuristic_order(statistics, FOUR) == best_global_order(statistics, FOUR) == (1, 3, 0, 2)


@pytest.mark.parametrize("seed", range(30))
def test_no_order_of_all_is_cheaper_than_the_best_and_moving_fast_streams_up_never_hurts(seed: int) -> None:
    rnd = Random(seed)
    n = rnd.randint(2, 5)
    s = streams(*[(rnd.choice([1, 2, 10, 100]), 100, rnd.randint(1, 300)) for _ in range(n)])
    graph = JoinGraph.on_common_key(n)
    costs = {o: multiway_cost(s, graph, o, EAGER) for o in permutations(range(n))}
    best, heuristic = best_global_order(s, graph), heuristic_order(s, graph)
    assert costs[best] == pytest.approx(min(costs.values())), f"seed {seed}"
    assert costs[best] <= costs[heuristic] * (1 + 1e-9), f"seed {seed}"
    plain = by_selectivity(ProbeCosts(s, graph, None), lambda o: costs[o])
    assert costs[heuristic] <= costs[plain] * (1 + 1e-9), f"seed {seed}"


@pytest.mark.parametrize("seed", range(60))
def test_the_search_over_sets_finds_what_trying_all_orders_finds(seed: int) -> None:
    rnd = Random(seed)
    statistics, graph = random_join(rnd, rnd.randint(2, 5), predicates=rnd.randint(0, 3))
    for origin, route in enumerate(best_orders(statistics, graph)):
        costs = ProbeCosts(statistics, graph, origin)
        tried = [o for o in permutations(range(graph.inputs)) if o[0] == origin and avoids_cross_products(graph, o)]
        assert route.cost == pytest.approx(min(pass_cost(costs, o) for o in tried)), f"seed {seed}"
        assert (origin, *route.probes) in tried
        assert route.cost == pytest.approx(pass_cost(costs, (origin, *route.probes)))


@pytest.mark.parametrize("interval", [1, 10, 50])
def test_general_orders_are_the_best_of_all_orders_of_each_origin(interval: float) -> None:
    schedule = Schedule.every(interval)
    for table in (TABLE_5, TABLE_6, TABLE_7, EQUAL, FAST_FOURTH):
        orders = general_orders(table, FOUR, schedule)
        best = sum(
            min(pass_cost(ProbeCosts(table, FOUR, i, schedule), o) for o in permutations(range(4))) for i in range(4)
        )
        assert join_cost(table, FOUR, orders, schedule) == pytest.approx(best)


def test_general_costs_of_figure_3b() -> None:
    def cost(interval: float) -> int:
        schedule = Schedule.every(interval)
        return round(join_cost(FAST_FOURTH, FOUR, general_orders(FAST_FOURTH, FOUR, schedule), schedule))

    assert (cost(1), cost(50)) == (20_450, 57_600)
    assert general_orders(FAST_FOURTH, FOUR, Schedule.every(50))[3][-1] == 3, "many new rows go last"
    assert general_orders(FAST_FOURTH, FOUR, Schedule.every(1))[3][0] == 3, "few new rows go first"


def test_the_heuristic_for_general_orders_puts_many_new_rows_last() -> None:
    costs = ProbeCosts(FAST_FOURTH, FOUR, 3, Schedule.every(50))
    order = general_heuristic_order(costs)
    assert pass_cost(costs, order) == pytest.approx(min(pass_cost(costs, o) for o in permutations(range(4))))


@pytest.mark.parametrize("seed", range(8))
def test_joins_of_more_inputs_follow_the_cheaper_of_greedy_and_heuristic(seed: int) -> None:
    rnd = Random(seed)
    statistics, graph = random_join(rnd, EXHAUSTIVE + 2, predicates=rnd.randint(0, 2))
    schedule = Schedule.every(1.0)
    for origin, route in enumerate(best_orders(statistics, graph, schedule=schedule)):
        costs = ProbeCosts(statistics, graph, origin, schedule)
        order = (origin, *route.probes)
        assert sorted(order) == list(range(graph.inputs)) and avoids_cross_products(graph, order)
        if graph.everything in graph.equalities:
            together = heuristic_order(statistics, graph, schedule)
            follows = (origin, *(i for i in together if i != origin))
            assert route.cost <= pass_cost(costs, follows) * (1 + 1e-9), f"seed {seed}"
    for origin, order in enumerate(general_orders(statistics, graph, schedule)):
        assert sorted(order) == list(range(graph.inputs)), f"seed {seed}, {origin}"


def test_a_greedy_route_takes_the_most_selective_predicate_that_the_graph_allows() -> None:
    # A star of keys: input 0 joins every other one, each on a key of its own; higher numbers are more selective.
    n = EXHAUSTIVE + 1
    graph = JoinGraph(n, tuple(frozenset((0, i)) for i in range(1, n)))
    centre = InputStatistics(1.0, 100.0, dict.fromkeys(range(n - 1), 1.0))
    around = (InputStatistics(1.0, 100.0, {i - 1: 10.0 * i}) for i in range(1, n))
    routes = best_orders(JoinStatistics((centre, *around)), graph)
    assert routes[0].probes == tuple(range(n - 1, 0, -1))
    assert routes[1].probes == (0, *range(n - 1, 1, -1)), "no cross product"


def test_a_cross_product_is_built_only_if_nothing_connects() -> None:
    graph = JoinGraph(3, (frozenset((0, 1)),))
    tiny, keyed = InputStatistics(1.0, 1.0, {}), InputStatistics(1.0, 1000.0, {0: 2.0})
    routes = best_orders(JoinStatistics((keyed, keyed, tiny)), graph)
    assert [r.probes for r in routes[:2]] == [(1, 2), (0, 2)]
    assert routes[2].probes in ((0, 1), (1, 0))


def test_a_costly_predicate_waits_for_probes_that_remove_more_rows_per_cost() -> None:
    graph = JoinGraph(3, (frozenset(range(3)),), (frozenset((0, 1)),))

    def route(matches: float, cost: float) -> tuple[Step, ...]:
        """New rows of input 0 have 10 partners in input 1, and so many in input 2."""
        inputs = (time_window(1, 1, 10), time_window(100, 1, 10), time_window(matches * 10, 1, 10))
        statistics = JoinStatistics(tuple(inputs), (ThetaStatistics(0.5, cost),))
        return best_orders(statistics, graph)[0].steps

    probe_1, probe_2, evaluate = Step("probe", 1), Step("probe", 2), Step("evaluate", 0)
    assert route(matches=20.0, cost=1.0) == (probe_1, evaluate, probe_2)
    assert route(matches=0.1, cost=1000.0) == (probe_2, probe_1, evaluate)


def test_predicates_at_one_point_are_evaluated_by_rank() -> None:
    graph = JoinGraph(2, (frozenset((0, 1)),), (frozenset((0, 1)), frozenset((0, 1)), frozenset((1,))))
    thetas = (ThetaStatistics(0.1, 90.0), ThetaStatistics(0.5, 1.0), ThetaStatistics(0.9, 0.0))
    statistics = JoinStatistics((time_window(1, 100, 5), time_window(1, 100, 5)), thetas)
    assert best_orders(statistics, graph)[0].steps == (Step("probe", 1), Step("evaluate", 1), Step("evaluate", 0))


def test_an_index_goes_where_it_saves_most_and_fits() -> None:
    statistics = JoinStatistics(
        (time_window(1, 100, 50, 10), time_window(1, 100, 50, 10), time_window(50, 100, 50, 10))
    )
    graph = JoinGraph.on_common_key(3)
    assert choose_indexes(statistics, graph, most_entries=99) == frozenset()
    assert choose_indexes(statistics, graph, most_entries=200) == {0, 1}
    assert choose_indexes(statistics, graph, most_entries=5_100) in ({0, 2}, {1, 2})
    assert choose_indexes(statistics, graph, most_entries=1e9) == {0, 1, 2}


@pytest.mark.parametrize("inputs", [3, EXHAUSTIVE + 1])
def test_chosen_indexes_fit_and_pay(inputs: int) -> None:
    rnd = Random(inputs)
    windows = [time_window(rnd.choice([1, 5, 50]), 100, 50, 10) for _ in range(inputs)]
    statistics, graph = JoinStatistics(tuple(windows)), JoinGraph.on_common_key(inputs)
    for limit in (100.0, 1_000.0, 6_000.0):
        chosen = choose_indexes(statistics, graph, limit)
        assert sum(windows[i].rows for i in chosen) <= limit
        smallest = min(w.rows for i, w in enumerate(windows) if i not in chosen)
        assert sum(windows[i].rows for i in chosen) + smallest > limit, "an index that fits saves something here"


def test_statistics_have_drifted_if_one_of_them_changed_by_more_than_the_threshold() -> None:
    old = JoinStatistics((InputStatistics(10.0, 100.0, {0: 5.0}),), (ThetaStatistics(0.5, 1.0),))

    def changed(rate: float = 10.0, rows: float = 100.0, distinct: float = 5.0, selectivity: float = 0.5) -> bool:
        of_input = InputStatistics(rate, rows, {0: distinct})
        return drift(old, JoinStatistics((of_input,), (ThetaStatistics(selectivity, 1.0),))).factor > 2.0

    assert not changed() and not changed(rate=20.0, rows=50.0, distinct=2.5)
    assert changed(rate=20.1) and changed(rows=49.9) and changed(distinct=2.4) and changed(selectivity=0.2)
    assert changed(rate=0.0), "a stream that stops has changed beyond any threshold"
    (window,) = old.inputs
    slower = JoinStatistics((replace(window, rate=4.0, rows=90.0),), old.thetas)
    assert drift(old, slower)[1:] == ("rate of input 1", 10.0, 4.0)

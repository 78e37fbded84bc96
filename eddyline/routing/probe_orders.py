"""The cheapest order in which new rows of each input probe the other inputs of a join.

The size of a partial result depends on which inputs it binds, not on their order. So the best order is searched over
the sets of bound inputs: for up to `EXHAUSTIVE` inputs all of them, with the result of trying all n! orders. Larger
joins extend by the most selective predicate at each step (document 2, section 5.4); on a common key they take the
heuristic for all inputs together (`global_orders.py`) where it is cheaper. A cross product is built only if no
predicate connects a further input. Steps that other joins take anyway are credited (`shared_prefixes.py`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from eddyline.routing.global_orders import Order, cheapest, general_heuristic_order, heuristic_order
from eddyline.routing.join_graph import EAGER, Inputs, JoinGraph, JoinStatistics, Schedule
from eddyline.routing.probe_costs import ProbeCosts
from eddyline.routing.route_search import Choices, Route, RouteSearch, in_order, origin_first, pass_cost

EXHAUSTIVE = 7  # inputs

Prefixes = Mapping[int, Collection[Sequence[int]]]  # by origin: probes that other joins make from it, in their order


def best_orders(
    statistics: JoinStatistics,
    graph: JoinGraph,
    shared_prefixes: Prefixes | None = None,
    schedule: Schedule = EAGER,
    credit: float = 1.0,
) -> tuple[Route, ...]:
    """The cheapest route of every input, with its new rows first.

    A route may begin with one of the shared prefixes of its origin; the share `credit` of their cost is then not
    counted. Among equal costs the longest shared prefix wins."""
    together: Order | None = None
    if graph.inputs > EXHAUSTIVE and graph.everything in graph.equalities:
        together = heuristic_order(statistics, graph, schedule)
    routes = []
    for origin in range(graph.inputs):
        costs = ProbeCosts(statistics, graph, origin, schedule)
        choices: list[Choices] = [graph.extensions if graph.inputs <= EXHAUSTIVE else greedy(costs)]
        if together is not None:
            choices.append(in_order(origin_first(together, origin)))
        prefixes = sorted((shared_prefixes or {}).get(origin, ()), key=len, reverse=True)
        searches = [RouteSearch(costs, c, paid, credit) for paid in (*prefixes, ()) for c in choices]
        routes.append(min((s.route() for s in searches), key=lambda route: route.cost))
    return tuple(routes)


def greedy(costs: ProbeCosts) -> Choices:
    """The one input whose predicates leave the fewest partial results; of equal ones the cheapest to probe."""

    def next_input(bound: Inputs) -> Collection[int]:
        def rank(new: int) -> tuple[float, float]:
            after = bound | {new}
            evaluated = frozenset(t for t in costs.costly if costs.graph.thetas[t] <= after)
            return costs.size(after, evaluated), costs.probe(bound, frozenset(), new)

        return (min(costs.graph.extensions(bound), key=rank),)

    return next_input


def general_orders(statistics: JoinStatistics, graph: JoinGraph, schedule: Schedule) -> tuple[Order, ...]:
    """For every origin the cheapest order of all inputs in a general lazy join: new rows need not go first.
    That pays if many of them arrive in an interval (document 2, section 5.2)."""
    return tuple(_general_order(ProbeCosts(statistics, graph, i, schedule)) for i in range(graph.inputs))


def _general_order(costs: ProbeCosts) -> Order:
    graph, origin = costs.graph, costs.origin
    assert origin is not None
    orders, starts = list[Order](), origin_first(range(graph.inputs), origin)
    if graph.inputs > EXHAUSTIVE:
        starts = (origin,)
        if graph.everything in graph.equalities:
            orders.append(general_heuristic_order(costs))
    search = RouteSearch(costs, graph.extensions if graph.inputs <= EXHAUSTIVE else greedy(costs))
    orders += [(first, *(s.target for s in search.steps(first) if s.action == "probe")) for first in starts]
    return cheapest(orders, lambda order: pass_cost(costs, order))

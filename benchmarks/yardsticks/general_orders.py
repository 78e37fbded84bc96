"""Orders of the general lazy join of document 2 (section 5.2), in which new rows need not go first.

That pays if many of them arrive in an interval. The engine evaluates collected tuples with their own input first, so
only the figures of the document need these orders.
"""

from __future__ import annotations

from eddyline.routing.global_orders import Order, cheapest, heuristic
from eddyline.routing.join_graph import JoinGraph, JoinStatistics, Schedule
from eddyline.routing.probe_costs import ProbeCosts
from eddyline.routing.probe_orders import EXHAUSTIVE, greedy
from eddyline.routing.route_search import RouteSearch, origin_first, pass_cost


def general_orders(statistics: JoinStatistics, graph: JoinGraph, schedule: Schedule) -> tuple[Order, ...]:
    """For every origin the cheapest order of all inputs."""
    return tuple(_general_order(ProbeCosts(statistics, graph, i, schedule)) for i in range(graph.inputs))


def general_heuristic_order(costs: ProbeCosts) -> Order:
    """The order for new rows of one origin, which may be at any place of it. Sizes count only the new rows of the
    origin, as section 5.2 says."""
    return heuristic(costs, lambda order: pass_cost(costs, order))


def _general_order(costs: ProbeCosts) -> Order:
    graph, origin = costs.graph, costs.origin
    assert origin is not None
    orders, starts = list[Order](), origin_first(range(graph.inputs), origin)
    if graph.inputs > EXHAUSTIVE:
        starts = (origin,)
        if graph.everything in graph.equalities:
            orders.append(general_heuristic_order(costs))
    choices = graph.extensions if graph.inputs <= EXHAUSTIVE else greedy(costs, graph.extensions)
    search = RouteSearch(costs, choices)
    orders += [(first, *(s.target for s in search.steps(first) if s.action == "probe")) for first in starts]
    return cheapest(orders, lambda order: pass_cost(costs, order))

"""The cheapest order in which new rows of each input probe the other inputs of a join.

The size of a partial result depends on which inputs it binds, not on their order. So the best order is searched over
the sets of bound inputs: for up to `EXHAUSTIVE` inputs all of them, with the result of trying all n! orders. Larger
joins extend by the most selective predicate at each step (document 2, section 5.4); on a common key they take the
heuristic for all inputs together (`global_orders.py`) where it is cheaper. A cross product is built only if no
predicate connects a further input. Steps that other joins take anyway are credited (`shared_prefixes.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from eddyline.routing.global_orders import Order, heuristic_order
from eddyline.routing.join_graph import EAGER, Inputs, JoinGraph, JoinStatistics, Schedule
from eddyline.routing.probe_costs import ProbeCosts
from eddyline.routing.route_search import NOTHING_PAID, Choices, Paid, Route, RouteSearch, in_order, origin_first

EXHAUSTIVE = 7  # inputs

Prefixes = Mapping[int, Collection[Paid]]  # by origin: probes that other joins make from it
Allowed = Callable[[Inputs, int], bool]  # whether an input may be probed from partial results over the bound ones


def best_orders(
    statistics: JoinStatistics,
    graph: JoinGraph,
    shared_prefixes: Prefixes | None = None,
    schedule: Schedule = EAGER,
    allowed: Allowed = lambda bound, new: True,
) -> tuple[Route, ...]:
    """The cheapest route of every input, with its new rows first.

    A route may begin with one of the shared prefixes of its origin; what others pay of it is then not counted. Among
    equal costs the longest shared prefix wins."""
    together: Order | None = None
    if graph.inputs > EXHAUSTIVE and graph.everything in graph.equalities:
        together = heuristic_order(statistics, graph, schedule)
    routes = []
    for origin in range(graph.inputs):
        costs = ProbeCosts(statistics, graph, origin, schedule)
        extensions = _allowed(graph, allowed)
        choices: list[Choices] = [extensions if graph.inputs <= EXHAUSTIVE else greedy(costs, extensions)]
        if together is not None and _follows(origin_first(together, origin), allowed):
            choices.append(in_order(origin_first(together, origin)))
        prefixes = sorted((shared_prefixes or {}).get(origin, ()), key=lambda paid: -len(paid.probes))
        searches = [RouteSearch(costs, c, paid) for paid in (*prefixes, NOTHING_PAID) for c in choices]
        routes.append(min((s.route() for s in searches), key=lambda route: route.cost))
    return tuple(routes)


def _follows(order: Order, allowed: Allowed) -> bool:
    return all(allowed(frozenset(order[:n]), order[n]) for n in range(1, len(order)))


def _allowed(graph: JoinGraph, allowed: Allowed) -> Choices:
    """The inputs that may be probed next, preferably without a cross product."""

    def choices(bound: Inputs) -> Collection[int]:
        connected = [i for i in graph.extensions(bound) if allowed(bound, i)]
        return connected or [i for i in sorted(graph.everything - bound) if allowed(bound, i)]

    return choices


def greedy(costs: ProbeCosts, choices: Choices) -> Choices:
    """The one input whose predicates leave the fewest partial results; of equal ones the cheapest to probe."""

    def next_input(bound: Inputs) -> Collection[int]:
        def rank(new: int) -> tuple[float, float]:
            after = bound | {new}
            evaluated = frozenset(t for t in costs.costly if costs.graph.thetas[t] <= after)
            return costs.size(after, evaluated), costs.probe(bound, frozenset(), new)

        return (min(choices(bound), key=rank),)

    return next_input

"""Heuristic of document 2, section 5: one order of all inputs of a join on a common key, in few costed orders.

Binary joins go by ascending size of their results; then fast inputs are moved up as far as that pays, but never to the
very top. Ties are broken by cost, then by the number of the input, so the choice is deterministic. For n inputs of
which f are fast, at most n (n - 1 + f) orders are costed instead of n!.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import permutations

from eddyline.routing.join_graph import EAGER, JoinGraph, JoinStatistics, Schedule
from eddyline.routing.probe_costs import ProbeCosts
from eddyline.routing.route_search import multiway_cost

Order = tuple[int, ...]
SLACK = 1.0 + 1e-9  # sums in another order differ in their last digits


def heuristic_order(statistics: JoinStatistics, graph: JoinGraph, schedule: Schedule = EAGER) -> Order:
    """The order for a multi-way join, in which new rows go first and then follow it."""
    whole_windows = ProbeCosts(statistics, graph, None, schedule)
    return heuristic(whole_windows, lambda order: multiway_cost(statistics, graph, order, schedule))


def heuristic(sizes: ProbeCosts, cost: Callable[[Order], float]) -> Order:
    order = by_selectivity(sizes, cost)
    for fast in fast_inputs(sizes.statistics):
        rest, place = [i for i in order if i != fast], order.index(fast)
        moved = [(*rest[:to], fast, *rest[to:]) for to in range(place - 1, 0, -1)]
        order = cheapest([order, *moved], cost)
    return order


def by_selectivity(sizes: ProbeCosts, cost: Callable[[Order], float]) -> Order:
    """The inputs by ascending size of their binary joins: the smallest pair, then always the input with the smallest
    join with any input before it."""
    inputs = range(sizes.graph.inputs)
    if len(inputs) < 2:
        return tuple(inputs)
    pairs = {(a, b): sizes.size(frozenset((a, b))) for a, b in permutations(inputs, 2)}
    least = min(pairs.values()) * SLACK
    return cheapest([_extended(sizes, pairs, pair) for pair in sorted(pairs) if pairs[pair] <= least], cost)


def _extended(sizes: ProbeCosts, pairs: dict[tuple[int, int], float], pair: Order) -> Order:
    order = list(pair)
    while len(order) < sizes.graph.inputs:
        waiting = [i for i in range(sizes.graph.inputs) if i not in order]
        smallest = {i: min(pairs[i, placed] for placed in order) for i in waiting}
        tied = [i for i in waiting if smallest[i] <= min(smallest.values()) * SLACK]
        order.append(min(tied, key=lambda i: sizes.probe(frozenset(order), frozenset(), i)))
    return tuple(order)


def fast_inputs(statistics: JoinStatistics) -> list[int]:
    """The inputs with more than the average rate, the fastest first."""
    rates = [i.rate for i in statistics.inputs]
    return sorted((i for i, r in enumerate(rates) if r > sum(rates) / len(rates)), key=lambda i: -rates[i])


def cheapest(orders: Sequence[Order], cost: Callable[[Order], float]) -> Order:
    """The order with the least cost; the first of those that are equal but for rounding."""
    costed = [(cost(order), order) for order in orders]
    least = min(c for c, _ in costed)
    return next(order for c, order in costed if c <= least * SLACK)

"""The cheapest route of one origin's new rows: which inputs they probe, and where costly predicates are evaluated.

A state is the set of bound inputs and the set of evaluated predicates. The cost of the rest of a route depends on the
state only, so each state is searched once: at most 2^(inputs + costly predicates) states. The caller says which
inputs may follow a set: one for a given order, several for a search. A predicate waits for its inputs, and longer if
probes that remove more rows per cost go first. (Document 2, section 5.4.)
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import inf
from typing import Literal, NamedTuple

from eddyline.routing.join_graph import Inputs, JoinGraph, JoinStatistics, Schedule
from eddyline.routing.probe_costs import ProbeCosts

Choices = Callable[[Inputs], Collection[int]]  # the inputs that may be probed next


class Step(NamedTuple):
    """`target` is an input to probe, or a predicate to evaluate."""

    action: Literal["probe", "evaluate"]
    target: int


@dataclass(frozen=True)
class Route:
    """The steps of new rows of one input, and what they cost in comparisons per unit of time, less what is credited."""

    origin: int
    steps: tuple[Step, ...]
    cost: float

    @property
    def probes(self) -> tuple[int, ...]:
        return tuple(s.target for s in self.steps if s.action == "probe")


class Paid(NamedTuple):
    """A prefix of probes that other joins make anyway: by probe, the input, and the share of its cost that they pay."""

    probes: tuple[int, ...] = ()
    credits: tuple[float, ...] = ()


NOTHING_PAID = Paid()


class RouteSearch:
    """A search for one origin. The route takes the prefix `paid` first, and less its credits counts."""

    def __init__(self, costs: ProbeCosts, choices: Choices, paid: Paid = NOTHING_PAID) -> None:
        self.costs, self.choices = costs, choices
        start = frozenset(() if costs.origin is None else (costs.origin,))
        along = accumulate(paid.probes, lambda bound, new: bound | {new}, initial=start)
        self.paid: Mapping[Inputs, tuple[int, float]] = dict(zip(along, zip(*paid, strict=True), strict=False))
        self._rest: dict[tuple[Inputs, frozenset[int]], tuple[float, Step | None]] = {}

    def rest(self, bound: Inputs, evaluated: frozenset[int] = frozenset()) -> tuple[float, Step | None]:
        """The cost of a pass from this state to its end, and the step to take now; None at the end.
        Among equal costs a predicate goes before a probe, and the choices of inputs keep their order."""
        state = bound, evaluated
        if state not in self._rest:
            self._rest[state] = self._cheapest(bound, evaluated)
        return self._rest[state]

    def _cheapest(self, bound: Inputs, evaluated: frozenset[int]) -> tuple[float, Step | None]:
        costs, options = self.costs, list[tuple[float, Step]]()
        ready = [t for t in sorted(costs.costly - evaluated) if costs.graph.thetas[t] <= bound]
        if ready:
            theta = min(ready, key=lambda t: costs.statistics.thetas[t].rank)
            rest, _ = self.rest(bound, evaluated | {theta})
            options.append((costs.evaluation(bound, evaluated, theta) + rest, Step("evaluate", theta)))
        for new in self._next(bound):
            rest, _ = self.rest(bound | {new}, evaluated)
            charged = 1.0 - self.paid[bound][1] if bound in self.paid else 1.0
            options.append((charged * costs.probe(bound, evaluated, new) + rest, Step("probe", new)))
        complete = bound == costs.graph.everything
        return min(options, key=lambda option: option[0], default=(0.0 if complete else inf, None))

    def _next(self, bound: Inputs) -> Collection[int]:
        if bound == self.costs.graph.everything:
            return ()
        return self.paid[bound][:1] if bound in self.paid else self.choices(bound)

    def steps(self, first: int) -> tuple[Step, ...]:
        """The cheapest steps that begin with one input."""
        bound, evaluated, steps = frozenset((first,)), frozenset[int](), list[Step]()
        while (step := self.rest(bound, evaluated)[1]) is not None:
            steps.append(step)
            if step.action == "probe":
                bound |= {step.target}
            else:
                evaluated |= {step.target}
        return tuple(steps)

    def route(self) -> Route:
        """The cheapest route that begins with the origin."""
        origin = self.costs.origin
        assert origin is not None
        return Route(origin, self.steps(origin), self.costs.passes * self.rest(frozenset((origin,)))[0])


def in_order(order: Sequence[int]) -> Choices:
    """Only the next input of a given order."""
    return lambda bound: [next(i for i in order if i not in bound)]


def join_cost(
    statistics: JoinStatistics, graph: JoinGraph, orders: Sequence[Sequence[int]], schedule: Schedule
) -> float:
    """Comparisons per unit of time of a join that processes the new rows of input i in the order `orders[i]`.

    An order lists all inputs. With the origin first in each it is the cost of the multi-way join, with one order for
    all origins that of the naive one, and with any orders that of the general lazy join."""
    return sum(pass_cost(ProbeCosts(statistics, graph, i, schedule), order) for i, order in enumerate(orders))


def pass_cost(costs: ProbeCosts, order: Sequence[int]) -> float:
    """The share of one origin in the cost of a join, per unit of time."""
    return costs.passes * RouteSearch(costs, in_order(order)).rest(frozenset(order[:1]))[0]


def origin_first(order: Sequence[int], origin: int) -> tuple[int, ...]:
    """The order of all inputs as new rows of one of them follow it: they go first."""
    return (origin, *(i for i in order if i != origin))


def multiway_cost(statistics: JoinStatistics, graph: JoinGraph, order: Sequence[int], schedule: Schedule) -> float:
    """The cost of a join whose inputs all follow one global order, each with its new rows first."""
    return join_cost(statistics, graph, [origin_first(order, i) for i in range(graph.inputs)], schedule)

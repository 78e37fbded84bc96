"""Document 1's tickets for the SteMs of a join: a SteM earns one for every tuple that probes it, and pays one for every
partner that it returns; by descending tickets per cost, tuples of each origin probe the SteMs that they can reach.

Learnt from all probes that were made, wherever in the order, so no tuple is misrouted to explore. A SteM with more than
one partner a tuple owes tickets. `signed` counts the debt; otherwise it has none, as in the document, and such SteMs
keep the order that they have. The cost of a probe is a lookup and the rows that are compared. (Section 4.)
"""

from __future__ import annotations

from eddyline.operators.joins.measured_join import MeasuredJoin
from eddyline.operators.joins.stem_join import StemJoin
from eddyline.routing.eddy import Eddy

INTERVAL = 512  # arrivals after which the order is chosen again


class TicketJoinOrders:
    """Replaces the revision of orders by the cost model, for one join."""

    def __init__(self, join: StemJoin, *, signed: bool) -> None:
        self.measured, self.join, self.signed = MeasuredJoin(join), join, signed
        self.graph = self.measured.graph(shared=False)
        self.eddies = [Eddy() for _ in join.children]
        self._known: dict[tuple[int, ...], tuple[int, int, int]] = {}
        self._chosen = 0

    def revise(self, families: object, arrivals: int, members: object) -> bool:
        """Chooses orders by what has been learnt; whether one has changed."""
        if arrivals < self._chosen + INTERVAL:
            return False
        self._chosen = arrivals
        self._learn()
        before = self.measured.orders
        orders = tuple(self._order(origin, before[origin]) for origin in range(len(self.eddies)))
        if orders != before:
            self.join.reorder(orders, self.join.stems.node.scanned)
        return orders != before

    def _learn(self) -> None:
        for route, step in self.join.stems.counts.steps.items():
            now = step.probing, step.compared, step.left
            probing, compared, left = (x - y for x, y in zip(now, self._known.get(route, (0, 0, 0)), strict=True))
            self._known[route] = now
            if len(route) > 1 and probing:
                eddy = self.eddies[route[0]]
                eddy.learn(route[-1], probing, probing, left)
                eddy.learn_cost(route[-1], 1 + compared / probing)

    def _order(self, origin: int, present: tuple[int, ...]) -> tuple[int, ...]:
        bound, order = frozenset((origin,)), list[int]()
        while len(bound) < self.graph.inputs:
            options = sorted(self.graph.extensions(bound), key=present.index)
            order.append(max(options, key=lambda i: self._tickets(origin, i)))
            bound |= {order[-1]}
        return tuple(order)

    def _tickets(self, origin: int, i: int) -> float:
        account = self.eddies[origin].account(i)
        if self.signed and account.rows:
            return (account.applied - account.satisfied) / account.rows / account.cost
        return account.tickets

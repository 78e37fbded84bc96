"""Revises the order of probes of running joins, so that it follows the data. (Document 2, sections 4 and 5.)

After every `INTERVAL` arrivals, and more where there are many joins, the statistics of a join are measured. If one has
drifted beyond `DRIFT`, the best orders are searched; if none has, the next check comes later. An origin takes another
order if that saves the share `GAIN` of its cost. Stored rows are not touched. Joins on shared routes are given credit
for probes that others make anyway.

When and what is decided depends only on arrivals, rows and queries, and never on measured time: a replay gives rows in
the same order. At most `CHECKS` joins are checked in one step, so that they share what is measured of a stream; the
next checks follow after `PACE` arrivals for each of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from math import inf
from operator import mul

from eddyline.engine.running_family import RunningFamily
from eddyline.operators.joins.log_stem import LogStem
from eddyline.operators.joins.measured_join import LOOKUP, MeasuredJoin, StepName
from eddyline.operators.joins.order_state import OrderChange
from eddyline.operators.joins.route_tables import Member
from eddyline.operators.joins.stem_join import StemJoin
from eddyline.operators.joins.stream_measures import Selections, StreamMeasures
from eddyline.routing.index_choice import choose_indexes
from eddyline.routing.join_graph import EAGER, JoinGraph, JoinStatistics, Schedule, drift
from eddyline.routing.probe_costs import ProbeCosts
from eddyline.routing.probe_orders import best_orders
from eddyline.routing.route_search import NOTHING_PAID, Paid, Route, RouteSearch, in_order
from eddyline.routing.shared_prefixes import SharedPrefixes

INTERVAL = 4096  # arrivals between checks of a join
PER_JOIN = 1024  # more of them for every join that is checked
FIRST = 8  # the first check is due after this part of an interval
DRIFT = 2.0  # the factor by which a measure must change before orders are searched
GAIN = 0.1  # of the cost of an order that another one must save
CALM = 8  # intervals: the most between checks of a join whose statistics do not move
CHECKS = 16  # joins in one step
PACE = 2048  # arrivals after the check of a join, before others are checked

_Shared = tuple[int, list[StepName], list[float]]  # a route in the trie: its origin, steps, and shares


@dataclass
class _Running:
    """A join of a running family."""

    family: RunningFamily
    measured: MeasuredJoin

    @property
    def schedule(self) -> Schedule:
        evaluate, expire = self.family.family.evaluate, self.family.family.expire
        return EAGER if not evaluate else Schedule(evaluate, max(evaluate, expire or 0))

    def window(self, stream: str) -> tuple[int, int]:
        """Its widest window on a stream, and the first arrival number that its queries see."""
        return self.family.reach(stream), self.family.oldest()


class JoinOrders:
    def __init__(self) -> None:
        self._due = 0  # the number of arrivals at which a join may have to be checked
        self._joins: dict[int, tuple[RunningFamily, list[_Running]]] = {}  # by family
        self._taken = _TakenRoutes()

    def families_changed(self) -> None:
        """A family has been started or restored."""
        self._due = 0

    def revise(self, families: Mapping[int, RunningFamily], arrivals: int, members: Iterable[Member]) -> bool:
        """Checks the joins that are due; `members` are the routes that joins share. Called between steps. Returns
        whether an order has changed."""
        if arrivals < self._due:
            return False
        known = self._joins
        for n, family in families.items():
            if n not in known or known[n][0] is not family:
                known[n] = family, _adaptive(family)
        if len(known) > len(families):
            self._joins = known = {n: known[n] for n in families}
        joins = [r for n in sorted(known) for r in known[n][1]]
        interval = INTERVAL + PER_JOIN * len(joins)
        for r in joins:
            if r.measured.join.orders.checked is None:
                r.measured.join.orders.checked = arrivals
        due = [r for r in joins if arrivals >= _next_check(r.measured.join, interval)][:CHECKS]
        if not due or arrivals < _paced(joins):
            self._due = self._next(joins, interval, arrivals)
            return False
        by_join = {id(m.join): m for m in members}
        self._taken.keep([r.measured for r in joins if id(r.measured.join) in by_join])
        revision = _Revision(self._taken, by_join, arrivals)
        revision.check(due)
        self._due = self._next(joins, interval, arrivals)
        return revision.changed

    def _next(self, joins: Sequence[_Running], interval: int, arrivals: int) -> int:
        """The number of arrivals at which the next check is due."""
        next_check = min((_next_check(r.measured.join, interval) for r in joins), default=arrivals + interval)
        return max(next_check, _paced(joins))


def _paced(joins: Sequence[_Running]) -> int:
    """The number of arrivals from which on a join may be checked, by when the last ones were and how many."""
    checked = [r.measured.join.orders.checked or 0 for r in joins if r.measured.join.orders.checks]
    last = max(checked, default=-PACE)
    return last + PACE * max(1, checked.count(last))


def _adaptive(family: RunningFamily) -> list[_Running]:
    measured = (MeasuredJoin(o) for o in family.root.walk() if isinstance(o, StemJoin))
    return [_Running(family, m) for m in measured if m.adapts]


def _next_check(join: StemJoin, interval: int) -> int:
    state = join.orders
    return (state.checked or 0) + (interval // FIRST if state.basis is None else interval * state.calm)


class _Revision:
    """One pass over the joins that are due."""

    def __init__(self, taken: _TakenRoutes, members: Mapping[int, Member], arrivals: int) -> None:
        self.taken, self.members, self.arrivals, self.changed = taken, members, arrivals, False
        self.measures = StreamMeasures()

    def check(self, due: Sequence[_Running]) -> None:
        """All of them are measured before orders are searched, so that credit is given by what others need now."""
        moved = [(running, why) for running in due if (why := self._measure(running)) is not None]
        for running, why in moved:
            self._choose(running, why)

    def _measure(self, running: _Running) -> str | None:
        """Measures a join; returns why its orders should be searched, or None."""
        state, boxes = running.measured.join.orders, self._boxes(running.measured.join)
        statistics = running.measured.statistics(self.measures, running.window, self.arrivals, boxes)
        state.checks += 1
        why = "first measured"
        if state.basis is not None and len(state.basis.thetas) == len(statistics.thetas):
            moved = drift(state.basis, statistics)
            why = f"{moved.what} changed from {moved.old:.3g} to {moved.new:.3g}"
            if moved.factor <= DRIFT:
                if state.searches > 1:
                    state.calm = min(2 * state.calm, CALM)
                    return None
                why = "searched again, after other joins chose their orders"
        state.searches += 1
        state.calm, state.basis = 1, statistics
        return why

    def _boxes(self, join: StemJoin) -> list[Selections] | None:
        """By input, the selections of queries, if the join is on shared routes."""
        member = self.members.get(id(join))
        if member is None or member.known is None:
            return None
        by_input = dict(zip((member.input, *(p.input for p in member.probes)), member.known[1].boxes, strict=True))
        return [by_input[i] for i in range(len(join.children))]

    def _choose(self, running: _Running, why: str) -> None:
        measured, node = running.measured, running.measured.join.stems.node
        statistics = measured.join.orders.basis
        assert statistics is not None
        shared = self._boxes(measured.join) is not None
        graph, scanned = measured.graph(shared=shared), node.scanned
        if node.method == "hybrid":
            scanned = self._scanned(running, statistics, graph)
            statistics = _searched(statistics, scanned)
        prefixes, present = self._credits(measured, shared)
        routes = best_orders(statistics, graph, prefixes, running.schedule, measured.allowed)
        before = measured.orders
        orders, expected = list(before), list[float]()
        for route, order, paid in zip(routes, before, present, strict=True):
            costs = ProbeCosts(statistics, graph, route.origin, running.schedule)
            now = RouteSearch(costs, in_order((route.origin, *order)), paid).route()
            if node.forced is None and _is_better(route, now, measured.inputs):
                orders[route.origin] = route.probes
                change = OrderChange(self.arrivals, measured.join.orders.time, route.origin, order, route.probes, why)
                measured.join.orders.changed(change)
            expected.append(min(now.cost, route.cost) if orders[route.origin] != order else now.cost)
        measured.join.orders.costs = expected
        if shared:
            self.taken.take(measured, orders)
        if tuple(orders) != before or scanned != node.scanned:
            measured.join.reorder(orders, scanned)
            running.family.order_version += 1
            self.changed = True

    def _scanned(self, running: _Running, statistics: JoinStatistics, graph: JoinGraph) -> frozenset[int]:
        """The inputs that a hybrid join does not index: tables and subqueries, and what is beyond its limit."""
        stems = running.measured.join.stems.stems
        logs = frozenset(i for i, s in enumerate(stems) if isinstance(s, LogStem))
        offered = _searched(statistics, graph.everything - logs)
        indexed = choose_indexes(offered, graph, running.family.family.index_entries, running.schedule)
        return graph.everything - (indexed & logs)

    # credit for shared prefixes

    def _credits(self, measured: MeasuredJoin, shared: bool) -> tuple[dict[int, list[Paid]], list[Paid]]:
        """By origin, the probes that other joins make anyway; and those of them that the present orders begin with."""
        present = [NOTHING_PAID] * measured.inputs
        if not shared:
            return {}, present
        trie = self.taken.leave(measured)
        basis, prefixes = measured.join.orders.basis, {}
        selected = [1.0 if basis is None else basis.thetas[i].selectivity for i in range(measured.inputs)]
        for i, order in enumerate(measured.orders):
            prefixes[i] = trie.usable(measured.origin(i), i, measured.name_of(i), selected)
            along = [p for p in prefixes[i] if p.probes == order[: len(p.probes)]]
            present[i] = max(along, key=lambda p: len(p.probes), default=NOTHING_PAID)
        return prefixes, present


class _TakenRoutes:
    """The routes that joins take through the shared trie."""

    def __init__(self) -> None:
        self._prefixes = SharedPrefixes()
        self._of: dict[MeasuredJoin, list[_Shared]] = {}

    def keep(self, joins: Sequence[MeasuredJoin]) -> None:
        """Has the routes of these joins only."""
        for gone in self._of.keys() - set(joins):
            self.leave(gone)
        for new in joins:
            if new not in self._of:
                self.take(new, new.orders)

    def take(self, measured: MeasuredJoin, orders: Sequence[Sequence[int]]) -> None:
        """Adds the routes of a join."""
        basis, routes = measured.join.orders.basis, list[_Shared]()
        for i, order in enumerate(orders):
            bound = accumulate(order, lambda bound, new: bound | {new}, initial=frozenset((i,)))
            steps = [measured.name_of(i)(before, new) for before, new in zip(bound, order, strict=False)]
            left = [1.0] * len(order)
            if basis is not None:
                shares = [basis.thetas[j].selectivity for j in (i, *order)]
                left = list(accumulate(shares, mul))[:-1]  # by step, of the partial results that take it
            routes.append((measured.origin(i), steps, left))
            self._prefixes.add(*routes[-1])
        self._of[measured] = routes

    def leave(self, measured: MeasuredJoin) -> SharedPrefixes:
        """Removes the routes of a join; returns those of the others."""
        for route in self._of.pop(measured):
            self._prefixes.remove(*route)
        return self._prefixes


def _searched(statistics: JoinStatistics, scanned: frozenset[int]) -> JoinStatistics:
    """The statistics if some inputs are scanned and the others indexed."""
    inputs = (
        replace(i, buckets=1.0, lookup=0.0) if n in scanned else replace(i, buckets=inf, lookup=LOOKUP)
        for n, i in enumerate(statistics.inputs)
    )
    return replace(statistics, inputs=tuple(inputs))


def _is_better(route: Route, now: Route, inputs: int) -> bool:
    """Whether a route has all probes and is worth taking instead of the present one."""
    return len(route.probes) == inputs - 1 and route.cost < (1.0 - GAIN) * now.cost

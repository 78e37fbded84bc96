"""Lines of EXPLAIN ANALYZE about the routes of a join: what its steps did, and when and why its orders changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from eddyline.operators.joins.order_state import OrderState
from eddyline.operators.joins.route_counts import RouteCounts, StepCounts
from eddyline.plan.physical import StemJoin
from eddyline.routing.join_graph import JoinStatistics
from eddyline.state.delta import times

SECOND = 1e6  # microseconds


def describe_routes(node: StemJoin, counts: RouteCounts, orders: OrderState) -> list[str]:
    """`node` has the probes in force."""
    lines = [
        line for i in range(len(node.inputs)) if i != node.frozen_table for line in _route(node, counts, orders, i)
    ]
    lines.append(f"rows compared: {counts.comparisons:,}")
    if orders.basis is not None:
        lines += _statistics(orders.basis, len(node.inputs))
        changed = "; the last changes:" if orders.changes else ", never changed"
        lines.append(f"statistics measured: {orders.checks}, orders searched: {orders.searches}{changed}")
    for change in orders.changes:
        before, after = (_names(o) for o in (change.before, change.after))
        when = times(np.array([change.time], np.int64))[0].as_py()
        lines.append(
            f"  at tuple {change.arrivals:,} ({when}), input {change.origin + 1}: {before} became {after}; {change.why}"
        )
    return lines


def _route(node: StemJoin, counts: RouteCounts, orders: OrderState, i: int) -> Iterator[str]:
    probes = node.probes[i]
    why = "forced" if node.forced is not None else "as planned" if orders.basis is None else "by cost"
    cost = f", {orders.costs[i] * SECOND:,.3g} rows a second expected" if i < len(orders.costs) else ""
    yield f"input {i + 1} probes {_names(p.input for p in probes)} ({why}{cost})"
    route: tuple[int, ...] = (i,)
    for probe in probes:
        route = (*route, probe.input)
        done = counts.steps.get(route, StepCounts())
        if not done.probing:
            continue
        how = "scanned by" if probe.scans else "probed by"
        each = f"{done.compared:,} rows in their windows ({done.compared / done.probing:.3g} each)"
        kept = (
            f", {done.left / done.compared:.1%} pass its conditions"
            if probe.conditions is not None and done.compared
            else ""
        )
        yield f"  {probe.input + 1} {how} {done.probing:,} partial results: {each}{kept}"


def _statistics(basis: JoinStatistics, inputs: int) -> Iterator[str]:
    for n, of_input in enumerate(basis.inputs):
        keys = f", about {min(of_input.distinct.values()):,.0f} distinct keys" if of_input.distinct else ""
        share = basis.thetas[n].selectivity
        selected = f", {share:.1%} selected" if share < 1.0 else ""
        rate = f"{of_input.rate * SECOND:,.3g} tuples a second"
        yield f"input {n + 1} had {rate}, {of_input.rows:,.0f} rows in its window{keys}{selected}"
    for theta in basis.thetas[inputs:]:
        yield f"a condition between inputs kept {theta.selectivity:.1%}"


def _names(order: Sequence[int] | Iterator[int]) -> str:
    return ", ".join(str(i + 1) for i in order)

"""Lines of EXPLAIN ANALYZE about filters: how conditions are indexed, and the order in which rows visit attributes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from eddyline.arrays import Ints
from eddyline.index.filters.bitmaps import Bitmaps
from eddyline.index.filters.grouped_filter import GroupedFilter
from eddyline.operators.checks import Checks
from eddyline.operators.joins.ranged import RangedSide
from eddyline.operators.query_index import QueryIndex, RoutedFilter
from eddyline.plan.expressions import text
from eddyline.routing.eddy import Account
from eddyline.routing.filter_eddy import FilterEddy
from eddyline.sql.bound import Expr

MOST_TREES_NAMED = 3


def describe_index(index: QueryIndex) -> list[str]:
    """Lines about a family's own index."""
    runs = [r.index for r in index.runs.known]
    lines = [f"conditions by length of run: {', '.join(str(len(r)) for r in index.runs.known)}"] if runs else []
    lines += describe_filters(runs, index.condition.attributes)
    return lines + describe_checks(index.checks)


def describe_checks(checks: Checks) -> list[str]:
    """A line about the clauses that are evaluated, in the order in force."""
    accounts = [(checks.clauses[i], checks.eddy.account(i)) for i in checks.order()]
    if not any(account.entered for _, account in accounts):
        return []
    return ["evaluated for what is left: " + ", ".join(f"{text(c)} ({_check(account)})" for c, account in accounts)]


def describe_filters(filters: Sequence[RoutedFilter], attributes: Sequence[Expr]) -> list[str]:
    lines = []
    for routed in filters:
        lines += _trees(routed.filter, attributes)
        for eddy, maps in zip(routed.eddies, routed.filter.maps, strict=True):
            blocks = "1 block" if maps.blocks == 1 else f"{maps.blocks} blocks"
            lines.append(f"bitmaps: {len(maps.slots)} conditions in {blocks}")
            lines += [f"  {line}" for line in _order(eddy, maps, routed.lookups, attributes)]
        if routed.rows:
            sampled = sum(e.sampled for e in routed.eddies)
            lines.append(
                f"attribute lookups of {routed.rows} rows: {int(routed.lookups.sum()) - sampled} for searches, "
                f"{sampled} for samples only"
            )
    return lines


def _trees(filter_: GroupedFilter, attributes: Sequence[Expr]) -> list[str]:
    trees = sorted(filter_.trees, key=lambda x: -len(x.owners))
    lines = []
    for tree in trees[:MOST_TREES_NAMED]:
        over = ", ".join(text(attributes[a]) for a in tree.attributes.tolist())
        lines.append(f"box tree over {over}: {len(tree.owners)} boxes in {len(tree.levels)} levels")
    more = trees[MOST_TREES_NAMED:]
    if more:
        lines.append(f"{len(more)} more box trees: {sum(len(x.owners) for x in more)} boxes")
    return lines


def _order(eddy: FilterEddy, maps: Bitmaps, lookups: Ints, attributes: Sequence[Expr]) -> list[str]:
    """The attributes in the order in which rows visit them."""
    pairs = eddy.rows * maps.blocks
    if not pairs:
        return [f"{text(attributes[a])}: no row yet" for a in maps.attributes.tolist()]
    lines = []
    for g in eddy.order.tolist():
        a = int(maps.attributes[g])
        selectivity = "not known" if np.isnan(eddy.selectivity[g]) else f"{eddy.selectivity[g]:.3f}"
        lines.append(
            f"{text(attributes[a])}: entered by {eddy.entered[g] / pairs:.1%} of rows, "
            f"{maps.predicates[g]} predicates, selectivity {selectivity}, "
            f"{lookups[a]} lookups of {eddy.seconds[g] * 1e9:.0f} ns"
        )
    total = f"{eddy.entered.sum() / pairs:.2f} filters entered by a row"
    return [*lines, f"{total}; order checked {eddy.checks} times, changed {eddy.changes} times"]


def _check(account: Account) -> str:
    if not account.entered:
        return "not yet"
    return f"{account.entered} pairs, selectivity {account.selectivity:.3f}, {account.cost * 1e6:.2f} µs a pair"


def describe_ranges(side: RangedSide, name: str) -> list[str]:
    """Lines about the tuples of one input of a join over ranges."""
    if not side.runs.known:
        return []
    indexes = [r.index.groups.columns for r in side.runs.known]
    sizes = [g.stabbing.sizes for g in indexes]
    queries, groups = sum(int(s.sum()) for s in sizes), sum(len(s) for s in sizes)
    hot = sum(int(s[: g.hot].sum()) for s, g in zip(sizes, indexes, strict=True))
    share = f"{hot / queries:.0%} in {sum(g.hot for g in indexes)} hotspots" if queries else "none in a hotspot"
    lines = [f"{name} meets {queries} ranges of {side.direction.axes[0].text} in {groups} stabbing groups, {share}"]
    decisions = side.decisions
    total = sum(decisions.tuples.values())
    if total:
        shares = sorted(decisions.tuples.items(), key=lambda x: -x[1])
        chosen = ", ".join(f"{s} {n / total:.1%}" for s, n in shares)
        expected = f"{decisions.expected / total * 1e6:.2f} µs expected, " if decisions.expected else ""
        lines.append(
            f"  tuples by strategy: {chosen}; {expected}{decisions.measured / total * 1e6:.2f} µs taken a tuple"
        )
    return lines

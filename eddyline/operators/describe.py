"""Lines of EXPLAIN ANALYZE about filters: how conditions are indexed, and the current order with its tickets."""

from __future__ import annotations

from collections.abc import Sequence

from eddyline.index.filters.grouped_filter import GroupedFilter
from eddyline.operators.joins.ranged import RangedSide
from eddyline.operators.query_index import QueryIndex, RoutedFilter
from eddyline.plan.expressions import text
from eddyline.routing.eddy import Account, Eddy
from eddyline.sql.bound import Expr

MOST_TREES_NAMED = 3


def describe_index(index: QueryIndex) -> list[str]:
    """Lines about a family's own index."""
    runs = [r.index for r in index.runs.known]
    lines = [f"conditions by length of run: {', '.join(str(len(r)) for r in index.runs.known)}"] if runs else []
    lines += describe_filters(runs, index.condition.attributes)
    checks = [f"{text(index.condition.checks[i])} ({_check(index.eddy.account(i))})" for i in index.check_order()]
    if any(index.eddy.account(i).entered for i in range(len(checks))):
        lines.append("evaluated for what is left: " + ", ".join(checks))
    return lines


def describe_filters(filters: Sequence[RoutedFilter], attributes: Sequence[Expr]) -> list[str]:
    lines = []
    for routed in filters:
        lines += _trees(routed.filter, attributes)
        for maps in routed.filter.maps:
            blocks = "1 block" if maps.blocks == 1 else f"{maps.blocks} blocks"
            lines.append(f"bitmaps: {len(maps.slots)} conditions in {blocks}")
            own = maps.attributes.tolist()
            predicates = dict(zip(own, maps.predicates.tolist(), strict=True))
            order = [own[i] for i in routed.eddy.order(own)]
            for line in _order(routed.eddy, order, predicates, attributes):
                lines.append("  " + line)
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


def _order(eddy: Eddy, order: Sequence[int], predicates: dict[int, int], attributes: Sequence[Expr]) -> list[str]:
    """The attributes in the order in which rows visit them."""
    lines = []
    first = max((eddy.account(a).entered for a in order), default=0)
    for a, share in zip(order, eddy.shares(order), strict=True):
        account = eddy.account(a)
        selectivity = "not known" if account.selectivity is None else f"{account.selectivity:.3f}"
        visits = f"{account.entered / first:.1%} of rows" if first else "no row yet"
        lines.append(
            f"{text(attributes[a])}: {share:.1%} of tickets, {predicates[a]} predicates, selectivity {selectivity}, "
            f"visited by {visits}"
        )
    return lines


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

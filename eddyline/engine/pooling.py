"""Chooses the families that are matched together: small ones that only filter the same stream (`operators/pool.py`)."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping, Sequence

from eddyline.engine.running_family import RunningFamily
from eddyline.operators.pool import FEWEST_FAMILIES, MOST_QUERIES, Pool, PoolMatching
from eddyline.state.delta import Delta


def pooled(
    pools: MutableMapping[str, Pool],
    stream: str,
    batch: Delta,
    readers: Sequence[RunningFamily],
    clock_of: Callable[[RunningFamily], int],
) -> PoolMatching | None:
    """The matching of a batch with the small families among `readers`; None if there are too few of them."""
    small = [(r, r.pool_filter) for r in readers if r.pool_filter is not None and len(r.family.queries) <= MOST_QUERIES]
    if len(small) < FEWEST_FAMILIES:
        _empty(pools, stream)
        return None
    if stream not in pools:
        pools[stream] = Pool()
    try:
        matchers = {r.family.number: f.matcher for r, f in small}
        steps = {r.family.number: r.step(clock_of(r), r.family.queries.rows(), {stream: batch}) for r, _ in small}
        return pools[stream].prepare(batch, matchers, steps)
    except Exception:  # matched separately, only the family whose queries cannot be indexed fails
        _empty(pools, stream)
        return None


def _empty(pools: MutableMapping[str, Pool], stream: str) -> None:
    """Removes the queries of a pool; what it counted stays."""
    if stream in pools and pools[stream].runs:
        pools[stream] = Pool(pools[stream].lookups)

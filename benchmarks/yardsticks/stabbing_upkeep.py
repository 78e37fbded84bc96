"""The kernels of a dynamic stabbing partition: ranges join and leave groups, and are regrouped when that is due.

Columns: what is known of ranges by id, of groups by number, and of the last rebuild (`Tally`). Groups along the axis
are an order of numbers, in which they are found by where their common part ends; see `dynamic_stabbing.py`.
"""

from __future__ import annotations

from typing import NamedTuple

from benchmarks.yardsticks.range_list import FREE, USED, Blocks, Tally, add, drop, tally
from benchmarks.yardsticks.range_updates import Batch
from benchmarks.yardsticks.shifts import close_gap, open_gap
from eddyline.arrays import Ints, Ints32, Mask
from eddyline.index.runtime.kernel_cache import kernel

SIMPLE, RELAXED, WITNESSES = range(3)  # triggers
# of `Groups.counts`
RANGES, GROUPS, NEXT, SPARE, BOUNDS, TAU, LOST, UPDATES, REBUILDS, VERSION = range(10)


class Ranges(NamedTuple):
    """By id."""

    there: Mask
    low: Ints
    high: Ints
    since: Ints  # the version when it came
    joined: Ints32  # the group, if it came since the last regrouping


class Groups(NamedTuple):
    counts: Ints
    order: Ints  # numbers, along the axis
    spare: Ints  # numbers below counts[NEXT] that no group has
    first: Ints  # by number
    last: Ints
    size: Ints
    bound: Ints  # by number, as of the last regrouping: the least low end


# --- kernels ---------------------------------------------------------------------------------------------------------


@kernel
def is_full(g: Groups) -> bool:
    return bool(g.counts[SPARE] == 0 and g.counts[NEXT] == len(g.order))


@kernel
def make_updates(
    u: Batch, r: Ranges, g: Groups, b: Blocks, t: Tally, eps: float, trigger: int, group: Ints, done: int
) -> int:
    """Makes updates from `done` on; returns how many are made when it stops, at the end or for want of room."""
    for i in range(done, len(u.ids)):
        if b.counts[FREE] == 0 or is_full(g):
            return i
        if u.insert[i]:
            group[i] = _insert(u.ids[i], u.low[i], u.high[i], r, g, b)
        else:
            u.low[i], u.high[i] = r.low[u.ids[i]], r.high[u.ids[i]]
            group[i] = _remove(u.ids[i], r, g, b, t, trigger)
        g.counts[UPDATES] += 1
        if _due(g, eps, trigger):
            _rebuild(g, b, t, eps, trigger)
    return len(u.ids)


@kernel
def _insert(number: int, low: int, high: int, r: Ranges, g: Groups, b: Blocks) -> int:
    group = _join(g, low, high)
    r.there[number] = True
    r.low[number], r.high[number] = low, high
    r.since[number], r.joined[number] = g.counts[VERSION], group
    add(b, number, low, high)
    g.counts[RANGES] += 1
    return group


@kernel
def _remove(number: int, r: Ranges, g: Groups, b: Blocks, t: Tally, trigger: int) -> int:
    group = _group_of(number, r, g)
    _leave(g, group)
    r.there[number] = False
    drop(b, number, r.low[number])
    g.counts[LOST] += _loss(number, r, g, t, trigger)
    g.counts[RANGES] -= 1
    return group


@kernel
def _join(g: Groups, low: int, high: int) -> int:
    """The group that a range overlaps with, narrowed to what they have in common, or else a new one. O(log groups),
    and O(groups) moves for a new one."""
    groups = g.counts[GROUPS]
    at = _first_ending_from(g, low)
    if at == groups or g.first[g.order[at]] > high:
        return _begin(g, at, low, high)
    found = g.order[at]
    if at + 1 < groups and (low > g.first[found] or high < g.last[found]):
        following = g.order[at + 1]
        if g.last[following] <= high:  # the range holds all of it: nothing to narrow
            found = following
    g.first[found], g.last[found] = max(g.first[found], low), min(g.last[found], high)
    g.size[found] += 1
    return int(found)


@kernel
def _first_ending_from(g: Groups, point: int) -> int:
    """The place along the axis of the first group whose common part does not end before a point."""
    begin, end = 0, g.counts[GROUPS]
    while begin < end:
        middle = (begin + end) // 2
        if g.last[g.order[middle]] < point:
            begin = middle + 1
        else:
            end = middle
    return begin


@kernel
def _begin(g: Groups, at: int, low: int, high: int) -> int:
    if g.counts[SPARE] > 0:
        g.counts[SPARE] -= 1
        number = g.spare[g.counts[SPARE]]
    else:
        number = g.counts[NEXT]
        g.counts[NEXT] += 1
    open_gap(g.order, at, g.counts[GROUPS], 1)
    g.order[at] = number
    g.counts[GROUPS] += 1
    g.first[number], g.last[number], g.size[number] = low, high, 1
    return int(number)


@kernel
def _leave(g: Groups, number: int) -> None:
    g.size[number] -= 1
    if g.size[number] == 0:
        close_gap(g.order, _first_ending_from(g, g.last[number]) + 1, g.counts[GROUPS], 1)
        g.counts[GROUPS] -= 1
        g.spare[g.counts[SPARE]] = number
        g.counts[SPARE] += 1


@kernel
def _group_of(number: int, r: Ranges, g: Groups) -> int:
    """By the note of a range that came since the regrouping; else the last group whose bound is not above its low."""
    if r.since[number] == g.counts[VERSION]:
        return int(r.joined[number])
    return _last_not_above(g.bound, g.counts[BOUNDS], r.low[number])


@kernel
def _last_not_above(column: Ints, end: int, value: int) -> int:
    begin = 0
    while begin < end:
        middle = (begin + end) // 2
        if column[middle] <= value:
            begin = middle + 1
        else:
            end = middle
    return begin - 1


@kernel
def _loss(number: int, r: Ranges, g: Groups, t: Tally, trigger: int) -> int:
    """By how much tau may become less than what is known of it when a range goes."""
    if trigger == RELAXED:
        return 1 if r.since[number] < g.counts[VERSION] else 0
    at = _last_not_above(t.witness_low, g.counts[TAU], r.low[number])
    if at < 0 or t.witness[at] != number:
        return 0
    t.witness[at] = -1
    return 1


@kernel
def _due(g: Groups, eps: float, trigger: int) -> bool:
    if trigger == SIMPLE:
        return bool((eps + 2) * g.counts[UPDATES] > eps * g.counts[TAU])
    return bool(g.counts[GROUPS] > (1 + eps) * (g.counts[TAU] - g.counts[LOST]))


@kernel
def _rebuild(g: Groups, b: Blocks, t: Tally, eps: float, trigger: int) -> None:
    """Counts the groups of the canonical partition, and makes them the groups unless there is no need."""
    tau = tally(b, t)
    g.counts[REBUILDS] += 1
    g.counts[TAU], g.counts[LOST], g.counts[UPDATES] = tau, 0, 0
    if trigger == WITNESSES and g.counts[GROUPS] <= (1 + eps / 2) * tau:
        return
    g.counts[VERSION] += 1
    g.counts[GROUPS] = g.counts[NEXT] = g.counts[BOUNDS] = tau
    g.counts[SPARE] = 0
    for i in range(tau):
        g.order[i] = i
        g.bound[i], g.first[i], g.last[i], g.size[i] = t.bound[i], t.first[i], t.last[i], t.size[i]


@kernel
def find(ids: Ints, r: Ranges, g: Groups, found: Ints) -> None:
    for i in range(len(ids)):
        there = 0 <= ids[i] < len(r.there) and r.there[ids[i]]
        found[i] = _group_of(ids[i], r, g) if there else -1


@kernel
def list_by_group(b: Blocks, r: Ranges, g: Groups, at: Ints, ids: Ints) -> None:
    """Puts every id where the next of its group belongs."""
    for block in range(b.counts[USED]):
        slot = b.slot[block]
        for i in range(b.size[block]):
            number = b.ids[slot, i]
            group = _group_of(number, r, g)
            ids[at[group]] = number
            at[group] += 1

"""A stabbing partition that is kept as ranges come and go (document 4, section 2.1 and Appendix A; document 5, 4.2.3).

Ranges are closed, over integers, not empty, and known by ids. Invariant: after every update there are at most
(1 + eps) x tau groups, where tau is the least number possible. A new range joins a group if it overlaps with what the
ranges of the group have in common, which it then may narrow; otherwise it is a group of its own. So the parts in common
never overlap, and lie in order along the axis. From time to time the ranges are *regrouped* as in the canonical
partition. Between two regroupings a range stays where it is, and an update affects one group.

*Triggers* decide when. With tau0 groups at the last rebuild, that is when
- simple: there were more than eps x tau0 / (eps + 2) updates since;
- relaxed: there are more than (1 + eps) x (tau0 - m) groups, after m removals of ranges that were there then;
- witnesses: the same, where m only counts lost *witnesses*: ranges without a point in common, one for each group of the
  canonical partition. No partition has fewer groups than there are witnesses. Then tau is counted anew, and ranges are
  regrouped only if there are more than (1 + eps / 2) x tau groups; otherwise there are new witnesses, and nobody moves.

Cost: ranges lie in a sorted list of blocks (`range_list.py`), from which a rebuild takes O(tau x BLOCK + n / BLOCK) and
touches no range: those that were there belong to the group between whose bounds their low end lies, and only those that
came since have a note of where they are. As a rebuild takes Omega(eps x tau / (1 + eps)) updates to come about, it is
O((1 + eps) / eps x (BLOCK + n / (tau x BLOCK))) for each. An update itself is O(log n + BLOCK), and O(tau) moves in
memory where a group begins or ends. A range takes 29 bytes by id, and 20 in a block, which is at least a quarter full.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt
from numba import njit

from eddyline.index.range_list import (
    FREE,
    USED,
    Blocks,
    Tally,
    add,
    drop,
    empty_blocks,
    empty_tally,
    tally,
    with_more_slots,
)
from eddyline.index.range_updates import Batch, Flags, batch, check, inserts, removals, room_for
from eddyline.index.shifts import Ints, Numbers32, close_gap, longer, open_gap

Trigger = Literal["simple", "relaxed", "witnesses"]

_SIMPLE, _RELAXED, _WITNESSES = range(3)
# of `Groups.counts`
_RANGES, _GROUPS, _NEXT, _SPARE, _BOUNDS, _TAU, _LOST, _UPDATES, _REBUILDS, _VERSION = range(10)


class Ranges(NamedTuple):
    """By id."""

    there: Flags
    low: Ints
    high: Ints
    since: Ints  # the version when it came
    joined: Numbers32  # the group, if it came since the last regrouping


class Groups(NamedTuple):
    counts: Ints
    order: Ints  # numbers, along the axis
    spare: Ints  # numbers below counts[_NEXT] that no group has
    first: Ints  # by number
    last: Ints
    size: Ints
    bound: Ints  # by number, as of the last regrouping: the least low end


@dataclass(frozen=True)
class Updates:
    """By update: the group that the range joined or left, as of then, and the ends of the range."""

    group: Ints
    low: Ints
    high: Ints


class DynamicPartition:
    """Groups have numbers, which they keep until `version` changes: then all ranges were regrouped."""

    def __init__(self, eps: float = 1.0, trigger: Trigger = "witnesses") -> None:
        if not eps > 0:
            raise ValueError(f"eps must be above 0, got {eps}")
        self.eps = float(eps)
        self.trigger = trigger
        self._trigger = get_args(Trigger).index(trigger)
        self._blocks = empty_blocks()
        self._tally = empty_tally(0)
        none = np.empty(0, np.int64)
        self._groups = Groups(np.zeros(10, np.int64), none, none, none, none, none, none)
        self._groups.counts[_VERSION] = 1
        self._ranges = Ranges(np.empty(0, np.bool_), none, none, none, np.empty(0, np.int32))

    def __len__(self) -> int:
        """How many groups there are."""
        return int(self._groups.counts[_GROUPS])

    @property
    def ranges(self) -> int:
        """How many ranges there are."""
        return int(self._groups.counts[_RANGES])

    @property
    def version(self) -> int:
        """One more with every regrouping."""
        return int(self._groups.counts[_VERSION])

    @property
    def rebuilds(self) -> int:
        """How often the canonical partition was found; ranges were regrouped version - 1 times."""
        return int(self._groups.counts[_REBUILDS])

    @property
    def numbers(self) -> Ints:
        """The groups along the axis."""
        return self._groups.order[: len(self)].copy()

    @property
    def first(self) -> Ints:
        """By group along the axis: all its ranges hold what is between first and last."""
        return self._groups.first[self.numbers]

    @property
    def last(self) -> Ints:
        return self._groups.last[self.numbers]

    @property
    def sizes(self) -> Ints:
        return self._groups.size[self.numbers]

    @property
    def nbytes(self) -> int:
        """Bytes held, spare room included."""
        return sum(c.nbytes for part in (self._blocks, self._tally, self._groups, self._ranges) for c in part)

    def insert(self, ids: npt.ArrayLike, low: npt.ArrayLike, high: npt.ArrayLike) -> Updates:
        """Ranges low … high under ids that are not there."""
        return self.apply(inserts(ids, low, high))

    def remove(self, ids: npt.ArrayLike) -> Updates:
        return self.apply(removals(ids))

    def update(self, insert: npt.ArrayLike, ids: npt.ArrayLike, low: npt.ArrayLike, high: npt.ArrayLike) -> Updates:
        """A sequence of inserts and removals."""
        return self.apply(batch(insert, ids, low, high))

    def apply(self, updates: Batch) -> Updates:
        """One after the other. All are possible, or none is made."""
        room = room_for(updates, len(self._ranges.there))
        if room > len(self._ranges.there):
            self._ranges = Ranges(*(longer(column, room) for column in self._ranges))
        check(updates, self._ranges.there)
        group = np.empty(len(updates.ids), np.int64)
        done = 0
        while True:  # the kernel stops at the first update it has no room for
            done = _update(
                updates, self._ranges, self._groups, self._blocks, self._tally, self.eps, self._trigger, group, done
            )
            if done == len(updates.ids):
                return Updates(group, updates.low, updates.high)
            self._make_room()

    def group_of(self, ids: npt.ArrayLike) -> Ints:
        """The number of every range's group; -1 for ids that are not there. O(log tau) each."""
        ids = np.array(ids, np.int64, ndmin=1)
        found = np.empty(len(ids), np.int64)
        _find(ids, self._ranges, self._groups, found)
        return found

    def ends(self, ids: Ints) -> tuple[Ints, Ints]:
        """The low and high ends of ranges that are there."""
        return self._ranges.low[ids], self._ranges.high[ids]

    def members(self, group: int) -> Ints:
        """The ids in a group, by number, in order of low end. O(n log tau) for any."""
        starts, ids = self.by_group()
        at = np.nonzero(self.numbers == group)[0]
        if not len(at):
            raise KeyError(f"no group has the number {group}")
        return ids[starts[at[0]] : starts[at[0] + 1]]

    def by_group(self) -> tuple[Ints, Ints]:
        """All ids by group along the axis, then by low end; those of the i-th are at starts[i] … starts[i + 1].
        O(n log tau)."""
        starts = np.append(0, np.cumsum(self.sizes))
        ids = np.empty(self.ranges, np.int64)
        at = np.zeros(len(self._groups.size), np.int64)
        at[self.numbers] = starts[:-1]
        _list(self._blocks, self._ranges, self._groups, at, ids)
        return starts, ids

    def _make_room(self) -> None:
        """For one update more, and some to spare."""
        if self._blocks.counts[FREE] == 0:
            self._blocks = with_more_slots(self._blocks)
        if _full(self._groups):
            room = 2 * len(self._groups.order) + 16
            self._groups = Groups(self._groups.counts, *(longer(column, room) for column in self._groups[1:]))
            self._tally = Tally(*(longer(column, room) for column in self._tally))


# --- kernels ---------------------------------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _full(g: Groups) -> bool:
    return bool(g.counts[_SPARE] == 0 and g.counts[_NEXT] == len(g.order))


@njit(cache=True, nogil=True)
def _update(
    u: Batch, r: Ranges, g: Groups, b: Blocks, t: Tally, eps: float, trigger: int, group: Ints, done: int
) -> int:
    """Makes updates from `done` on; returns how many are made when it stops, at the end or for want of room."""
    for i in range(done, len(u.ids)):
        if b.counts[FREE] == 0 or _full(g):
            return i
        if u.insert[i]:
            group[i] = _insert(u.ids[i], u.low[i], u.high[i], r, g, b)
        else:
            u.low[i], u.high[i] = r.low[u.ids[i]], r.high[u.ids[i]]
            group[i] = _remove(u.ids[i], r, g, b, t, trigger)
        g.counts[_UPDATES] += 1
        if _due(g, eps, trigger):
            _rebuild(g, b, t, eps, trigger)
    return len(u.ids)


@njit(cache=True, nogil=True)
def _insert(number: int, low: int, high: int, r: Ranges, g: Groups, b: Blocks) -> int:
    group = _join(g, low, high)
    r.there[number] = True
    r.low[number], r.high[number] = low, high
    r.since[number], r.joined[number] = g.counts[_VERSION], group
    add(b, number, low, high)
    g.counts[_RANGES] += 1
    return group


@njit(cache=True, nogil=True)
def _remove(number: int, r: Ranges, g: Groups, b: Blocks, t: Tally, trigger: int) -> int:
    group = _group_of(number, r, g)
    _leave(g, group)
    r.there[number] = False
    drop(b, number, r.low[number])
    g.counts[_LOST] += _loss(number, r, g, t, trigger)
    g.counts[_RANGES] -= 1
    return group


@njit(cache=True, nogil=True)
def _join(g: Groups, low: int, high: int) -> int:
    """The group that a range overlaps with, narrowed to what they have in common, or else a new one. O(log groups),
    and O(groups) moves for a new one."""
    groups = g.counts[_GROUPS]
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


@njit(cache=True, nogil=True)
def _first_ending_from(g: Groups, point: int) -> int:
    """The place along the axis of the first group whose common part does not end before a point."""
    begin, end = 0, g.counts[_GROUPS]
    while begin < end:
        middle = (begin + end) // 2
        if g.last[g.order[middle]] < point:
            begin = middle + 1
        else:
            end = middle
    return begin


@njit(cache=True, nogil=True)
def _begin(g: Groups, at: int, low: int, high: int) -> int:
    if g.counts[_SPARE] > 0:
        g.counts[_SPARE] -= 1
        number = g.spare[g.counts[_SPARE]]
    else:
        number = g.counts[_NEXT]
        g.counts[_NEXT] += 1
    open_gap(g.order, at, g.counts[_GROUPS], 1)
    g.order[at] = number
    g.counts[_GROUPS] += 1
    g.first[number], g.last[number], g.size[number] = low, high, 1
    return int(number)


@njit(cache=True, nogil=True)
def _leave(g: Groups, number: int) -> None:
    g.size[number] -= 1
    if g.size[number] == 0:
        close_gap(g.order, _first_ending_from(g, g.last[number]) + 1, g.counts[_GROUPS], 1)
        g.counts[_GROUPS] -= 1
        g.spare[g.counts[_SPARE]] = number
        g.counts[_SPARE] += 1


@njit(cache=True, nogil=True)
def _group_of(number: int, r: Ranges, g: Groups) -> int:
    """By the note of a range that came since the regrouping; else the last group whose bound is not above its low."""
    if r.since[number] == g.counts[_VERSION]:
        return int(r.joined[number])
    return _last_not_above(g.bound, g.counts[_BOUNDS], r.low[number])


@njit(cache=True, nogil=True)
def _last_not_above(column: Ints, end: int, value: int) -> int:
    begin = 0
    while begin < end:
        middle = (begin + end) // 2
        if column[middle] <= value:
            begin = middle + 1
        else:
            end = middle
    return begin - 1


@njit(cache=True, nogil=True)
def _loss(number: int, r: Ranges, g: Groups, t: Tally, trigger: int) -> int:
    """By how much tau may become less than what is known of it when a range goes."""
    if trigger == _RELAXED:
        return 1 if r.since[number] < g.counts[_VERSION] else 0
    at = _last_not_above(t.witness_low, g.counts[_TAU], r.low[number])
    if at < 0 or t.witness[at] != number:
        return 0
    t.witness[at] = -1
    return 1


@njit(cache=True, nogil=True)
def _due(g: Groups, eps: float, trigger: int) -> bool:
    if trigger == _SIMPLE:
        return bool((eps + 2) * g.counts[_UPDATES] > eps * g.counts[_TAU])
    return bool(g.counts[_GROUPS] > (1 + eps) * (g.counts[_TAU] - g.counts[_LOST]))


@njit(cache=True, nogil=True)
def _rebuild(g: Groups, b: Blocks, t: Tally, eps: float, trigger: int) -> None:
    """Counts the groups of the canonical partition, and makes them the groups unless there is no need."""
    tau = tally(b, t)
    g.counts[_REBUILDS] += 1
    g.counts[_TAU], g.counts[_LOST], g.counts[_UPDATES] = tau, 0, 0
    if trigger == _WITNESSES and g.counts[_GROUPS] <= (1 + eps / 2) * tau:
        return
    g.counts[_VERSION] += 1
    g.counts[_GROUPS] = g.counts[_NEXT] = g.counts[_BOUNDS] = tau
    g.counts[_SPARE] = 0
    for i in range(tau):
        g.order[i] = i
        g.bound[i], g.first[i], g.last[i], g.size[i] = t.bound[i], t.first[i], t.last[i], t.size[i]


@njit(cache=True, nogil=True)
def _find(ids: Ints, r: Ranges, g: Groups, found: Ints) -> None:
    for i in range(len(ids)):
        there = 0 <= ids[i] < len(r.there) and r.there[ids[i]]
        found[i] = _group_of(ids[i], r, g) if there else -1


@njit(cache=True, nogil=True)
def _list(b: Blocks, r: Ranges, g: Groups, at: Ints, ids: Ints) -> None:
    """Puts every id where the next of its group belongs."""
    for block in range(b.counts[USED]):
        slot = b.slot[block]
        for i in range(b.size[block]):
            number = b.ids[slot, i]
            group = _group_of(number, r, g)
            ids[at[group]] = number
            at[group] += 1

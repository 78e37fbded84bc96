"""Hotspots: the large groups of a stabbing partition, maintained under inserts and removals (document 4, section 2.2).

Of n ranges, those in groups of at least about alpha x n are *hot*, the others *scattered*, and each kind can be
processed in its own way. A new range joins a hot group if it can, or else the scattered ones, which are a partition of
their own. Invariants, after every call:

- I1: every group of at least alpha x n ranges is hot, and every hot group has at least (alpha / 2) x n. A hot group
  that falls below is demoted: its ranges are inserted among the scattered. A scattered group that reaches alpha x n is
  promoted. The leeway between the two keeps groups from going back and forth.
- I2: there are at most (1 + eps) x tau + 2 / alpha groups, where tau is the least number possible.
- I3: ranges moved between hot and scattered, by promotion or demotion, at most 5 times as often as there were updates.

A batch is routed first, then groups are promoted and demoted once. The argument for I3 allows it: it only compares what
a group had when it was promoted with what it has when it is demoted, whenever that is looked at.

Cost: O(1 / alpha) for each insert, which tries all hot groups; O(groups) for each call, to see whether any became too
small or too large, as n changes for all of them; and O(n) for a call that promotes or demotes, which moves at least
alpha x n ranges, or follows that much change since the promotion: amortised O(1 / alpha) for each update.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from benchmarks.yardsticks.dynamic_stabbing import DynamicPartition, Trigger
from benchmarks.yardsticks.range_updates import Batch, batch, check, inserts, removals, room_for
from benchmarks.yardsticks.shifts import longer
from eddyline.arrays import Ints, Ints32, Mask
from eddyline.index.runtime.kernel_cache import kernel

SCATTERED = -1


class HotGroups(NamedTuple):
    """By number. Common parts may overlap, and be those of scattered groups."""

    first: Ints
    last: Ints
    size: Ints  # 0 for numbers that no group has


class HotRanges(NamedTuple):
    """By id; of a scattered range too, so that it costs nothing to be promoted."""

    there: Mask
    low: Ints
    high: Ints
    group: Ints32  # SCATTERED for ids that are not in a hot group


@dataclass(frozen=True)
class HotUpdates:
    """By update: the hot group that the range joined or left, or -1; and the ends of the range.

    Then groups were demoted, and then others promoted: (number, ids) each, the ids in order."""

    group: Ints
    low: Ints
    high: Ints
    demoted: list[tuple[int, Ints]]
    promoted: list[tuple[int, Ints]]


class Hotspots:
    """Hot groups have numbers, which they keep until they are demoted; `scattered` is a partition of the rest."""

    def __init__(self, alpha: float, eps: float = 1.0, trigger: Trigger = "witnesses") -> None:
        if not 0 < alpha <= 1:
            raise ValueError(f"alpha must be above 0 and at most 1, got {alpha}")
        self.alpha = float(alpha)
        self.scattered = DynamicPartition(eps, trigger)
        self.updates = 0
        self.moves = 0  # of ranges between hot and scattered
        self._hot = HotGroups(*(np.zeros(4, np.int64) for _ in range(3)))
        none = np.empty(0, np.int64)
        self._ranges = HotRanges(np.empty(0, np.bool_), none, none, np.empty(0, np.int32))

    def __len__(self) -> int:
        """How many groups there are, hot and scattered."""
        return len(self.numbers) + len(self.scattered)

    @property
    def ranges(self) -> int:
        return int(self._hot.size.sum()) + self.scattered.ranges

    @property
    def numbers(self) -> Ints:
        """The hot groups."""
        return np.nonzero(self._hot.size)[0]

    @property
    def first(self) -> Ints:
        """By hot group: all its ranges hold what is between first and last."""
        return self._hot.first[self.numbers]

    @property
    def last(self) -> Ints:
        return self._hot.last[self.numbers]

    @property
    def sizes(self) -> Ints:
        return self._hot.size[self.numbers]

    def insert(self, ids: npt.ArrayLike, low: npt.ArrayLike, high: npt.ArrayLike) -> HotUpdates:
        """Ranges low … high under ids that are not there."""
        return self.apply(inserts(ids, low, high))

    def remove(self, ids: npt.ArrayLike) -> HotUpdates:
        return self.apply(removals(ids))

    def update(self, insert: npt.ArrayLike, ids: npt.ArrayLike, low: npt.ArrayLike, high: npt.ArrayLike) -> HotUpdates:
        """A sequence of inserts and removals."""
        return self.apply(batch(insert, ids, low, high))

    def apply(self, updates: Batch) -> HotUpdates:
        """One after the other. All are possible, or none is made."""
        before = len(self._ranges.there)
        room = room_for(updates, before)
        if room > before:
            self._ranges = HotRanges(*(longer(column, room) for column in self._ranges))
            self._ranges.group[before:] = SCATTERED
        check(updates, self._ranges.there)
        group = np.empty(len(updates.ids), np.int64)
        _route(updates, self._ranges, self._hot, group)
        self.scattered.apply(Batch(*(column[group == SCATTERED] for column in updates)))
        self.updates += len(updates.ids)
        demoted = self._demote()
        return HotUpdates(group, updates.low, updates.high, demoted, self._promote())

    def hot_group_of(self, ids: npt.ArrayLike) -> Ints:
        """The number of every range's hot group, or -1 if it is in none."""
        ids = np.array(ids, np.int64, ndmin=1)
        found = np.full(len(ids), SCATTERED, np.int64)
        known = (ids >= 0) & (ids < len(self._ranges.group))
        found[known] = self._ranges.group[ids[known]]
        return found

    def members(self, group: int) -> Ints:
        """The ids in a hot group, ascending. O(ids)."""
        return np.nonzero(self._ranges.group == group)[0]

    def _demote(self) -> list[tuple[int, Ints]]:
        """Groups that are too small go to the scattered ranges; of groups that are empty the number is free."""
        small = np.nonzero((self._hot.size > 0) & (self._hot.size < self.alpha / 2 * self.ranges))[0]
        demoted = [(int(group), self.members(int(group))) for group in small]
        for group, ids in demoted:
            self._hot.size[group] = 0
            self._ranges.group[ids] = SCATTERED
            self.scattered.insert(ids, self._ranges.low[ids], self._ranges.high[ids])
            self.moves += len(ids)
        return demoted

    def _promote(self) -> list[tuple[int, Ints]]:
        """Scattered groups that are too large become hot. When their ranges are gone the rest may be regrouped, and
        others become too large; but every time fewer ranges are left."""
        promoted: list[tuple[int, Ints]] = []
        while True:
            part = self.scattered
            sizes = part.sizes
            large = np.nonzero(sizes >= self.alpha * self.ranges)[0] if len(sizes) else sizes
            if not len(large):
                return promoted
            first, last = part.first, part.last
            starts, ids = part.by_group()
            groups = [(self._number(first[i], last[i], sizes[i]), ids[starts[i] : starts[i + 1]]) for i in large]
            for group, members in groups:
                self._ranges.group[members] = group
                self.moves += len(members)
            part.remove(np.concatenate([members for _, members in groups]))
            promoted += [(group, np.sort(members)) for group, members in groups]

    def _number(self, first: int, last: int, size: int) -> int:
        """The number of a new hot group."""
        free = np.nonzero(self._hot.size == 0)[0]
        if not len(free):
            free = np.array([len(self._hot.size)])
            self._hot = HotGroups(*(longer(column, 2 * len(column)) for column in self._hot))
        for column, value in zip(self._hot, (first, last, size), strict=True):
            column[free[0]] = value
        return int(free[0])


# --- kernels ---------------------------------------------------------------------------------------------------------


@kernel
def _route(u: Batch, r: HotRanges, hot: HotGroups, group: Ints) -> None:
    """Makes the updates of hot groups, and tells which ones are left to the scattered ranges."""
    for i in range(len(u.ids)):
        number = u.ids[i]
        if u.insert[i]:
            group[i] = _join(u.low[i], u.high[i], hot)
            r.there[number] = True
            r.low[number], r.high[number], r.group[number] = u.low[i], u.high[i], group[i]
        else:
            u.low[i], u.high[i] = r.low[number], r.high[number]
            group[i] = r.group[number]
            r.there[number] = False
            r.group[number] = SCATTERED
            if group[i] != SCATTERED:
                hot.size[group[i]] -= 1


@kernel
def _join(low: int, high: int, hot: HotGroups) -> int:
    """The hot group that a range overlaps with, if possible one whose common part it holds; narrowed accordingly.
    O(hot groups)."""
    found = SCATTERED
    for g in range(len(hot.size)):
        if hot.size[g] > 0 and hot.first[g] <= high and hot.last[g] >= low:
            found = g
            if low <= hot.first[g] and hot.last[g] <= high:
                break
    if found != SCATTERED:
        hot.first[found], hot.last[found] = max(hot.first[found], low), min(hot.last[found], high)
        hot.size[found] += 1
    return found

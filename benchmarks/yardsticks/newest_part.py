"""The newest queries of range joins, where adds and drops land: groups that change, beside the product's runs.

    PartitionPart   every range is in a group of the dynamic stabbing partition
    HotspotPart     ranges in hotspots are in groups; the scattered rest is one list by low end
    RunsPart        the product's way: runs of groups that never change, each at least `growth` times as long as the
                    next; dropped queries are flags

Each counts the queries that a tuple affects: group by group from the rows nearest to the group's point, that is a first
part of the group by low ends and one by high ends; of these, queries that accept the tuple's own attribute. Scattered
ranges search for a row one by one. All give the same counts. (Document 4, sections 2.1, 2.2 and 3.)

Invariant of the first two: a probe reads columns that hold the ranges after the last update. The first probe after an
update gathers them from the lists of the groups: it copies O(n), and takes some microseconds a group.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from benchmarks.yardsticks.band_lists import BandLists, SortedRanges
from benchmarks.yardsticks.hotspots import SCATTERED, Hotspots
from benchmarks.yardsticks.stabbing_sets import StabbingSets
from eddyline.arrays import Ints, Ints32
from eddyline.index.ranges.prefix_sets import rank
from eddyline.index.ranges.probes import Arrivals, Axes, Partners, Probes, Visibility, join_headers, segment_header
from eddyline.index.ranges.range_groups import RangeGroups, as_words, range_groups
from eddyline.index.ranges.range_search import SSI, affected
from eddyline.index.runtime.kernel_cache import kernel

EPS = 1.0
ALPHA = 0.01  # of the newest part: a few dozen hotspots


class Members(NamedTuple):
    """Ranges by group along the axis; group g has those at starts[g] … starts[g + 1]."""

    points: Ints
    starts: Ints
    low: Ints  # ascending within a group
    by_low: Ints32  # ids
    high: Ints  # ~high, ascending within a group
    low_of: Ints  # by ~high
    by_high: Ints32  # ids


class Scattered(NamedTuple):
    """Ranges in no group, by low end."""

    low: Ints
    high: Ints
    ids: Ints32


class Tuples(NamedTuple):
    """Tuples with the rows they may join with, at begin … end of the places; places ascend."""

    places: Ints
    begin: Ints
    end: Ints
    shift: Ints
    own: Ints


NOBODY = np.empty(0, np.uint64)
AXIS = Axes(np.zeros(1, np.uint8), np.ones(1, np.int64))
NONE = Scattered(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int32))


class GroupedPart(ABC):
    """What the two candidates share; `own` has by id what the queries accept, or is empty."""

    def __init__(self, own: tuple[Ints, Ints]) -> None:
        self.own = own
        self._columns: tuple[Members, Scattered] | None = None

    def update(self, new: Ints, gone: Ints, low: Ints, high: Ints) -> None:
        """Adds and removes ids; the ends are by id."""
        self._columns = None
        insert, ids = np.arange(len(new) + len(gone)) < len(new), np.append(new, gone)
        self._update(insert, ids, low[ids], high[ids])

    def count(self, tuples: Tuples) -> Ints:
        """How many queries each tuple affects."""
        if self._columns is None:
            self._columns = self._gathered()
        counts = np.zeros(len(tuples.begin), np.int64)
        _count(*self._columns, tuples, *self.own, counts)
        return counts

    @abstractmethod
    def _update(self, insert: np.ndarray, ids: Ints, low: Ints, high: Ints) -> None:
        """Inserts or removes ids with the ranges low … high."""

    @abstractmethod
    def _gathered(self) -> tuple[Members, Scattered]:
        """The columns that the kernel counts from."""


class PartitionPart(GroupedPart):
    def __init__(self, own: tuple[Ints, Ints]) -> None:
        super().__init__(own)
        self.groups = StabbingSets(BandLists, EPS)

    def _update(self, insert: np.ndarray, ids: Ints, low: Ints, high: Ints) -> None:
        self.groups.update(insert, ids, low, high)

    def _gathered(self) -> tuple[Members, Scattered]:
        return _members([(first, lists) for first, _, lists in self.groups]), NONE


class HotspotPart(GroupedPart):
    def __init__(self, own: tuple[Ints, Ints]) -> None:
        super().__init__(own)
        self.hotspots = Hotspots(ALPHA, EPS)
        self.groups: dict[int, BandLists] = {}
        none = np.empty(0, np.int64)
        self.scattered = SortedRanges(none, none, none)

    def _update(self, insert: np.ndarray, ids: Ints, low: Ints, high: Ints) -> None:
        made = self.hotspots.update(insert, ids, low, high)
        for chosen, adds in ((insert, True), (~insert, False)):
            for group in np.unique(made.group[chosen]).tolist():
                at = chosen & (made.group == group)
                self._move(group, ids[at], low[at], high[at], adds=adds)
        for group, members in made.demoted:
            del self.groups[group]
            self._move(SCATTERED, members, *self._ends(members), adds=True)
        for group, members in made.promoted:
            self._move(SCATTERED, members, *self._ends(members), adds=False)
            self.groups[group] = BandLists(members, *self._ends(members))
        for group in set(self.groups) - set(self.hotspots.numbers.tolist()):
            del self.groups[group]

    def _move(self, group: int, ids: Ints, low: Ints, high: Ints, *, adds: bool) -> None:
        if group == SCATTERED and adds:
            self.scattered.insert(ids, low, high)
        elif group == SCATTERED:
            self.scattered.remove(ids, low)
        elif adds:
            self.groups[group].insert(ids, low, high)
        else:
            self.groups[group].remove(ids, low, high)

    def _ends(self, ids: Ints) -> tuple[Ints, Ints]:
        return self.hotspots._ranges.low[ids], self.hotspots._ranges.high[ids]

    def _gathered(self) -> tuple[Members, Scattered]:
        hot = self.hotspots
        by_place = sorted(zip(hot.first.tolist(), hot.numbers.tolist(), strict=True))
        return _members([(first, self.groups[g]) for first, g in by_place]), Scattered(*self.scattered.columns())


class RunsPart:
    """Ids ascend from update to update, and stand in the runs in that order."""

    def __init__(self, own: tuple[Ints, Ints], places: Ints, growth: float) -> None:
        self.own, self.growth = own, growth
        self.runs: list[tuple[Ints, RangeGroups]] = []
        self.alive = np.zeros(0, np.bool_)
        always = np.zeros(len(places), np.int64)
        self._rows = np.stack([always, always + 1, always, places])
        self._headers = join_headers([segment_header(self._rows, 1)])

    def update(self, new: Ints, gone: Ints, low: Ints, high: Ints) -> None:
        if not len(self.alive):
            self.alive = np.zeros(len(low), np.bool_)
        self.alive[new], self.alive[gone] = True, False
        while self.runs and len(self.runs[-1][0]) < self.growth * len(new):
            new = np.append(self.runs.pop()[0], new)
        new = new[self.alive[new]]
        own = [(self.own[0][new], self.own[1][new])] if len(self.own[0]) else []
        self.runs.append((new, range_groups(new, low[None, new], high[None, new], own)))

    def count(self, tuples: Tuples) -> Ints:
        n = len(tuples.begin)
        zero = np.zeros(n, np.int64)
        own = np.stack([tuples.own, ~tuples.own]) if len(self.own[0]) else np.empty((0, n), np.int64)
        arrivals = Arrivals(tuples.shift[None, :], zero, zero, zero, own)
        probes = Probes(AXIS, arrivals, Partners(self._headers, tuples.begin[None, :], tuples.end[None, :]))
        counts = zero.copy()
        for ids, groups in self.runs:
            alive = self.alive[ids].all()
            registered = NOBODY if alive else as_words((groups.slots >= 0) & self.alive[groups.slots])
            visibility = Visibility(registered, NOBODY, np.zeros(len(groups.slots), np.int64))
            counts += affected(groups, probes, visibility, np.full(n, SSI, np.uint8), listing=False)[0]
        return counts


def _members(groups: Iterable[tuple[int, BandLists]]) -> Members:
    points, lists = [], []
    for point, group in groups:
        points.append(point)
        lists.append((*group._by_low.columns(), *group._by_high.columns()))
    starts = np.append(0, np.cumsum([len(c[0]) for c in lists], dtype=np.int64))
    if not lists:
        none = np.empty(0, np.int64)
        return Members(none, starts, none, NONE.ids, none, none, NONE.ids)
    low, _, by_low, high, low_of, by_high = (np.concatenate([c[i] for c in lists]) for i in range(6))
    return Members(np.array(points, np.int64), starts, low, by_low, high, low_of, by_high)


# --- kernels ---------------------------------------------------------------------------------------------------------


@kernel
def _count(m: Members, rest: Scattered, t: Tuples, own_low: Ints, own_high: Ints, counts: Ints) -> None:
    """O(groups · log rows + candidates) for a tuple, and O(scattered · log rows)."""
    with_own = len(own_low) > 0
    for i in range(len(counts)):
        first, last, by, own = t.begin[i], t.end[i], t.shift[i], t.own[i]
        if first == last:
            continue
        at, found = first, 0
        for g in range(len(m.points)):
            begin, end = m.starts[g], m.starts[g + 1]
            at = _behind(t.places, at, last, m.points[g] + by)
            below = t.places[at - 1] - by if at > first else np.int64(-(2**63))
            first_part = rank(m.low, begin, end, below) if at > first else 0
            if with_own:
                for k in range(begin, begin + first_part):
                    q = m.by_low[k]
                    found += (own_low[q] <= own) & (own <= own_high[q])
            else:
                found += first_part
            if at < last and begin + first_part < end:
                for k in range(begin, begin + rank(m.high, begin, end, ~(t.places[at] - by))):
                    if with_own:
                        q = m.by_high[k]
                        found += (m.low_of[k] > below) & (own_low[q] <= own) & (own <= own_high[q])
                    else:
                        found += m.low_of[k] > below
        for k in range(len(rest.low)):
            q = rest.ids[k]
            if with_own and (own < own_low[q] or own > own_high[q]):
                continue
            p = _behind(t.places, first, last, rest.low[k] + by - 1)
            found += p < last and t.places[p] <= rest.high[k] + by
        counts[i] = found


@kernel
def _behind(places: Ints, at: int, end: int, x: int) -> int:
    """The first place above x, from `at` on."""
    step = 1
    while at + step <= end and places[at + step - 1] <= x:
        at += step
        step *= 2
    n = min(step, end - at)
    while n > 0:
        half = n >> 1
        if places[at + half] <= x:
            at += half + 1
            n -= half + 1
        else:
            n = half
    return at

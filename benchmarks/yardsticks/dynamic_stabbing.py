"""A stabbing partition under inserts and removals (document 4, section 2.1, Appendix A; document 5, chapter 4).

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
moves no range: those that were there belong to the group between whose bounds their low end lies, and only those that
came since have a note of where they are. As a rebuild takes Omega(eps x tau / (1 + eps)) updates to come about, it is
O((1 + eps) / eps x (BLOCK + n / (tau x BLOCK))) for each. An update itself is O(log n + BLOCK), and O(tau) moves in
memory where a group begins or ends. A range takes 29 bytes by id, and 20 in a block; a quarter of the blocks is in use
at least.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from benchmarks.yardsticks.range_list import FREE, Tally, empty_blocks, empty_tally, with_more_slots
from benchmarks.yardsticks.range_updates import Batch, batch, check, inserts, removals, room_for
from benchmarks.yardsticks.shifts import longer
from benchmarks.yardsticks.stabbing_upkeep import (
    GROUPS,
    RANGES,
    REBUILDS,
    VERSION,
    Groups,
    Ranges,
    find,
    is_full,
    list_by_group,
    make_updates,
)
from eddyline.arrays import Ints

Trigger = Literal["simple", "relaxed", "witnesses"]


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
        self._groups.counts[VERSION] = 1
        self._ranges = Ranges(np.empty(0, np.bool_), none, none, none, np.empty(0, np.int32))

    def __len__(self) -> int:
        """How many groups there are."""
        return int(self._groups.counts[GROUPS])

    @property
    def ranges(self) -> int:
        """How many ranges there are."""
        return int(self._groups.counts[RANGES])

    @property
    def version(self) -> int:
        """One more with every regrouping."""
        return int(self._groups.counts[VERSION])

    @property
    def rebuilds(self) -> int:
        """How often the canonical partition was found; ranges were regrouped version - 1 times."""
        return int(self._groups.counts[REBUILDS])

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
            done = make_updates(
                updates, self._ranges, self._groups, self._blocks, self._tally, self.eps, self._trigger, group, done
            )
            if done == len(updates.ids):
                return Updates(group, updates.low, updates.high)
            self._make_room()

    def group_of(self, ids: npt.ArrayLike) -> Ints:
        """The number of every range's group; -1 for ids that are not there. O(log tau) each."""
        ids = np.array(ids, np.int64, ndmin=1)
        found = np.empty(len(ids), np.int64)
        find(ids, self._ranges, self._groups, found)
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
        list_by_group(self._blocks, self._ranges, self._groups, at, ids)
        return starts, ids

    def _make_room(self) -> None:
        """For one update more, and some to spare."""
        if self._blocks.counts[FREE] == 0:
            self._blocks = with_more_slots(self._blocks)
        if is_full(self._groups):
            room = 2 * len(self._groups.order) + 16
            self._groups = Groups(self._groups.counts, *(longer(column, room) for column in self._groups[1:]))
            self._tally = Tally(*(longer(column, room) for column in self._tally))

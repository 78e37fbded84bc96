"""A calendar: when each slot of an operator must be processed again, and which slots are due at the clock.

`wake` has the instant by slot, MAX for none. Entries (instant, slot) are partitioned by instant, in partitions that
double in width with the distance from the clock: a radix heap (`index/timelines/time_partitions.py`). Invariant: every
slot with an instant has an entry for it. An entry whose slot has been given another instant is stale; it is dropped
when it is reached, so that rescheduling deletes nothing.

Cost: scheduling takes O(1) an entry. Taking what is due reads the partitions before that of the clock, and that one,
whose later entries move to narrower partitions: an entry moves at most once for every bit of the time that it waits.
When entries outnumber slots too far, and when slots are dropped, the calendar is built anew without stale entries.
(Document 3, section 5.3.2: state partitioned by expiration time.)
"""

from __future__ import annotations

import numpy as np

from eddyline.arrays import Ints, Mask
from eddyline.index.keys.string_table import enlarged
from eddyline.index.runtime.garbage import worth_compacting
from eddyline.index.timelines.time_partitions import PARTITIONS, partition_of, partitions_of
from eddyline.state.delta import MAX
from eddyline.state.store.growing import GrowingArray

_BEFORE_ALL = int(np.iinfo(np.int64).min)
_MOST_SLOTS = 2**31 - 1  # entries have slots of 32 bits


class Calendar:
    def __init__(self) -> None:
        self.wake: Ints = np.empty(0, np.int64)
        self._build()

    def _build(self) -> None:
        self._clock = _BEFORE_ALL
        self._partitions: dict[int, tuple[GrowingArray, GrowingArray]] = {}  # instants and slots, where there are any
        self._sizes = [0] * PARTITIONS  # entries, by partition
        slots = np.nonzero(self.wake < MAX)[0]
        self._add(self.wake[slots], slots)

    def __len__(self) -> int:
        """The number of entries, stale ones among them."""
        return sum(self._sizes)

    @property
    def nbytes(self) -> int:
        return self.wake.nbytes + sum(a.nbytes for of_one in self._partitions.values() for a in of_one)

    def grow(self, slots: int) -> None:
        """Makes room for slots up to this number."""
        have = len(self.wake)
        if slots > have:
            if slots > _MOST_SLOTS:
                raise OverflowError(f"a calendar has at most {_MOST_SLOTS} slots")
            self.wake = enlarged(self.wake, have, slots)
            self.wake[have:] = MAX

    def schedule(self, slots: Ints, times: Ints) -> None:
        """Sets the instants of slots, none of which occurs twice."""
        changed = self.wake[slots] != times
        if changed.any():
            slots, times = slots[changed], times[changed]
            self.wake[slots] = times
            later = times < MAX
            self._add(times[later], slots[later])
            if worth_compacting(len(self), len(self.wake)):
                self._build()

    def hasten(self, slots: Ints, times: Ints) -> None:
        """Brings the instants of slots forward to these, where they are earlier; a slot may occur several times."""
        earlier = times < self.wake[slots]
        if earlier.any():
            each, place = np.unique(slots[earlier], return_inverse=True)
            earliest = np.full(len(each), MAX, np.int64)
            np.minimum.at(earliest, place, times[earlier])
            self.schedule(each, earliest)

    def take(self, now: int) -> Ints:
        """The slots that are due, in ascending order; they have no instant any more."""
        slots = self._due(now)
        slots = np.unique(slots[self.wake[slots] <= now]) if len(slots) else slots
        self.wake[slots] = MAX
        return slots

    def _due(self, now: int) -> Ints:
        """Removes the entries up to an instant; returns their slots."""
        reached = partition_of(now, self._clock)
        times, slots = [], []
        for p in range(reached + 1):
            if self._sizes[p]:
                of_time, of_slot = self._partitions.pop(p)
                times.append(of_time.values)
                slots.append(of_slot.values)
                self._sizes[p] = 0
        self._clock = max(self._clock, now)
        if not slots:
            return np.empty(0, np.int64)
        time, slot = np.concatenate(times), np.concatenate(slots, dtype=np.int64)
        is_due = time <= now
        self._add(time[~is_due], slot[~is_due])
        return slot[is_due]

    def _add(self, times: Ints, slots: Ints) -> None:
        """Files entries, each in the partition of its instant."""
        if not len(times):
            return
        partition = partitions_of(times, self._clock)
        least, most = int(partition.min()), int(partition.max())
        for p in range(least, most + 1):
            mine = slice(None) if least == most else partition == p
            if p not in self._partitions:
                self._partitions[p] = GrowingArray(np.int64), GrowingArray(np.int32)
            of_time, of_slot = self._partitions[p]
            of_time.append(times[mine])
            of_slot.append(slots[mine])
            self._sizes[p] += len(times[mine])

    def keep(self, used: Mask) -> None:
        """Keeps the slots under the mask, and renumbers them in their order."""
        self.wake = self.wake[: len(used)][used]
        self._build()

    def load(self, wake: Ints) -> None:
        """Restores `wake`."""
        self.wake = wake
        self._build()

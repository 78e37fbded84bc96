"""Sorted segments: a buffer for any order of arrival and expiration, probed by several keys.

Invariant: each segment is at least twice as long as the next. A probe searches O(log n) segments; an inserted row is
merged O(log n) times. (SteMs: document 1, section 3.3.)
"""

from __future__ import annotations

import numpy as np

from eddyline.state.buffers.buffer import StateBuffer
from eddyline.state.buffers.segment import Segment
from eddyline.state.delta import concat
from eddyline.state.pages import Pages


class SortedSegments(StateBuffer):
    _unswept = 0  # rows inserted since the last full pass of eviction

    def _arrange(self, inserted: int, clock: int) -> None:
        """Merges the newest segments until each is at least twice as long as the next; drops rows as it merges.

        All segments are swept once half as many rows have been inserted as there are, so that old segments do not
        keep rows that have expired.
        """
        self._unswept += inserted
        if 2 * self._unswept > len(self):
            self._unswept = 0
            self.expire(clock)
        while len(self.segments) >= 2 and len(self.segments[-2]) < 2 * len(self.segments[-1]):
            newer, older = self.segments.pop(), self.segments.pop()
            rows = concat([older.rows, newer.rows], self.types, attached=self.attached)
            slots = [np.concatenate([a, b]) for a, b in zip(older.slots, newer.slots, strict=True)]
            born = np.concatenate([older.born, newer.born])
            merged = Segment(rows, born, slots, orders=[], sorted_slots=[])  # sorted once it is known what stays
            (dropped,) = self.policy([merged], clock)
            merged = merged.without(dropped) if dropped.any() else Segment.of(rows, born, slots)
            if len(merged):
                self.segments.append(merged)

    def save(self) -> Pages:
        self._unswept = 0  # as in a buffer that loads it
        return super().save()

"""The rows of a stream log in the order of event time: (event time, arrival).

Tuples arrive almost in this order, so a new row moves past few others: extending the order sorts only the rows that are
later than the earliest new one. 4 bytes a row. `disorder` bounds how far any row is from its place, with which count
windows are computed (`index/timelines/count_windows.py`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from itertools import islice

import numpy as np

from eddyline.arrays import Ints
from eddyline.index.timelines.count_windows import OrderedRows
from eddyline.state.store.growing import GrowingArray

REMEMBERED = 64  # changes of the order


class TimeOrder:
    def __init__(self) -> None:
        self._order = GrowingArray(np.int32)
        self._disorder = 0
        self.changes = 0  # how often rows got other places; appended rows are no change
        self._changed: deque[int] = deque(maxlen=REMEMBERED)  # the first place of each of the last changes

    def __len__(self) -> int:
        return len(self._order)

    @property
    def nbytes(self) -> int:
        return self._order.nbytes

    def unchanged_since(self, changes: int) -> int:
        """The number of places that have had the same rows since so many changes; 0 if that is not remembered."""
        new = self.changes - changes
        if new > len(self._changed):
            return 0
        return min(islice(self._changed, len(self._changed) - new, None), default=len(self))

    def _change(self, place: int) -> None:
        self.changes += 1
        self._changed.append(place)

    def rows(self, ts: Ints) -> OrderedRows:
        """The rows with these event times in order, among them new ones; valid until rows are added or dropped."""
        if len(ts) > len(self):
            self._extend(ts)
        return OrderedRows(self._order.values, ts, self._disorder)

    def _extend(self, ts: Ints) -> None:
        known = self._order.values
        new = np.arange(len(known), len(ts))
        earliest = int(ts[new].min())
        begin = bisect_right(known, earliest, key=lambda row: int(ts[row]))
        if begin == len(known) and (np.diff(ts[new]) >= 0).all():
            self._order.append(new)
            return
        later = np.concatenate([known[begin:], new])
        later = later[np.lexsort((later, ts[later]))]
        if begin < len(known):
            self._change(begin)
        self._order.truncate(begin)
        self._order.append(later)
        self._disorder = max(self._disorder, int(np.abs(later - np.arange(begin, len(ts))).max()))

    def drop_oldest(self, dropped: int) -> None:
        """The rows with the smallest numbers are dropped; the others are renumbered."""
        self._change(0)
        order = self._order.values
        self._order.keep(np.nonzero(order >= dropped)[0])
        kept = self._order.values
        kept -= np.int32(dropped)
        self._disorder = int(np.abs(kept - np.arange(len(kept))).max(initial=0))

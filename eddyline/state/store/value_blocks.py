"""The rows of a log in the order of event time, sorted by an attribute within blocks of 1,024 places.

Queries over windows and ranges of values then look only at rows in their range. Sorted blocks are kept until the order
of their rows changes, which late rows and evictions do. 2 bytes a row.
"""

from __future__ import annotations

import numpy as np

from eddyline.arrays import Ints, Shorts
from eddyline.index.timelines.window_ends import BLOCK, sort_blocks
from eddyline.state.store.growing import GrowingArray
from eddyline.state.store.time_order import TimeOrder


class ValueBlocks:
    def __init__(self) -> None:
        self._places = GrowingArray(np.uint16)
        self._seen = 0  # changes of the order of rows

    @property
    def nbytes(self) -> int:
        return self._places.nbytes

    def of(self, order: TimeOrder, ts: Ints, values: Ints) -> Shorts:
        """By full block, its places in the order of values."""
        rows = order.rows(ts).order
        stable = order.unchanged_since(self._seen) // BLOCK
        self._seen = order.changes
        self._places.truncate(min(len(self._places), stable * BLOCK))
        done, full = len(self._places) // BLOCK, len(rows) // BLOCK
        self._places.extend(full * BLOCK, 0)
        sort_blocks(rows, values, self._places.values, done)
        places: Shorts = self._places.values
        return places

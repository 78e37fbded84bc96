"""The tuples of a stream that snapshots may need: stored by reference, in the batches they arrived in.

The answers of selections and joins are not stored; their snapshots are computed from these tuples. Batches that are
visible to no such query are dropped.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from eddyline.state.delta import Delta, concat


class History:
    def __init__(self, types: Sequence[pa.DataType]) -> None:
        self.types = tuple(types)
        self.batches: list[Delta] = []
        self.unchecked = 0  # rows added since the last `expire`
        self._rows = 0

    def __len__(self) -> int:
        return self._rows

    def add(self, batch: Delta) -> None:
        if len(batch):
            self.batches.append(batch)
            self.unchecked += len(batch)
            self._rows += len(batch)

    def expire(self, before: int, since: int) -> None:
        """Drops tuples with event times below `before` or arrivals below `since`: whole batches, or half-empty ones."""
        self.unchecked = 0
        kept = []
        for batch in self.batches:
            needed = (batch.ts >= before) & (batch.last >= since)
            n = int(np.count_nonzero(needed))
            if n:
                kept.append(batch if 2 * n > len(batch) else batch.take(needed).spread())
        self.batches = kept
        self._rows = sum(len(b) for b in kept)

    def all(self) -> Delta:
        joined = concat(self.batches, self.types, attached=False)
        self.batches = [joined] if len(joined) else []
        return joined

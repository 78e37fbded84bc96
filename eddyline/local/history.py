"""The tuples of a stream that snapshots may still need: kept by reference, in the batches they came in.

A query of selections and joins has no answer of its own in memory; its snapshot is computed from here. Batches that
no live query of that kind can still see are let go.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from eddyline.state.delta import Delta, concat


class History:
    def __init__(self, types: Sequence[pa.DataType]) -> None:
        self.types = tuple(types)
        self.batches: list[Delta] = []

    def __len__(self) -> int:
        return sum(len(b) for b in self.batches)

    def add(self, batch: Delta) -> None:
        if len(batch):
            self.batches.append(batch)

    def let_go(self, before: int, since: int) -> None:
        """Drops batches with event times all below `before`, or arrivals all below `since`."""
        self.batches = [b for b in self.batches if int(b.ts.max()) >= before and int(b.last.max()) >= since]

    def all(self) -> Delta:
        joined = concat(self.batches, self.types, attached=False)
        self.batches = [joined] if len(joined) else []
        return joined

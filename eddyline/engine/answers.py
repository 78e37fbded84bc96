"""The answers of a family's queries, stored where they cannot be recomputed.

Changes are staged, and inserted into the SteM together when an answer is read or when there are more of them than rows
in the SteM. A step with few changes costs one list append; each change is inserted once.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from eddyline.arrays import Ints
from eddyline.index.runtime.garbage import worth_compacting
from eddyline.state.buffers.sorted_segments import SortedSegments
from eddyline.state.delta import Delta, concat, query_of
from eddyline.state.pages import Pages, Saved


class Answers:
    def __init__(self, types: Sequence[pa.DataType]) -> None:
        self.types = tuple(types)
        self._stem = SortedSegments(types, 1, attached=True, retracts=True)
        self._staged: list[Delta] = []
        self._changes = 0  # staged ones
        self._clock = 0

    def __len__(self) -> int:
        return len(self._flushed())

    @property
    def nbytes(self) -> int:
        return self._flushed().nbytes

    def take(self, changes: Delta, clock: int) -> None:
        self._staged.append(changes)
        self._changes += len(changes)
        self._clock = clock
        if worth_compacting(self._changes, len(self._stem)):
            self._flushed()

    def _flushed(self) -> SortedSegments:
        """The SteM with all changes. A change may retract a row of the same batch."""
        if self._staged:
            staged, self._staged, self._changes = self._staged, [], 0
            changes = concat(staged, self.types, attached=True)
            # Rows that have ended are in no answer, and nothing retracts them.
            changes = changes.take((changes.ts <= changes.exp) & (changes.exp >= self._clock)).spread()
            self._stem.insert(changes, [query_of(changes)], self._clock)
        return self._stem

    def of(self, query: int) -> Delta:
        probed = self._flushed().probe(0, np.array([query]))
        parts = [matches.segment.rows.take(rows).spread() for matches in probed for _, rows in matches.pairs()]
        return concat(parts, self.types, attached=True)

    def expire(self, clock: int) -> None:
        """Drops the rows that have ended before the clock."""
        self._flushed().expire(clock)

    def forget(self, queries: Ints) -> None:
        self._flushed().forget(queries)

    def save(self) -> Pages:
        return self._flushed().save()

    def load(self, saved: Saved) -> None:
        self._stem.load(saved, lambda rows: [query_of(rows)])

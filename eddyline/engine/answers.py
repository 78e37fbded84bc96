"""The answers of a family's queries, kept where they cannot be computed again.

Changes are only noted when they come. They reach the SteM together, when an answer is asked for or when there are more
of them than rows in it: a step of few changes costs next to nothing here, and each change is inserted once.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from eddyline.index.upkeep import worth_clearing
from eddyline.state.delta import Delta, Ints, concat, query_of
from eddyline.state.stem import Stem


class Answers:
    def __init__(self, types: Sequence[pa.DataType]) -> None:
        self.types = tuple(types)
        self._stem = Stem(types, 1, attached=True, takes_back=True)
        self._noted: list[Delta] = []
        self._changes = 0  # that are noted
        self._clock = 0

    def __len__(self) -> int:
        return len(self._flushed())

    def take(self, changes: Delta, clock: int) -> None:
        self._noted.append(changes)
        self._changes += len(changes)
        self._clock = clock
        if worth_clearing(self._changes, len(self._stem)):
            self._flushed()

    def _flushed(self) -> Stem:
        """The SteM with all changes. One may retract what came in the same batch: it is found as any other row."""
        if self._noted:
            noted, self._noted, self._changes = self._noted, [], 0
            changes = concat(noted, self.types, attached=True)
            # Rows that have ended are in no answer any more, and nothing retracts them.
            changes = changes.take((changes.ts <= changes.exp) & (changes.exp >= self._clock)).spread()
            self._stem.insert(changes, [query_of(changes)], self._clock)
        return self._stem

    def of(self, query: int) -> Delta:
        parts = [s.rows.take(rows).spread() for s, _, rows in self._flushed().probe(0, np.array([query]))]
        return concat(parts, self.types, attached=True)

    def forget(self, queries: Ints) -> None:
        self._flushed().forget(queries)

    def save(self) -> pa.Table:
        return self._flushed().save()

    def load(self, saved: pa.Table) -> None:
        self._stem.load(saved, lambda rows: [query_of(rows)])

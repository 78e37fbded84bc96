"""The rows of a table, stored once for all families that join with it, with an index for each key that a join needs.

Columns are immutable and replaced by every change, so whoever holds some sees the table as it was. A row is identified
by its position until the next change. New rows are at the end: they are added to the indexes. Deleted rows are taken
out of the chains, in one pass and without hashing a key. Segments are as in `stream_log.py`: each is at least twice as
long as the next; deleting divides the table anew. A table that was saved and one that was loaded have one segment and
go on alike, whenever segments are next asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

import numpy as np
import pyarrow as pa

from eddyline.arrays import Ints
from eddyline.state.delta import MAX, MIN, NO_ARRIVAL, Delta
from eddyline.state.store.key_index import KeyIndex
from eddyline.state.store.stream_log import LogSegment


class StoredTable:
    def __init__(self, columns: Sequence[pa.Array]) -> None:
        self.load(columns)

    def __len__(self) -> int:
        return len(self.columns[0])

    def load(self, columns: Sequence[pa.Array]) -> None:
        """Replaces all rows."""
        self.columns = tuple(columns)
        self._indexes: dict[Hashable, KeyIndex] = {}
        self._segments = self._one_segment()

    @property
    def nbytes(self) -> int:
        """The bytes of rows and indexes; what segments cache is not counted."""
        return sum(int(c.nbytes) for c in self.columns) + sum(i.nbytes for i in self._indexes.values())

    def change(self, kept: Ints | None, columns: Sequence[pa.Array]) -> None:
        """Replaces the columns; those of the rows that are kept come first. None: all rows are kept."""
        if kept is not None:
            for key, index in list(self._indexes.items()):
                index.keep(kept[kept < len(index)])
                if index.is_sparse:
                    del self._indexes[key]  # it is made anew on its next use
            self._segments = []
        self.columns = tuple(columns)

    def rows(self, start: int, stop: int) -> Delta:
        """Some rows, valid at all times; no tuple of a stream made them."""
        n = stop - start
        begin, end, arrival = (np.broadcast_to(np.int64(x), n) for x in (MIN, MAX, NO_ARRIVAL))
        columns = tuple(c.slice(start, n) for c in self.columns)
        return Delta(columns, None, begin, end, np.broadcast_to(np.int64(1), n), end, arrival)

    def index(self, key: Hashable, types: Sequence[pa.DataType], values: Callable[[Delta], list[pa.Array]]) -> KeyIndex:
        """The index of a key, made on first use; `values` evaluates the key for rows."""
        if key not in self._indexes:
            self._indexes[key] = KeyIndex(types, values)
        index = self._indexes[key]
        if len(index) < len(self):
            index.extend(self.rows(len(index), len(self)))
        return index

    def segments(self) -> list[LogSegment]:
        """Segments that cover all rows."""
        covered = self._segments[-1].stop if self._segments else 0
        if covered < len(self):
            while self._segments and len(self._segments[-1]) < 2 * (len(self) - covered):
                covered = self._segments.pop().start
            self._segments.append(LogSegment(covered, len(self)))
        return list(self._segments)

    def divide_anew(self) -> None:
        """Makes it one segment, as after `load`."""
        if len(self.segments()) > 1:
            self._segments = self._one_segment()

    def _one_segment(self) -> list[LogSegment]:
        return [LogSegment(0, len(self))] if len(self) else []

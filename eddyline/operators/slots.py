"""Slots: a dense number for each (query, values) an operator keeps counters for, and the values by slot.

Slots are assigned in order of appearance and compacted when most are no longer in use. A step costs O(its rows),
however many slots there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.arrays import Ints
from eddyline.index.keys.key_table import ColumnCoder, KeyTable
from eddyline.state.saved_tables import loaded_columns, loaded_ints
from eddyline.state.store.growing import GrowingArray, GrowingColumn


class Slots:
    def __init__(self, types: Sequence[pa.DataType]) -> None:
        self.types = tuple(types)
        self._clear()

    def _clear(self) -> None:
        self.coder = ColumnCoder(self.types)
        self.table = KeyTable(self.coder.width + 1)
        self._values = [GrowingColumn(x) for x in self.types]
        self._query = GrowingArray(np.int64)

    def __len__(self) -> int:
        return len(self.table)

    @property
    def nbytes(self) -> int:
        return self.table.nbytes + self._query.nbytes + sum(v.nbytes for v in self._values)

    @property
    def query(self) -> Ints:
        """By slot."""
        return self._query.values

    def of(self, query: Ints, values: Sequence[pa.Array]) -> Ints:
        """The slots of rows; assigns new ones where needed. NULLs are equal, as in GROUP BY."""
        before = len(self.table)
        codes = np.column_stack([self.coder.codes(values, len(query)), query])
        slots = self.table.insert(np.ascontiguousarray(codes))
        if len(self.table) > before:
            fresh = np.nonzero(slots >= before)[0]
            first = fresh[np.unique(slots[fresh], return_index=True)[1]]
            for store, column in zip(self._values, values, strict=True):
                store.append(_positive_zeros(column.take(pa.array(first))))
            self._query.append(query[first])
        return slots

    def values(self, slots: Ints) -> list[pa.Array]:
        return [store.take(slots) for store in self._values]

    def keep(self, kept: npt.NDArray[np.bool_]) -> Ints:
        """Keeps the slots under the mask. Returns the mapping from old to new slots, -1 for those dropped."""
        where = np.nonzero(kept)[0]
        values, query = self.values(where), self.query[where]
        mapping = np.full(len(kept), -1, np.int64)
        mapping[where] = np.arange(len(where))
        self._clear()
        self.of(query, values)
        return mapping

    def save(self) -> pa.Table:
        values = self.values(np.arange(len(self)))
        return pa.table({"query": self.query} | {f"c{i}": v for i, v in enumerate(values)})

    def load(self, table: pa.Table) -> None:
        self.of(loaded_ints(table, "query")[0], loaded_columns(table, len(self.types)))


def _positive_zeros(column: pa.Array) -> pa.Array:
    """-0.0 as 0.0, as in Spark: they are equal, so the result must not depend on which arrived first."""
    return pc.add(column, pa.scalar(0.0, column.type)) if pa.types.is_floating(column.type) else column


def grown(array: npt.NDArray[Any], size: int, fill: float) -> npt.NDArray[Any]:
    """The array with a capacity of `size` rows; doubles, so that growth has a constant amortised cost."""
    if size <= len(array):
        return array
    shape = (max(size, 2 * len(array)), *array.shape[1:])
    bigger = np.full(shape, fill, array.dtype)
    bigger[: len(array)] = array
    return bigger

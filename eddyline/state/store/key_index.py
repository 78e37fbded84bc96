"""A key index of a stream log or a table: the rows with the values that a probe wants, in hash chains.

Key values become slots (`index/keys/key_table.py`), and the rows of a slot are linked (`index/keys/hash_chains.py`).
Rows with a NULL in the key are in no chain. The index has no rows itself: whoever owns it hands them over in order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from eddyline.arrays import Ints
from eddyline.index.keys.hash_chains import (
    END,
    Chains,
    count_matches,
    link,
    list_matches,
    slots_of_rows,
    some_matches,
    without_oldest,
)
from eddyline.index.keys.key_table import ColumnCoder, KeyTable
from eddyline.index.runtime.garbage import worth_compacting
from eddyline.state.delta import Delta
from eddyline.state.store.growing import GrowingArray

NO_SLOT = -1  # of rows with a NULL in the key
NO_MATCH = -2  # of wanted values that are NULL, or that no row has


class KeyIndex:
    def __init__(self, types: Sequence[pa.DataType], values: Callable[[Delta], list[pa.Array]]) -> None:
        """`types` are those of the key's expressions, `values` evaluates them."""
        self.types = tuple(types)
        self._values = values
        self.in_use = True  # until its log drops it
        self._coder = ColumnCoder(self.types)
        self._table = KeyTable(self._coder.width)
        self._heads = GrowingArray(np.int32)
        self._older = GrowingArray(np.int32)

    def __len__(self) -> int:
        """The number of rows."""
        return len(self._older)

    @property
    def distinct(self) -> int:
        """The number of keys; those whose rows have been dropped count until the next clean-up."""
        return len(self._table)

    @property
    def nbytes(self) -> int:
        return self._heads.nbytes + self._older.nbytes + self._table.nbytes

    def extend(self, rows: Delta) -> None:
        """Adds the rows that follow those it has."""
        first = len(self)
        values = self._values(rows)
        codes = self._coder.codes(values, len(rows))
        null = self._coder.has_null(codes)
        if null.any():
            slots = np.full(len(rows), NO_SLOT)
            slots[~null] = self._table.insert(codes[~null])
        else:
            slots = self._table.insert(codes)
        self._heads.extend(len(self._table), END)
        self._older.extend(first + len(rows), END)
        link(slots, first, self._heads.values, self._older.values)

    def slots(self, rows: Delta) -> Ints:
        """The slots of some of its rows."""
        slots = self.wanted(self._values(rows), len(rows))
        return np.where(slots < 0, NO_SLOT, slots)

    def wanted(self, values: Sequence[pa.Array], n: int) -> Ints:
        """The slots of key values; NO_MATCH where one is NULL, or no row has them."""
        return self.find(self.codes(values, n))

    @property
    def has_strings(self) -> bool:
        """Whether its codes of key values are its own."""
        return self._coder.has_strings

    def codes(self, values: Sequence[pa.Array], n: int) -> Ints:
        """The codes of key values."""
        return self._coder.find_codes(values, n)

    def find(self, codes: Ints) -> Ints:
        """The slots of key values, given as codes."""
        slots = self._table.find(codes)  # no row with a NULL has been inserted
        slots[slots < 0] = NO_MATCH
        return slots

    def counts(self, wanted: Ints, low: int, high: int) -> Ints:
        """How many rows low … high - 1 have each wanted slot."""
        return count_matches(wanted, low, high, self._heads.values, self._older.values)

    def matches(self, wanted: Ints, low: int, high: int, counts: Ints) -> tuple[Ints, Ints]:
        """Those rows, oldest first, and which of the wanted slots each has."""
        total = int(counts.sum())
        return list_matches(wanted, low, high, self._heads.values, self._older.values, counts, total)

    def some_matches(self, wanted: Ints, low: int, high: int, most: int) -> tuple[Ints, Ints, int]:
        """As `matches`, and their number; if they are more than `most`, they are not listed."""
        return some_matches(wanted, low, high, self._heads.values, self._older.values, most)

    @property
    def chains(self) -> Chains:
        return Chains(self._heads.values, self._older.values)

    def drop_oldest(self, dropped: int) -> None:
        """Drops the oldest rows; the others are renumbered."""
        self._older.keep(slice(dropped, None))
        without_oldest(dropped, self._heads.values, self._older.values)

    def keep(self, rows: Ints) -> None:
        """Keeps these rows only, in ascending order; they are renumbered."""
        slots = slots_of_rows(self._heads.values, self._older.values)[rows]
        self._heads.values[:] = END
        self._older = GrowingArray(np.int32)
        self._older.extend(len(rows), END)
        link(slots, 0, self._heads.values, self._older.values)

    @property
    def is_sparse(self) -> bool:
        """Whether most keys have no rows any more."""
        return worth_compacting(len(self._table), len(self))

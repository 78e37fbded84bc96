"""Tables in memory: rows and a primary key. A change applies whole or not at all, and is returned as a delta."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline.arrays import Ints
from eddyline.errors import DataError
from eddyline.index.keys.key_table import ColumnCoder, KeyTable
from eddyline.sql.catalog import Table
from eddyline.state.delta import MAX, MIN, NO_ARRIVAL, Delta, join_arrays
from eddyline.state.store.stored_table import StoredTable


class TableRows:
    def __init__(self, declared: Table) -> None:
        self.declared = declared
        self.stored = StoredTable([pa.array([], f.type) for f in declared.fields])

    def __len__(self) -> int:
        return len(self.stored)

    @property
    def columns(self) -> tuple[pa.Array, ...]:
        return self.stored.columns

    def load(self, columns: Sequence[pa.Array]) -> None:
        """Replaces all rows, without a change."""
        self.stored.load(columns)

    def content(self) -> Delta:
        return _delta(self.columns, np.ones(len(self), np.int64))

    def to_arrow(self) -> pa.Table:
        return pa.table(list(self.columns), names=[f.name for f in self.declared.fields])

    def save(self) -> pa.Table:
        """Its rows; afterwards it goes on like one that has loaded them."""
        self.stored.divide_anew()
        return self.to_arrow()

    def change(self, gone: npt.NDArray[np.bool_], new: Sequence[pa.Array]) -> Delta:
        """Checks the key, deletes the rows under the mask and adds new ones. Returns the net changes."""
        kept = pa.array(np.nonzero(~gone)[0])
        columns = [join_arrays([c.take(kept), n]) for c, n in zip(self.columns, new, strict=True)]
        self._check_key(columns, len(kept))
        lost = pa.array(np.nonzero(gone)[0])
        changed = [join_arrays([c.take(lost), n]) for c, n in zip(self.columns, new, strict=True)]
        signs = np.concatenate([np.full(len(lost), -1), np.ones(len(new[0]))]).astype(np.int64)
        net = _net(_delta(changed, signs))
        self.stored.change(np.nonzero(~gone)[0] if gone.any() else None, columns)
        return net

    def _check_key(self, columns: Sequence[pa.Array], old: int) -> None:
        key = self.declared.key
        if not key:
            return
        names = [self.declared.fields[i].name for i in key]
        coder = ColumnCoder([columns[i].type for i in key])
        codes = coder.codes([columns[i] for i in key], len(columns[0]))
        if coder.has_null(codes).any():
            raise DataError(f"The key ({', '.join(names)}) of table {self.declared.name!r} cannot be NULL.")
        slots = KeyTable(codes.shape[1]).insert(codes)
        if len(slots) and slots.max() + 1 < len(slots):
            _, first = np.unique(slots, return_index=True)
            again = np.setdiff1d(np.arange(len(slots)), first)[0]
            value = ", ".join(repr(columns[i][int(again)].as_py()) for i in key)
            raise DataError(
                f"Table {self.declared.name!r} already has a row with {', '.join(names)} = {value}.",
                hint="Use UPDATE to change it; no row was applied.",
            )


def _delta(columns: Sequence[pa.Array], sign: Ints) -> Delta:
    n = len(sign)
    always, never = np.full(n, MIN, np.int64), np.full(n, MAX, np.int64)
    return Delta(tuple(columns), None, always, never, sign, never, np.full(n, NO_ARRIVAL, np.int64))


def _net(delta: Delta) -> Delta:
    """The changes without pairs of a deleted and an equal inserted row."""
    n = len(delta)
    codes = ColumnCoder([c.type for c in delta.columns]).codes(delta.columns, n)
    slots = KeyTable(codes.shape[1]).insert(codes)
    total = np.zeros(n, np.int64)
    np.add.at(total, slots, delta.sign)
    # Of each distinct row, keep as many changes of the prevailing sign as the two signs differ by: the first ones.
    order = np.argsort(slots, kind="stable")
    prevailing = order[delta.sign[order] == np.sign(total[slots[order]])]
    own = slots[prevailing]
    rank = np.arange(len(own)) - np.searchsorted(own, own)
    kept = np.zeros(n, np.bool_)
    kept[prevailing[rank < np.abs(total[own])]] = True
    return delta.take(kept).spread()

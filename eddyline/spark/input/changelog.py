"""Changes of a table from a changelog: rows with an operation, in order.

With a primary key, the last change of a key in a batch replaces or deletes the row. Without one, an insert adds a row,
and a delete removes one equal row if there is one.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.engine.table_rows import TableRows
from eddyline.index.keys.key_table import ColumnCoder, KeyTable
from eddyline.state.delta import Delta

# The names of operations in change data capture tools. Images before an update are ignored: the one after it suffices.
INSERTS = (
    "+",
    "i",
    "insert",
    "c",
    "create",
    "r",
    "read",
    "+i",
    "u",
    "update",
    "+u",
    "update_after",
    "update_postimage",
)
DELETES = ("-", "d", "delete", "-d")
IGNORED = ("-u", "update_before", "update_preimage")


def known(op: pa.Array) -> pa.Array:
    """The mask of operations with a known name."""
    return pc.is_in(pc.utf8_lower(op), pa.array([*INSERTS, *DELETES, *IGNORED]))


def apply_changes(rows: TableRows, changes: pa.Table) -> Delta:
    op = pc.utf8_lower(changes.column(0))
    applied = changes.filter(pc.invert(pc.is_in(op, pa.array(IGNORED))))
    deletes = pc.is_in(pc.utf8_lower(applied.column(0)), pa.array(DELETES)).to_numpy()
    columns = [c.combine_chunks() for c in applied.columns[1:]]
    if rows.declared.key:
        return _by_key(rows, columns, deletes)
    return _by_row(rows, columns, deletes)


def _by_key(rows: TableRows, columns: list[pa.Array], deletes: np.ndarray) -> Delta:
    key = rows.declared.key
    old, new = _slots([rows.columns[i] for i in key], [columns[i] for i in key])
    last = len(new) - 1 - np.unique(new[::-1], return_index=True)[1]
    last = np.sort(last)
    inserted = pa.array(last[~deletes[last]])
    return rows.change(np.isin(old, new), [c.take(inserted) for c in columns])


def _by_row(rows: TableRows, columns: list[pa.Array], deletes: np.ndarray) -> Delta:
    """Matches deletes with equal rows, oldest first; a delete also retracts an earlier insert of the same batch."""
    old, new = _slots(list(rows.columns), columns)
    open_rows: dict[int, list[int]] = {}
    touched = set(new[deletes].tolist())
    slots = np.concatenate([old, new])
    alive = np.concatenate([np.ones(len(old), np.bool_), ~deletes])
    for i in np.nonzero(np.isin(slots, list(touched)))[0].tolist():
        unmatched = open_rows.setdefault(int(slots[i]), [])
        if i < len(old) or not deletes[i - len(old)]:
            unmatched.append(i)
        elif unmatched:
            alive[unmatched.pop(0)] = False
    inserted = pa.array(np.nonzero(alive[len(old) :])[0])
    return rows.change(~alive[: len(old)], [c.take(inserted) for c in columns])


def _slots(old: list[pa.Array], new: list[pa.Array]) -> tuple[np.ndarray, np.ndarray]:
    """Numbers the rows of both sides; equal rows have equal numbers."""
    n = len(old[0])
    joined = [pa.concat_arrays([a, b]) for a, b in zip(old, new, strict=True)]
    coder = ColumnCoder([c.type for c in joined])
    slots = KeyTable(coder.width).insert(coder.codes(joined, len(joined[0])))
    return slots[:n], slots[n:]

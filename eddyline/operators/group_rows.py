"""The current row of each group in the answer: its values, and the end it was sent with.

In a step, a group's row may have several successive versions. `update` compares them with the row sent before and
returns the changes to send (`index/timelines/versions.py`); rows that did not change are not sent. It costs
O(versions); rows that are no longer in use are removed once they are the majority.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from eddyline.arrays import Ints, Mask
from eddyline.index.keys.key_table import ColumnCoder, KeyTable
from eddyline.index.runtime.garbage import worth_compacting
from eddyline.index.timelines.versions import NONE, send_versions
from eddyline.operators.slots import grown
from eddyline.state.delta import MAX, join_arrays
from eddyline.state.store.growing import GrowingColumn


@dataclass(frozen=True)
class Versions:
    """The rows of groups in one step: one entry per group and instant, in that order."""

    slot: Ints
    time: Ints
    exists: Mask
    columns: list[pa.Array]
    last: Mask  # whether it is the group's latest entry
    until: Ints  # for the latest entries: the last instant the row is known to hold

    def __len__(self) -> int:
        return len(self.slot)


class GroupRows:
    def __init__(self, types: Sequence[pa.DataType]) -> None:
        self.end: Ints = np.empty(0, np.int64)  # by slot, the end its row was sent with
        self.place: Ints = np.empty(0, np.int64)  # by slot, the position of its row in `_values`; NONE if it has no row
        self._values = [GrowingColumn(x) for x in types]
        self._height = 0  # of `_values`; some rows may no longer be in use
        self._in_use = 0  # slots that have a row

    @property
    def nbytes(self) -> int:
        return self.end.nbytes + self.place.nbytes + sum(v.nbytes for v in self._values)

    def grow(self, slots: int) -> None:
        self.end, self.place = grown(self.end, slots, MAX), grown(self.place, slots, NONE)

    def keep(self, used: Mask) -> None:
        n = len(used)
        self.end, self.place = self.end[:n][used], self.place[:n][used]
        self._in_use = int(np.count_nonzero(self.place >= 0))

    def of(self, slots: Ints) -> list[pa.Array]:
        """The values of the rows of slots that have one."""
        return [v.take(self.place[slots]) for v in self._values]

    def update(self, versions: Versions) -> tuple[Ints, Ints, list[pa.Array]]:
        """The changes between versions: the slot of each change; its sign, ts and exp; its values."""
        groups = versions.slot[versions.last]
        entry_at = np.append(0, np.nonzero(versions.last)[0] + 1)
        before = self.place[groups]
        code, sent_code = self._codes(versions, before)
        until = versions.until[versions.last]
        sent, entry, end = send_versions(entry_at, versions.time, code, until, sent_code, self.end[groups])
        of_before = sent[1] == NONE
        old, new = sent[:, of_before], sent[:, ~of_before]
        old_rows, new_rows = before[old[0]], pa.array(new[1])
        columns = [
            join_arrays([v.take(old_rows), c.take(new_rows)])
            for v, c in zip(self._values, versions.columns, strict=True)
        ]
        self._replace(groups, entry, end, versions.columns)
        changes = np.concatenate([old, new], axis=1)
        return groups[changes[0]], changes[2:], columns

    def _codes(self, versions: Versions, sent: Ints) -> tuple[Ints, Ints]:
        """A number for each version and for each row sent before, the same for equal rows; NONE where there is none."""
        coder = ColumnCoder([c.type for c in versions.columns])
        table = KeyTable(coder.width)
        code = table.insert(coder.codes(versions.columns, len(versions)))
        is_sent = sent >= 0
        where = sent[is_sent]
        sent_code = np.full(len(sent), NONE, np.int64)
        sent_code[is_sent] = table.insert(coder.codes([v.take(where) for v in self._values], len(where)))
        return np.where(versions.exists, code, NONE), sent_code

    def _replace(self, groups: Ints, entry: Ints, end: Ints, columns: Sequence[pa.Array]) -> None:
        """Stores the rows that are in the answer now; `entry` is the position of a new one in the columns."""
        fresh, had = entry >= 0, self.place[groups]
        places = np.where(entry == NONE, NONE, had)
        places[fresh] = self._height + np.arange(int(fresh.sum()))
        where = pa.array(entry[fresh])
        for store, column in zip(self._values, columns, strict=True):
            store.append(column.take(where))
        self._height += len(where)
        self._in_use += int(np.count_nonzero(places >= 0)) - int(np.count_nonzero(had >= 0))
        self.place[groups], self.end[groups] = places, end
        if worth_compacting(self._height, self._in_use):
            used = np.nonzero(self.place >= 0)[0]
            for store in self._values:
                store.keep(self.place[used])
            self.place[used] = np.arange(len(used))
            self._height = len(used)

    def save(self, slots: int) -> tuple[dict[str, Ints], pa.Table]:
        """Columns by slot, and the values."""
        values = {f"v{i}": v.take(np.arange(self._height)) for i, v in enumerate(self._values)}
        rows = pa.table({"row": np.arange(self._height)} | values)
        return {"out_end": self.end[:slots], "out_row": self.place[:slots]}, rows

    def load(self, groups: pa.Table, saved: Mapping[str, pa.Table]) -> None:
        self.end, self.place = (np.array(groups.column(c).to_numpy()) for c in ("out_end", "out_row"))
        self._height, self._in_use = saved["out"].num_rows, int(np.count_nonzero(self.place >= 0))
        for i, store in enumerate(self._values):
            store.append(saved["out"].column(f"v{i}").combine_chunks())

"""WITH (emit = 'all'): sends a `-` for every row that reaches its end (document 3, negative tuples).

Such a change has ts just after exp, so that folding by intervals and folding by signs alone give the same answer.
Rows wait in the order of arrival, and a calendar has their ends: a step costs O(rows that arrive or end).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from eddyline.arrays import Ints, Mask
from eddyline.index.runtime.garbage import worth_compacting
from eddyline.operators.base import Operator, Step
from eddyline.operators.evaluate import Functions
from eddyline.operators.slots import Slots
from eddyline.plan import physical
from eddyline.state.calendar import Calendar
from eddyline.state.delta import MAX, NO_ARRIVAL, Delta, concat, query_of
from eddyline.state.saved_tables import loaded_columns, loaded_ints, saved_columns
from eddyline.state.store.growing import GrowingArray, GrowingColumn


class Expirations(Operator):
    def __init__(self, node: physical.Expirations, children: Sequence[Operator]) -> None:
        super().__init__(node, children)
        self._clear()

    def _clear(self) -> None:
        self._columns = [GrowingColumn(x) for x in self.types]
        self._exp, self._sign, self._query = (GrowingArray(np.int64) for _ in range(3))
        self._calendar = Calendar()  # by row, the instant after its end; none once it has been sent
        self._waiting = 0  # rows that have not been sent

    def pull(self, step: Step) -> Delta:
        delta = self.children[0].pull(step)
        ending = delta.take(delta.exp < MAX).spread()
        if len(ending):
            self._add(ending.columns, ending.exp, ending.sign, query_of(ending))
        due = self._calendar.take(step.now)
        if not len(due):
            return delta
        ended = self._rows(due)
        self._waiting -= len(due)
        if worth_compacting(len(self._exp), self._waiting):
            self._keep(self._still_waiting())
        return concat([delta, _ends(ended)], self.types, attached=True)

    def _add(self, columns: Sequence[pa.Array], exp: Ints, sign: Ints, query: Ints) -> None:
        first = len(self._exp)
        for store, column in zip(self._columns, columns, strict=True):
            store.append(column)
        for numbers, values in ((self._exp, exp), (self._sign, sign), (self._query, query)):
            numbers.append(values)
        self._calendar.grow(len(self._exp))
        self._calendar.schedule(np.arange(first, len(self._exp)), exp + 1)
        self._waiting += len(exp)

    def _rows(self, which: Ints) -> Delta:
        columns, none = tuple(c.take(which) for c in self._columns), np.full(len(which), NO_ARRIVAL, np.int64)
        exp = self._exp.values[which]
        return Delta(columns, None, exp, exp, self._sign.values[which], none, none, self._query.values[which])

    def _still_waiting(self) -> Mask:
        waiting: Mask = self._calendar.wake[: len(self._exp)] < MAX
        return waiting

    def _keep(self, kept: Mask) -> None:
        rows = self._rows(np.nonzero(kept)[0])
        self._clear()
        self._add(rows.columns, rows.exp, rows.sign, query_of(rows))

    def forget(self, queries: Ints) -> None:
        super().forget(queries)
        self._keep(self._still_waiting() & ~np.isin(self._query.values, queries))

    def size(self) -> int:
        return self._waiting

    def nbytes(self) -> int:
        numbers = self._exp.nbytes + self._sign.nbytes + self._query.nbytes
        return numbers + sum(c.nbytes for c in self._columns) + self._calendar.nbytes

    def save(self) -> dict[str, pa.Table]:
        w = self._rows(np.nonzero(self._still_waiting())[0])
        return {"waiting": pa.table(saved_columns(w) | {"exp": w.exp, "sign": w.sign, "query": w.query})}

    def load(self, saved: dict[str, pa.Table], functions: Functions) -> None:
        columns = loaded_columns(saved["waiting"], len(self.types))
        self._add(columns, *loaded_ints(saved["waiting"], "exp", "sign", "query"))


def _ends(ended: Delta) -> Delta:
    """One `-` for each row that reaches its end; rows retracted before cancel out."""
    slots = Slots([c.type for c in ended.columns] + [pa.int64()])
    slot = slots.of(query_of(ended), [*ended.columns, pa.array(ended.exp)])
    left = np.zeros(len(slots), np.int64)
    np.add.at(left, slot, ended.sign)
    first = np.unique(slot, return_index=True)[1]
    ends = ended.take(np.repeat(first, np.maximum(left, 0)))
    n = len(ends)
    return replace(ends, ts=ends.exp + 1, sign=np.full(n, -1), first=np.full(n, MAX), last=np.full(n, NO_ARRIVAL))

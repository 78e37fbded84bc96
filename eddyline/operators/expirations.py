"""WITH (emit = 'all'): sends a `-` for every row that reaches its end (document 3, negative tuples).

Such a change has ts just after exp, so that folding by intervals and folding by signs alone give the same answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from eddyline.arrays import Ints
from eddyline.operators.base import Operator, Step
from eddyline.operators.evaluate import Functions
from eddyline.operators.slots import Slots
from eddyline.plan import physical
from eddyline.state.delta import MAX, NO_ARRIVAL, Delta, concat, empty, query_of
from eddyline.state.saved_tables import loaded_columns, loaded_ints, saved_columns


class Expirations(Operator):
    def __init__(self, node: physical.Expirations, children: Sequence[Operator]) -> None:
        super().__init__(node, children)
        self.waiting = empty(self.types, attached=True)

    def pull(self, step: Step) -> Delta:
        delta = self.children[0].pull(step)
        ending = delta.take(delta.exp < MAX).spread()
        if len(ending):
            self.waiting = concat([self.waiting, ending], self.types, attached=True)
        due = self.waiting.exp < step.now
        if not due.any():
            return delta
        ended, self.waiting = self.waiting.take(due).spread(), self.waiting.take(~due).spread()
        return concat([delta, _ends(ended)], self.types, attached=True)

    def forget(self, queries: Ints) -> None:
        super().forget(queries)
        self.waiting = self.waiting.take(~np.isin(query_of(self.waiting), queries)).spread()

    def size(self) -> int:
        return len(self.waiting)

    def save(self) -> dict[str, pa.Table]:
        w = self.waiting
        return {"waiting": pa.table(saved_columns(w) | {"exp": w.exp, "sign": w.sign, "query": w.query})}

    def load(self, saved: dict[str, pa.Table], functions: Functions) -> None:
        exp, sign, query = loaded_ints(saved["waiting"], "exp", "sign", "query")
        columns, none = loaded_columns(saved["waiting"], len(self.types)), np.full(len(exp), NO_ARRIVAL, np.int64)
        self.waiting = Delta(columns, None, exp, exp, sign, none, none, query)


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

"""Keys of a SteM: they map the key values of rows and of probing tuples to slots."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from eddyline.arrays import Ints, Mask
from eddyline.index.keys.key_table import ColumnCoder, KeyTable
from eddyline.operators.evaluate import Functions, evaluate
from eddyline.plan.physical import Key
from eddyline.state.buffers.buffer import NO_KEY
from eddyline.state.delta import Delta

NO_MATCH = -2  # the slot of a wanted key that no row has; differs from NO_KEY, the slot of rows that match no probe


class StemKey:
    """Slots of rows by one key of the plan; equal keys have equal slots."""

    def __init__(self, plan: Key) -> None:
        self.plan = plan
        self.coder = ColumnCoder([e.type for e in plan.exprs])
        self.table = KeyTable(self.coder.width + plan.with_query)

    def slots(self, functions: Functions, rows: Delta) -> Ints:
        """Slots of rows to be stored; rows with a NULL in the key get NO_KEY."""
        values = [evaluate(e, rows.columns, (), len(rows), functions) for e in self.plan.exprs]
        codes, null = self._codes(self.coder.codes(values, len(rows)), rows.query)
        return np.where(null, NO_KEY, self.table.insert(codes))

    def wanted(self, values: Sequence[pa.Array], query: Ints | None, n: int) -> Ints:
        """Slots of key values; NO_MATCH where one is NULL, or no row has them."""
        codes, null = self._codes(self.coder.find_codes(values, n), query)
        slots = self.table.find(codes)
        return np.where(null | (slots < 0), NO_MATCH, slots)

    def _codes(self, codes: Ints, query: Ints | None) -> tuple[Ints, Mask]:
        null = self.coder.has_null(codes)
        if self.plan.with_query:
            assert query is not None
            codes = np.column_stack([codes, query])
        return np.ascontiguousarray(codes), null

"""Keys of a SteM: they map the key values of rows and of probing tuples to slots."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline.arrays import Ints
from eddyline.index.keys.key_table import ColumnCoder, KeyTable
from eddyline.operators.evaluate import Functions, evaluate
from eddyline.plan.physical import Key
from eddyline.sql.bound import Expr
from eddyline.state.buffers.buffer import NO_KEY
from eddyline.state.delta import Delta

NOT_FOUND = -2  # the slot of a probe without matches; differs from NO_KEY, the slot of rows that match no probe


class StemKey:
    """Slots of rows by one key of the plan; equal keys have equal slots."""

    def __init__(self, plan: Key) -> None:
        self.plan = plan
        self.coder = ColumnCoder([e.type for e in plan.exprs])
        self.table = KeyTable(self.coder.width + plan.with_query)

    def slots(self, functions: Functions, rows: Delta) -> Ints:
        """Slots of rows to be stored; rows with a NULL in the key get NO_KEY."""
        codes, null = self._codes(functions, self.plan.exprs, rows.columns, rows.query, len(rows), adding=True)
        return np.where(null, NO_KEY, self.table.insert(codes))

    def wanted(
        self, functions: Functions, exprs: Sequence[Expr], columns: Sequence[pa.Array], query: Ints | None, n: int
    ) -> Ints:
        codes, null = self._codes(functions, exprs, columns, query, n, adding=False)
        slots = self.table.find(codes)
        return np.where(null | (slots < 0), NOT_FOUND, slots)

    def _codes(
        self,
        functions: Functions,
        exprs: Sequence[Expr],
        columns: Sequence[pa.Array],
        query: Ints | None,
        n: int,
        *,
        adding: bool,
    ) -> tuple[Ints, npt.NDArray[np.bool_]]:
        values = [evaluate(e, columns, (), n, functions) for e in exprs]
        codes = self.coder.codes(values, n) if adding else self.coder.find_codes(values, n)
        null = self.coder.has_null(codes)
        if self.plan.with_query:
            assert query is not None
            codes = np.column_stack([codes, query])
        return np.ascontiguousarray(codes), null

"""By what a join looks into its modules: keys of rows, and the steps in which tuples visit the other inputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline.index.keys import ColumnCoder, KeyTable
from eddyline.operators.evaluate import Functions, evaluate
from eddyline.sql.bound import Expr
from eddyline.state.delta import Delta, Ints
from eddyline.state.stem import NO_KEY

NOT_FOUND = -2  # a probe that can match nothing; differs from NO_KEY, by which unfindable rows are stored


@dataclass(frozen=True)
class ProbeStep:
    """The next input to look into: by which of its keys, with which expressions over what is joined so far."""

    input: int
    key: int
    exprs: tuple[Expr, ...]
    conditions: Expr | None  # what can be checked once this input is there


class StemKey:
    """One key of a module: expressions over its own columns, the query too where both sides are attached."""

    def __init__(self, exprs: tuple[Expr, ...], with_query: bool) -> None:
        self.exprs = exprs
        self.with_query = with_query
        self.coder = ColumnCoder([e.type for e in exprs])
        self.table = KeyTable(self.coder.width + with_query)

    def slots(self, functions: Functions, rows: Delta) -> Ints:
        """Slots of rows to be stored; rows that equal nothing get NO_KEY."""
        codes, null = self._codes(functions, self.exprs, rows.columns, rows.query, len(rows), adding=True)
        return np.where(null, NO_KEY, self.table.insert(codes))

    def wanted(
        self, functions: Functions, exprs: Sequence[Expr], columns: Sequence[pa.Array], query: Ints | None, n: int
    ) -> Ints:
        codes, null = self._codes(functions, exprs, columns, query, n, adding=False)
        found = self.table.find(codes)
        return np.where(null | (found < 0), NOT_FOUND, found)

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
        if self.with_query:
            assert query is not None
            codes = np.column_stack([codes, query])
        return np.ascontiguousarray(codes), null

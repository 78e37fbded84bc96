"""The values of an attribute for the changes of a batch, as input of grouped filters.

A column of numbers or times is read directly. Texts and expressions are evaluated only for the rows that a
filter asks for (`index/filters/row_codes.py`), because that costs more than the search of most filters. An expression
that may overflow is evaluated for all rows: an overflow is an event, and it must not depend on the order of attributes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from eddyline import types as t
from eddyline.arrays import Ints
from eddyline.index.filters.domains import ValueColumn, value_column
from eddyline.operators.evaluate import Functions, evaluate
from eddyline.plan.expressions import columns_of, may_overflow, unwidened
from eddyline.sql.bound import Column, Expr
from eddyline.state.delta import Delta


@dataclass(frozen=True)
class AttributeColumn:
    """An attribute of the changes start … stop, evaluated when asked for."""

    attribute: Expr
    delta: Delta
    functions: Functions
    start: int
    stop: int

    def slice(self, start: int, stop: int) -> AttributeColumn:
        return AttributeColumn(self.attribute, self.delta, self.functions, self.start + start, self.start + stop)

    def at(self, rows: Ints | None) -> ValueColumn:
        """The values of these rows; of all rows if None."""
        return self._all if rows is None else self._values(rows + self.start)

    @cached_property
    def _all(self) -> ValueColumn:
        if self.delta.rows is not None:
            return self._values(np.arange(self.start, self.stop))
        length = self.stop - self.start
        return self._evaluated(lambda column: column.slice(self.start, length), length)

    def _values(self, changes: Ints) -> ValueColumn:
        where = pa.array(changes if self.delta.rows is None else self.delta.rows[changes])
        return self._evaluated(lambda column: column.take(where), len(changes))

    def _evaluated(self, part: Callable[[pa.Array], pa.Array], length: int) -> ValueColumn:
        used = columns_of(self.attribute)
        columns = [part(c) if i in used else None for i, c in enumerate(self.delta.columns)]
        return value_column(evaluate(self.attribute, columns, (), length, self.functions))


def attribute_column(attribute: Expr, delta: Delta, functions: Functions) -> AttributeColumn | ValueColumn:
    column = AttributeColumn(attribute, delta, functions, 0, len(delta))
    below = unwidened(attribute)
    direct = isinstance(below, Column) and below.type != t.STRING
    return column.at(None) if direct or may_overflow(attribute) else column

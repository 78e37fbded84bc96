"""The values of an attribute for the changes of a batch, as input of grouped filters.

A number that is a column of the stream is read directly. Texts and expressions are evaluated only for the rows that a
filter asks for (`index/filters/row_codes.py`), because that costs more than the search of most filters. An expression
that may overflow is evaluated for all rows: an overflow is an event, and it must not depend on the order of attributes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from eddyline import types as t
from eddyline.arrays import Ints
from eddyline.index.filters.domains import ValueColumn, value_column
from eddyline.operators.base import columns_for
from eddyline.operators.evaluate import Functions, evaluate
from eddyline.plan.expressions import columns_of, may_overflow
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
        everything = self.stop - self.start == len(self.delta)
        return self._values(None if everything else np.arange(self.start, self.stop))

    def _values(self, rows: Ints | None) -> ValueColumn:
        delta = self.delta if rows is None else self.delta.take(rows)
        columns = columns_for(delta, columns_of(self.attribute))
        return value_column(evaluate(self.attribute, columns, (), len(delta), self.functions))


def attribute_column(attribute: Expr, delta: Delta, functions: Functions) -> AttributeColumn | ValueColumn:
    column = AttributeColumn(attribute, delta, functions, 0, len(delta))
    direct = isinstance(attribute, Column) and attribute.type != t.STRING
    return column.at(None) if direct or may_overflow(attribute) else column

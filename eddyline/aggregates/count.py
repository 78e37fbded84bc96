"""COUNT(x): the number of values of a group that are not NULL. COUNT(*): the number of its rows."""

from __future__ import annotations

import pyarrow as pa

from eddyline import types as t
from eddyline.aggregates.description import AggregateFunction, Counted
from eddyline.arrays import Doubles, Ints


def _types(argument: pa.DataType) -> tuple[pa.DataType, pa.DataType]:
    return argument, t.BIGINT


def _form(argument: pa.DataType | None) -> Counted:
    return _ROWS if argument is None else _VALUES


def _add(column: pa.Array, ints: Ints, floats: Doubles) -> None:
    ints[:, 0] = column.is_valid().to_numpy(zero_copy_only=False)


def _rows(rows: Ints, ints: Ints, floats: Doubles) -> pa.Array:
    return pa.array(rows)


def _values(rows: Ints, ints: Ints, floats: Doubles) -> pa.Array:
    return pa.array(ints[:, 0])


_ROWS = Counted(0, _add, _rows)
_VALUES = Counted(1, _add, _values)

COUNT = AggregateFunction("count", "* or any", "BIGINT", _types, _form, len, star=t.BIGINT)

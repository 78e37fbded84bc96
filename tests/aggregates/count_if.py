"""COUNT_IF(x): how many values of a group are true. An aggregate of counters that the tests add to the registry."""

from __future__ import annotations

import pyarrow as pa

from eddyline import types as t
from eddyline.aggregates.description import AggregateFunction, Counted
from eddyline.arrays import Doubles, Ints


def _types(argument: pa.DataType) -> tuple[pa.DataType, pa.DataType] | None:
    return (t.BOOLEAN, t.BIGINT) if argument in (t.BOOLEAN, t.NULL) else None


def _form(argument: pa.DataType | None) -> Counted:
    return Counted(1, _add, _result)


def _add(column: pa.Array, ints: Ints, floats: Doubles) -> None:
    ints[:, 0] = column.fill_null(False).to_numpy(zero_copy_only=False)


def _result(rows: Ints, ints: Ints, floats: Doubles) -> pa.Array:
    return pa.array(ints[:, 0])


COUNT_IF = AggregateFunction("count_if", "BOOLEAN", "BIGINT", _types, _form, sum)

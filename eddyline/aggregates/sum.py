"""SUM(x): a BIGINT for integers, NULL if it does not fit; the nearest DOUBLE for doubles. NULL if there is no value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from eddyline import types as t
from eddyline.aggregates.description import AggregateFunction, Counted
from eddyline.aggregates.exact_doubles import DOUBLE_SUM, nearest
from eddyline.arrays import Doubles, Ints


def _types(argument: pa.DataType) -> tuple[pa.DataType, pa.DataType] | None:
    if not (t.is_numeric(argument) or argument == t.NULL):
        return None
    wide = t.DOUBLE if t.is_float(argument) else t.BIGINT
    return wide, wide


def _form(argument: pa.DataType | None) -> Counted:
    return DOUBLE_SUM if argument == t.DOUBLE else _INTEGERS


def _add(column: pa.Array, ints: Ints, floats: Doubles) -> None:
    values = column.fill_null(0).to_numpy(zero_copy_only=False)
    ints[:, 0] = column.is_valid().to_numpy(zero_copy_only=False)
    ints[:, 1] = values >> 32
    ints[:, 2] = values & 0xFFFFFFFF


def _result(rows: Ints, ints: Ints, floats: Doubles) -> pa.Array:
    count, upper, lower = ints.T
    high = upper + (lower >> 32)
    fits = (high >= -(2**31)) & (high < 2**31)
    total = (np.where(fits, high, 0) << 32) + (lower & 0xFFFFFFFF)
    return pa.array(total, mask=(count == 0) | ~fits)


def _reference(values: Sequence[Any]) -> Any:
    if not values:
        return None
    return nearest(values, 1) if isinstance(values[0], float) else sum(values)


# Counters: values, upper half of the sum, lower half.
_INTEGERS = Counted(3, _add, _result, upper_halves=(1,))

SUM = AggregateFunction("sum", "number", "BIGINT or DOUBLE", _types, _form, _reference)

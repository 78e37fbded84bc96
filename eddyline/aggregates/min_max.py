"""MIN(x) and MAX(x): the least and the greatest value of a group, of any type. NULL if there is no value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from eddyline.aggregates.description import AggregateFunction, Extreme


def _types(argument: pa.DataType) -> tuple[pa.DataType, pa.DataType]:
    return argument, argument


def _least(argument: pa.DataType | None) -> Extreme:
    return Extreme("least")


def _greatest(argument: pa.DataType | None) -> Extreme:
    return Extreme("greatest")


def _order(value: Any) -> tuple[bool, Any]:
    """NaN is above all numbers."""
    return value != value, value


def _min(values: Sequence[Any]) -> Any:
    return min(values, key=_order, default=None)


def _max(values: Sequence[Any]) -> Any:
    return max(values, key=_order, default=None)


MIN = AggregateFunction("min", "T", "T", _types, _least, _min)
MAX = AggregateFunction("max", "T", "T", _types, _greatest, _max)

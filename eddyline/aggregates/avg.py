"""AVG(x): the DOUBLE nearest to the mean of the values of a group. NULL if there is no value."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from eddyline import types as t
from eddyline.aggregates.description import AggregateFunction, Counted
from eddyline.aggregates.exact_doubles import DOUBLE_MEAN, nearest


def _types(argument: pa.DataType) -> tuple[pa.DataType, pa.DataType] | None:
    return (t.DOUBLE, t.DOUBLE) if t.is_numeric(argument) or argument == t.NULL else None


def _form(argument: pa.DataType | None) -> Counted:
    return DOUBLE_MEAN


def _reference(values: Sequence[float]) -> float | None:
    return nearest(values, len(values)) if values else None


AVG = AggregateFunction("avg", "number", "DOUBLE", _types, _form, _reference)

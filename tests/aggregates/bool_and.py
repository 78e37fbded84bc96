"""BOOL_AND(x): whether all values of a group are true. An extreme that the tests add to the registry."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from eddyline import types as t
from eddyline.aggregates.description import AggregateFunction, Extreme


def _types(argument: pa.DataType) -> tuple[pa.DataType, pa.DataType] | None:
    return (t.BOOLEAN, t.BOOLEAN) if argument in (t.BOOLEAN, t.NULL) else None


def _form(argument: pa.DataType | None) -> Extreme:
    return Extreme("least")


def _reference(values: Sequence[bool]) -> bool | None:
    return all(values) if values else None


BOOL_AND = AggregateFunction("bool_and", "BOOLEAN", "BOOLEAN", _types, _form, _reference)

"""Values of rows and their comparison: all NaNs are equal, and -0.0 equals 0.0.

Times are naive datetimes in UTC inside rows and integer microseconds everywhere else.
"""

from __future__ import annotations

import math
import struct
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias

import pyarrow as pa

from eddyline import types as t

Row: TypeAlias = tuple[Any, ...]

MIN = -(2**63)  # the beginning of time
MAX = 2**63 - 1  # no expiration
NAN = float("nan")  # the only NaN object that `comparable` returns: tuples compare it by identity
_EPOCH = datetime(1970, 1, 1)
_MICROSECOND = timedelta(microseconds=1)


def micros(moment: datetime | timedelta | int) -> int:
    """Microseconds since 1970, or of a duration."""
    if isinstance(moment, datetime):
        moment = _naive(moment) - _EPOCH
    return moment // _MICROSECOND if isinstance(moment, timedelta) else moment


def native(value: Any, type: pa.DataType) -> Any:
    """Converts an input value to the form that rows have; times may be microseconds, and floats integers."""
    if value is None:
        return None
    if type == t.TIMESTAMP:
        return _naive(value) if isinstance(value, datetime) else _EPOCH + timedelta(microseconds=value)
    if type == t.INTERVAL and isinstance(value, int):
        return timedelta(microseconds=value)
    return single(float(value)) if type == t.FLOAT else float(value) if type == t.DOUBLE else value


def fit(value: Any, type: pa.DataType) -> Any:
    """The result of a calculation as a value of the type; None if it overflows."""
    if value is None:
        return None
    if t.is_integer(type):
        return value if -(2 ** (type.bit_width - 1)) <= value < 2 ** (type.bit_width - 1) else None
    if type == t.INTERVAL:
        return value if MIN <= micros(value) <= MAX else None
    return single(value) if type == t.FLOAT else value


def single(number: float) -> float:
    """The nearest number of 32 bits."""
    try:
        return float(struct.unpack("f", struct.pack("f", number))[0])
    except OverflowError:
        return math.copysign(math.inf, number)


def order(value: Any) -> tuple[bool, Any]:
    """A key whose `==` and `<` are those of the language: NaN equals NaN and is above every number."""
    return (True, 0) if is_nan(value) else (False, value)


def comparable(row: Row) -> Row:
    """The row as a key of groups, DISTINCT and set operations; NULLs are equal to each other."""
    return tuple(NAN if is_nan(v) else _positive_zero(v) for v in row)


def canonical(row: Row) -> Row:
    """The form in which tests compare rows of any origin."""
    return tuple("NaN" if is_nan(v) else _naive(v) if isinstance(v, datetime) else _positive_zero(v) for v in row)


def is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _positive_zero(value: Any) -> Any:
    return value + 0.0 if isinstance(value, float) else value


def _naive(moment: datetime) -> datetime:
    return moment.astimezone(UTC).replace(tzinfo=None) if moment.tzinfo else moment

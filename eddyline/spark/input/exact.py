"""Exact conversion of file columns to the declared types.

A file may have a column in another type than the declared one: pandas writes times in nanoseconds, and integers with
missing values as floats. A value that the declared type cannot represent makes its row bad; a type of another kind
(text for a number) makes the file unreadable. Times are truncated to microseconds, as everywhere in Eddyline. A column
whose values all fit costs one checked cast.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from eddyline import types as t
from eddyline.sql.columns import in_type, is_text


def readable(given: pa.DataType, declared: pa.DataType) -> bool:
    """Whether values of a type can be converted to the declared one."""
    if pt.is_dictionary(given):
        given = given.value_type
    number = pt.is_integer(given) or pt.is_floating(given) or pt.is_decimal(given)
    return bool(
        given == declared
        or pt.is_null(given)
        or (t.is_numeric(declared) and number)
        or (declared == t.STRING and (is_text(given) or is_binary(given)))
        or (declared in (t.TIMESTAMP, t.DATE) and (pt.is_timestamp(given) or pt.is_date(given)))
        or (declared == t.INTERVAL and (pt.is_duration(given) or given == pa.int64()))  # Spark writes BIGINT
    )


def is_binary(kind: pa.DataType) -> bool:
    return bool(
        pt.is_binary(kind) or pt.is_large_binary(kind) or pt.is_fixed_size_binary(kind) or pt.is_binary_view(kind)
    )


def exactly(column: pa.Array, declared: pa.DataType) -> tuple[pa.Array, pa.Array | None]:
    """The column in the declared type, and the mask of values that it cannot represent (NULL there); None if none."""
    if pt.is_dictionary(column.type):
        column = column.dictionary_decode()
    if column.type == declared:
        return column, None
    converted = _converted(column, declared)
    lossy = pc.and_(column.is_valid(), converted.is_null())
    return converted, lossy if pc.any(lossy).as_py() else None


def _converted(column: pa.Array, to: pa.DataType) -> pa.Array:
    """Converts a column; NULL where the value would change."""
    kind = column.type
    if to == t.STRING and is_binary(kind):
        plain = column.cast(pa.binary())
        return pa.StringArray.from_buffers(len(plain), *plain.buffers()[1:], plain.buffers()[0], -1, plain.offset)
    if to == t.INTERVAL and kind == pa.int64():
        return column.cast(to)
    if to in (t.TIMESTAMP, t.DATE) and not pt.is_null(kind):
        return _time(column, to)
    if t.is_numeric(to) and pt.is_decimal(kind):
        return _by_value(column, to)
    if to == t.FLOAT and pt.is_float64(kind):
        narrow = column.cast(to)
        same = pc.or_(pc.equal(narrow.cast(kind), column), pc.is_nan(column))
        return _where(same, narrow)
    if t.is_integer(to) and pt.is_float16(kind):
        column, kind = column.cast(pa.float32()), pa.float32()
    try:
        return in_type(column, to)
    except ValueError:
        return _number(column, to)


def _number(column: pa.Array, to: pa.DataType) -> pa.Array:
    """Converts integers and floats; NULL where converting back would overflow or give another value."""
    kind = column.type
    if pt.is_integer(kind) and t.is_integer(to):
        low, high = -(2 ** (to.bit_width - 1)), 2 ** (to.bit_width - 1) - 1
        least = 0 if kind.bit_width == 64 and pt.is_unsigned_integer(kind) else low
        fits = pc.less_equal(column, pa.scalar(high, pa.uint64() if least == 0 else pa.int64()))
        fits = fits if least == 0 else pc.and_(fits, pc.greater_equal(column, pa.scalar(low, pa.int64())))
        return _where(fits, column.cast(to, safe=False))
    if pt.is_floating(kind):
        wide, limit = column.cast(pa.float64()), 2.0 ** (to.bit_width - 1)
        inside = pc.and_(pc.greater_equal(wide, -limit), pc.less(wide, limit))
        whole = _where(inside, wide).cast(pa.int64(), safe=False)
        return _where(pc.equal(whole.cast(pa.float64(), safe=False), wide), whole.cast(to, safe=False))
    near = column.cast(to, safe=False)
    limit = 2.0 ** (kind.bit_width - (1 if pt.is_signed_integer(kind) else 0))
    inside = pc.and_(pc.greater_equal(near.cast(pa.float64()), -limit), pc.less(near.cast(pa.float64()), limit))
    back = _where(inside, near).cast(kind, safe=False)
    return _where(pc.equal(back, column), near)


def _time(column: pa.Array, to: pa.DataType) -> pa.Array:
    """Converts times and dates; a time is a date if it is midnight. NULL where microseconds overflow."""
    if pt.is_date(column.type):
        days = column.cast(pa.date32(), safe=False)
        if to == t.DATE:
            return days
        return _scaled(days.cast(pa.int32()).cast(pa.int64()), 86_400_000_000).cast(to)
    if column.type.unit == "ns":
        micros = in_type(column, t.TIMESTAMP).cast(pa.int64())
    else:
        micros = _scaled(column.cast(pa.int64()), {"s": 1_000_000, "ms": 1_000, "us": 1}[column.type.unit])
    if to == t.TIMESTAMP:
        return micros.cast(to)
    numbers = micros.fill_null(0).to_numpy()
    days, rest = np.divmod(numbers, 86_400_000_000)
    invalid = micros.is_null().to_numpy(zero_copy_only=False) | (rest != 0)
    return pa.array(days.astype(np.int32), pa.int32(), mask=invalid).cast(to)


def _scaled(count: pa.Array, by: int) -> pa.Array:
    most = (2**63 - 1) // by
    inside = pc.and_(pc.less_equal(count, most), pc.greater_equal(count, -most))
    return pc.multiply(_where(inside, count), by)


def _by_value(column: pa.Array, to: pa.DataType) -> pa.Array:
    """Converts decimals to numbers that print the same; value by value only if the cast of the column is inexact."""
    try:
        near = column.cast(to)
        if t.is_integer(to) or bool(pc.all(pc.equal(near.cast(column.type), column)).as_py() in (True, None)):
            return near
    except pa.ArrowInvalid:
        pass
    return pa.array([_value(v, to) for v in column.to_pylist()], to)


def _value(value: object, to: pa.DataType) -> object:
    if value is None:
        return None
    if t.is_integer(to):
        limit = 2 ** (to.bit_width - 1)
        return int(value) if value == int(value) and -limit <= value < limit else None  # type: ignore[call-overload]
    number = float(np.float32(value) if to == t.FLOAT else value)  # type: ignore[arg-type]
    shortest = str(np.float32(number)) if to == t.FLOAT else repr(number)
    return number if type(value)(shortest) == value else None  # type: ignore[call-arg]


def _where(condition: pa.Array, column: pa.Array) -> pa.Array:
    return pc.if_else(condition, column, pa.scalar(None, column.type))

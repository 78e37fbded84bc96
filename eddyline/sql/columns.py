"""Conversion of users' Arrow columns to declared types. Only conversions that keep the value are made."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eddyline import types as t
from eddyline.sql.constants import parse_timestamp

_EPOCH = datetime(1970, 1, 1)
CALENDAR = {
    t.TIMESTAMP: tuple((x - _EPOCH) // timedelta(microseconds=1) for x in (datetime.min, datetime.max)),
    t.DATE: tuple((x - _EPOCH.date()).days for x in (date.min, date.max)),
}
_UNCHECKED = frozenset(
    x for x in t.BY_NAME.values() if x not in (t.STRING, t.TIMESTAMP, t.DATE)
)  # all values are valid


def as_type(
    array: pa.Array | pa.ChunkedArray, to: pa.DataType, text: Literal["checked", "trusted"] = "trusted"
) -> pa.Array:
    """Converts a column; ValueError names what does not fit. `text` says whether UTF-8 must be validated."""
    array = _plain(array)
    if array.type == to and to in _UNCHECKED:
        return array
    if text == "checked" and is_text(array.type):
        _check_text(array)
    converted = in_type(array, to)
    if outside_calendar(converted) is not None:
        raise ValueError("found a time outside the years 1 to 9999")
    return converted


def in_type(array: pa.Array | pa.ChunkedArray, to: pa.DataType) -> pa.Array:
    """Converts a column, with times of any year; ValueError names what does not fit."""
    array = _plain(array)
    try:
        return array if array.type == to else _converted(array, to)
    except (pa.ArrowException, OverflowError, LookupError) as e:
        raise ValueError(str(e)) from None


def _plain(array: pa.Array | pa.ChunkedArray) -> pa.Array:
    """One array, without chunks or dictionary."""
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    return array.dictionary_decode() if isinstance(array, pa.DictionaryArray) else array


def outside_calendar(array: pa.Array) -> pa.Array | None:
    """A mask of the values of a TIMESTAMP or DATE column outside the years 1 to 9999; None if there are none."""
    if not (pa.types.is_timestamp(array.type) or pa.types.is_date(array.type)) or array.type not in CALENDAR:
        return None
    first, last = CALENDAR[array.type]
    if len(array) and not array.null_count:  # for small pushes: 4 µs instead of 29 with Arrow's kernels
        size = array.type.bit_width // 8
        values = np.frombuffer(array.buffers()[1], f"i{size}", len(array), array.offset * size)
        if first <= values.min() and values.max() <= last:
            return None
    whole = array.cast(pa.int64() if array.type == t.TIMESTAMP else pa.int32())
    low, high = (x.as_py() for x in pc.min_max(whole).values())
    if low is None or first <= low <= high <= last:
        return None
    return pc.fill_null(pc.or_(pc.less(whole, first), pc.greater(whole, last)), False)


def not_utf8(array: pa.Array) -> pa.Array | None:
    """A mask of the values of a STRING column that are not valid UTF-8; None if there are none. One pass over ASCII."""
    if array.type != t.STRING or array.buffers()[2] is None or _is_ascii(array.buffers()[2]):
        return None
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        values = array.view(pa.binary()).to_pylist()
        return pa.array([v is not None and not _decodes(v) for v in values])
    return None


def _is_ascii(buffer: pa.Buffer) -> bool:
    whole = len(buffer) // 8 * 8
    words, rest = np.frombuffer(buffer, np.uint64, whole // 8), np.frombuffer(buffer, np.uint8, offset=whole)
    return not bool((words & np.uint64(0x8080808080808080)).any() or (rest & np.uint8(0x80)).any())


def _decodes(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def _converted(array: pa.Array, to: pa.DataType) -> pa.Array:
    kind = array.type
    if pa.types.is_timestamp(kind) and to == t.TIMESTAMP:
        micros = pa.timestamp("us", kind.tz)
        plain = pc.cast(array, options=pc.CastOptions(target_type=micros, allow_time_truncate=True))
        return plain.cast(pa.int64()).cast(t.TIMESTAMP)  # Arrow stores zoned timestamps as instants in UTC
    if pa.types.is_duration(kind) and to == t.INTERVAL:
        return pc.cast(array, options=pc.CastOptions(target_type=to, allow_time_truncate=True))
    if is_text(kind) and to == t.TIMESTAMP:
        try:
            return pc.cast(array, to)
        except pa.ArrowInvalid:  # Arrow does not parse texts with a zone
            pass
        return pa.array([None if x is None else parse_timestamp(x) for x in array.to_pylist()], to)
    number = pa.types.is_integer(kind) or pa.types.is_floating(kind)
    keeps_value = (
        pa.types.is_null(kind)
        or (number and t.is_numeric(to))
        or (is_text(kind) and to in (t.STRING, t.DATE))
        or (pa.types.is_date(kind) and to in (t.TIMESTAMP, t.DATE))
    )
    if not keeps_value:
        raise ValueError(f"found {kind}")
    return pc.cast(array, to)


def is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _check_text(array: pa.Array) -> None:
    """Raises ValueError for invalid UTF-8, which Arrow accepts unchecked. 1 ns per byte, 0.1 ns for ASCII."""
    if not pa.types.is_string_view(array.type) and (text := array.buffers()[2]) is not None and _is_ascii(text):
        return
    try:
        array.validate(full=True)
    except pa.ArrowInvalid as e:
        if array.type == pa.string_view():
            array = array.cast(pa.large_string())
        for row, value in enumerate(array.cast(pa.large_binary()).to_pylist()):
            try:
                (value or b"").decode()
            except UnicodeDecodeError:
                shown = value if len(value) < 60 else value[:57] + b"..."
                raise ValueError(f"row {row} has {shown!r}, which is not valid UTF-8") from None
        raise ValueError(str(e)) from None

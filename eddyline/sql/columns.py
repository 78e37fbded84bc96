"""Arrow columns from users, brought into a declared type. Only conversions that keep the value are made."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc

from eddyline import types as t
from eddyline.sql.constants import parse_timestamp

_EPOCH = datetime(1970, 1, 1)
_CALENDAR = {
    t.TIMESTAMP: tuple((x - _EPOCH) // timedelta(microseconds=1) for x in (datetime.min, datetime.max)),
    t.DATE: tuple((x - _EPOCH.date()).days for x in (date.min, date.max)),
}


def as_type(
    array: pa.Array | pa.ChunkedArray, to: pa.DataType, text: Literal["checked", "trusted"] = "trusted"
) -> pa.Array:
    """The column in the type; ValueError says what does not fit. `text`: whether it must be looked at for bad UTF-8."""
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if text == "checked" and is_text(array.type):
        _check_text(array)
    try:
        found = array if array.type == to else _converted(array, to)
    except (pa.ArrowException, OverflowError, LookupError) as e:
        raise ValueError(str(e)) from None
    if to in _CALENDAR:
        _check_calendar(found, *_CALENDAR[to])
    return found


def _converted(array: pa.Array, to: pa.DataType) -> pa.Array:
    kind = array.type
    if pa.types.is_timestamp(kind) and to == t.TIMESTAMP:
        micros = pa.timestamp("us", kind.tz)
        plain = pc.cast(array, options=pc.CastOptions(target_type=micros, allow_time_truncate=True))
        return plain.cast(pa.int64()).cast(t.TIMESTAMP)  # instants stay: the zone was only a way to show them
    if pa.types.is_duration(kind) and to == t.INTERVAL:
        return pc.cast(array, options=pc.CastOptions(target_type=to, allow_time_truncate=True))
    if is_text(kind) and to == t.TIMESTAMP:
        try:
            return pc.cast(array, to)
        except pa.ArrowInvalid:  # perhaps only because there is a zone
            pass
        return pa.array([None if x is None else parse_timestamp(x) for x in array.to_pylist()], to)
    number = pa.types.is_integer(kind) or pa.types.is_floating(kind)
    goes = (
        pa.types.is_null(kind)
        or (number and t.is_numeric(to))
        or (is_text(kind) and to in (t.STRING, t.DATE))
        or (pa.types.is_date(kind) and to in (t.TIMESTAMP, t.DATE))
    )
    if not goes:
        raise ValueError(f"found {kind}")
    return pc.cast(array, to)


def is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _check_text(array: pa.Array) -> None:
    """Arrow takes any bytes for text until somebody reads them. About one nanosecond a byte."""
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


def _check_calendar(array: pa.Array, first: int, last: int) -> None:
    whole = array.cast(pa.int64() if array.type == t.TIMESTAMP else pa.int32())
    low, high = (x.as_py() for x in pc.min_max(whole).values())
    if low is not None and not first <= low <= high <= last:
        raise ValueError("found a time outside the years 1 to 9999")

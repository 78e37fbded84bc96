"""Encodes rows as JSON objects with the columns in order, in this stable format:

    null                the field is present, as null        DATE         "2026-01-31"
    BOOLEAN, integers   true, 42                             TIMESTAMP    "2026-01-31T08:00:00.000000Z", always in UTC
    FLOAT, DOUBLE       0.1: the shortest that reads back    INTERVAL     a whole number of microseconds
                        the same; "NaN", "Infinity",         BINARY       base64
                        "-Infinity" as text                  lists, structs   arrays, objects; decimals are text

Columns are encoded as a whole, by Arrow where it can, and then joined into rows.
"""

from __future__ import annotations

import base64
import datetime as dt
import json
import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from eddyline.errors import DataError

_ESCAPED = r'["\\\x00-\x1f]'  # characters that JSON requires to be escaped


def json_rows(rows: pa.RecordBatch) -> pa.Array:
    """The text of each row."""
    pieces: list[Any] = []
    for i, name in enumerate(rows.schema.names):
        pieces += [f"{',' if i else '{'}{_encoded(name)}:", _texts(rows.column(i))]
    return pc.binary_join_element_wise(*pieces, "}", "") if pieces else pa.repeat("{}", rows.num_rows)


def _texts(column: pa.Array) -> pa.Array:
    """The text of each value of a column. A time without a zone is in UTC, as everywhere in Eddyline."""
    kind = column.type
    if pt.is_boolean(kind) or pt.is_integer(kind):
        texts = column.cast(pa.string())
    elif pt.is_floating(kind):
        plain = column.cast(pa.string()).cast(pa.float64())  # a FLOAT of 0.1 must not become 0.10000000149011612
        texts = pa.array([None if v is None else _number(v) for v in plain.to_pylist()], pa.string())
    elif pt.is_date32(kind):
        texts = _quoted(column.cast(pa.string()))
    elif pt.is_timestamp(kind):
        moments = column.cast(pa.timestamp("us"), safe=False).cast(pa.string())
        texts = _quoted(pc.binary_join_element_wise(pc.replace_substring(moments, " ", "T"), "Z", ""))
    elif pt.is_duration(kind):
        texts = column.cast(pa.duration("us"), safe=False).cast(pa.int64()).cast(pa.string())
    elif pt.is_string(kind) and not pc.any(pc.match_substring_regex(column, _ESCAPED)).as_py():
        texts = _quoted(column)
    else:
        texts = pa.array([None if v is None else _encoded(v) for v in column.to_pylist()], pa.string())
    return texts.fill_null("null")


def _quoted(texts: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise('"', texts, '"', "")


def _number(value: float) -> str:
    """A number, or a text for NaN and the infinities, which JSON numbers lack."""
    if math.isfinite(value):
        return repr(value)
    return '"NaN"' if math.isnan(value) else '"Infinity"' if value > 0 else '"-Infinity"'


def _encoded(value: Any) -> str:
    return json.dumps(_json_value(value), ensure_ascii=False, separators=(",", ":"))


def _json_value(value: Any) -> Any:
    """The JSON form of a single value; used for the types that Arrow does not encode."""
    if isinstance(value, dict):
        return {k: _json_value(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_json_value(v) for v in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else _number(value).strip('"')
    if isinstance(value, dt.datetime):
        utc = value if value.tzinfo is None else value.astimezone(dt.UTC).replace(tzinfo=None)
        return f"{utc.isoformat(timespec='microseconds')}Z"
    if isinstance(value, dt.date | dt.time):
        return value.isoformat()
    if isinstance(value, dt.timedelta):
        return value // dt.timedelta(microseconds=1)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, Decimal):
        return str(value)
    if value is None or isinstance(value, bool | int | str):
        return value
    raise DataError(f"A value of type {type(value).__name__} has no form in JSON.", hint="Cast it to STRING.")

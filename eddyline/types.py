"""SQL types as Arrow types, and the implicit and explicit conversions between them.

Times are microseconds in UTC without a zone; INTERVAL is a duration in microseconds.
"""

from __future__ import annotations

import pyarrow as pa

BOOLEAN = pa.bool_()
BYTE, SHORT, INT, BIGINT = pa.int8(), pa.int16(), pa.int32(), pa.int64()
FLOAT, DOUBLE = pa.float32(), pa.float64()
STRING = pa.string()
DATE = pa.date32()
TIMESTAMP = pa.timestamp("us")
INTERVAL = pa.duration("us")
NULL = pa.null()

_NAMES = {
    BOOLEAN: "BOOLEAN",
    BYTE: "TINYINT",
    SHORT: "SMALLINT",
    INT: "INT",
    BIGINT: "BIGINT",
    FLOAT: "FLOAT",
    DOUBLE: "DOUBLE",
    STRING: "STRING",
    DATE: "DATE",
    TIMESTAMP: "TIMESTAMP",
    INTERVAL: "INTERVAL",
    NULL: "NULL",
}
_ALIASES = {
    "BOOL": BOOLEAN,
    "BYTE": BYTE,
    "SHORT": SHORT,
    "INTEGER": INT,
    "LONG": BIGINT,
    "REAL": FLOAT,
    "VARCHAR": STRING,
    "TEXT": STRING,
    "TIMESTAMP_NTZ": TIMESTAMP,
    "TIMESTAMP_LTZ": TIMESTAMP,
}
BY_NAME = {name: t for t, name in _NAMES.items() if t != NULL} | _ALIASES

_NUMERIC = (BYTE, SHORT, INT, BIGINT, FLOAT, DOUBLE)


def name_of(t: pa.DataType) -> str:
    if pa.types.is_list(t):
        return f"ARRAY<{name_of(t.value_type)}>"
    return _NAMES.get(t, str(t).upper())


def is_integer(t: pa.DataType) -> bool:
    return t in (BYTE, SHORT, INT, BIGINT)


def is_float(t: pa.DataType) -> bool:
    return t in (FLOAT, DOUBLE)


def is_numeric(t: pa.DataType) -> bool:
    return t in _NUMERIC


def common(a: pa.DataType, b: pa.DataType) -> pa.DataType | None:
    """The type to which both convert implicitly, or None. INT or BIGINT with FLOAT gives DOUBLE, as in Spark."""
    if a == b:
        return a
    if a == NULL:
        return b
    if b == NULL:
        return a
    if is_numeric(a) and is_numeric(b):
        wider = _NUMERIC[max(_NUMERIC.index(a), _NUMERIC.index(b))]
        return DOUBLE if wider == FLOAT and (a in (INT, BIGINT) or b in (INT, BIGINT)) else wider
    if {a, b} == {DATE, TIMESTAMP}:
        return TIMESTAMP
    return None


def castable(a: pa.DataType, b: pa.DataType) -> bool:
    """Whether CAST of type `a` AS type `b` is allowed."""
    if a in (b, NULL, STRING) or b == STRING:
        return bool(b != NULL)
    plain = (BOOLEAN, *_NUMERIC)
    if a in plain and b in plain:
        return True
    return bool({a, b} == {DATE, TIMESTAMP})

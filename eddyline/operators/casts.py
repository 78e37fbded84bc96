"""CAST and rounding over Arrow columns: NULL where a value cannot be represented in the other type, never an error.

Kernels convert numbers, booleans and times. Python converts text, once per distinct value, by
`sql/constants.py::convert`, so that a text means the same in a column as in a query. Times outside the years 1 to 9999
have no text and no Python value, and become NULL.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import date, datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal, localcontext
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eddyline import types as t
from eddyline.errors import BindError
from eddyline.sql.columns import CALENDAR
from eddyline.sql.constants import convert, float_text, interval_text

_MICROSECOND = timedelta(microseconds=1)


def cast(to: pa.DataType, x: pa.Array) -> pa.Array:
    """The values of `x` as values of `to`; `types.castable` holds."""
    if x.type == to:
        return x
    if x.type == t.NULL:
        return pa.nulls(len(x), to)
    if to == t.STRING:
        return _to_text(x)
    if x.type == t.STRING:
        return _from_text(x, to)
    if to == t.BOOLEAN:
        return pc.not_equal(x, pa.scalar(0, x.type))
    if t.is_float(to):  # a BIGINT becomes a DOUBLE first, as a constant does
        return x.cast(t.DOUBLE, safe=False).cast(to, safe=False)
    if t.is_integer(to):
        return whole(to, pc.trunc(x)) if t.is_float(x.type) else _integer(x, to)
    return in_calendar(x).cast(to, safe=False)


def whole(to: pa.DataType, x: Any) -> Any:
    """Floats without a fraction as integers (or as microseconds); NULL if out of range or not a number."""
    limit = 2.0 ** (to.bit_width - 1)
    x = x.cast(t.DOUBLE)
    inside = pc.and_(pc.greater_equal(x, -limit), pc.less(x, limit))
    return _where(inside, x).cast(pa.int64(), safe=False).cast(to, safe=False)


def rounded(x: Any, digits: int) -> Any:
    """Half away from zero, on the decimal number that prints as the shortest form of `x`, as Spark does."""
    if abs(digits) > 22:  # powers of ten are exact floats up to here
        return np.array([_round_decimal(v, digits) for v in x.tolist()], float)
    power = 10.0 ** abs(digits)
    scaled = np.abs(x * power if digits >= 0 else x / power)
    floor = np.floor(scaled)
    nearest = floor + (scaled - floor >= 0.5)
    result = np.copysign(nearest / power if digits >= 0 else nearest * power, x)
    if digits != 0:  # scaling is not exact: where that matters, use the decimal digits
        sure = (np.abs(scaled - floor - 0.5) > scaled * 2.0**-48) & (scaled < 2.0**48)
        unsure = np.isfinite(x) & ~sure
        result[unsure] = [_round_decimal(v, digits) for v in x[unsure].tolist()]
    return result


def _round_decimal(number: float, digits: int) -> float:
    if not math.isfinite(number) or digits > 400:
        return number
    with localcontext(prec=1000):
        return float(Decimal(repr(number)).quantize(Decimal(1).scaleb(-max(digits, -400)), ROUND_HALF_UP))


def in_calendar(x: Any) -> Any:
    """TIMESTAMPs, microseconds or DATEs, with NULL outside the years 1 to 9999."""
    low, high = CALENDAR.get(x.type, CALENDAR[t.TIMESTAMP])
    amount = x.cast(pa.int32() if x.type == t.DATE else pa.int64())
    return _where(pc.and_(pc.greater_equal(amount, low), pc.less_equal(amount, high)), x)


def python_values(x: pa.Array) -> list[Any]:
    """int, float, str, bool, datetime, date, timedelta or None."""
    values: list[Any] = (in_calendar(x) if x.type in (t.TIMESTAMP, t.DATE) else x).to_pylist()
    return values


def per_distinct(x: pa.Array, to: pa.DataType, function: Callable[[Any], Any]) -> pa.Array:
    """`function` of each value, called once per distinct value that is not NULL."""
    encoded = x.dictionary_encode()
    return pa.array([function(v) for v in encoded.dictionary.to_pylist()], to).take(encoded.indices)


_PYTHON: dict[pa.DataType, type | tuple[type, ...]] = {
    t.BOOLEAN: bool,
    **dict.fromkeys((t.BYTE, t.SHORT, t.INT, t.BIGINT), int),
    **dict.fromkeys((t.FLOAT, t.DOUBLE), (int, float)),
    t.STRING: str,
    t.DATE: date,
    t.TIMESTAMP: datetime,
    t.INTERVAL: timedelta,
}


def fitted(value: Any, to: pa.DataType) -> Any:
    """The return value of a user's function, as a value that Arrow accepts; raises if it is not of the type."""
    if value is None:
        return None
    if isinstance(value, np.generic):
        value = value.item()
    unlike = (to == t.DATE and isinstance(value, datetime)) or (t.is_numeric(to) and isinstance(value, bool))
    nat = isinstance(value, datetime) and value != value  # pandas.NaT is an instance of datetime
    if unlike or nat or not isinstance(value, _PYTHON[to]):
        raise TypeError(f"{_described(value)} is not a value of {t.name_of(to)}")
    if isinstance(value, str):
        value.encode()  # a lone surrogate has no UTF-8
    if isinstance(value, timedelta):
        return convert(arrow_value(value, to), t.BIGINT)
    return convert(value, to)


def _described(value: Any) -> str:
    """A value of a wrong type; for a column, also how to define a function that returns columns."""
    module = type(value).__module__.partition(".")[0]
    if module == "pyarrow" or (module in ("pandas", "numpy") and hasattr(value, "dtype")):
        kind = "arrow" if module == "pyarrow" else "pandas"
        return f"a {type(value).__name__} (a function of columns is defined with kind={kind!r})"
    return repr(value)


def arrow_value(value: Any, to: pa.DataType) -> Any:
    """The value in a form that pyarrow accepts: it refuses long timedeltas, and long integers as floats."""
    if isinstance(value, timedelta):
        return value // _MICROSECOND
    return float(value) if t.is_float(to) and value is not None else value


def _where(condition: Any, x: Any) -> Any:
    return pc.if_else(condition, x, pa.scalar(None, x.type))


def _integer(x: pa.Array, to: pa.DataType) -> pa.Array:
    """Integers or booleans as integers."""
    try:
        return x.cast(to)
    except pa.ArrowInvalid:  # some are out of range: those that a conversion back changes
        narrow = x.cast(to, safe=False)
        return _where(pc.equal(narrow.cast(x.type), x), narrow)


def _to_text(x: pa.Array) -> pa.Array:
    if t.is_float(x.type):
        return _float_text(x)
    if x.type == t.INTERVAL:
        return per_distinct(x.cast(pa.int64()), t.STRING, interval_text)
    if x.type == t.TIMESTAMP:
        return pc.ascii_rtrim(pc.ascii_rtrim(in_calendar(x).cast(t.STRING), "0"), ".")  # the cast gives six decimals
    return (in_calendar(x) if x.type == t.DATE else x).cast(t.STRING)


def _float_text(x: pa.Array) -> pa.Array:
    bits = x.view(pa.int32() if x.type == t.FLOAT else pa.int64())  # as -0.0 and 0.0 print differently
    encoded = bits.dictionary_encode()
    numbers = encoded.dictionary.to_numpy().view(x.type.to_pandas_dtype())
    texts = map(float_text, numbers if x.type == t.FLOAT else numbers.tolist())
    return pa.array(list(texts), t.STRING).take(encoded.indices)


def _from_text(x: pa.Array, to: pa.DataType) -> pa.Array:
    def read(text: str) -> Any:
        try:
            return convert(text, to)
        except BindError:
            return None

    return per_distinct(x, to, read)

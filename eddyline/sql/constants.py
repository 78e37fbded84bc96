"""Constants during binding, and conversions of Python values between SQL types as Spark makes them.

A literal may need a sign, a unit or a conversion to become the value the plan needs (`-5`, `INTERVAL 3 MINUTES`,
`ts > '2026-01-01'`). Each step is composed into `make`, which computes the value for a later text of the same shape
from its literal, without parsing that text.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import partial
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa

from eddyline import types as t
from eddyline.errors import BindError


@dataclass(frozen=True, slots=True)
class PendingConstant:
    """A constant whose type may still change to match the operands beside it."""

    value: Any
    type: pa.DataType
    origin: int | None  # position of its literal in the text; None if it has no literal of its own
    make: Callable[[str], Any] | None

    def then(self, step: Callable[[Any], Any], to: pa.DataType) -> PendingConstant:
        """The constant after one more conversion step."""
        make = self.make
        return PendingConstant(
            step(self.value), to, self.origin, None if make is None else (lambda text: step(make(text)))
        )


_MAX_DIGITS = 300  # of a number; Python refuses much longer integers, and DOUBLE cannot hold them


def number(text: str) -> int | float:
    """The value of a numeric literal: an integer if it is written as one and fits BIGINT."""
    if not text.isdecimal() or len(text) > _MAX_DIGITS:
        if not text.isascii() or "_" in text:  # Python accepts these, SQL does not
            raise ValueError(text)
        return float(text)
    value = read_integer(text)
    return value if -(2**63) <= value < 2**63 else float(text)  # beyond DOUBLE, infinity


def number_type(value: int | float) -> pa.DataType:
    if isinstance(value, float):
        return t.DOUBLE
    return t.INT if -(2**31) <= value < 2**31 else t.BIGINT


def convert(value: Any, to: pa.DataType, source: pa.DataType | None = None) -> Any:
    """Converts a Python value to an SQL type, as `cast` in `sql/functions.py` specifies; BindError if it cannot.
    `source` only affects the digits of a FLOAT printed as text. One or two microseconds."""
    if value is None:
        return None
    if source is not None and source == t.FLOAT and to == t.STRING:
        value = np.float32(value)
    try:
        return _CONVERT[to.id](value)
    except (ValueError, KeyError, OverflowError, AttributeError, TypeError):
        raise BindError(f"{value!r} cannot be read as {t.name_of(to)}.", hint=_EXAMPLES.get(to)) from None


# Text to values, as Spark parses it; ValueError or OverflowError if the text is not a value of the type.

_BLANK = "".join(map(chr, range(33))) + "\x7f"
_WHOLE = re.compile(r"[+-]?[0-9]+")
_NUMBER = re.compile(r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[dDfF]?")
_TRUTH = dict.fromkeys(("t", "true", "y", "yes", "1"), True) | dict.fromkeys(("f", "false", "n", "no", "0"), False)
_SPECIAL_FLOATS = {"nan": math.nan} | {
    sign + name: float(sign + name) for sign in ("", "+", "-") for name in ("inf", "infinity")
}
_DAY = re.compile(r"\+?([0-9]{4,7})(?:-([0-9]{1,2})(?:-([0-9]{1,2})(?:[ T].*)?)?)?", re.DOTALL)
_MOMENT = re.compile(
    r"\+?([0-9]{4,6})(?:-([0-9]{1,2})(?:-([0-9]{1,2})"
    r"(?:[ T]([0-9]{1,2})(?::([0-9]{1,2})(?::([0-9]{1,2})(?:\.([0-9]*))?([^0-9].*)?)?)?)?)?)?",
    re.DOTALL,
)
_OFFSET = re.compile(
    r"(?:UTC|GMT|UT)?([+-])(?:([0-9]{2})([0-9]{2})([0-9]{2})?|([0-9]{1,2})(?::([0-9]{1,2})(?:(?<=:..):([0-9]{2}))?)?)"
)
_REGION = re.compile(r"[A-Z][A-Za-z_]*/[A-Za-z0-9_+/-]+")


def read_float(text: str) -> float:
    match = _NUMBER.fullmatch(text := text.strip(_BLANK[:-1]))
    if match is not None:
        return float(match[1])
    special = math.nan if text in ("+NaN", "-NaN") else _SPECIAL_FLOATS.get(text.lower())
    if special is None:
        raise ValueError(text)
    return special


def read_integer(text: str) -> int:
    if _WHOLE.fullmatch(text := text.strip(_BLANK)) is None:
        raise ValueError(text)
    return int(text)


def read_date(text: str) -> date:
    match = _DAY.fullmatch(text.strip(_BLANK))
    if match is None:
        raise ValueError(text)
    year, month, day = match.groups("1")
    return date(int(year), int(month), int(day))


def parse_timestamp(text: str) -> datetime:
    if len(text) == 19 and text[10] in " T" and text[4::3] == "--" + text[10] + "::" and text[11:13] != "24":
        return datetime.fromisoformat(text)  # the usual form, six times faster
    match = _MOMENT.fullmatch(text.strip(_BLANK))
    if match is None:
        raise ValueError(text)
    year, month, day, hour, minute, second, fraction, zone = match.groups()
    micros = int(fraction[:6].ljust(6, "0")) if fraction else 0
    clock = int(hour or 0), int(minute or 0), int(second or 0), micros
    moment = datetime(int(year), int(month or 1), int(day or 1), *clock)
    return moment if zone is None else _in_utc(moment, zone.strip(_BLANK))


def _in_utc(moment: datetime, zone: str) -> datetime:
    """A local time of a zone, converted to UTC. Where clocks are set back, the first of the two instants; where they
    are set forward, the offset from before the change applies."""
    if zone in ("Z", "UTC", "GMT", "UT"):
        return moment
    match = _OFFSET.fullmatch(zone)
    if match is None:
        if _REGION.fullmatch(zone) is None:
            raise ValueError(zone)
        try:
            return moment.replace(tzinfo=ZoneInfo(zone)).astimezone(UTC).replace(tzinfo=None)
        except (KeyError, OSError):  # an unknown zone, or a directory of zones
            raise ValueError(zone) from None
    hours, minutes, seconds = (int(a or b or 0) for a, b in zip(match.groups()[1:4], match.groups()[4:], strict=True))
    offset = timedelta(hours=hours, minutes=minutes, seconds=seconds)
    if minutes > 59 or seconds > 59 or offset > timedelta(hours=18):
        raise ValueError(zone)
    return moment - offset if match[1] == "+" else moment + offset


# Values to text, as Spark prints them.


def text_of(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (float, np.float32)):
        return float_text(value)
    if isinstance(value, timedelta):
        return interval_text(value // timedelta(microseconds=1))
    if isinstance(value, datetime) and value.microsecond:
        return str(value).rstrip("0")
    return str(value)


def float_text(number: float | np.float32) -> str:
    """The fewest digits, but at least two, that parse to the same number, as Java prints them since version 19
    (earlier versions may print one or two more). With an exponent below 0.001 and from 10 million on."""
    text = str(number)
    if 1e-3 <= abs(float(number)) < 1e7 or number == 0:
        return text if isinstance(number, float) else np.format_float_positional(number, trim="0")
    if not math.isfinite(number):
        return text.replace("nan", "NaN").replace("inf", "Infinity")
    nearest = f"{number:.1e}"  # Java prints 4.9E-324 where one digit would do: two digits, the nearest such number
    sign, digits, exponent = Decimal(nearest if type(number)(nearest) == number else text).normalize().as_tuple()
    assert isinstance(exponent, int)
    first, rest = digits[0], "".join(map(str, digits[1:])) or "0"
    return f"{'-' * sign}{first}.{rest}E{exponent + len(digits) - 1}"


def interval_text(micros: int) -> str:
    sign, micros = "-" if micros < 0 else "", abs(micros)
    seconds, fraction = divmod(micros, 1_000_000)
    clock = f"{seconds // 3600 % 24:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    decimals = f".{fraction:06}".rstrip("0").rstrip(".")
    return f"INTERVAL '{sign}{seconds // 86400} {clock}{decimals}' DAY TO SECOND"


# Values to values.


def _boolean(value: Any) -> bool:
    if isinstance(value, str):
        return _TRUTH[value.strip(_BLANK).lower()]
    return float(value) != 0


def _integer(limit: int, value: Any) -> int:
    whole = read_integer(value) if isinstance(value, str) else math.trunc(value)
    if not -limit <= whole < limit:
        raise OverflowError
    return whole


def _double(value: Any) -> float:
    return read_float(value) if isinstance(value, str) else float(value)


def _single(value: Any) -> float:
    number = _double(value)
    try:
        return float(struct.unpack("f", struct.pack("f", number))[0])
    except OverflowError:
        return math.copysign(math.inf, number)


def _date(value: Any) -> date:
    if isinstance(value, str):
        return read_date(value)
    return value.date() if isinstance(value, datetime) else date(value.year, value.month, value.day)


def _timestamp(value: Any) -> datetime:
    if isinstance(value, str):
        return parse_timestamp(value)
    if isinstance(value, datetime):
        return value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value
    return datetime(value.year, value.month, value.day)


def _interval(value: Any) -> timedelta:
    if isinstance(value, timedelta):
        return value
    raise TypeError(value)


_CONVERT: dict[int, Callable[[Any], Any]] = {
    t.BOOLEAN.id: _boolean,
    **{x.id: partial(_integer, 2 ** (x.bit_width - 1)) for x in (t.BYTE, t.SHORT, t.INT, t.BIGINT)},
    t.FLOAT.id: _single,
    t.DOUBLE.id: _double,
    t.STRING.id: text_of,
    t.DATE.id: _date,
    t.TIMESTAMP.id: _timestamp,
    t.INTERVAL.id: _interval,
}

_EXAMPLES = {
    t.TIMESTAMP: "A timestamp looks like '2026-01-31 12:30:00'.",
    t.DATE: "A date looks like '2026-01-31'.",
    t.BOOLEAN: "A boolean is TRUE or FALSE.",
    t.INTERVAL: "An interval looks like INTERVAL 5 SECONDS.",
}

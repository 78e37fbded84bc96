"""The value of an expression for one row: the reference implementation of the functions in `sql/functions.py`."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, ROUND_HALF_UP, Context, Decimal, localcontext
from fractions import Fraction
from functools import partial
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa

from eddyline import types as t
from eddyline.reference.values import NAN, Row, fit, is_nan, micros, native, order, single
from eddyline.sql.bound import Call, Column, Constant, Expr, Param

Udfs = Mapping[str, Callable[..., Any]]


def value(expr: Expr, row: Row, params: Row, udfs: Udfs) -> Any:
    """The value of `expr`; None is NULL."""
    match expr:
        case Column():
            return row[expr.index]
        case Param():
            return _given(params[expr.index], expr.type)
        case Constant():
            return _given(expr.value, expr.type)
        case Call():
            return _call(expr, [value(arg, row, params, udfs) for arg in expr.args], udfs)


def _given(value: Any, type: pa.DataType) -> Any:
    if pa.types.is_list(type):
        return [native(item, type.value_type) for item in value]
    return native(value, type)


def _call(call: Call, args: list[Any], udfs: Udfs) -> Any:
    if call.function.startswith("udf:"):
        return _udf(udfs[call.function.removeprefix("udf:")], args, call.type)
    if call.function in _TAKE_NULL:
        return _TAKE_NULL[call.function](*args)
    if any(arg is None for arg in args):
        return None
    try:
        if call.function == "cast":
            return _cast(args[0], call.args[0].type, call.type)
        return fit(_STRICT[call.function](*args), call.type)
    except (OverflowError, ZeroDivisionError):
        return None


def _udf(function: Callable[..., Any], args: list[Any], type: pa.DataType) -> Any:
    try:
        return _returned(function(*args), type)
    except Exception:
        return None


def _returned(value: Any, type: pa.DataType) -> Any:
    """The result of a user's function; None if it is not a value of the type (1 is no BOOLEAN, True is no INT)."""
    if isinstance(value, np.generic):
        value = value.item()
    kinds: tuple[Any, ...] = (int,) if t.is_integer(type) else (int, float) if t.is_float(type) else ()
    kinds += {t.BOOLEAN: (bool,), t.STRING: (str,), t.DATE: (date,)}.get(type, ())
    kinds += {t.TIMESTAMP: (datetime,), t.INTERVAL: (timedelta,)}.get(type, ())
    if not isinstance(value, kinds) or (isinstance(value, bool) and type != t.BOOLEAN):
        return None
    if type == t.TIMESTAMP and value != value:  # NaT
        return None
    if type == t.STRING:
        value.encode()  # raises if it cannot be encoded as UTF-8
    return None if type == t.DATE and isinstance(value, datetime) else fit(native(value, type), type)


# Functions whose result may be a value although an argument is NULL.


def _and(*args: bool | None) -> bool | None:
    return False if False in args else None if None in args else True


def _or(*args: bool | None) -> bool | None:
    return True if True in args else None if None in args else False


def _in(wanted: Any, *others: Any) -> bool | None:
    if wanted is not None and any(o is not None and order(o) == order(wanted) for o in others):
        return True
    return None if wanted is None or None in others else False


def _case(*args: Any) -> Any:
    *pairs, otherwise = args
    return next((v for c, v in zip(pairs[::2], pairs[1::2], strict=True) if c is True), otherwise)


def _extreme(choose: Callable[..., Any], *args: Any) -> Any:
    return choose((a for a in args if a is not None), key=order, default=None)


_TAKE_NULL: dict[str, Callable[..., Any]] = {
    "and": _and,
    "or": _or,
    "same": lambda a, b: order(a) == order(b),
    "is_null": lambda a: a is None,
    "in": _in,
    "in_list": lambda wanted, items: _in(wanted, *items),
    "case": _case,
    "coalesce": lambda *args: next((a for a in args if a is not None), None),
    "least": partial(_extreme, min),
    "greatest": partial(_extreme, max),
}


# Functions whose result is NULL if an argument is NULL.


def _mod(a: Any, b: Any) -> Any:
    if b == 0:
        return None
    if isinstance(a, float):
        return NAN if math.isinf(a) else math.fmod(a, b)
    return abs(a) % abs(b) * (1 if a >= 0 else -1)


def _like(text: str, pattern: str) -> bool:
    """A backslash escapes the next character; at the end of the pattern it is a plain character."""
    wild = {"%": ".*", "_": "."}
    parts = re.findall(r"\\.|.", pattern, re.DOTALL)
    regex = "".join(wild.get(p) or re.escape(p[-1]) for p in parts)
    return re.fullmatch(regex, text, re.DOTALL) is not None


def _whole(direction: Callable[[float], int], number: float) -> int | None:
    return direction(number) if math.isfinite(number) else None


def _round(number: float, digits: int = 0) -> float:
    """Rounds the shortest decimal form of the number, as Spark does."""
    if not math.isfinite(number) or digits > 400:
        return number
    with localcontext(prec=1000):
        return float(Decimal(repr(number)).quantize(Decimal(1).scaleb(-max(digits, -400)), ROUND_HALF_UP))


def _interval(number: float, unit: int) -> timedelta | None:
    """Rounds to the nearest microsecond, half to even, as in a literal."""
    amount = number * unit
    return timedelta(microseconds=round(amount)) if math.isfinite(amount) else None


_STRICT: dict[str, Callable[..., Any]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": operator.truediv,
    "mod": _mod,
    "neg": operator.neg,
    "abs": abs,
    "eq": lambda a, b: order(a) == order(b),
    "ne": lambda a, b: order(a) != order(b),
    "lt": lambda a, b: order(a) < order(b),
    "le": lambda a, b: order(a) <= order(b),
    "gt": lambda a, b: order(a) > order(b),
    "ge": lambda a, b: order(a) >= order(b),
    "not": operator.not_,
    "like": _like,
    "upper": str.upper,
    "lower": str.lower,
    "length": len,
    "concat": lambda *args: "".join(args),
    "floor": partial(_whole, math.floor),
    "ceil": partial(_whole, math.ceil),
    "round": _round,
    "sqrt": lambda x: NAN if x < 0 else math.sqrt(x),
    "interval": _interval,
}


# Conversions.


def _cast(value: Any, source: pa.DataType, target: pa.DataType) -> Any:
    if source == target:
        return value
    if target == t.STRING:
        return _text(value, source)
    if source == t.STRING:
        return _parse(value, target)
    if target == t.BOOLEAN:
        return value != 0
    if t.is_integer(target):
        return fit(_whole(math.trunc, value), target)
    if t.is_float(target):
        return fit(float(value), target)
    return value.date() if target == t.DATE else datetime.combine(value, time())


def _text(value: Any, source: pa.DataType) -> str:
    if source == t.BOOLEAN:
        return "true" if value else "false"
    if t.is_float(source):
        return _number_text(value, source)
    if source == t.TIMESTAMP and value.microsecond:
        return str(value).rstrip("0")
    if source == t.INTERVAL:
        return _interval_text(micros(value))
    return str(value)


def _number_text(number: float, source: pa.DataType) -> str:
    """The decimal number with the fewest digits, but at least two, that parses to this number: of several the
    nearest, and of two equally near the even one."""
    if is_nan(number) or math.isinf(number) or number == 0:
        return str(number).replace("nan", "NaN").replace("inf", "Infinity")
    same = single if source == t.FLOAT else float
    exact = Decimal(number)
    for digits in range(2, 18):
        around = [Context(prec=digits, rounding=r).plus(exact) for r in (ROUND_HALF_EVEN, ROUND_FLOOR, ROUND_CEILING)]
        candidates = [d for d in around if same(float(d)) == number]
        if candidates:
            break
    shortest = min(candidates, key=lambda d: abs(Fraction(d) - Fraction(exact)))
    exponent = shortest.adjusted()
    if -3 <= exponent < 7:
        whole, _, decimals = f"{shortest:f}".partition(".")
        return f"{whole}.{decimals.rstrip('0') or '0'}"
    whole, _, decimals = f"{shortest:e}".partition("e")[0].partition(".")
    return f"{whole}.{decimals.rstrip('0') or '0'}E{exponent}"


def _interval_text(amount: int) -> str:
    sign, amount = "-" if amount < 0 else "", abs(amount)
    seconds, fraction = divmod(amount, 1_000_000)
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    clock = f"{hours % 24:02}:{minutes % 60:02}:{seconds % 60:02}" + f".{fraction:06}".rstrip("0").rstrip(".")
    return f"INTERVAL '{sign}{days} {clock}' DAY TO SECOND"


_BLANK = "".join(chr(c) for c in range(33))
_NUMBER = r"([+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?)[df]?"


def _parse(given: str, target: pa.DataType) -> Any:
    """The value of a text; None if it is not a value of the type."""
    text = given.strip(_BLANK + "\x7f")
    try:
        if target == t.BOOLEAN:
            true, false = ("t", "true", "y", "yes", "1"), ("f", "false", "n", "no", "0")
            return True if text.lower() in true else False if text.lower() in false else None
        if t.is_integer(target):
            return fit(int(text), target) if re.fullmatch(r"[+-]?\d+", text, re.ASCII) else None
        if t.is_float(target):
            return fit(_parse_float(given.strip(_BLANK)), target)
        return None if target == t.INTERVAL else _parse_moment(text, target)
    except (ValueError, OverflowError, LookupError, OSError):  # no such day, zone, …
        return None


def _parse_float(text: str) -> float | None:
    match = re.fullmatch(_NUMBER, text, re.ASCII | re.IGNORECASE)
    if match:
        return float(match.group(1))
    known = re.fullmatch(r"[+-]?(inf|infinity)|nan", text, re.ASCII | re.IGNORECASE)
    return float(text) if known or text in ("+NaN", "-NaN") else None


def _parse_moment(text: str, target: pa.DataType) -> date | datetime | None:
    """A date, and a time of day after the first space or T; before a time of day, the date must be complete."""
    day_text, gap, clock = re.fullmatch(r"([^ T]*)([ T]?)(.*)", text, re.DOTALL).groups()  # type: ignore[union-attr]
    parts = day_text.removeprefix("+").split("-")
    longest_year = 7 if target == t.DATE else 6
    if len(parts) > 3 or (gap and len(parts) < 3) or not 4 <= len(parts[0]) <= longest_year:
        return None
    if not all(map(_digits, parts)) or any(len(p) > 2 for p in parts[1:]):
        return None
    year, month, day = map(int, [*parts, "1", "1"][:3])
    if target == t.DATE or not gap:
        return date(year, month, day) if target == t.DATE else datetime(year, month, day)
    match = re.fullmatch(r"(\d\d?)(:\d\d?)?(:\d\d?)?(?:(\.\d*)?(\D.*)?)?", clock, re.ASCII | re.DOTALL)
    if match is None:
        return None
    hour, minute, second, fraction, zone = (part or "" for part in match.groups())
    if (fraction or zone) and not second:
        return None
    at = time(int(hour), int(minute[1:] or 0), int(second[1:] or 0), int(fraction[1:7].ljust(6, "0")))
    moment = datetime.combine(date(year, month, day), at)
    offset = _offset(zone.strip(_BLANK), moment) if zone else timedelta(0)
    return None if offset is None else moment - offset


def _digits(text: str) -> bool:
    return text.isascii() and text.isdigit()


def _offset(zone: str, moment: datetime) -> timedelta | None:
    """The offset of a zone from UTC at the local time `moment`; None if the zone cannot be parsed."""
    if zone == "Z":
        return timedelta(0)
    if re.fullmatch(r"[A-Z][A-Za-z_]*/[\w+/-]+", zone, re.ASCII):
        return moment.replace(tzinfo=ZoneInfo(zone)).utcoffset()
    amount = re.sub("^(UTC|GMT|UT)", "", zone)
    if amount == "":
        return timedelta(0)
    forms = r"\d\d?|\d\d?:\d\d?|\d\d?:\d\d:\d\d|\d\d\d\d|\d\d\d\d\d\d"
    if amount[0] not in "+-" or not re.fullmatch(forms, amount[1:], re.ASCII):
        return None
    pieces = amount[1:].split(":") if ":" in amount else re.findall("..?", amount[1:])
    hours, minutes, seconds = map(int, [*pieces, "0", "0"][:3])
    length = timedelta(hours=hours, minutes=minutes, seconds=seconds)
    if max(minutes, seconds) > 59 or length > timedelta(hours=18):
        return None
    return length if amount[0] == "+" else -length

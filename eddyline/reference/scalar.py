"""The value of an expression for one row: what `sql/functions.py` says in words, function by function."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import ROUND_HALF_UP, Decimal, localcontext
from functools import partial
from typing import Any

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
            return native(params[expr.index], expr.type)
        case Constant():
            return native(expr.value, expr.type)
        case Call():
            return _call(expr, [value(arg, row, params, udfs) for arg in expr.args], udfs)


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
        return fit(native(function(*args), type), type)
    except Exception:
        return None


# Functions that may have a value though an argument is NULL.


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
    "case": _case,
    "coalesce": lambda *args: next((a for a in args if a is not None), None),
    "least": partial(_extreme, min),
    "greatest": partial(_extreme, max),
}


# Functions that are NULL where an argument is.


def _mod(a: Any, b: Any) -> Any:
    if b == 0:
        return None
    if isinstance(a, float):
        return NAN if math.isinf(a) else math.fmod(a, b)
    return abs(a) % abs(b) * (1 if a >= 0 else -1)


def _like(text: str, pattern: str) -> bool:
    """A backslash makes the next character stand for itself; at the end of the pattern it is one itself."""
    wild = {"%": ".*", "_": "."}
    parts = re.findall(r"\\.|.", pattern, re.DOTALL)
    regex = "".join(wild.get(p) or re.escape(p[-1]) for p in parts)
    return re.fullmatch(regex, text, re.DOTALL) is not None


def _whole(direction: Callable[[float], int], number: float) -> int | None:
    return direction(number) if math.isfinite(number) else None


def _round(number: float, digits: int = 0) -> float:
    """As Spark does: on the decimal number that prints as the shortest form of this one."""
    if not math.isfinite(number) or digits > 400:
        return number
    with localcontext(prec=1000):
        return float(Decimal(repr(number)).quantize(Decimal(1).scaleb(-max(digits, -400)), ROUND_HALF_UP))


def _interval(number: float, unit: int) -> timedelta | None:
    """To the nearest microsecond; a half goes to the even one, as in a literal."""
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
        return _parse(value.strip(" \t\r\n"), target)
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
    """As Spark prints it: the fewest digits that give the number back, with an exponent when far from one."""
    if is_nan(number) or math.isinf(number) or number == 0:
        return str(number).replace("nan", "NaN").replace("inf", "Infinity")
    same = single if source == t.FLOAT else float
    shortest = next(s for s in (f"{number:.{n}e}" for n in range(17)) if same(float(s)) == number)
    mantissa, exponent = shortest.split("e")
    if -3 <= int(exponent) < 7:
        plain = f"{Decimal(shortest):f}"
        return plain if "." in plain else plain + ".0"
    return f"{mantissa if '.' in mantissa else mantissa + '.0'}E{int(exponent)}"


def _interval_text(amount: int) -> str:
    sign, amount = "-" if amount < 0 else "", abs(amount)
    seconds, fraction = divmod(amount, 1_000_000)
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    clock = f"{hours % 24:02}:{minutes % 60:02}:{seconds % 60:02}" + f".{fraction:06}".rstrip("0").rstrip(".")
    return f"INTERVAL '{sign}{days} {clock}' DAY TO SECOND"


_NUMBER = r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?|[+-]?(inf|infinity)|nan"
_MOMENT = r"(\d{4})-(\d{1,2})-(\d{1,2})(?:[ T](\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d{1,6}))?)?)?"


def _parse(text: str, target: pa.DataType) -> Any:
    """The value that the text writes, or None."""
    lowered = text.lower()
    if target == t.BOOLEAN:
        true, false = ("t", "true", "y", "yes", "1"), ("f", "false", "n", "no", "0")
        return True if lowered in true else False if lowered in false else None
    if t.is_integer(target):
        return fit(int(text), target) if re.fullmatch(r"[+-]?\d+", text, re.ASCII) else None
    if t.is_float(target):
        return fit(float(text), target) if re.fullmatch(_NUMBER, lowered, re.ASCII) else None
    found = re.fullmatch(_MOMENT, text, re.ASCII)
    if found is None or target == t.INTERVAL:
        return None
    year, month, day, *clock = found.groups()
    hour, minute, second, fraction = clock
    try:
        on = date(int(year), int(month), int(day))
        at = time(int(hour or 0), int(minute or 0), int(second or 0), int((fraction or "").ljust(6, "0")))
    except ValueError:
        return None
    return on if target == t.DATE else datetime.combine(on, at)

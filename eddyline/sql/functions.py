"""The functions of the language: their names, argument types and result types.

This text specifies what they compute. `operators/evaluate.py` implements it over Arrow columns and
`reference/scalar.py` over single values; the tests compare the two.

    add sub mul     numbers of one type; NULL on overflow of an integer. TIMESTAMP ± INTERVAL, INTERVAL ± INTERVAL,
                    TIMESTAMP - TIMESTAMP (an INTERVAL), INTERVAL * BIGINT
    div             DOUBLE / DOUBLE; NULL when the divisor is zero
    mod             integers or DOUBLE; sign of the dividend; NULL when the divisor is zero
    neg abs         numbers and INTERVAL; NULL on overflow
    eq ne lt le gt ge   any one type; NaN equals NaN and is above every number; -0.0 equals 0.0; strings by code point
    same            eq that is never NULL: NULL is the same as NULL
    and or not      three-valued
    is_null         never NULL
    like            pattern with % and _ and escape character backslash, the whole string, case-sensitive; a constant
                    pattern with another escape character (ESCAPE '!') is rewritten when it is bound
    in              first argument against the others: true if equal to one, else NULL if any is NULL, else false
    in_list         as `in`, against a list of constants (`sql/constant_lists.py`)
    case            condition, value, condition, value, ..., otherwise: the first value whose condition is true
    coalesce        the first that is not NULL
    least greatest  over the arguments that are not NULL; NULL if all are; NaN is greatest
    upper lower length concat   strings; length counts code points; concat is NULL if any argument is
    floor ceil      DOUBLE to BIGINT; NULL if out of range or not a number
    round           DOUBLE (half away from zero) to DOUBLE, with a constant number of digits
    sqrt            DOUBLE; NaN below zero
    cast            to the type of the call; NULL where the value has no such form, as Spark's TRY_CAST (a CAST of such
                    a constant is refused); DOUBLE to integer drops the fraction. Text is read and printed as Spark
                    does it (pinned in `tests/sql/test_casts.py`), with ASCII spaces and control characters around it
                    ignored:
                    BOOLEAN     t true y yes 1, f false n no 0, in any case
                    integers    a sign and ASCII digits, in range; no fraction, exponent or underscore
                    DOUBLE      also with fraction, exponent and a d or f at the end; [+-]inf[inity] and nan in any
                                case; printed with the fewest digits (two at least) that give the number back: 1.0,
                                with an exponent from ten millions on and below a thousandth (1.0E7, 1.0E-4), NaN,
                                -Infinity
                    DATE        yyyy[-[m]m[-[d]d]]; after a whole date, a space or T and anything
                    TIMESTAMP   a date, then [h]h[:[m]m[:[s]s[.fraction]]] after a space or T; after the seconds a
                                zone: Z UTC GMT UT, an offset of up to 18 hours from these (+2, +02:00, UTC+0200) or
                                Area/City; the moment is converted to UTC, decimals after the sixth are dropped;
                                printed without the zeros at the end of its fraction
                    INTERVAL    no text is one; printed as INTERVAL '-1 02:03:04.5' DAY TO SECOND
                    Unlike Spark: nothing outside the years 1 to 9999, no clock without a date (it would be today's),
                    no hexadecimal numbers and no names of zones without a slash (CET, PST)
    udf:name        a function of the user's; NULL, and an error is counted, if it raises or returns something that is
                    not of its type: no conversions but of int to FLOAT and DOUBLE and of a time with a zone to UTC
    interval        a number (BIGINT or DOUBLE) times a constant unit in microseconds, an INTERVAL
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from eddyline import types as t

COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
MIRRORED = {"eq": "eq", "ne": "ne", "lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}

UNITS = {
    "MICROSECOND": 1,
    "MILLISECOND": 1_000,
    "SECOND": 1_000_000,
    "MINUTE": 60_000_000,
    "HOUR": 3_600_000_000,
    "DAY": 86_400_000_000,
    "WEEK": 604_800_000_000,
}


def unit_of(word: str) -> int | None:
    """Microseconds of `SECOND`, `seconds`, …; None for a unit without a fixed length."""
    word = word.upper()
    return UNITS.get(word) or UNITS.get(word.removesuffix("S"))


@dataclass(frozen=True, slots=True)
class Signature:
    """What a named function takes: the types it converts its arguments to, and the type it gives."""

    least_args: int
    most_args: int
    resolve: Callable[[Sequence[pa.DataType]], tuple[list[pa.DataType], pa.DataType] | None]
    takes: str  # as SHOW FUNCTIONS prints it; T is one type for all arguments
    gives: str


def _fixed(takes: Sequence[pa.DataType], gives: pa.DataType) -> Signature:
    n = len(takes)
    return Signature(n, n, lambda _: (list(takes), gives), ", ".join(map(t.name_of, takes)), t.name_of(gives))


def _all_alike(types: Sequence[pa.DataType]) -> tuple[list[pa.DataType], pa.DataType] | None:
    common: pa.DataType | None = t.NULL
    for x in types:
        common = t.common(common, x) if common is not None else None
    return None if common is None else ([common] * len(types), common)


def _number_or_interval(types: Sequence[pa.DataType]) -> tuple[list[pa.DataType], pa.DataType] | None:
    (x,) = types
    return ([x], x) if t.is_numeric(x) or x == t.INTERVAL else ([t.DOUBLE], t.DOUBLE) if x == t.NULL else None


NAMED = {
    "abs": Signature(1, 1, _number_or_interval, "number or INTERVAL", "same"),
    "upper": _fixed([t.STRING], t.STRING),
    "lower": _fixed([t.STRING], t.STRING),
    "length": _fixed([t.STRING], t.INT),
    "concat": Signature(1, 255, lambda ts: ([t.STRING] * len(ts), t.STRING), "STRING, …", "STRING"),
    "floor": _fixed([t.DOUBLE], t.BIGINT),
    "ceil": _fixed([t.DOUBLE], t.BIGINT),
    "sqrt": _fixed([t.DOUBLE], t.DOUBLE),
    "round": Signature(1, 2, lambda ts: ([t.DOUBLE, t.INT][: len(ts)], t.DOUBLE), "DOUBLE [, INT constant]", "DOUBLE"),
    "coalesce": Signature(1, 255, _all_alike, "T, …", "T"),
    "least": Signature(2, 255, _all_alike, "T, T, …", "T"),
    "greatest": Signature(2, 255, _all_alike, "T, T, …", "T"),
}


# Special forms that look like functions: what SHOW FUNCTIONS prints of their arguments and result.
FORMS = {
    "cast": ("value AS type", "type"),
    "try_cast": ("value AS type", "type"),
    "if": ("BOOLEAN, T [, T]", "T"),
}


def arithmetic(op: str, a: pa.DataType, b: pa.DataType) -> tuple[pa.DataType, pa.DataType, pa.DataType] | None:
    """Operand types and result type of `a op b`; None if the operator is not defined for these types."""
    if op == "div":
        ok = all(t.is_numeric(x) or x == t.NULL for x in (a, b))
        return (t.DOUBLE, t.DOUBLE, t.DOUBLE) if ok else None
    if {a, b} & {t.TIMESTAMP, t.DATE, t.INTERVAL}:
        moments = (t.TIMESTAMP, t.DATE)
        if op == "sub" and a in moments and b in moments:
            return t.TIMESTAMP, t.TIMESTAMP, t.INTERVAL
        if op in ("add", "sub") and a in moments and b == t.INTERVAL:
            return t.TIMESTAMP, t.INTERVAL, t.TIMESTAMP
        if op == "add" and a == t.INTERVAL and b in moments:
            return t.INTERVAL, t.TIMESTAMP, t.TIMESTAMP
        if op in ("add", "sub") and a == b == t.INTERVAL:
            return a, b, t.INTERVAL
        if op == "mul" and a == t.INTERVAL and t.is_integer(b):
            return a, t.BIGINT, t.INTERVAL
        if op == "mul" and b == t.INTERVAL and t.is_integer(a):
            return t.BIGINT, b, t.INTERVAL
        return None
    common = t.common(a, b)
    if common == t.NULL:
        common = t.DOUBLE
    if common is None or not t.is_numeric(common):
        return None
    return common, common, common

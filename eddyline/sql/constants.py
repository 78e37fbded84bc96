"""Constants while a text is being bound: a value, and how to make it again from the literal in another text.

A literal may pass through a sign, a unit or a conversion on its way to the value the plan needs (`-5`,
`INTERVAL 3 MINUTES`, `ts > '2026-01-01'`). Each step is composed into `make`, so that a later text of the same
shape goes from its literal to the value without being parsed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pyarrow as pa

from eddyline import types as t
from eddyline.errors import BindError


@dataclass(frozen=True, slots=True)
class Folded:
    """A constant not yet settled: it may still change its type to suit its surroundings."""

    value: Any
    type: pa.DataType
    origin: int | None  # where its literal starts in the text; None if it has none of its own
    make: Callable[[str], Any] | None

    def then(self, step: Callable[[Any], Any], to: pa.DataType) -> Folded:
        make = self.make
        return Folded(step(self.value), to, self.origin, None if make is None else (lambda text: step(make(text))))


_LONGEST = 4000  # digits that Python turns into an integer; no longer number fits BIGINT without leading zeros


def number(text: str) -> int | float:
    """The value of a numeric literal: an integer if it is written as one and fits BIGINT."""
    if not text.isdecimal() or len(text) > _LONGEST:
        return float(text)
    value = int(text)
    return value if -(2**63) <= value < 2**63 else float(value)


def number_type(value: int | float) -> pa.DataType:
    if isinstance(value, float):
        return t.DOUBLE
    return t.INT if -(2**31) <= value < 2**31 else t.BIGINT


def parse_timestamp(text: str) -> datetime:
    value = datetime.fromisoformat(text.strip().replace(" UTC", "+00:00"))
    return value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value


_RANGES = {t.BYTE: 2**7, t.SHORT: 2**15, t.INT: 2**31, t.BIGINT: 2**63}


def convert(value: Any, to: pa.DataType) -> Any:
    """A Python value as a value of an SQL type; BindError if it has no such form."""
    if value is None:
        return None
    try:
        if to == t.BOOLEAN:
            if isinstance(value, str):
                return {"true": True, "t": True, "1": True, "false": False, "f": False, "0": False}[
                    value.strip().lower()
                ]
            return bool(value)
        if t.is_integer(to):
            whole = int(value.strip()) if isinstance(value, str) else math.trunc(value)
            if not -_RANGES[to] <= whole < _RANGES[to]:
                raise OverflowError
            return whole
        if t.is_float(to):
            return float(value)
        if to == t.STRING:
            return value if isinstance(value, str) else str(value).lower() if isinstance(value, bool) else str(value)
        if to == t.TIMESTAMP:
            if isinstance(value, datetime):
                return value
            if isinstance(value, date):
                return datetime(value.year, value.month, value.day)
            return parse_timestamp(value)
        if to == t.DATE:
            return (
                value.date()
                if isinstance(value, datetime)
                else value
                if isinstance(value, date)
                else date.fromisoformat(value.strip())
            )
        if to == t.INTERVAL and isinstance(value, timedelta):
            return value
    except (ValueError, KeyError, OverflowError, AttributeError, TypeError):
        pass
    raise BindError(f"{value!r} cannot be read as {t.name_of(to)}.", hint=_EXAMPLES.get(to))


_EXAMPLES = {
    t.TIMESTAMP: "A timestamp looks like '2026-01-31 12:30:00'.",
    t.DATE: "A date looks like '2026-01-31'.",
    t.BOOLEAN: "A boolean is TRUE or FALSE.",
    t.INTERVAL: "An interval looks like INTERVAL 5 SECONDS.",
}

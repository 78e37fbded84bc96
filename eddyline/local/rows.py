"""Rows from users: Arrow, pandas or lists of dicts, checked against a declaration and brought into its types.

Nothing is dropped or guessed: a column that is missing, unknown or of another kind is an error that names it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from eddyline import types as t
from eddyline.errors import DataError, Error, did_you_mean
from eddyline.sql.bound import Field
from eddyline.sql.constants import parse_timestamp

_NOTHING = "No row was applied."


def to_table(rows: Any) -> pa.Table | Sequence[Mapping[str, Any]]:
    """Arrow data as a table; a list of dicts as it is."""
    if isinstance(rows, pa.Table):
        return rows
    if isinstance(rows, pa.RecordBatch):
        return pa.Table.from_batches([rows])
    if isinstance(rows, pa.RecordBatchReader):
        return rows.read_all()
    if type(rows).__module__.partition(".")[0] == "pandas":
        return pa.Table.from_pandas(rows, preserve_index=False)
    if isinstance(rows, Mapping) and "query" not in rows:
        return [rows]
    if isinstance(rows, Sequence) and not isinstance(rows, str | bytes):
        return rows
    if isinstance(rows, Mapping):
        return pa.table(dict(rows))
    raise DataError(
        f"Rows cannot be {type(rows).__name__}.", hint="Give a pyarrow Table, a DataFrame or a list of dicts."
    )


def columns(what: str, fields: Sequence[Field], rows: Any) -> list[pa.Array]:
    """The declared columns of `what` (a stream or table, for errors), in order."""
    try:
        data = to_table(rows)
    except (pa.ArrowException, TypeError, ValueError) as e:
        raise DataError(f"The rows for {what} cannot be read: {e}", hint=_NOTHING) from None
    if isinstance(data, pa.Table):
        return _from_table(what, fields, data)
    return _from_dicts(what, fields, data)


def _from_table(what: str, fields: Sequence[Field], table: pa.Table) -> list[pa.Array]:
    have: dict[str, int] = {}
    for i, name in enumerate(table.column_names):
        if name.lower() in have:
            raise DataError(f"The rows for {what} have column {name!r} twice.", hint=_NOTHING)
        have[name.lower()] = i
    _check_names(what, fields, table.column_names, None)
    found = []
    for f in fields:
        column = table.column(have[f.name.lower()])
        array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        found.append(cast_column(what, f, array))
    return found


def cast_column(what: str, f: Field, array: pa.Array) -> pa.Array:
    """An Arrow column in the declared type. Only conversions that keep the value are made."""
    try:
        if pa.types.is_dictionary(array.type):
            array = array.dictionary_decode()
        if array.type == f.type:
            return array
        if pa.types.is_timestamp(array.type) and f.type == t.TIMESTAMP:
            plain = array.cast(pa.timestamp("us", array.type.tz), safe=False)
            return plain.cast(pa.int64()).cast(t.TIMESTAMP)  # instants stay: the zone was only a way to show them
        if _goes(array.type, f.type):
            return pc.cast(array, f.type)
    except pa.ArrowException as e:
        raise DataError(f"Column {f.name!r} of {what} must be {t.name_of(f.type)}: {e}", hint=_NOTHING) from None
    found = str(array.type)
    raise DataError(f"Column {f.name!r} of {what} must be {t.name_of(f.type)}, found {found}.", hint=_NOTHING)


def _goes(a: pa.DataType, b: pa.DataType) -> bool:
    number = pa.types.is_integer(a) or pa.types.is_floating(a)
    text = pa.types.is_string(a) or pa.types.is_large_string(a)
    return (
        pa.types.is_null(a)
        or (number and t.is_numeric(b))
        or (text and b in (t.STRING, t.TIMESTAMP, t.DATE))
        or (pa.types.is_date(a) and b in (t.TIMESTAMP, t.DATE))
        or (pa.types.is_duration(a) and b == t.INTERVAL)
    )


def _from_dicts(what: str, fields: Sequence[Field], rows: Sequence[Mapping[str, Any]]) -> list[pa.Array]:
    for i, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise DataError(f"Row {i} for {what} is {type(row).__name__}, not a dict.", hint=_NOTHING)
    exact = all(len(r) == len(fields) and all(f.name in r for f in fields) for r in rows)
    if not exact:
        for i, row in enumerate(rows):
            _check_names(what, fields, [str(k) for k in row], i)
        rows = [{str(k).lower(): v for k, v in r.items()} for r in rows]
    found = []
    for f in fields:
        key = f.name if exact else f.name.lower()
        found.append(_column(what, f, [r[key] for r in rows]))
    return found


def _check_names(what: str, fields: Sequence[Field], names: Sequence[str], row: int | None) -> None:
    where = f"The rows for {what} lack" if row is None else f"Row {row} for {what} lacks"
    given = {n.lower() for n in names}
    for f in fields:
        if f.name.lower() not in given:
            raise DataError(f"{where} column {f.name!r}.", hint=f"It has {', '.join(names) or 'none'}. {_NOTHING}")
    known = {f.name.lower() for f in fields}
    for n in names:
        if n.lower() not in known:
            at = "" if row is None else f" (row {row})"
            hint = f"{did_you_mean(n, [f.name for f in fields])} {_NOTHING}"
            raise DataError(f"There is no column {n!r} in {what}{at}.", hint=hint)


def _column(what: str, f: Field, values: list[Any]) -> pa.Array:
    try:
        if f.type == t.TIMESTAMP:
            values = [None if v is None else _moment(v) for v in values]
        elif f.type == t.DATE:
            values = [date.fromisoformat(v) if isinstance(v, str) else v for v in values]
        elif f.type != t.BOOLEAN and any(isinstance(v, bool) for v in values):
            raise TypeError("found a boolean")
        return pa.array(values, f.type)
    except (pa.ArrowException, TypeError, ValueError, OverflowError, AttributeError, Error):
        bad = next((i for i, v in enumerate(values) if not _fits(v, f.type)), 0)
        shown = repr(values[bad]) if len(repr(values[bad])) < 60 else repr(values[bad])[:57] + "..."
        message = f"Column {f.name!r} of {what} must be {t.name_of(f.type)}; row {bad} has {shown}."
        raise DataError(message, hint=_NOTHING) from None


def _fits(value: Any, type_: pa.DataType) -> bool:
    try:
        if type_ == t.TIMESTAMP:
            value = None if value is None else _moment(value)
        elif type_ == t.DATE and isinstance(value, str):
            value = date.fromisoformat(value)
        elif isinstance(value, bool) and type_ != t.BOOLEAN:
            return False
        pa.array([value], type_)
    except (pa.ArrowException, TypeError, ValueError, OverflowError, AttributeError, Error):
        return False
    return True


def _moment(value: Any) -> datetime:
    """A point in time from text, datetime or anything that can become one; numbers are refused as ambiguous."""
    if isinstance(value, str):
        return parse_timestamp(value)
    if hasattr(value, "to_pydatetime"):
        value = value.to_pydatetime()
    elif hasattr(value, "astype"):  # numpy.datetime64
        value = value.astype("datetime64[us]").item()
    if not isinstance(value, datetime):
        if isinstance(value, date):
            return datetime(value.year, value.month, value.day)
        raise TypeError(f"{value!r} is not a point in time")
    return value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value


def moment(value: Any) -> int:
    """A point in time in microseconds, or DataError."""
    try:
        found = _moment(value)
        return int(pa.scalar(found, t.TIMESTAMP).value)
    except (TypeError, ValueError, AttributeError, pa.ArrowException, Error):
        raise DataError(
            f"{value!r} is not a point in time.", hint="Give a datetime or text like '2026-01-31 12:30:00'."
        ) from None

"""Rows from users: Arrow, pandas or lists of dicts, checked against a declaration and brought into its types.

Nothing is dropped or guessed: a column that is missing, unknown or of another kind is an error that names it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from eddyline import types as t
from eddyline.errors import DataError, Error, did_you_mean
from eddyline.sql.bound import Field
from eddyline.sql.columns import as_type
from eddyline.sql.constants import parse_timestamp

_NOTHING = "No row was applied."
_REFUSED = (pa.ArrowException, TypeError, ValueError, LookupError, OverflowError, AttributeError, Error)  # by a value


def to_table(rows: Any) -> pa.Table:
    """Rows of any form as a table; the types are those the rows have."""
    given = _given(rows)
    return given if isinstance(given, pa.Table) else _table_of(given)


def _given(rows: Any) -> pa.Table | Sequence[Mapping[str, Any]]:
    """Arrow data and columns as a table; dicts as a list."""
    try:
        if isinstance(rows, pa.Table):
            return rows
        if isinstance(rows, pa.RecordBatch):
            return pa.Table.from_batches([rows])
        if isinstance(rows, pa.RecordBatchReader):
            return rows.read_all()
        if type(rows).__module__.partition(".")[0] == "pandas" and hasattr(rows, "columns"):
            return pa.Table.from_pandas(rows, preserve_index=False)
        if isinstance(rows, Mapping):
            listed = bool(rows) and all(hasattr(v, "__len__") and not isinstance(v, str | bytes) for v in rows.values())
            return pa.table({str(k): v for k, v in rows.items()}) if listed else [rows]
    except (pa.ArrowException, TypeError, ValueError, AttributeError, OverflowError) as e:
        raise DataError(f"The rows cannot be read: {e}", hint=_NOTHING) from None
    if isinstance(rows, Sequence) and not isinstance(rows, str | bytes):
        for i, row in enumerate(rows):
            if not isinstance(row, Mapping):
                raise DataError(f"Row {i} is {type(row).__name__}, not a dict.", hint=_NOTHING)
        return rows
    raise DataError(
        f"Rows cannot be {type(rows).__name__}.", hint="Give a pyarrow Table, a DataFrame or a list of dicts."
    )


def _table_of(rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    names = list(rows[0]) if rows else []
    for i, row in enumerate(rows):
        if len(row) != len(names) or any(n not in row for n in names):
            odd = next((n for n in [*names, *row] if (n in row) != (n in rows[0])), None)
            raise DataError(f"Rows 0 and {i} do not have the same columns: only one has {odd!r}.", hint=_NOTHING)
    columns: dict[str, pa.Array] = {}
    for name in names:
        values = [row[name] for row in rows]
        kinds = sorted({type(v).__name__ for v in values if v is not None})
        try:
            if len(kinds) > 1 and "bool" in kinds:
                raise TypeError("truth values are no numbers")
            columns[str(name)] = pa.array(values)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as e:
            why = f"it mixes {' and '.join(kinds)}" if len(kinds) > 1 else str(e)
            raise DataError(f"Column {name!r} cannot be read: {why}.", hint=_NOTHING) from None
    return pa.table(columns)


def columns(what: str, fields: Sequence[Field], rows: Any) -> list[pa.Array]:
    """The declared columns of `what` (a stream or table, for errors), in order."""
    data = _given(rows)
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
    return [cast_column(what, f, table.column(have[f.name.lower()])) for f in fields]


def cast_column(what: str, f: Field, array: pa.Array) -> pa.Array:
    """An Arrow column in the declared type."""
    try:
        return as_type(array, f.type, "checked")
    except ValueError as e:
        raise DataError(f"Column {f.name!r} of {what} must be {t.name_of(f.type)}: {e}.", hint=_NOTHING) from None


def _from_dicts(what: str, fields: Sequence[Field], rows: Sequence[Mapping[str, Any]]) -> list[pa.Array]:
    exact = all(len(r) == len(fields) and all(f.name in r for f in fields) for r in rows)
    if not exact:
        for i, row in enumerate(rows):
            _check_names(what, fields, [str(k) for k in row], i)
        rows = [{str(k).lower(): v for k, v in r.items()} for r in rows]
    keys = [f.name if exact else f.name.lower() for f in fields]
    return [_column(what, f, [r[key] for r in rows]) for f, key in zip(fields, keys, strict=True)]


def _check_names(what: str, fields: Sequence[Field], names: Sequence[str], row: int | None) -> None:
    where = f"The rows for {what} lack" if row is None else f"Row {row} for {what} lacks"
    given = {n.lower() for n in names}
    for f in fields:
        if f.name.lower() not in given:
            raise DataError(f"{where} column {f.name!r}.", hint=f"It has {', '.join(names) or 'none'}. {_NOTHING}")
    if len(given) != len(names):
        raise DataError(f"Row {row} for {what} has a column twice.", hint=f"It has {', '.join(names)}. {_NOTHING}")
    known = {f.name.lower() for f in fields}
    for n in names:
        if n.lower() not in known:
            at = "" if row is None else f" (row {row})"
            hint = f"{did_you_mean(n, [f.name for f in fields])} {_NOTHING}"
            raise DataError(f"There is no column {n!r} in {what}{at}.", hint=hint)


def _column(what: str, f: Field, values: list[Any]) -> pa.Array:
    try:
        return _array(values, f.type)
    except _REFUSED:
        bad = next((i for i, v in enumerate(values) if not _fits(v, f.type)), 0)
        shown = repr(values[bad]) if len(repr(values[bad])) < 60 else repr(values[bad])[:57] + "..."
        message = f"Column {f.name!r} of {what} must be {t.name_of(f.type)}; row {bad} has {shown}."
        raise DataError(message, hint=_NOTHING) from None


def _array(values: list[Any], type_: pa.DataType) -> pa.Array:
    """The values in a type; raises one of `_REFUSED` if a value does not fit."""
    if type_ == t.TIMESTAMP:
        values = [None if v is None else _moment(v) for v in values]
    elif type_ == t.DATE:
        values = [date.fromisoformat(v) if isinstance(v, str) else v for v in values]
    elif any(_changes(v, type_) for v in values):
        raise TypeError("a value would change")
    return pa.array(values, type_)


def _changes(value: Any, type_: pa.DataType) -> bool:
    """Whether Arrow would take the value, but not as what it is: a truth value, or a number with a fraction."""
    if isinstance(value, bool | np.bool_):
        return bool(type_ != t.BOOLEAN)
    return t.is_integer(type_) and isinstance(value, float | np.floating | Decimal) and value % 1 != 0


def _fits(value: Any, type_: pa.DataType) -> bool:
    try:
        _array([value], type_)
    except _REFUSED:
        return False
    return True


def _moment(value: Any) -> datetime:
    """A point in time from text, datetime or anything that can become one; numbers are refused as ambiguous."""
    if isinstance(value, str):
        return parse_timestamp(value)
    if hasattr(value, "to_pydatetime"):
        value = value.to_pydatetime()
    elif isinstance(value, np.datetime64):
        value = value.astype("datetime64[us]").item()
    if not isinstance(value, datetime):
        if isinstance(value, date):
            return datetime(value.year, value.month, value.day)
        raise TypeError(f"{value!r} is not a point in time")
    return value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value


def moment(value: Any) -> int:
    """A point in time in microseconds, or DataError."""
    try:
        return int(pa.scalar(_moment(value), t.TIMESTAMP).value)
    except _REFUSED:
        raise DataError(
            f"{value!r} is not a point in time.", hint="Give a datetime or text like '2026-01-31 12:30:00'."
        ) from None

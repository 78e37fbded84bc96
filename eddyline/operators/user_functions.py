"""User-defined functions: how they are called, which return values are accepted, and how failures are recorded.

A *scalar* function gets Python values, one row at a time. An *arrow* function gets a pyarrow array for each argument, a
*pandas* function a Series, and returns as many values at once. If a call raises, or returns a value of another type or
length, its rows get NULL, and the failure is counted with its first message: nothing is guessed. A call for many rows
that raises is repeated for halves of them, so that a row fails by itself, whatever rows it was called with.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from eddyline import types as t
from eddyline.operators.casts import fitted, python_values

FunctionKind = Literal["scalar", "arrow", "pandas"]
KINDS: tuple[FunctionKind, ...] = get_args(FunctionKind)
_LONGEST = 200  # characters of a message


@dataclass(frozen=True, slots=True)
class Failure:
    """A failed call or an overflow, the queries it affects (None: all queries of the family), and the positions of the
    rows among those that were evaluated."""

    message: str
    queries: npt.NDArray[np.int64] | None
    rows: npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class FunctionWarning:
    """A function returned NULL for some rows because calls failed."""

    function: str
    rows: int
    first: str  # the first call that failed, and how

    def __str__(self) -> str:
        rows = f"{self.rows:,} row{'' if self.rows == 1 else 's'}"
        return f"The function {self.function!r} gave NULL for {rows}: {self.first}"


@dataclass(frozen=True)
class Vectorized:
    """The body of an arrow or pandas function."""

    kind: Literal["arrow", "pandas"]
    body: Callable[..., Any]

    def __call__(self, *args: pa.Array) -> pa.Array:
        """The body's result for these arrays, as an array."""
        if self.kind == "arrow":
            return self.body(*args)
        result = self.body(*(a.to_pandas() for a in args))
        return pa.Array.from_pandas(result) if _is_series(result) or isinstance(result, np.ndarray) else result


def body_of(body: Callable[..., Any], kind: FunctionKind) -> Callable[..., Any]:
    """A function's body as a callable of its kind."""
    return body if kind == "scalar" else Vectorized(kind, body)


@dataclass
class Functions:
    """Functions by name, and their failures."""

    bodies: Mapping[str, Callable[..., Any]]
    errors: dict[str, tuple[int, str]]  # name -> (number of rows whose calls failed, the last message)
    failures: list[Failure] | None = None  # failed calls and overflows, for a host that attributes them to queries
    first: dict[str, str] = field(default_factory=dict)  # name -> the first call that failed, and how
    _noted: dict[str, tuple[int, str]] = field(default_factory=dict)  # since the last `take_noted`

    def note(self, name: str, rows: int, message: str, first: str) -> None:
        """Records that calls failed for some rows; `first` describes the first of them, `message` the last."""
        self.errors[name] = self.errors.get(name, (0, ""))[0] + rows, message
        self.first.setdefault(name, first)
        before, earliest = self._noted.get(name, (0, first))
        self._noted[name] = before + rows, earliest

    def take_noted(self) -> tuple[FunctionWarning, ...]:
        """The failures since the last call of this method."""
        noted, self._noted = self._noted, {}
        return tuple(FunctionWarning(name, rows, first) for name, (rows, first) in noted.items())


@dataclass(frozen=True)
class Returned:
    """The values of a call, and the rows for which it failed."""

    values: pa.Array
    failed: Sequence[int] | npt.NDArray[np.int64]
    message: str = ""  # of the last failure
    first: str = ""


def called(name: str, body: Callable[..., Any], args: Sequence[pa.Array], to: pa.DataType, length: int) -> Returned:
    """A function's values for `length` rows."""
    if isinstance(body, Vectorized):
        return _vectorized(name, body, args, to, length)
    return _row_by_row(name, body, args, to, length)


def _row_by_row(name: str, body: Callable[..., Any], args: Sequence[pa.Array], to: pa.DataType, n: int) -> Returned:
    lists = [python_values(arg) for arg in args]
    results, failed = [], []
    first = message = ""
    for i, row in enumerate(zip(*lists, strict=True) if lists else [()] * n):
        value = None
        try:
            value = fitted(body(*row), to)
        except Exception as error:  # whatever the user's code raises, the other queries continue
            failed.append(i)
            message = _described(error)
            first = first or _short(f"{name}({', '.join(map(repr, row))}): {message}")
        results.append(value)
    return Returned(pa.array(results, to), failed, message, first)


def _vectorized(name: str, body: Vectorized, args: Sequence[pa.Array], to: pa.DataType, n: int) -> Returned:
    if not n:
        return Returned(pa.array([], to), ())
    divisible = True
    try:
        values = body(*args)
        divisible = False
        _check_form(values, to, n, body.kind)
        divisible = True
        return Returned(_fitted_array(values, to), ())
    except Exception as error:
        failure = _described(error)
    first = _short(f"{name} of {n} row{'' if n == 1 else 's'}: {failure}")
    if n == 1 or not divisible:
        return Returned(pa.nulls(n, to), np.arange(n), failure, first)
    half = n // 2
    left = _vectorized(name, body, [a.slice(0, half) for a in args], to, half)
    right = _vectorized(name, body, [a.slice(half) for a in args], to, n - half)
    failed = np.concatenate([np.asarray(left.failed, np.int64), np.asarray(right.failed, np.int64) + half])
    return Returned(pa.concat_arrays([left.values, right.values]), failed, failure, first)


def _check_form(values: Any, to: pa.DataType, n: int, kind: str) -> None:
    """Raises if the return value of a vectorized function is not an array of its type and length."""
    if not isinstance(values, pa.Array | pa.ChunkedArray):
        wanted = "a pyarrow Array or ChunkedArray" if kind == "arrow" else "a Series or NumPy array"
        raise TypeError(f"it returned {type(values).__name__}, not {wanted}")
    if len(values) != n:
        raise ValueError(f"it returned {len(values)} values for {n} rows")
    if not _convertible(_plain(values), to, kind):
        raise TypeError(f"it returned values of Arrow's type {_plain(values).type}, which are not {t.name_of(to)}")


def _plain(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    """One array without a dictionary."""
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    return values.dictionary_decode() if pa.types.is_dictionary(values.type) else values


def _fitted_array(values: pa.Array | pa.ChunkedArray, to: pa.DataType) -> pa.Array:
    """The return value of a vectorized function as an array of its type; raises if a value does not fit."""
    values = _plain(values)
    if pa.types.is_timestamp(values.type) and values.type.tz is not None:
        values = values.cast(pa.timestamp(values.type.unit, "UTC")).cast(pa.timestamp(values.type.unit))
    values = values.cast(to, safe=to != t.FLOAT)
    if to == t.STRING:
        values.validate(full=True)
    return pa.concat_arrays([values])


def _convertible(array: pa.Array, to: pa.DataType, kind: str) -> bool:
    """Whether a scalar function may return such array too: integers of any width, also for FLOAT and DOUBLE, and times
    with a zone. pandas represents integers with NULLs as floats."""
    have = array.type
    if have == to or pa.types.is_null(have):
        return True
    if pa.types.is_integer(have):
        return bool(t.is_numeric(to))
    if pa.types.is_floating(have):
        whole = kind == "pandas" and t.is_integer(to) and pc.all(pc.equal(pc.round(array), array)).as_py() is not False
        return bool(t.is_float(to) or whole)
    return bool(
        (to == t.STRING and (pa.types.is_large_string(have) or pa.types.is_string_view(have)))
        or (to == t.TIMESTAMP and pa.types.is_timestamp(have))
        or (to == t.INTERVAL and pa.types.is_duration(have))
        or (to == t.DATE and pa.types.is_date(have))
    )


def _is_series(value: Any) -> bool:
    return type(value).__name__ == "Series" and type(value).__module__.startswith("pandas")


def _described(error: Exception) -> str:
    return _short(f"{type(error).__name__}: {error}" if str(error) else type(error).__name__)


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"

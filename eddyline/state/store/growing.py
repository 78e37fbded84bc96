"""Growing columns: append-only memory for the values of one column.

Appending copies values to the end; memory grows by half when it is full, so a value is copied three times on average.
A view that was returned is never changed: appending writes after its end, and dropping rows makes new memory.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline.arrays import Ints
from eddyline.index.filters.domains import sortable

SMALLEST = 64
LONGEST_TEXT = 2**31 - 1  # bytes that Arrow's strings address


class GrowingArray:
    """A NumPy array to which values are appended."""

    def __init__(self, dtype: npt.DTypeLike) -> None:
        self._memory = np.empty(0, dtype)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def values(self) -> npt.NDArray[Any]:
        return self._memory[: self._count]

    @property
    def nbytes(self) -> int:
        return int(self._memory.nbytes)

    def append(self, values: npt.NDArray[Any]) -> None:
        stop = self._count + len(values)
        if stop > len(self._memory):
            self.reserve(stop)
        self._memory[self._count : stop] = values
        self._count = stop

    def extend(self, count: int, value: int) -> None:
        """Makes it `count` long, filled up with a value."""
        self.reserve(count)
        self._memory[self._count : count] = value
        self._count = max(self._count, count)

    def reserve(self, count: int) -> None:
        if count > len(self._memory):
            memory = np.empty(max(count, len(self._memory) * 3 // 2, SMALLEST), self._memory.dtype)
            memory[: self._count] = self.values
            self._memory = memory

    def truncate(self, count: int) -> None:
        """Drops the values from a position on. What is appended next overwrites them, also in views."""
        self._count = count

    def keep(self, rows: slice | npt.NDArray[Any]) -> None:
        """Keeps these values only."""
        kept = self.values[rows]
        self._memory = kept.copy() if isinstance(rows, slice) else kept
        self._count = len(kept)


class GrowingColumn:
    """Values of one Arrow type: numbers, times and booleans as an array, strings as offsets and bytes."""

    def __init__(self, type_: pa.DataType) -> None:
        self.type = type_
        self._clear()

    def _clear(self) -> None:
        self._nulls: GrowingArray | None = None  # one byte a value, once there is a NULL
        self._text = GrowingArray(np.uint8) if pa.types.is_string(self.type) else None
        self._data = GrowingArray(np.int64 if self._text is not None else _dtype(self.type))
        if self._text is not None:
            self._data.append(np.zeros(1, np.int64))  # offsets: one more than there are values

    def __len__(self) -> int:
        return len(self._data) - (self._text is not None)

    @property
    def nbytes(self) -> int:
        return sum(a.nbytes for a in (self._nulls, self._text, self._data) if a is not None)

    @property
    def numbers(self) -> npt.NDArray[Any]:
        """The values of a column that is not of strings, as an array; arbitrary where they are NULL."""
        return self._data.values

    def append(self, values: pa.Array) -> None:
        n, before = len(values), len(self)
        if values.null_count and self._nulls is None:
            self._nulls = GrowingArray(np.uint8)
            self._nulls.extend(before, 0)
        if self._nulls is not None:
            self._nulls.append(values.is_null().to_numpy(zero_copy_only=False))
        if self._text is None:
            self._data.append(_plain(values, self._data.values.dtype))
            return
        offsets = np.frombuffer(values.buffers()[1], np.int32, n + 1, values.offset * 4) if n else np.zeros(1, np.int32)
        begin, end = int(offsets[0]), int(offsets[-1])
        start = len(self._text) - begin
        if end > begin:
            self._text.append(np.frombuffer(values.buffers()[2], np.uint8, end - begin, begin))
        self._data.append(offsets[1:].astype(np.int64) + start)

    def view(self) -> ColumnView:
        """Its present values; what is appended or dropped later does not change them."""
        nulls, text = (None if a is None else a.values for a in (self._nulls, self._text))
        return ColumnView(self.type, self._data.values, nulls, text)

    def take(self, rows: Ints) -> pa.Array:
        """The values at some rows."""
        return self.view().take(rows)

    def integers(self, rows: Ints) -> Ints | None:
        """The values at some rows as integers of the same order; None for strings, and if there are NULLs."""
        if self._text is not None or self._nulls is not None:
            return None
        values = self._data.values[rows]
        return sortable(values.astype(np.float64, copy=False)) if values.dtype.kind == "f" else values.astype(np.int64)

    def keep(self, rows: slice | Ints) -> None:
        """Keeps these rows only."""
        if self._text is None:
            self._data.keep(rows)
            if self._nulls is not None:
                self._nulls.keep(rows)
            return
        kept = self.view().slice(*rows.indices(len(self))[:2]) if isinstance(rows, slice) else self.take(rows)
        self._clear()
        self.append(kept)


class ColumnView(NamedTuple):
    """The values of a growing column at one moment."""

    type: pa.DataType
    data: npt.NDArray[Any]
    nulls: npt.NDArray[np.uint8] | None
    text: npt.NDArray[np.uint8] | None

    def take(self, rows: Ints) -> pa.Array:
        """The values at some rows."""
        nulls = None if self.nulls is None else self.nulls[rows]
        if self.text is None:
            return _array(self.type, self.data[rows], nulls)
        buffers = [None, pa.py_buffer(self.data), pa.py_buffer(self.text)]
        every = pa.Array.from_buffers(pa.large_string(), len(self.data) - 1, buffers)
        taken = every.take(pa.array(rows)).cast(self.type)
        if nulls is None or not nulls.any():
            return taken
        return pa.Array.from_buffers(self.type, len(rows), [_validity(nulls), *taken.buffers()[1:]])

    def slice(self, start: int, stop: int) -> pa.Array:
        """The values of consecutive rows; numbers are not copied."""
        nulls = None if self.nulls is None else self.nulls[start:stop]
        if self.text is None:
            return _array(self.type, self.data[start:stop], nulls)
        offsets = self.data[start : stop + 1]
        begin, end = int(offsets[0]), int(offsets[-1])
        if end - begin > LONGEST_TEXT:
            raise MemoryError(f"{end - begin:,} bytes of text are more than one column can have")
        buffers = [pa.py_buffer((offsets - begin).astype(np.int32)), pa.py_buffer(self.text[begin:end])]
        return pa.Array.from_buffers(self.type, stop - start, [_validity(nulls), *buffers])


def _dtype(type_: pa.DataType) -> npt.DTypeLike:
    if pa.types.is_boolean(type_) or pa.types.is_null(type_):
        return np.uint8
    kind = "f" if pa.types.is_floating(type_) else "i"
    return np.dtype(f"{kind}{type_.bit_width // 8}")


def _plain(values: pa.Array, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Values that are not strings as an array; arbitrary where they are NULL."""
    if pa.types.is_null(values.type):
        return np.zeros(len(values), dtype)
    if pa.types.is_boolean(values.type):
        return np.asarray(values.fill_null(False).to_numpy(zero_copy_only=False), dtype)
    if not len(values):
        return np.empty(0, dtype)
    return np.frombuffer(values.buffers()[1], dtype, len(values), values.offset * dtype.itemsize)


def _array(type_: pa.DataType, values: npt.NDArray[Any], nulls: npt.NDArray[Any] | None) -> pa.Array:
    if pa.types.is_null(type_):
        return pa.nulls(len(values))
    data = np.packbits(values, bitorder="little") if pa.types.is_boolean(type_) else values
    return pa.Array.from_buffers(type_, len(values), [_validity(nulls), pa.py_buffer(data)])


def _validity(nulls: npt.NDArray[Any] | None) -> pa.Buffer | None:
    if nulls is None or not nulls.any():
        return None
    return pa.py_buffer(np.packbits(nulls == 0, bitorder="little"))

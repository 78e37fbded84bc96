"""Domains: the values of an attribute as 16-bit codes, which compare with the ends of ranges as the values do.

The ends of all ranges over an attribute are *cuts*. A value's code is 1 + the number of cuts at or below it; NULL has
the code 0. A range [start, stop) of values is then a closed range of codes. Invariant: codes ascend with values, and
values on different sides of a kept cut have different codes. Up to 65,533 cuts are kept; if there are more, every k-th
is kept, and the first and last code of a range may belong to values outside of it: such a domain is not `exact`. Cost:
a binary search per value, among the cuts of one of 16,384 buckets for numbers, among all cuts for distinct texts.

Numbers of all types are compared as integers of the same order (`sortable`). Texts are compared by their bytes, which
is the order of code points; the least text above s is s + NUL, so ranges of texts are half-open as well.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.arrays import Bytes, Codes, Doubles, Ints, Ints32, Mask
from eddyline.index.runtime.kernel_cache import kernel

NULL = 0  # the code of NULL
MOST_CUTS = 65_533  # codes 0 … 65,534; no value has the code 65,535
GUIDE_BITS = 14


@dataclass(frozen=True)
class NumberColumn:
    """An attribute's values in a batch, as integers of the same order; `missing` is empty if none is NULL."""

    values: Ints
    missing: Mask

    def slice(self, start: int, stop: int) -> NumberColumn:
        return NumberColumn(self.values[start:stop], self.missing[start:stop])

    def at(self, rows: Ints | None) -> NumberColumn:
        """The values of these rows; of all rows if None."""
        if rows is None:
            return self
        return NumberColumn(self.values[rows], self.missing[rows] if len(self.missing) else self.missing)


@dataclass(frozen=True)
class TextColumn:
    """An attribute's values in a batch: each distinct text once, and which of them each row has; -1 for NULL."""

    data: Bytes
    ends: Ints
    which: Ints32

    def slice(self, start: int, stop: int) -> TextColumn:
        return TextColumn(self.data, self.ends, self.which[start:stop])

    def at(self, rows: Ints | None) -> TextColumn:
        """The values of these rows; of all rows if None."""
        return self if rows is None else TextColumn(self.data, self.ends, self.which[rows])


ValueColumn = NumberColumn | TextColumn


def value_column(values: pa.Array) -> ValueColumn:
    """A column of any type that can be compared, as domains take it."""
    if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
        encoded = values.dictionary_encode()
        which = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        return TextColumn(*text_bytes(encoded.dictionary), np.asarray(which, np.int32))
    numbers, missing = as_integers(values)
    return NumberColumn(numbers, missing if values.null_count else np.empty(0, np.bool_))


@dataclass(frozen=True)
class NumberDomain:
    """Cuts among integers. Those in bucket i of the values are guide[i] … guide[i + 1]."""

    cuts: Ints
    exact: bool
    shift: int
    guide: Ints32

    @property
    def size(self) -> int:
        """The number of codes."""
        return len(self.cuts) + 2

    def codes(self, column: ValueColumn, codes: Codes) -> None:
        """Writes the codes of a column."""
        assert isinstance(column, NumberColumn)
        self._write_codes(column.values, codes)
        if len(column.missing):
            codes[column.missing] = NULL

    def first_codes(self, starts: Ints) -> Codes:
        """The code of the least value at or above each."""
        codes = np.empty(len(starts), np.uint16)
        self._write_codes(starts, codes)
        return codes

    def last_codes(self, stops: Ints) -> Codes:
        """The code of the greatest value below each; 0 if there is none."""
        least = np.iinfo(np.int64).min
        codes = self.first_codes(stops - (stops > least))
        codes[stops == least] = 0
        return codes

    def _write_codes(self, values: Ints, codes: Codes) -> None:
        _number_codes(self.cuts, np.uint64(self.shift), self.guide, values, codes)


def numbers_domain(cuts: Ints) -> NumberDomain:
    """The domain of some cuts, in any order. O(n log n)."""
    cuts = np.sort(cuts)
    cuts = cuts[np.append(True, cuts[1:] != cuts[:-1])[: len(cuts)]]
    exact = len(cuts) <= MOST_CUTS
    if not exact:
        cuts = cuts[np.linspace(0, len(cuts) - 1, MOST_CUTS).astype(np.int64)]
    span = int(cuts[-1]) - int(cuts[0]) if len(cuts) else 0
    shift = max(0, span.bit_length() - GUIDE_BITS)
    if not len(cuts):
        return NumberDomain(cuts, exact, shift, np.zeros(2, np.int32))
    place = (cuts.view(np.uint64) - cuts[:1].view(np.uint64)) >> np.uint64(shift)
    guide = np.searchsorted(place, np.arange((span >> shift) + 2, dtype=np.uint64)).astype(np.int32)
    return NumberDomain(cuts, exact, shift, guide)


@dataclass(frozen=True)
class TextDomain:
    """Cuts among texts, in the order of their bytes."""

    data: Bytes
    ends: Ints
    exact: bool

    @property
    def size(self) -> int:
        return len(self.ends) + 1

    def codes(self, column: ValueColumn, codes: Codes) -> None:
        """Writes the codes of a column."""
        assert isinstance(column, TextColumn)
        each = np.zeros(len(column.ends), np.uint16)  # the last is that of NULL
        _text_codes(self.data, self.ends, column.data, column.ends, True, each)
        np.take(each, column.which, out=codes, mode="wrap")

    def first_codes(self, starts: pa.Array) -> Codes:
        return self._codes_of(starts, including=True)

    def last_codes(self, stops: pa.Array) -> Codes:
        return self._codes_of(stops, including=False)

    def _codes_of(self, texts: pa.Array, *, including: bool) -> Codes:
        codes = np.empty(len(texts), np.uint16)
        _text_codes(self.data, self.ends, *text_bytes(texts), including, codes)
        return codes


Domain = NumberDomain | TextDomain


def texts_domain(cuts: pa.Array) -> TextDomain:
    """The domain of some cuts, in any order; NULLs are ignored."""
    cuts = cuts.cast(pa.large_binary()).drop_null().unique()
    cuts = cuts.take(pc.sort_indices(cuts))
    exact = len(cuts) <= MOST_CUTS
    if not exact:
        cuts = cuts.take(pa.array(np.linspace(0, len(cuts) - 1, MOST_CUTS).astype(np.int64)))
    return TextDomain(*text_bytes(cuts), exact)


def text_bytes(values: pa.Array) -> tuple[Bytes, Ints]:
    """A copy of the bytes of texts end to end, and the bounds of each; NULL becomes the empty text."""
    whole = pa.concat_arrays([values.cast(pa.large_binary()).fill_null(b"")])
    _, offsets, data = whole.buffers()
    ends = np.zeros(len(whole) + 1, np.int64)
    if len(whole):
        ends[:] = np.frombuffer(offsets, np.int64, len(whole) + 1, whole.offset * 8)
    text = np.array(np.frombuffer(data, np.uint8)[: ends[-1]]) if data is not None else np.zeros(0, np.uint8)
    return text, ends


def after(text: bytes) -> bytes:
    """The least text above this one."""
    return text + b"\0"


def after_prefix(prefix: bytes) -> bytes | None:
    """The least text above all that begin so; None if there is none."""
    kept = prefix.rstrip(b"\xff")
    return kept[:-1] + bytes([kept[-1] + 1]) if kept else None


def as_integers(values: pa.Array) -> tuple[Ints, Mask]:
    """Numbers, times, dates and truth values as integers of the same order, and which are NULL."""
    kind, nulls = values.type, values.null_count > 0
    missing = values.is_null().to_numpy(zero_copy_only=False) if nulls else np.zeros(len(values), np.bool_)
    if pa.types.is_floating(kind):
        doubles = values if kind == pa.float64() else values.cast(pa.float64())
        return sortable((doubles.fill_null(0.0) if nulls else doubles).to_numpy(zero_copy_only=False)), missing
    whole = values.cast(pa.int32()) if pa.types.is_date(kind) else values
    whole = whole if whole.type == pa.int64() else whole.cast(pa.int64())
    return np.asarray((whole.fill_null(0) if nulls else whole).to_numpy(zero_copy_only=False), np.int64), missing


def sortable(values: Doubles) -> Ints:
    """Doubles as integers of the same order: -0.0 is 0.0, NaN is above all."""
    integers = np.empty(len(values), np.int64)
    _sortable(values, integers)
    return integers


# --- kernels ---------------------------------------------------------------------------------------------------------


@kernel
def _sortable(values: Doubles, integers: Ints) -> None:
    for i in range(len(values)):
        v = values[i] + 0.0
        bits = np.float64(v).view(np.int64)
        if v != v:
            bits = np.int64(9223372036854775807)
        elif bits < 0:
            bits ^= np.int64(9223372036854775807)
        integers[i] = bits


@kernel
def _number_codes(cuts: Ints, shift: np.uint64, guide: Ints32, numbers: Ints, codes: Codes) -> None:
    """O(log of the cuts in one bucket) per number."""
    n = len(cuts)
    for i in range(len(numbers)):
        x = numbers[i]
        if n == 0 or x < cuts[0]:
            codes[i] = 1
        elif x >= cuts[n - 1]:
            codes[i] = n + 1
        else:
            bucket = np.int64((np.uint64(x) - np.uint64(cuts[0])) >> shift)
            low, high = np.int64(guide[bucket]), np.int64(guide[bucket + 1])
            while low < high:
                middle = (low + high) >> 1
                if cuts[middle] <= x:
                    low = middle + 1
                else:
                    high = middle
            codes[i] = low + 1


@kernel
def _text_codes(cut_data: Bytes, cut_ends: Ints, data: Bytes, ends: Ints, including: bool, codes: Codes) -> None:
    """1 + how many cuts are at or below each text, or only below. O(log n) comparisons per text."""
    n = len(cut_ends) - 1
    for i in range(len(ends) - 1):
        low, high = 0, n
        while low < high:
            middle = (low + high) >> 1
            order = compared(cut_data, cut_ends[middle], cut_ends[middle + 1], data, ends[i], ends[i + 1])
            if order < 0 or (order == 0 and including):
                low = middle + 1
            else:
                high = middle
        codes[i] = low + 1


@kernel
def compared(a: Bytes, a_begin: int, a_end: int, b: Bytes, b_begin: int, b_end: int) -> int:
    """Below zero if text a is below text b, above zero if it is above, zero if they are the same."""
    length_a, length_b = a_end - a_begin, b_end - b_begin
    for k in range(min(length_a, length_b)):
        if a[a_begin + k] != b[b_begin + k]:
            return -1 if a[a_begin + k] < b[b_begin + k] else 1
    return length_a - length_b

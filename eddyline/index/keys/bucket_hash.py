"""Bucket hash: the bucket of a row, by the hash of its key or by the cell of the number line that contains a value.

State on disk is divided into buckets, so these definitions never change. All numbers are unsigned, of 64 bits:

    mix(x)          x ^= x >> 30; x *= 0xBF58476D1CE4E5B9; x ^= x >> 27; x *= 0x94D049BB133111EB; x ^= x >> 31
    hash(w1, w2 …)  h = 0; for each word: h = mix(h + 0x9E3779B97F4A7C15 + word)
    code            an integer: itself, signed numbers in two's complement. BOOLEAN: 0 or 1. DATE: days since 1970.
                    TIMESTAMP and INTERVAL: microseconds. FLOAT and DOUBLE: the bits of the double, 0.0 for -0.0 and
                    0x7FF8000000000000 for every NaN. STRING: hash(number of bytes, the bytes of its UTF-8 in words of
                    eight, the first byte the lowest, zeros at the end). NULL of any type: 0x6E756C6C
    bucket          of a row: hash(codes of its columns) mod buckets; of a cell: hash(cell) mod buckets
    cell            floor(v / width + 0.382) in double arithmetic, not outside ±2^61; 2^62 for NaN, 2^62 + 1 for NULL

So equal values are in one bucket, and cells ascend with values. Because of the offset 0.382, values on a grid, such as
integers or cents, are rarely on the edge between two cells, where a range that ends at them would touch both.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from eddyline.arrays import Bytes, Doubles, Ints, Ints32, Mask, Words
from eddyline.index.keys.key_table import ColumnCoder
from eddyline.index.keys.string_table import arrow_texts
from eddyline.index.runtime.kernel_cache import kernel

NULL = np.uint64(0x6E756C6C)
LAST_CELL = 2**61  # and the first one is its negative
NAN_CELL, NULL_CELL = 2**62, 2**62 + 1
OFF_THE_GRID = 0.382
CELLS_PER_BUCKET = 4  # a row that touches more cells than this times the buckets goes to all buckets
ROUNDING = 2.0**-50  # how far, against their sizes, the sum of a value and a bound can be from what a query computed

_STEP, _M1, _M2 = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_27, _30, _31, _EIGHT = (np.uint64(n) for n in (27, 30, 31, 8))


def bucket_of(columns: Sequence[pa.Array], buckets: int) -> Ints32:
    """The bucket of every row of a key, which has at least one column. O(rows and bytes of strings)."""
    codes = np.column_stack([_codes(c) for c in columns])
    return _bucket_of_codes(np.ascontiguousarray(codes), buckets)


def cell(values: pa.Array, width: float) -> Ints:
    """The cell of every number."""
    numbers, null = _numbers(values)
    return np.where(null, NULL_CELL, _cells(numbers, width))


def bucket_of_cell(cells: Ints, buckets: int) -> Ints32:
    return _bucket_of_codes(np.ascontiguousarray(cells, np.int64).view(np.uint64).reshape(-1, 1), buckets)


def widest(low: pa.Array, high: pa.Array) -> tuple[float, float] | None:
    """The least low and the greatest high bound of many queries, NaN if one is; None if no query has both."""
    (lows, no_low), (highs, no_high) = _numbers(low), _numbers(high)
    both = ~(no_low | no_high)
    return (float(lows[both].min()), float(highs[both].max())) if both.any() else None


def reach(values: pa.Array, low: float, high: float, width: float, buckets: int) -> tuple[Ints, Ints32]:
    """All (row, bucket) pairs, each once and by row, such that the bucket has a cell from value + low to value + high.

    A bound that is not finite, or a value that is infinite, reaches all buckets; NaN otherwise reaches the cell of NaN,
    and NULL nothing. Buckets without a partner may be among them. O(cells touched, at most 4 per bucket and row).
    """
    numbers, null = _numbers(values)
    with np.errstate(over="ignore", invalid="ignore"):
        least = numbers + low - ROUNDING * (np.abs(numbers) + abs(low))
        greatest = numbers + high + ROUNDING * (np.abs(numbers) + abs(high))
    first, last = _cells(least, width), _cells(greatest, width)
    bounded = bool(np.isfinite(low) and np.isfinite(high))
    wide = ~(np.isfinite(least) & np.isfinite(greatest)) & ~(np.isnan(numbers) & bounded)
    first[wide], last[wide] = -LAST_CELL, LAST_CELL
    first[null], last[null] = 0, -1
    nowhere = np.empty(0, np.int64)
    pairs = _reached(first, last, buckets, nowhere, nowhere)
    row, bucket = np.empty(pairs, np.int64), np.empty(pairs, np.int64)
    _reached(first, last, buckets, row, bucket)
    return row, bucket.astype(np.int32)


def _cells(numbers: Doubles, width: float) -> Ints:
    """Ascending with the numbers, because every step is."""
    with np.errstate(over="ignore", invalid="ignore"):
        cells = np.clip(np.floor(numbers / width + OFF_THE_GRID), -LAST_CELL, LAST_CELL)
    missing = np.isnan(cells)
    return np.where(missing, NAN_CELL, np.where(missing, 0.0, cells).astype(np.int64))


def _numbers(values: pa.Array) -> tuple[Doubles, Mask]:
    """Numbers of any type as doubles, 0 for NULL, and where NULL is."""
    null = values.is_null().to_numpy(zero_copy_only=False)
    doubles = values.cast(pa.float64(), safe=False)
    return doubles.fill_null(0.0).to_numpy(zero_copy_only=False), null


def _codes(column: pa.Array) -> Words:
    """A word for every value, equal for equal values."""
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        return np.where(column.is_null().to_numpy(zero_copy_only=False), NULL, _text_codes(column))
    codes = ColumnCoder([column.type]).codes([column], len(column))
    return np.where(codes[:, 1] != 0, NULL, codes[:, 0].astype(np.uint64))


def _text_codes(column: pa.Array) -> Words:
    codes = np.zeros(len(column), np.uint64)
    if len(column):
        data, ends, _ = arrow_texts(column)
        _hash_texts(data, ends, codes)
    return codes


def _bucket_of_codes(codes: Words, buckets: int) -> Ints32:
    result = np.empty(len(codes), np.int32)
    _hash_rows(codes, np.uint64(buckets), result)
    return result


# --- kernels ---------------------------------------------------------------------------------------------------------


@kernel
def _then(h: np.uint64, word: np.uint64) -> np.uint64:
    """The hash of some words and one more."""
    x = h + _STEP + word
    x = (x ^ (x >> _30)) * _M1
    x = (x ^ (x >> _27)) * _M2
    return x ^ (x >> _31)


@kernel
def _hash_rows(codes: Words, buckets: np.uint64, result: Ints32) -> None:
    for i in range(len(codes)):
        h = np.uint64(0)
        for j in range(codes.shape[1]):
            h = _then(h, codes[i, j])
        result[i] = np.int32(h % buckets)


@kernel
def _hash_texts(data: Bytes, ends: Ints, codes: Words) -> None:
    for i in range(len(codes)):
        h = _then(np.uint64(0), np.uint64(ends[i + 1] - ends[i]))
        for start in range(ends[i], ends[i + 1], 8):
            word = np.uint64(0)
            for j in range(min(8, ends[i + 1] - start)):
                word |= np.uint64(data[start + j]) << (_EIGHT * np.uint64(j))
            h = _then(h, word)
        codes[i] = h


@kernel
def _reached(first: Ints, last: Ints, buckets: int, row: Ints, bucket: Ints) -> int:
    """The number of (row, bucket) pairs of the cells first … last of each row; also writes them, as far as they fit."""
    seen = np.full(buckets, -1, np.int64)  # the last row that reached each bucket
    n = 0
    for i in range(len(first)):
        wide = last[i] - first[i] >= CELLS_PER_BUCKET * buckets
        stop = first[i] + buckets if wide else last[i] + 1
        for c in range(first[i], stop):
            b = c - first[i] if wide else np.int64(_then(np.uint64(0), np.uint64(c)) % np.uint64(buckets))
            if seen[b] != i:
                seen[b] = i
                if n < len(row):
                    row[n], bucket[n] = i, b
                n += 1
    return n

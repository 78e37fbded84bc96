"""Key table: gives every distinct row of int64 codes the next slot, 0, 1, 2, …, in order of first appearance.

`KeyTable` has the rows end to end in order of slot, and an open-addressing hash table like that of `string_table.py`,
with the same invariant: linear probing from the place of its hash reaches a row's entry before a free one. A row takes
8 bytes per code, at most an eighth of that again as spare memory, and 11 to 21 bytes in the hash table.

`ColumnCoder` makes such rows from Arrow columns. Two rows have equal codes exactly if GROUP BY treats them as equal.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline.arrays import Ints, Mask, Words
from eddyline.index.keys.string_table import BLOCK, SMALLEST_TABLE, HashTable, StringTable, doubled, enlarged, is_full
from eddyline.index.runtime.kernel_cache import kernel

MOST_SLOTS = 2**31 - 1
COLUMNS_PER_MASK = 62  # one bit each in a code
UNSEEN = -2  # the code of a string that no row has; ids are never negative

_ONE, _BITS29, _BITS32, _LOW32 = (np.uint64(n) for n in (1, 29, 32, 2**32 - 1))
_SEED, _M1, _M2 = np.uint64(0x2D358DCCAA6C78A5), np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9)


class KeyTable:
    """Slots of the distinct rows of `width` codes; with width 0 there is one row, slot 0."""

    def __init__(self, width: int) -> None:
        self.width = width
        self._count = 0
        self._keys: Ints = np.empty((0, width), np.int64)
        self._table: HashTable = np.zeros(SMALLEST_TABLE, np.uint64)

    @classmethod
    def from_keys(cls, keys: Ints) -> KeyTable:
        """The table whose `keys` gave this array."""
        table = cls(keys.shape[1])
        table.insert(keys)
        if len(table) != len(keys):
            raise ValueError("keys to restore must be distinct")
        return table

    def __len__(self) -> int:
        return self._count

    @property
    def nbytes(self) -> int:
        return int(self._keys.nbytes + self._table.nbytes)

    def keys(self) -> Ints:
        """A copy of all rows, in order of slot."""
        return self._keys[: self._count].copy()

    def insert(self, codes: Ints) -> Ints:
        """The slot of every row, new rows added."""
        codes = self._rows(codes)
        slots = np.empty(len(codes), np.int64)
        done = 0
        while True:  # the kernel stops at the first row that does not fit
            done, self._count = _insert_some(codes, self._keys, self._table, self._count, slots, done)
            if done == len(codes):
                return slots
            self._grow()

    def find(self, codes: Ints) -> Ints:
        """The slot of every row, or -1."""
        codes = self._rows(codes)
        slots = np.empty(len(codes), np.int64)
        _find_all(codes, self._keys, self._table, slots)
        return slots

    def keep(self, slots: Ints) -> Ints:
        """Drops all slots but these, which ascend, and renumbers them: new slot by old slot, -1 for a dropped one."""
        slots = np.asarray(slots, np.int64)
        if len(slots) and (slots[0] < 0 or slots[-1] >= self._count or np.any(slots[1:] <= slots[:-1])):
            raise ValueError(f"slots to keep must ascend, from 0 to {self._count - 1}")
        renumbered = np.full(self._count, -1, np.int64)
        renumbered[slots] = np.arange(len(slots))
        kept = KeyTable.from_keys(self._keys[slots])
        self._count, self._keys, self._table = kept._count, kept._keys, kept._table
        return renumbered

    def _rows(self, codes: Ints) -> Ints:
        if codes.ndim != 2 or codes.shape[1] != self.width:
            raise ValueError(f"expected rows of {self.width} codes, got an array of shape {codes.shape}")
        rows = np.ascontiguousarray(codes, np.int64).view()
        rows.flags.writeable = False  # always, so that each kernel is compiled for one type
        return rows

    def _grow(self) -> None:
        """Makes memory for one more row, and some to spare."""
        if self._count == MOST_SLOTS:
            raise OverflowError(f"a key table holds at most {MOST_SLOTS} rows")
        if self._count == len(self._keys):
            self._keys = enlarged(self._keys, self._count, self._count + 1)
        if is_full(self._count, len(self._table)):
            self._table = doubled(self._table)


class ColumnCoder:
    """Codes for rows of these types: one code per column, then masks of NULLs, one for every 62 columns or fewer.

    Bit j % 62 of mask j // 62 is set where column j is NULL; a coder of no columns has one mask too.
    NULL equals NULL, NaN equals NaN, -0.0 equals 0.0. Strings are coded by a table of their own per column.
    """

    def __init__(self, types: Sequence[pa.DataType]) -> None:
        if unknown := [str(t) for t in types if not (_is_text(t) or _is_plain(t) or pa.types.is_null(t))]:
            raise TypeError(f"no key can be made of {', '.join(unknown)}")
        self.types = tuple(types)
        self._strings = [StringTable() if _is_text(t) else None for t in types]

    @property
    def width(self) -> int:
        """The number of codes of a row."""
        return len(self.types) + max(1, -(-len(self.types) // COLUMNS_PER_MASK))

    @property
    def has_strings(self) -> bool:
        """Whether some codes are those of its own tables of strings."""
        return any(table is not None for table in self._strings)

    def has_null(self, codes: Ints) -> Mask:
        """Which of the rows with these codes have a NULL in some column."""
        masks = codes[:, len(self.types) : self.width]
        nulls: Mask = np.logical_or.reduce(masks != 0, axis=1)
        return nulls

    def codes(self, columns: Sequence[pa.Array], length: int) -> Ints:
        """The codes of `length` rows, new strings added."""
        texts = [t if t is None else t.intern(column) for t, column in zip(self._strings, columns, strict=True)]
        return self._codes(columns, texts, length)

    def find_codes(self, columns: Sequence[pa.Array], length: int) -> Ints:
        """The codes of `length` rows, nothing added: a row with a string never seen equals no row of `codes`."""
        texts = [t if t is None else t.find(column) for t, column in zip(self._strings, columns, strict=True)]
        return self._codes(columns, texts, length)

    def strings(self) -> list[pa.Array | None]:
        """The strings of each column, to be saved; None for a column of another type."""
        return [None if table is None else table.to_arrow() for table in self._strings]

    def restore(self, strings: Sequence[pa.Array | None]) -> None:
        """Restores the strings that `strings` returned."""
        if [s is None for s in strings] != [table is None for table in self._strings]:
            raise ValueError("the saved strings belong to other columns")
        self._strings = [None if s is None else StringTable.from_arrow(s) for s in strings]

    def _codes(self, columns: Sequence[pa.Array], texts: Sequence[Ints | None], length: int) -> Ints:
        codes = np.zeros((length, self.width), np.int64)
        for j, (column, ids) in enumerate(zip(columns, texts, strict=True)):
            if len(column) != length:
                raise ValueError(f"column {j} has {len(column)} rows, not {length}")
            if ids is None and column.type != self.types[j]:
                raise TypeError(f"column {j} is {column.type}, not {self.types[j]}")
            mask, bit = len(self.types) + j // COLUMNS_PER_MASK, j % COLUMNS_PER_MASK
            if column.null_count == length:
                codes[:, mask] |= 1 << bit
                continue
            codes[:, j] = np.where(ids < 0, UNSEEN, ids) if ids is not None else _plain_codes(column)
            if column.null_count:
                null = column.is_null().to_numpy(zero_copy_only=False)
                codes[null, j] = 0
                codes[:, mask] |= null.astype(np.int64) << bit
        return codes


def _is_text(t: pa.DataType) -> bool:
    return bool(pa.types.is_string(t) or pa.types.is_large_string(t))


def _is_plain(t: pa.DataType) -> bool:
    """Whether a value of the type is a number of at most 64 bits."""
    kinds = (pa.types.is_boolean, pa.types.is_integer, pa.types.is_floating, pa.types.is_temporal)
    return any(kind(t) for kind in kinds) and not pa.types.is_interval(t)


def _plain_codes(column: pa.Array) -> npt.NDArray[np.integer]:
    """Numbers that are equal where the values are; arbitrary where they are NULL."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.int8())
    t, size = column.type, column.type.bit_width // 8
    kind = "f" if pa.types.is_floating(t) else "u" if pa.types.is_unsigned_integer(t) else "i"
    values = np.frombuffer(column.buffers()[1], np.dtype(f"{kind}{size}"), len(column), column.offset * size)
    return _float_codes(values) if kind == "f" else values


def _float_codes(values: npt.NDArray[np.floating]) -> Ints:
    """The bits of each value as a double, one pattern for all NaNs and one for both zeros."""
    with np.errstate(invalid="ignore"):  # a signalling NaN is a NaN
        doubles = values.astype(np.float64) + 0.0  # which turns -0.0 into 0.0
    doubles[np.isnan(doubles)] = np.nan
    return doubles.view(np.int64)


# --- kernels ---------------------------------------------------------------------------------------------------------


@kernel
def _hash(codes: Ints, row: int) -> np.uint64:
    """32 bits of a row; each step is a bijection of the code it takes, so that small numbers spread."""
    h = _SEED
    for j in range(codes.shape[1]):
        h = (h ^ np.uint64(codes[row, j])) * _M1
        h ^= h >> _BITS32
    h = (h ^ (h >> _BITS29)) * _M2
    return h >> _BITS32


@kernel
def _place(codes: Ints, row: int, h: np.uint64, keys: Ints, table: HashTable) -> np.uint64:
    """The place of this row in the hash table, or the free place where it belongs."""
    mask = np.uint64(len(table) - 1)
    place = h & mask
    while table[place] != 0:
        if table[place] >> _BITS32 == h:
            slot = (table[place] & _LOW32) - _ONE
            j = 0
            while j < codes.shape[1] and keys[slot, j] == codes[row, j]:
                j += 1
            if j == codes.shape[1]:
                break
        place = (place + _ONE) & mask
    return place


@kernel
def _hash_block(codes: Ints, first: int, keys: Ints, table: HashTable, hashes: Words, touched: Words) -> int:
    """Hashes the next rows, as many as fit, and returns where it stopped; `touched` is as in `string_table.py`."""
    mask = np.uint64(len(table) - 1)
    rows = min(len(hashes), len(codes) - first)
    for j in range(rows):
        hashes[j] = _hash(codes, first + j)
    for j in range(rows):
        entry = table[hashes[j] & mask]
        touched[j] = (entry & _LOW32) - _ONE if entry >> _BITS32 == hashes[j] and entry != 0 else 0
    if keys.size:
        for j in range(rows):
            touched[j] = keys[touched[j], 0]
    return first + rows


@kernel
def _find_all(codes: Ints, keys: Ints, table: HashTable, slots: Ints) -> None:
    """O(codes)."""
    hashes, touched = np.empty(BLOCK, np.uint64), np.empty(BLOCK, np.uint64)
    first = 0
    while first < len(slots):
        stop = _hash_block(codes, first, keys, table, hashes, touched)
        for i in range(first, stop):
            place = _place(codes, i, hashes[i - first], keys, table)
            slots[i] = np.int64(table[place] & _LOW32) - 1
        first = stop


@kernel
def _insert_some(codes: Ints, keys: Ints, table: HashTable, count: int, slots: Ints, first: int) -> tuple[int, int]:
    """Inserts from row `first` until an array is full; the first row not done and the new count. O(codes)."""
    hashes, touched = np.empty(BLOCK, np.uint64), np.empty(BLOCK, np.uint64)
    while first < len(slots):
        stop = _hash_block(codes, first, keys, table, hashes, touched)
        for i in range(first, stop):
            h = hashes[i - first]
            place = _place(codes, i, h, keys, table)
            if table[place] == 0:
                if count == len(keys) or is_full(count, len(table)):
                    return i, count
                keys[count] = codes[i]
                count += 1
                table[place] = (h << _BITS32) | np.uint64(count)
            slots[i] = np.int64(table[place] & _LOW32) - 1
        first = stop
    return first, count

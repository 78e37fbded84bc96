"""String table: gives every distinct string the next id, 0, 1, 2, …, in order of first appearance.

Structure: the bytes of all strings end to end; `offsets`, where string i is bytes offsets[i]:offsets[i + 1]; and an
open-addressing hash table, a power of two long and at most three quarters full, whose entries are a 32-bit hash and
id + 1 in one word. 0 is a free entry.
Invariant: linear probing from the place of its hash reaches a string's entry before a free one.
Cost: one hash and a few neighbouring entries per string, whatever the number of ids; 19 to 30 bytes per string besides
its text. Bytes and offsets grow by an eighth, so that at most a ninth of them is spare. Only one thread may intern.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline.arrays import Bytes, Ints, Mask, Words
from eddyline.index.runtime.kernel_cache import kernel

HashTable = Words  # entries are hash << 32 | id + 1
# Plain tuples, for single strings are looked up too: Numba takes 1 µs longer to recognise a named tuple.
Store = tuple[Bytes, Ints, HashTable]  # data, offsets and hash table, all longer than what is used
ArrowTexts = tuple[Bytes, Ints, Mask]  # data, offsets, and which are not NULL; empty if all are

MOST_IDS = 2**31 - 1
MOST_BYTES = 2**31 - 1  # of one pa.string() array
SMALLEST_TABLE = 16
BLOCK = 128  # rows looked up together

_SEED, _M1, _M2 = np.uint64(0x2D358DCCAA6C78A5), np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9)
_ONE, _EIGHT, _BITS29, _BITS32, _LOW32 = (np.uint64(n) for n in (1, 8, 29, 32, 2**32 - 1))


class StringTable:
    """Interns strings; see the module's docstring."""

    def __init__(self) -> None:
        self._count = 0
        self._store: Store = (np.empty(0, np.uint8), np.zeros(1, np.int64), np.zeros(SMALLEST_TABLE, np.uint64))

    @classmethod
    def from_arrow(cls, array: pa.Array) -> StringTable:
        """The table whose `to_arrow` gave this array."""
        table = cls()
        table.intern(array)
        if len(table) != len(array) or array.null_count:
            raise ValueError("strings to restore must be distinct and not NULL")
        return table

    def __len__(self) -> int:
        return self._count

    @property
    def nbytes(self) -> int:
        """Bytes held, spare ones included."""
        return sum(array.nbytes for array in self._store)

    def intern(self, values: pa.Array) -> Ints:
        """The id of every string, new ones added; -1 for NULL."""
        texts = _, ends, _ = arrow_texts(values)
        ids = np.empty(len(ends) - 1, np.int64)
        done = 0
        while True:  # the kernel stops at the first string that does not fit
            done, self._count = _intern_some(texts, self._store, self._count, ids, done)
            if done == len(ids):
                return ids
            self._grow(int(ends[done + 1] - ends[done]))

    def find(self, values: pa.Array) -> Ints:
        """The id of every string, -1 for one never seen and for NULL."""
        texts = _, ends, _ = arrow_texts(values)
        ids = np.empty(len(ends) - 1, np.int64)
        _find_all(texts, self._store, ids)
        return ids

    def find_one(self, text: str) -> int:
        """The id of a string, or -1."""
        data = np.frombuffer(text.encode(), np.uint8)
        return int(_find_one(data, self._store))

    def take(self, ids: Ints) -> pa.Array:
        """The strings of these ids, NULL for -1."""
        ids = np.ascontiguousarray(ids, np.int64)
        offsets = np.empty(len(ids) + 1, np.int32)
        known_data, known_offsets, _ = self._store
        size = _take_offsets(ids, known_offsets, self._count, offsets)
        if size < 0:
            raise IndexError(f"ids must be from -1 to {self._count - 1}")
        if size > MOST_BYTES:
            raise OverflowError(f"{size} bytes do not fit in one string array; take fewer ids at a time")
        data = np.empty(size, np.uint8)
        _take_bytes(ids, known_data, known_offsets, data)
        valid = ids >= 0
        nulls = len(ids) - int(np.count_nonzero(valid))
        bitmap = pa.py_buffer(np.packbits(valid, bitorder="little")) if nulls else None
        return pa.StringArray.from_buffers(len(ids), pa.py_buffer(offsets), pa.py_buffer(data), bitmap, nulls)

    def to_arrow(self) -> pa.Array:
        """All strings in order of id; a large_string() array when one string() array cannot hold them."""
        all_data, all_offsets, _ = self._store
        offsets = all_offsets[: self._count + 1]
        size = int(offsets[-1])
        data = pa.py_buffer(all_data[:size].copy())
        if size > MOST_BYTES:
            return pa.LargeStringArray.from_buffers(self._count, pa.py_buffer(offsets.copy()), data)
        return pa.StringArray.from_buffers(self._count, pa.py_buffer(offsets.astype(np.int32)), data)

    def _grow(self, length: int) -> None:
        """Makes memory for one more string of this many bytes, and some to spare."""
        data, offsets, table = self._store
        count, used = self._count, int(offsets[self._count])
        if count == MOST_IDS:
            raise OverflowError(f"a string table holds at most {MOST_IDS} strings")
        if used + length > len(data):
            data = enlarged(data, used, used + length)
        if count + 1 == len(offsets):
            offsets = enlarged(offsets, count + 1, count + 2)
        self._store = data, offsets, doubled(table) if is_full(count, len(table)) else table


def enlarged(array: npt.NDArray[Any], used: int, needed: int) -> npt.NDArray[Any]:
    """A longer copy of the first `used` rows: an eighth to spare, which keeps copying a constant cost per row."""
    new = np.empty((max(64, needed + needed // 8), *array.shape[1:]), array.dtype)
    new[:used] = array[:used]
    return new


def doubled(table: HashTable) -> HashTable:
    new = np.zeros(2 * len(table), np.uint64)
    rehash(table, new)
    return new


# --- strings as they come from Arrow ---------------------------------------------------------------------------------


def arrow_texts(values: pa.Array | pa.ChunkedArray) -> ArrowTexts:
    """Strings as kernels take them. All arrays are read-only, so that each kernel is compiled for one type."""
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    if not (pa.types.is_string(values.type) or pa.types.is_large_string(values.type)):
        raise TypeError(f"expected strings, got {values.type}")
    if len(values) == 0:
        return _NO_BYTES, _ONE_ZERO, _NO_NULLS
    _, offsets, data = values.buffers()
    width = np.int32 if pa.types.is_string(values.type) else np.int64
    ends = np.frombuffer(offsets, width, len(values) + 1, values.offset * np.dtype(width).itemsize).astype(np.int64)
    valid = values.is_valid().to_numpy(zero_copy_only=False) if values.null_count else _NO_NULLS
    bytes_ = _read_only(np.frombuffer(data, np.uint8)) if data is not None else _NO_BYTES
    return bytes_, _read_only(ends), _read_only(valid)


def _read_only(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    view = array.view()
    view.flags.writeable = False
    return view


_NO_BYTES = _read_only(np.empty(0, np.uint8))
_ONE_ZERO = _read_only(np.zeros(1, np.int64))
_NO_NULLS = _read_only(np.empty(0, np.bool_))


# --- kernels ---------------------------------------------------------------------------------------------------------


@kernel
def is_full(count: int, places: int) -> bool:
    """Whether one more entry would fill more than three quarters of an open-addressing table."""
    return (count + 1) * 4 > places * 3


@kernel
def rehash(old: HashTable, new: HashTable) -> None:
    """Copies the entries of `old` into `new`, which is empty. O(places)."""
    mask = np.uint64(len(new) - 1)
    for entry in old:
        if entry != 0:
            place = (entry >> _BITS32) & mask
            while new[place] != 0:
                place = (place + _ONE) & mask
            new[place] = entry


@kernel
def _word(data: Bytes, start: int) -> np.uint64:
    """Eight bytes as one number, in the form that LLVM turns into a single load."""
    i = np.uint64(start)
    word = np.uint64(0)
    for j in range(8):
        word |= np.uint64(data[i + np.uint64(j)]) << (_EIGHT * np.uint64(j))
    return word


@kernel
def _hash(data: Bytes, start: int, stop: int) -> np.uint64:
    """32 bits, from eight bytes per multiplication; each step is a bijection of the word it takes."""
    h = _SEED ^ np.uint64(stop - start)
    while start + 8 <= stop:
        h = (h ^ _word(data, start)) * _M1
        h ^= h >> _BITS32
        start += 8
    tail = np.uint64(0)
    for i in range(start, stop):
        tail = (tail << _EIGHT) | np.uint64(data[np.uint64(i)])
    h = (h ^ tail) * _M1
    h = (h ^ (h >> _BITS29)) * _M2
    return h >> _BITS32


@kernel
def _same(a: Bytes, start: int, b: Bytes, other: int, length: int) -> bool:
    done = 0
    while done + 8 <= length:
        if _word(a, start + done) != _word(b, other + done):
            return False
        done += 8
    while done < length and a[np.uint64(start + done)] == b[np.uint64(other + done)]:
        done += 1
    return done == length


@kernel
def _place(text: Bytes, start: int, stop: int, h: np.uint64, store: Store) -> np.uint64:
    """The place of this string in the hash table, or the free place where it belongs."""
    data, offsets, table = store
    mask = np.uint64(len(table) - 1)
    place = h & mask
    while table[place] != 0:
        if table[place] >> _BITS32 == h:
            known = (table[place] & _LOW32) - _ONE
            begin = offsets[known]
            length = offsets[known + _ONE] - begin
            if length == stop - start and _same(text, start, data, begin, length):
                break
        place = (place + _ONE) & mask
    return place


@kernel
def _find_one(text: Bytes, store: Store) -> np.int64:
    _, _, table = store
    place = _place(text, 0, len(text), _hash(text, 0, len(text)), store)
    return np.int64(table[place] & _LOW32) - 1


@kernel
def _hash_block(texts: ArrowTexts, first: int, store: Store, hashes: Words, touched: Words) -> int:
    """Hashes the next rows, as many as fit, touches what their lookups will read, and returns where it stopped.

    The reads of one loop do not depend on each other, so the processor waits for many cache misses at once; in the
    lookups it would wait for one after the other. They are kept in `touched` only so that they are not optimised away.
    """
    text, ends, _ = texts
    data, offsets, table = store
    mask = np.uint64(len(table) - 1)
    rows = min(len(hashes), len(ends) - 1 - first)
    for j in range(rows):
        hashes[j] = _hash(text, ends[first + j], ends[first + j + 1])
    for j in range(rows):
        entry = table[hashes[j] & mask]
        touched[j] = (entry & _LOW32) - _ONE if entry >> _BITS32 == hashes[j] and entry != 0 else 0
    if len(data):
        for j in range(rows):
            touched[j] = offsets[touched[j]]
        for j in range(rows):
            touched[j] = data[min(touched[j], np.uint64(len(data) - 1))]
    return first + rows


@kernel
def _find_all(texts: ArrowTexts, store: Store, ids: Ints) -> None:
    """O(bytes looked up)."""
    text, ends, valid = texts
    _, _, table = store
    hashes, touched = np.empty(BLOCK, np.uint64), np.empty(BLOCK, np.uint64)
    first = 0
    while first < len(ids):
        stop = _hash_block(texts, first, store, hashes, touched)
        for i in range(first, stop):
            if len(valid) and not valid[i]:
                ids[i] = -1
            else:
                place = _place(text, ends[i], ends[i + 1], hashes[i - first], store)
                ids[i] = np.int64(table[place] & _LOW32) - 1
        first = stop


@kernel
def _intern_some(texts: ArrowTexts, store: Store, count: int, ids: Ints, first: int) -> tuple[int, int]:
    """Interns from row `first` until an array is full; the first row not done and the new count. O(bytes interned)."""
    text, ends, valid = texts
    data, offsets, table = store
    hashes, touched = np.empty(BLOCK, np.uint64), np.empty(BLOCK, np.uint64)
    while first < len(ids):
        stop = _hash_block(texts, first, store, hashes, touched)
        for i in range(first, stop):
            if len(valid) and not valid[i]:
                ids[i] = -1
                continue
            start, length, h = ends[i], ends[i + 1] - ends[i], hashes[i - first]
            place = _place(text, start, start + length, h, store)
            if table[place] == 0:
                begin = offsets[count]
                if count + 1 == len(offsets) or begin + length > len(data) or is_full(count, len(table)):
                    return i, count
                _copy(text, start, data, begin, length)
                offsets[count + 1] = begin + length
                count += 1
                table[place] = (h << _BITS32) | np.uint64(count)
            ids[i] = np.int64(table[place] & _LOW32) - 1
        first = stop
    return first, count


@kernel
def _copy(source: Bytes, start: int, target: Bytes, begin: int, length: int) -> None:
    for i in range(length):
        target[np.uint64(begin + i)] = source[np.uint64(start + i)]


@kernel
def _take_offsets(ids: Ints, offsets: Ints, count: int, out: npt.NDArray[np.int32]) -> int:
    """Where each string of `ids` goes, and how many bytes they are in all; -1 when an id does not exist. O(ids)."""
    size = 0
    out[0] = 0
    for i in range(len(ids)):
        if ids[i] < -1 or ids[i] >= count:
            return -1
        if ids[i] >= 0:
            size += offsets[ids[i] + 1] - offsets[ids[i]]
        out[i + 1] = size  # wraps when too large, and the caller sees that by the size
    return size


@kernel
def _take_bytes(ids: Ints, data: Bytes, offsets: Ints, out: Bytes) -> None:
    """O(bytes taken)."""
    end = 0
    for i in ids:
        if i >= 0:
            length = offsets[i + 1] - offsets[i]
            _copy(data, offsets[i], out, end, length)
            end += length

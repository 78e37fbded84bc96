"""Parameters that are lists of constants (`sql/constant_lists.py`): stored in chunks, passed by reference.

A list may have a hundred thousand values and be needed for a thousand rows. `ListRows` has the position of each row's
list in a chunk; no list is copied.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import pyarrow as pa

from eddyline.arrays import Bytes, Ints, Mask
from eddyline.index.filters.domains import as_integers, text_bytes, value_column
from eddyline.index.keys.list_search import numbers_in, texts_in
from eddyline.sql.constant_lists import ConstantList, digest


@dataclass(frozen=True, eq=False)
class ListChunk:
    """The lists of some queries, each sorted, its NULL at the end."""

    array: pa.Array  # of lists

    @property
    def type(self) -> pa.DataType:
        return self.array.type

    @property
    def nbytes(self) -> int:
        return int(self.array.nbytes)

    def __len__(self) -> int:
        return len(self.array)

    def take(self, where: pa.Array) -> pa.Array:
        return self.array.take(where)

    @cached_property
    def flat(self) -> pa.Array:
        return self.array.flatten()

    @cached_property
    def ends(self) -> Ints:
        lengths = self.array.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
        return np.append(0, np.cumsum(lengths, dtype=np.int64))

    @cached_property
    def has_null(self) -> Mask:
        last = np.maximum(self.ends[1:] - 1, 0)
        missing = np.append(self.flat.is_null().to_numpy(zero_copy_only=False), False)
        return np.asarray(missing[last] & (self.ends[1:] > self.ends[:-1]))

    @cached_property
    def numbers(self) -> Ints:
        return as_integers(self.flat)[0]

    @cached_property
    def texts(self) -> tuple[Bytes, Ints]:
        return text_bytes(self.flat)

    def digest(self, place: int) -> str:
        start, stop = self.ends[place : place + 2].tolist()
        return digest(self.flat.slice(start, stop - start))


@dataclass(frozen=True)
class ListPart:
    """Some rows, and the positions of their lists in a chunk."""

    rows: Ints
    chunk: ListChunk
    places: Ints

    @property
    def start(self) -> Ints:
        return self.chunk.ends[self.places]

    @property
    def stop(self) -> Ints:
        """Where the values of each list end, its NULL left out."""
        return self.chunk.ends[self.places + 1] - self.has_null

    @property
    def has_null(self) -> Mask:
        return self.chunk.has_null[self.places]


@dataclass(frozen=True)
class ListRows:
    """A list for each of `length` rows."""

    length: int
    type: pa.DataType
    parts: tuple[ListPart, ...]

    def __len__(self) -> int:
        return self.length

    def holding(self, values: pa.Array) -> pa.Array:
        """`values IN list`, per row: true if the list has the value, else NULL if the value or an item is NULL."""
        contained = np.zeros(self.length, np.bool_)
        unknown = np.array(values.is_null().to_numpy(zero_copy_only=False))
        for part in self.parts:
            mine = values if len(self.parts) == 1 else values.take(pa.array(part.rows))
            held = _holding(part, mine)
            contained[part.rows] = held
            unknown[part.rows] |= part.has_null & ~held
        return pa.array(contained, mask=unknown)

    def digests(self) -> pa.Array:
        """A text for each row; two rows have the same text only if their lists are equal."""
        digests = np.empty(self.length, object)
        for part in self.parts:
            distinct, which = np.unique(part.places, return_inverse=True)
            each = np.array([part.chunk.digest(p) for p in distinct.tolist()], object)
            digests[part.rows] = each[which]
        return pa.array(digests, pa.string())


def _holding(part: ListPart, values: pa.Array) -> Mask:
    wanted = values.fill_null("") if pa.types.is_string(values.type) else values
    if pa.types.is_string(wanted.type):
        column = value_column(wanted)
        return texts_in(*part.chunk.texts, part.start, part.stop, column.data, column.ends, column.which)  # type: ignore[union-attr]
    return numbers_in(part.chunk.numbers, part.start, part.stop, as_integers(wanted)[0])


def list_array(lists: Sequence[ConstantList], type_: pa.DataType) -> pa.Array:
    """A column of these lists."""
    ends = np.append(0, np.cumsum([len(x) for x in lists])).astype(np.int32)
    flat = pa.concat_arrays([pa.array([], type_.value_type), *(x.values for x in lists)])
    return pa.ListArray.from_arrays(pa.array(ends), flat, type=type_)


def of_array(array: pa.Array) -> ListRows:
    """The lists of a column."""
    every = np.arange(len(array))
    return ListRows(len(array), array.type, (ListPart(every, ListChunk(array), every),))


def same_for_all(constant: ConstantList, length: int) -> ListRows:
    """One list for all rows."""
    part = ListPart(np.arange(length), _chunk(constant), np.zeros(length, np.int64))
    return ListRows(length, constant.type, (part,))


@lru_cache(maxsize=64)
def _chunk(constant: ConstantList) -> ListChunk:
    return ListChunk(list_array([constant], constant.type))

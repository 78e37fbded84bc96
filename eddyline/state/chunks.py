"""Columns of immutable chunks. A compact chunk stores the value that many of its rows share only once.

Most queries of a large family leave the same parameters open (NULL, or an infinite end). A compact chunk has one bit
per row, set if the row has a value of its own, these values, and their number before each word of bits. Reading the
value of one row costs one bit count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.arrays import Ints
from eddyline.state.list_rows import ListChunk, ListPart, ListRows

WORTH_IT = 1 << 15  # rows; a shorter chunk is not compacted
SHARED = 1 / 3  # the least share of rows that must have the common value
SAMPLE = 1024  # rows, to guess the common value


@dataclass(frozen=True)
class Compact:
    common: pa.Scalar
    bits: npt.NDArray[np.uint64]
    before: npt.NDArray[np.int32]
    own: pa.Array
    length: int

    @property
    def type(self) -> pa.DataType:
        return self.own.type

    @property
    def nbytes(self) -> int:
        return int(self.bits.nbytes + self.before.nbytes + self.own.nbytes)

    def __len__(self) -> int:
        return self.length

    def take(self, where: pa.Array) -> pa.Array:
        places = where.to_numpy(zero_copy_only=False)
        word, bit = places >> 6, (places & 63).astype(np.uint64)
        bits = self.bits[word]
        has = (bits >> bit) & np.uint64(1) == 1
        rank = self.before[word] + np.bitwise_count(bits & ((np.uint64(1) << bit) - np.uint64(1)))
        own = self.own.take(pa.array(rank.astype(np.int64), mask=~has))
        return pc.if_else(pa.array(has), own, self.common) if self.common.is_valid else own

    def whole(self) -> pa.Array:
        return self.take(pa.array(np.arange(self.length)))


Chunk: TypeAlias = "pa.Array | Compact | ListChunk"
Chunks: TypeAlias = tuple[Chunk, ...]


def compacted(values: pa.Array) -> Chunk:
    """The same values, as a compact chunk if many rows share one of them."""
    if pa.types.is_list(values.type):
        return ListChunk(values)
    if len(values) < WORTH_IT:
        return values
    some = values.take(pa.array(np.linspace(0, len(values) - 1, SAMPLE).astype(np.int64)))
    bits = _bits(some)
    counts = bits.value_counts()
    most = counts.field(0)[int(np.argmax(counts.field(1).to_numpy()))]
    where = pc.equal(bits, most).fill_null(False) if most.is_valid else bits.is_null()
    common = some[int(np.argmax(where.to_numpy(zero_copy_only=False)))]
    same = values.is_null() if not common.is_valid else _same(values, common)
    if pc.sum(same).as_py() < SHARED * len(values):
        return values
    has = ~same.to_numpy(zero_copy_only=False)
    bits = np.zeros(-(-len(values) // 64) * 8, np.uint8)
    packed = np.packbits(has, bitorder="little")
    bits[: len(packed)] = packed
    words = bits.view(np.uint64)
    before = np.append(0, np.cumsum(np.bitwise_count(words)))[:-1].astype(np.int32)
    own = pa.concat_arrays([values.filter(pa.array(has))])
    return Compact(common, words, before, own, len(values))


def _bits(values: pa.Array) -> pa.Array:
    """Floats as bits, so that -0.0 differs from 0.0 and NaN equals NaN; intervals as integers for more kernels."""
    if pa.types.is_duration(values.type):
        return values.view(pa.int64())
    if not pa.types.is_floating(values.type):
        return values
    return values.view(pa.int64() if values.type == pa.float64() else pa.int32())


def _same(values: pa.Array, common: pa.Scalar) -> pa.Array:
    return pc.fill_null(pc.equal(_bits(values), _bits(pa.repeat(common, 1))[0]), False)


def gathered(chunks: Chunks, positions: Ints) -> pa.Array:
    """The values at these positions of a column."""
    if len(chunks) == 1:
        return chunks[0].take(pa.array(positions))
    ends = np.cumsum([len(c) for c in chunks])
    chunk = np.searchsorted(ends, positions, side="right")
    if not len(positions) or (chunk == chunk[0]).all():
        here = int(chunk[0]) if len(positions) else 0
        return chunks[here].take(pa.array(positions - (ends[here] - len(chunks[here]))))
    order = np.argsort(chunk, kind="stable")
    bounds = np.searchsorted(chunk[order], np.arange(len(chunks) + 1))
    parts = []
    for i, c in enumerate(chunks):
        mine = order[bounds[i] : bounds[i + 1]]
        parts.append(c.take(pa.array(positions[mine] - (ends[i] - len(c)))))
    back = np.empty(len(order), np.int64)
    back[order] = np.arange(len(order))
    return pa.concat_arrays(parts).take(pa.array(back))


def lists_at(chunks: Chunks, positions: Ints) -> ListRows:
    """The lists at these positions of a column of lists, by reference."""
    ends = np.cumsum([len(c) for c in chunks])
    chunk_of = np.searchsorted(ends, positions, side="right")
    parts = []
    for i, c in enumerate(chunks):
        rows = np.nonzero(chunk_of == i)[0]
        if len(rows):
            chunk = c if isinstance(c, ListChunk) else ListChunk(c)
            parts.append(ListPart(rows, chunk, positions[rows] - (ends[i] - len(c))))
    return ListRows(len(positions), chunks[0].type, tuple(parts))


def joined(parts: Sequence[Chunk], type_: pa.DataType) -> pa.Array:
    """Chunks as one array."""
    arrays = [p if isinstance(p, pa.Array) else _whole(p) for p in parts if len(p)]
    if not arrays:
        return pa.array([], type_)
    return arrays[0] if len(arrays) == 1 else pa.concat_arrays(arrays)


def _whole(chunk: ListChunk | Compact) -> pa.Array:
    return chunk.array if isinstance(chunk, ListChunk) else chunk.whole()


def with_chunk(chunks: Chunks, new: pa.Array, growth: int) -> Chunks:
    """The chunks with a new one, merged with the preceding chunks that are less than `growth` times as long."""
    kept, size = list(chunks), len(new)
    together: list[Chunk] = [new]
    while kept and len(kept[-1]) < growth * size:
        together.append(kept.pop())
        size += len(together[-1])
    whole = new if len(together) == 1 else joined(together[::-1], new.type)
    return (*kept, compacted(whole))

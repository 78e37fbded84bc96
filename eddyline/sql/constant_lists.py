"""A list of constants as one value: a long IN list is one parameter instead of one parameter per item.

A list is sorted and has no duplicates; NULL is last. Two lists are equal if they hold the same values, in whatever
order they were written. It takes the memory of its Arrow array: 8 bytes per number.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from functools import cached_property
from hashlib import blake2b
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from eddyline import types as t

MOST_SEPARATE_ITEMS = 16  # an IN list of at most so many constants has one parameter per item; a longer list is one
_MICROSECOND = timedelta(microseconds=1)


class ConstantList:
    """Sorted distinct constants of one type."""

    def __init__(self, values: pa.Array) -> None:
        """`values` may be in any order and have duplicates."""
        self.values = _sorted(values)

    @classmethod
    def of(cls, values: Sequence[Any], type_: pa.DataType) -> ConstantList:
        """Builds a list from Python values that `constants.convert` returned for this type."""
        if type_ == t.INTERVAL:  # pyarrow refuses long timedeltas
            values = [None if v is None else v // _MICROSECOND for v in values]
        elif t.is_float(type_):
            values = [None if v is None else float(v) for v in values]
        return cls(pa.array(values, type_))

    @property
    def type(self) -> pa.DataType:
        return pa.list_(self.values.type)

    def __len__(self) -> int:
        return len(self.values)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.values.to_pylist())

    @cached_property
    def digest(self) -> str:
        return digest(self.values)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ConstantList) and self.type == other.type and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        first = [repr(v) if isinstance(v, str) else str(v) for v in self.values.slice(0, 3).to_pylist()]
        return ", ".join(first) + (f", … {len(self) - 3} more" if len(self) > 3 else "")


def digest(values: pa.Array) -> str:
    """A digest that is equal for equal lists only."""
    hashed = blake2b(str(values.type).encode(), digest_size=16)
    hashed.update(b"null" if values.null_count else b"")
    values = values.drop_null()
    if values.type == t.STRING:
        hashed.update(pc.binary_length(values).to_numpy(zero_copy_only=False).tobytes())
        _, offsets, data = pa.concat_arrays([values]).buffers()
        ends = memoryview(offsets).cast("i") if offsets is not None else [0]
        hashed.update(memoryview(data)[ends[0] : ends[len(values)]] if data is not None else b"")
    else:
        hashed.update(values.to_numpy(zero_copy_only=False).tobytes())
    return hashed.hexdigest()


def _sorted(values: pa.Array) -> pa.Array:
    """The distinct values in comparison order: NaN after all numbers, NULL last."""
    kind = values.type
    if kind == t.INTERVAL:
        values = values.cast(pa.int64())
    elif t.is_float(kind):
        values = pc.add(values, pa.scalar(0.0, kind))  # turns -0.0 into 0.0
    values = values.unique()
    return values.take(pc.sort_indices(values)).cast(kind)

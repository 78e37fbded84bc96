"""A delta: a batch of changes on an edge of a plan, as columns.

Each change is a row with a sign and the interval of event time in which it counts: `+1` over [ts, exp] puts the row
into the answer for those instants, `-1` over [ts, exp] retracts an earlier row from `ts` on. The answer at t is the
sum over all changes whose interval holds t. Joins multiply signs and intersect intervals. The meaning of a delta does
not depend on the order of its changes, nor on how they are divided into batches.

Changes refer to rows by position, so that a row that matches many queries is stored once.

`first` and `last` are the smallest and largest arrival number among the stream tuples a change was made from: a row is
visible to a query only if `first` is not before its registration. `query` is the query id of each change, or None
while the changes are shared by all queries of the family.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline.arrays import Ints

MIN = int(np.iinfo(np.int64).min) + 1  # no beginning: before every event time; MIN - 1 does not overflow
MAX = int(np.iinfo(np.int64).max)  # no end
YEAR_1, YEAR_10000 = -62_135_596_800_000_000, 253_402_300_800_000_000  # calendar dates exist in this range
NO_ARRIVAL = -1  # `last` of a change that no stream tuple of this push made


@dataclass(frozen=True, slots=True)
class Delta:
    columns: tuple[pa.Array, ...]
    rows: Ints | None  # position of each change's row in the columns; None: change i is row i
    ts: Ints
    exp: Ints
    sign: Ints
    first: Ints
    last: Ints
    query: Ints | None = None

    def __len__(self) -> int:
        return len(self.ts)

    def take(self, which: npt.NDArray[Any]) -> Delta:
        """Some of the changes (by mask or position); the columns are not copied."""
        if which.dtype == np.bool_ and which.all() and len(which) == len(self):
            return self
        where = np.nonzero(which)[0] if which.dtype == np.bool_ else which
        return Delta(
            self.columns,
            where if self.rows is None else self.rows[where],
            self.ts[where],
            self.exp[where],
            self.sign[where],
            self.first[where],
            self.last[where],
            None if self.query is None else self.query[where],
        )

    def spread(self) -> Delta:
        """The same changes with one row each."""
        if self.rows is None:
            return self
        where = pa.array(self.rows)
        columns = tuple(c.take(where) for c in self.columns)
        return Delta(columns, None, self.ts, self.exp, self.sign, self.first, self.last, self.query)


def take(column: pa.Array, rows: Ints) -> pa.Array:
    return column.take(pa.array(rows))


def empty(types: Sequence[pa.DataType], *, attached: bool) -> Delta:
    none = np.empty(0, np.int64)
    return Delta(tuple(pa.array([], t) for t in types), None, none, none, none, none, none, none if attached else None)


def concat(parts: Sequence[Delta], types: Sequence[pa.DataType], *, attached: bool) -> Delta:
    parts = [p for p in parts if len(p)]
    if not parts:
        return empty(types, attached=attached)
    if len(parts) == 1:
        return parts[0]
    rows: Ints | None = None
    if any(p.rows is not None for p in parts):
        heights = [len(p.columns[0]) if p.columns else len(p) for p in parts]
        starts = np.cumsum([0, *heights[:-1]])
        rows = np.concatenate(
            [(np.arange(len(p)) if p.rows is None else p.rows) + s for p, s in zip(parts, starts, strict=True)]
        )
    queries = [p.query for p in parts if p.query is not None]
    return Delta(
        tuple(join_arrays([p.columns[i] for p in parts]) for i in range(len(types))),
        rows,
        np.concatenate([p.ts for p in parts]),
        np.concatenate([p.exp for p in parts]),
        np.concatenate([p.sign for p in parts]),
        np.concatenate([p.first for p in parts]),
        np.concatenate([p.last for p in parts]),
        np.concatenate(queries) if attached else None,
    )


def join_arrays(parts: Sequence[pa.Array]) -> pa.Array:
    return parts[0] if len(parts) == 1 else pa.concat_arrays(parts)


def micros(column: pa.Array) -> Ints:
    """A column of timestamps or intervals without NULLs as microseconds."""
    return np.asarray(column.cast(pa.int64()).to_numpy(zero_copy_only=False), np.int64)


def query_of(delta: Delta) -> Ints:
    """The queries of attached changes."""
    assert delta.query is not None, "these changes are common to the family"
    return delta.query


def times(micros: Ints) -> pa.Array:
    """Event times as timestamps; NULL for no beginning, no end, and what has no calendar date."""
    return pa.array(micros, mask=(micros < YEAR_1) | (micros >= YEAR_10000)).cast(pa.timestamp("us"))


def event_time(micros: int) -> datetime | None:
    """One event time; None as in `times`."""
    moment: datetime | None = times(np.array([micros], np.int64))[0].as_py()
    return moment

"""The table of a family's queries: one column per parameter, one row per query.

A query has an id that is never reused, and a position that may change when the table is compacted; ids ascend with
positions. `since` is the arrival number from which stream tuples are visible to the query.

Columns are chunks, each at least four times as long as the next, so that adding a query copies few others. Ids and
`since` are stored as runs, because most queries are registered in batches. A view of the table (`QueryRows`) never
changes: chunks are immutable, and a drop copies the `alive` flags if a view shares them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline.arrays import Ints
from eddyline.index.runtime import garbage
from eddyline.sql.bound import Field
from eddyline.state.chunks import Chunks, gathered, joined, lists_at, with_chunk
from eddyline.state.list_rows import ListRows, list_array

GROWTH = 4


@dataclass(frozen=True, slots=True)
class Steps:
    """Integers by position, in runs: position p of run i has the value first[i] + slope * (p - start[i])."""

    start: Ints
    first: Ints
    slope: int

    def at(self, positions: Ints) -> Ints:
        run = 0 if len(self.start) == 1 else np.searchsorted(self.start, positions, side="right") - 1
        values: Ints = self.first[run] + self.slope * (positions - self.start[run])
        return values

    def position_of(self, value: int) -> int:
        """The position of a value that exists, if values ascend."""
        run = int(self.first.searchsorted(value, side="right")) - 1 if len(self.first) > 1 else 0
        return int(self.start[run]) + value - int(self.first[run])

    def extended(self, size: int, values: Ints) -> Steps:
        """These runs with the values of the positions from `size` on."""
        if not len(values):
            return self
        new = np.append(True, np.diff(values) != self.slope)
        if len(self.start) and values[0] == self.first[-1] + self.slope * (size - self.start[-1]):
            new[0] = False
        where = np.nonzero(new)[0]
        return Steps(np.append(self.start, size + where), np.append(self.first, values[where]), self.slope)


_NOTHING = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class QueryRows:
    """An immutable view of the table, which operators and results may keep."""

    columns: tuple[Chunks, ...]
    name_chunks: Chunks
    id_steps: Steps
    since_steps: Steps
    alive: npt.NDArray[np.bool_]
    version: int  # grows with every change except drops; below 0 for a view of some queries (`only`)
    removed: int  # rows that compaction has removed so far; positions change only when this does

    def __len__(self) -> int:
        return len(self.alive)

    def positions(self, ids: Ints) -> Ints:
        """The positions of queries; for an id without a row, the position it would have."""
        start, first = self.id_steps.start, self.id_steps.first
        if not len(start):
            return np.zeros(len(ids), np.int64)
        run = np.maximum(np.searchsorted(first, ids, side="right") - 1, 0)
        end = np.append(start[1:], len(self.alive))
        positions: Ints = np.clip(start[run] + ids - first[run], start[run], end[run])
        return positions

    def ids_at(self, positions: Ints) -> Ints:
        return self.id_steps.at(positions)

    def here(self, ids: Ints) -> Ints:
        """Those of these queries that have a row here, alive or not."""
        if not len(self):
            return ids[:0]
        here: Ints = ids[self.ids_at(np.minimum(self.positions(ids), len(self) - 1)) == ids]
        return here

    def alive_among(self, ids: Ints) -> Ints:
        """Those of these queries that are alive."""
        here = self.here(ids)
        alive: Ints = here[self.alive[self.positions(here)]]
        return alive

    def since_at(self, positions: Ints) -> Ints:
        return self.since_steps.at(positions)

    @property
    def latest(self) -> int:
        """The arrival number from which tuples are visible to all queries."""
        return int(self.since_steps.first.max(initial=0))

    @property
    def oldest(self) -> int | None:
        """An arrival number before which tuples are visible to no query; None if no query is alive."""
        if not self.alive.any():
            return None
        run = int(np.searchsorted(self.since_steps.start, int(np.argmax(self.alive)), side="right")) - 1
        return int(self.since_steps.first[run:].min())

    @property
    def ids(self) -> Ints:
        """The ids of all rows; computed at each call."""
        return self.id_steps.at(np.arange(len(self.alive))) if len(self.alive) else _NOTHING

    @property
    def names(self) -> pa.Array:
        """The names of all rows as one array, which may be a copy."""
        return joined(self.name_chunks, pa.string())

    @property
    def params(self) -> list[pa.Array]:
        """All parameters of all rows, each as one array, which may be a copy."""
        return [joined(c, c[0].type) for c in self.columns]

    def params_at(self, used: set[int], positions: Ints) -> list[pa.Array | ListRows | None]:
        """The parameters an expression needs, for queries at these positions; lists by reference."""
        return [_chosen(c, positions) if i in used else None for i, c in enumerate(self.columns)]

    def all_params_at(self, positions: Ints) -> list[pa.Array]:
        """All parameters of the queries at these positions; lists are copied."""
        return [gathered(c, positions) for c in self.columns]

    def live(self) -> Ints:
        return np.nonzero(self.alive)[0]

    def names_at(self, positions: Ints) -> pa.Array:
        return gathered(self.name_chunks, positions)

    def name_of(self, ids: Ints) -> pa.Array:
        return self.names_at(self.positions(ids))

    def only(self, ids: Ints) -> QueryRows:
        """The same rows with only these queries alive."""
        alive = np.zeros(len(self.alive), np.bool_)
        alive[self.positions(ids)] = True
        alive &= self.alive
        return QueryRows(self.columns, self.name_chunks, self.id_steps, self.since_steps, alive, -1, self.removed)


class QueryTable:
    def __init__(self, params: Sequence[Field]) -> None:
        self.params = tuple(params)
        self._clear()
        self._staged: list[tuple[str, Sequence[Any], int]] = []
        self._version = 0
        self.next_id = 0
        self.live = 0
        self._removed = 0  # rows that compaction has removed

    def _clear(self) -> None:
        self._size = 0
        self._columns: list[Chunks] = [(pa.array([], f.type),) for f in self.params]
        self._names: Chunks = (pa.array([], pa.string()),)
        self._ids = Steps(_NOTHING, _NOTHING, 1)
        self._since = Steps(_NOTHING, _NOTHING, 0)
        self._alive = np.empty(0, np.bool_)  # longer than `_size`: spare capacity
        self._shared = False  # whether a view shares these flags
        self._rows: QueryRows | None = None

    def __len__(self) -> int:
        return self.live

    def add_one(self, name: str, values: Sequence[Any], since: int) -> int:
        """Adds a query whose values already have the parameters' types; `_flush` turns them into columns."""
        self._staged.append((name, values, since))
        self.next_id += 1
        self.live += 1
        return self.next_id - 1

    def add(self, names: pa.Array, params: Sequence[pa.Array], since: int | Ints) -> Ints:
        """Adds queries; `since` is one value for all, or one per query."""
        self._flush()
        ids = np.arange(self.next_id, self.next_id + len(names))
        self.add_some(names, params, ids, np.broadcast_to(since, len(names)), self.next_id + len(names))
        return ids

    def add_some(self, names: pa.Array, params: Sequence[pa.Array], ids: Ints, since: Ints, next_id: int) -> None:
        """Adds queries whose ids were assigned elsewhere; no other id below `next_id` will be added."""
        self._flush()
        self._append(names, params, ids, since)
        self.next_id = next_id
        self.live += len(ids)

    def drop(self, ids: Ints) -> None:
        """Marks queries as dropped. Their rows keep their positions, so views and indexes stay valid."""
        self._flush()
        self._mark_dropped(self._view().positions(ids), len(ids))

    def drop_one(self, query: int) -> None:
        if self._staged:
            self._flush()
        self._mark_dropped(self._ids.position_of(query), 1)

    def _mark_dropped(self, positions: Ints | int, n: int) -> None:
        if self._shared:
            self._alive, self._rows, self._shared = self._alive.copy(), None, False
        self._alive[positions] = False
        self.live -= n

    @property
    def crowded(self) -> bool:
        """Whether most rows belong to dropped queries, so that compaction is worth its cost."""
        return self._size + len(self._staged) > 2 * self.live + garbage.SPARE

    def compact(self) -> None:
        """Removes the rows of dropped queries; no operator may refer to them any more."""
        rows = self.rows()
        kept = rows.live()
        ids, since = rows.ids_at(kept), rows.since_at(kept)
        names, params = rows.names_at(kept), rows.all_params_at(kept)
        self._removed += len(rows) - len(kept)
        self._clear()
        self._append(names, params, ids, since)
        self._version += 1

    def rows(self) -> QueryRows:
        """The table as it is now; later changes are not visible in it."""
        self._flush()
        self._shared = True
        return self._view()

    def _view(self) -> QueryRows:
        if self._rows is None:
            alive = self._alive[: self._size]
            columns = tuple(self._columns)
            self._rows = QueryRows(columns, self._names, self._ids, self._since, alive, self._version, self._removed)
        return self._rows

    def some_names(self, most: int) -> list[str]:
        """The names of up to `most` registered queries."""
        rows = self.rows()
        names: list[str] = rows.names_at(rows.live()[:most]).to_pylist()
        return names

    @property
    def nbytes(self) -> int:
        self._flush()
        columns = sum(c.nbytes for chunks in (*self._columns, self._names) for c in chunks)
        steps = sum(x.nbytes for s in (self._ids, self._since) for x in (s.start, s.first))
        return int(columns + steps + self._alive.nbytes)

    def _append(self, names: pa.Array, params: Sequence[pa.Array], ids: Ints, since: Ints) -> None:
        n = len(ids)
        if not n:
            return
        columns = [with_chunk(c, p, GROWTH) for c, p in zip(self._columns, params, strict=True)]
        all_names = with_chunk(self._names, names, GROWTH)
        all_ids, all_since = self._ids.extended(self._size, ids), self._since.extended(self._size, since)
        if self._size + n > len(self._alive):
            bigger = np.empty(max(self._size + n, len(self._alive) + len(self._alive) // 8), np.bool_)
            bigger[: self._size] = self._alive[: self._size]
            self._alive = bigger
        self._columns, self._names, self._ids, self._since = columns, all_names, all_ids, all_since
        self._alive[self._size : self._size + n] = True  # no view shows these flags yet
        self._size += n
        self._rows = None
        self._version += 1

    def _flush(self) -> None:
        """Turns queries added one by one into columns."""
        if not self._staged:
            return
        staged = self._staged
        n = len(staged)
        ids = np.arange(self.next_id - n, self.next_id)
        columns = as_columns([s[1] for s in staged], self.params)
        names = pa.array([s[0] for s in staged], pa.string())
        self._append(names, columns, ids, np.array([s[2] for s in staged], np.int64))
        self._staged = []

    # saving

    def save(self) -> pa.Table:
        rows = self.rows()
        kept = rows.live()
        columns = {"query": rows.names_at(kept), "id": rows.ids_at(kept), "since": rows.since_at(kept)}
        return pa.table(columns | {f"p{i}": p for i, p in enumerate(rows.all_params_at(kept))})

    def load(self, saved: pa.Table, next_id: int) -> None:
        saved = saved.combine_chunks()
        params = [_whole(saved.column(f"p{i}")) for i in range(len(self.params))]
        ids, since = (np.array(saved.column(n).to_numpy(), np.int64) for n in ("id", "since"))
        self.add_some(_whole(saved.column("query")), params, ids, since, next_id)
        self._removed = next_id - len(ids)


def _chosen(chunks: Chunks, positions: Ints) -> pa.Array | ListRows:
    return lists_at(chunks, positions) if pa.types.is_list(chunks[0].type) else gathered(chunks, positions)


def as_columns(rows: Sequence[Sequence[Any]], params: Sequence[Field]) -> list[pa.Array]:
    """The constants of queries as one column per parameter; each value has its parameter's type."""
    return [_column([row[i] for row in rows], p.type) for i, p in enumerate(params)]


def _column(values: list[Any], type_: pa.DataType) -> pa.Array:
    return list_array(values, type_) if pa.types.is_list(type_) else pa.array(values, type_)


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column

"""The table of a family's queries: one column per parameter, one row per query.

A query has an id that is never used again, and a position that may move when dropped rows are cleared away; ids ascend
with positions. `since` is the arrival number from which the query sees stream tuples.

Columns are chunks, each at least four times as long as the next, so that a query which comes copies few others; ids and
`since` are kept as runs, for queries mostly come together. A view of the table (`QueryRows`) never changes: chunks are
immutable, and the flags of who is alive are copied before a drop if somebody has seen them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline.index import upkeep
from eddyline.sql.bound import Field
from eddyline.state.chunks import Chunks, gathered, joined, lists_at, with_chunk
from eddyline.state.list_rows import ListRows, list_array

Ints = npt.NDArray[np.int64]
GROWTH = 4


@dataclass(frozen=True, slots=True)
class Steps:
    """Numbers by position, in runs: at position p of run i stands first[i] + slope * (p - start[i])."""

    start: Ints
    first: Ints
    slope: int

    def at(self, positions: Ints) -> Ints:
        run = 0 if len(self.start) == 1 else np.searchsorted(self.start, positions, side="right") - 1
        found: Ints = self.first[run] + self.slope * (positions - self.start[run])
        return found

    def place_of(self, number: int) -> int:
        """The position of a number that is there, where numbers ascend."""
        run = int(self.first.searchsorted(number, side="right")) - 1 if len(self.first) > 1 else 0
        return int(self.start[run]) + number - int(self.first[run])

    def extended(self, size: int, values: Ints) -> Steps:
        """With the numbers that follow position `size`."""
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
    """An immutable view of the table: what operators and results hold on to."""

    columns: tuple[Chunks, ...]
    name_chunks: Chunks
    id_steps: Steps
    since_steps: Steps
    alive: npt.NDArray[np.bool_]
    version: int  # moves with every change but drops; below 0 for a choice of the queries
    cleared: int  # rows that once were and are no more: while it stays, so does every position

    def __len__(self) -> int:
        return len(self.alive)

    def positions(self, ids: Ints) -> Ints:
        """Where queries stand; for an id that is not there, where it would."""
        start, first = self.id_steps.start, self.id_steps.first
        if not len(start):
            return np.zeros(len(ids), np.int64)
        run = np.maximum(np.searchsorted(first, ids, side="right") - 1, 0)
        end = np.append(start[1:], len(self.alive))
        found: Ints = np.clip(start[run] + ids - first[run], start[run], end[run])
        return found

    def ids_at(self, positions: Ints) -> Ints:
        return self.id_steps.at(positions)

    def ids_from(self, first: int) -> Ints:
        """Those that are not below some id."""
        return self.ids_at(np.arange(int(self.positions(np.array([first]))[0]), len(self)))

    def here(self, ids: Ints) -> Ints:
        """Those of these queries that have a row here, alive or not."""
        if not len(self):
            return ids[:0]
        found: Ints = ids[self.ids_at(np.minimum(self.positions(ids), len(self) - 1)) == ids]
        return found

    def since_at(self, positions: Ints) -> Ints:
        return self.since_steps.at(positions)

    @property
    def latest(self) -> int:
        """The arrival number from which all its queries see tuples."""
        return int(self.since_steps.first.max(initial=0))

    @property
    def ids(self) -> Ints:
        """Of all rows; made anew each time."""
        return self.id_steps.at(np.arange(len(self.alive))) if len(self.alive) else _NOTHING

    @property
    def names(self) -> pa.Array:
        """Of all rows; in one piece, which may mean a copy."""
        return joined(self.name_chunks, pa.string())

    @property
    def params(self) -> list[pa.Array]:
        """All parameters of all rows, as `names`."""
        return [joined(c, c[0].type) for c in self.columns]

    def params_at(self, used: set[int], positions: Ints) -> list[pa.Array | ListRows | None]:
        """The parameters an expression needs, for queries at these positions; lists by reference."""
        return [_chosen(c, positions) if i in used else None for i, c in enumerate(self.columns)]

    def all_params_at(self, positions: Ints) -> list[pa.Array]:
        """All parameters of some queries, to be kept: lists are copied."""
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
        return QueryRows(self.columns, self.name_chunks, self.id_steps, self.since_steps, alive, -1, self.cleared)


class QueryTable:
    def __init__(self, params: Sequence[Field]) -> None:
        self.params = tuple(params)
        self._clear()
        self._waiting: list[tuple[str, Sequence[Any], int]] = []
        self._version = 0
        self.next_id = 0
        self.live = 0
        self._cleared = 0  # rows that once were and are no more

    def _clear(self) -> None:
        self._size = 0
        self._columns: list[Chunks] = [(pa.array([], f.type),) for f in self.params]
        self._names: Chunks = (pa.array([], pa.string()),)
        self._ids = Steps(_NOTHING, _NOTHING, 1)
        self._since = Steps(_NOTHING, _NOTHING, 0)
        self._alive = np.empty(0, np.bool_)  # with room for more
        self._seen = False  # whether a view of these flags was given out
        self._rows: QueryRows | None = None

    def __len__(self) -> int:
        return self.live

    def add_one(self, name: str, values: Sequence[Any], since: int) -> int:
        """Adds a query whose values already have the parameters' types; they become columns when next looked at."""
        self._waiting.append((name, values, since))
        self.next_id += 1
        self.live += 1
        return self.next_id - 1

    def add(self, names: pa.Array, params: Sequence[pa.Array], since: int | Ints) -> Ints:
        """Adds queries; `since` is one for all, or each one's own."""
        self._settle()
        n = len(names)
        ids = np.arange(self.next_id, self.next_id + n)
        self._append(names, params, ids, np.broadcast_to(np.asarray(since, np.int64), n))
        self.next_id += n
        self.live += n
        return ids

    def add_some(self, names: pa.Array, params: Sequence[pa.Array], ids: Ints, since: Ints, next_id: int) -> None:
        """Adds queries that have their ids from elsewhere; of the ids below `next_id` no others will come."""
        self._settle()
        self._append(names, params, ids, since)
        self.next_id = next_id
        self.live += len(ids)

    def drop(self, ids: Ints) -> None:
        """Marks queries as gone. Rows stay where they are, so views and indexes made of the table stay right."""
        self._settle()
        self._mark_gone(self._view().positions(ids), len(ids))

    def drop_one(self, query: int) -> None:
        if self._waiting:
            self._settle()
        self._mark_gone(self._ids.place_of(query), 1)

    def _mark_gone(self, places: Ints | int, n: int) -> None:
        if self._seen:  # who looked at them keeps them as they are
            self._alive, self._rows, self._seen = self._alive.copy(), None, False
        self._alive[places] = False
        self.live -= n

    @property
    def crowded(self) -> bool:
        """Whether most rows are of dropped queries, and the table worth compacting."""
        return self._size + len(self._waiting) > 2 * self.live + upkeep.SPARE

    def compact(self) -> None:
        """Removes the rows of dropped queries; nobody may refer to them any more."""
        rows = self.rows()
        kept = rows.live()
        ids, since = rows.ids_at(kept), rows.since_at(kept)
        names, params = rows.names_at(kept), rows.all_params_at(kept)
        self._cleared += len(rows) - len(kept)
        self._clear()
        self._append(names, params, ids, since)
        self._version += 1

    def rows(self) -> QueryRows:
        """The table as it is now; what happens later does not show in it."""
        self._settle()
        self._seen = True
        return self._view()

    def _view(self) -> QueryRows:
        if self._rows is None:
            alive = self._alive[: self._size]
            columns = tuple(self._columns)
            self._rows = QueryRows(columns, self._names, self._ids, self._since, alive, self._version, self._cleared)
        return self._rows

    def some_names(self, most: int) -> list[str]:
        """Of queries that stand."""
        rows = self.rows()
        found: list[str] = rows.names_at(rows.live()[:most]).to_pylist()
        return found

    @property
    def nbytes(self) -> int:
        self._settle()
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
        self._alive[self._size : self._size + n] = True  # beyond what any view shows
        self._size += n
        self._rows = None
        self._version += 1

    def _settle(self) -> None:
        """Turns queries added one by one into columns."""
        if not self._waiting:
            return
        waiting = self._waiting
        n = len(waiting)
        ids = np.arange(self.next_id - n, self.next_id)
        columns = as_columns([w[1] for w in waiting], self.params)
        names = pa.array([w[0] for w in waiting], pa.string())
        self._append(names, columns, ids, np.array([w[2] for w in waiting], np.int64))
        self._waiting = []

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
        self._cleared = next_id - len(ids)


def _chosen(chunks: Chunks, positions: Ints) -> pa.Array | ListRows:
    return lists_at(chunks, positions) if pa.types.is_list(chunks[0].type) else gathered(chunks, positions)


def as_columns(rows: Sequence[Sequence[Any]], params: Sequence[Field]) -> list[pa.Array]:
    """The constants of some queries, by parameter; each value has its parameter's type."""
    return [_column([row[i] for row in rows], p.type) for i, p in enumerate(params)]


def _column(values: list[Any], type_: pa.DataType) -> pa.Array:
    return list_array(values, type_) if pa.types.is_list(type_) else pa.array(values, type_)


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column

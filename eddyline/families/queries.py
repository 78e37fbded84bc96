"""The table of a family's queries: one column per parameter, one row per query.

A query has an id that is never used again, and a position that may move when dropped rows are cleared away; ids ascend
with positions. `since` is the arrival number from which the query sees stream tuples.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline.index.upkeep import worth_clearing
from eddyline.sql.bound import Field

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class QueryRows:
    """An immutable view of the table: what operators and results hold on to."""

    params: tuple[pa.Array, ...]
    names: pa.Array
    ids: Ints
    since: Ints
    alive: npt.NDArray[np.bool_]
    version: int  # moves with every change but drops; below 0 for a choice of the queries
    cleared: int  # rows that once were and are no more: while it stays, so does every position

    def positions(self, ids: Ints) -> Ints:
        return np.searchsorted(self.ids, ids)

    def live(self) -> Ints:
        return np.nonzero(self.alive)[0]

    def name_of(self, ids: Ints) -> pa.Array:
        return self.names.take(pa.array(self.positions(ids)))

    def only(self, ids: Ints) -> QueryRows:
        """The same rows with only these queries alive."""
        alive = np.zeros(len(self.ids), np.bool_)
        alive[self.positions(ids)] = True
        return QueryRows(self.params, self.names, self.ids, self.since, alive & self.alive, -1, self.cleared)


class QueryTable:
    def __init__(self, params: Sequence[Field]) -> None:
        self.params = tuple(params)
        self._chunks: list[list[pa.Array]] = [[] for _ in self.params]
        self._names: list[pa.Array] = []
        self._ids: list[Ints] = []
        self._since: list[Ints] = []
        self._alive = np.empty(0, np.bool_)
        self._waiting: list[tuple[str, Sequence[Any], int]] = []
        self._rows: QueryRows | None = None
        self._version = 0
        self.next_id = 0
        self.live = 0
        self._cleared = 0  # rows that once were and are no more

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

    def drop(self, ids: Ints) -> None:
        """Marks queries as gone. Rows stay where they are, so views and indexes made of the table stay right."""
        rows = self.rows()
        rows.alive[rows.positions(ids)] = False
        self.live -= len(ids)

    def drop_one(self, query: int) -> None:
        rows = self.rows()
        place = query - self._cleared  # where it stands if nothing before it was cleared away in between
        if place < 0 or place >= len(rows.ids) or rows.ids[place] != query:
            place = int(rows.ids.searchsorted(query))
        rows.alive[place] = False
        self.live -= 1

    @property
    def crowded(self) -> bool:
        """Whether most rows are of dropped queries, and worth clearing away."""
        return worth_clearing(self.next_id - self._cleared, self.live)

    def clear_away(self) -> None:
        """Drops the rows of dropped queries; nobody may refer to them any more."""
        rows = self.rows()
        kept = rows.live()
        where = pa.array(kept)
        self._cleared += len(rows.ids) - len(kept)
        self._chunks = [[p.take(where)] for p in rows.params]
        self._names = [rows.names.take(where)]
        self._ids = [rows.ids[kept]]
        self._since = [rows.since[kept]]
        self._alive = np.ones(len(kept), np.bool_)
        self._changed()

    def rows(self) -> QueryRows:
        self._settle()
        if self._rows is None:
            self._chunks = [[_joined(c, f.type)] for c, f in zip(self._chunks, self.params, strict=True)]
            self._names = [_joined(self._names, pa.string())]
            self._ids = [np.concatenate(self._ids) if self._ids else np.empty(0, np.int64)]
            self._since = [np.concatenate(self._since) if self._since else np.empty(0, np.int64)]
            params = tuple(c[0] for c in self._chunks)
            ids, since = self._ids[0], self._since[0]
            self._rows = QueryRows(params, self._names[0], ids, since, self._alive, self._version, self._cleared)
        return self._rows

    def some_names(self, most: int) -> list[str]:
        """Of queries that stand."""
        rows = self.rows()
        found: list[str] = rows.names.take(pa.array(rows.live()[:most])).to_pylist()
        return found

    @property
    def nbytes(self) -> int:
        rows = self.rows()
        columns = sum(p.nbytes for p in rows.params) + rows.names.nbytes
        return int(columns + rows.ids.nbytes + rows.since.nbytes + rows.alive.nbytes)

    def _append(self, names: pa.Array, params: Sequence[pa.Array], ids: Ints, since: Ints) -> None:
        for chunk, column in zip(self._chunks, params, strict=True):
            chunk.append(column)
        self._names.append(names)
        self._ids.append(ids)
        self._since.append(since)
        self._alive = np.concatenate([self._alive, np.ones(len(ids), np.bool_)])
        self._changed()

    def _settle(self) -> None:
        """Turns queries added one by one into columns."""
        if not self._waiting:
            return
        waiting, self._waiting = self._waiting, []
        n = len(waiting)
        ids = np.arange(self.next_id - n, self.next_id)
        columns = [pa.array([w[1][i] for w in waiting], f.type) for i, f in enumerate(self.params)]
        names = pa.array([w[0] for w in waiting], pa.string())
        self._append(names, columns, ids, np.array([w[2] for w in waiting], np.int64))

    def _changed(self) -> None:
        self._rows = None
        self._version += 1

    # saving

    def save(self) -> pa.Table:
        rows = self.rows()
        kept = rows.live()
        columns = {"query": rows.names, "id": pa.array(rows.ids), "since": pa.array(rows.since)}
        columns |= {f"p{i}": p for i, p in enumerate(rows.params)}
        return pa.table(columns).take(pa.array(kept))

    def load(self, saved: pa.Table, next_id: int) -> None:
        saved = saved.combine_chunks()
        params = [_whole(saved.column(f"p{i}")) for i in range(len(self.params))]
        ids, since = (np.array(saved.column(n).to_numpy(), np.int64) for n in ("id", "since"))
        self._append(_whole(saved.column("query")), params, ids, since)
        self.next_id = next_id
        self.live = len(ids)
        self._cleared = next_id - len(ids)


def _joined(parts: list[pa.Array], type_: pa.DataType) -> pa.Array:
    if not parts:
        return pa.array([], type_)
    return parts[0] if len(parts) == 1 else pa.concat_arrays(parts)


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column

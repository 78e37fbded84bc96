"""The SteM of a table: a view of its rows, which are stored once for all families.

A tuple joins with the table as it is when the tuple arrives, and later changes of the table probe the tuples. So a
row needs no interval here: those that are in the table match, those that were deleted do not. A family that reads a
table twice must tell the rows of a step from earlier ones; its joins keep the table themselves (`buffer_stem.py`).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from eddyline.arrays import Ints
from eddyline.operators.base import Step
from eddyline.operators.evaluate import evaluate, holds
from eddyline.operators.joins.stem import Matches, ReadsElsewhere, Retracting
from eddyline.plan.expressions import anonymous, columns_of
from eddyline.plan.physical import Key, TableInput
from eddyline.sql.bound import Expr
from eddyline.state.delta import MAX, MIN, NO_ARRIVAL, Delta
from eddyline.state.store.key_index import KeyIndex
from eddyline.state.store.stored_table import StoredTable


class TableStem(ReadsElsewhere):
    def __init__(self, source: TableInput, keys: Sequence[Key], table: StoredTable) -> None:
        self.table = table
        self.condition = source.condition
        self.keys: list[tuple[Expr, ...]] = []
        self.add_keys(keys)
        self._visible = False  # the first step of a join brings the rows that the table has

    def __len__(self) -> int:
        """The rows are those of the table."""
        return 0

    @property
    def shared_store(self) -> StoredTable:
        return self.table

    @property
    def nbytes(self) -> int:
        return self.table.nbytes

    def prepare(self, step: Step, delta: Delta) -> None:
        if not len(delta):
            self._visible = True

    def show(self, step: Step, delta: Delta) -> None:
        self._visible = True

    def retract(self, delta: Delta) -> None:
        """Deleted rows are not in the table any more."""

    def forget_leaving(self) -> None:
        """Deleted rows are not in the table any more."""

    def add_keys(self, keys: Sequence[Key]) -> None:
        self.keys += [tuple(anonymous(e) for e in key.exprs) for key in keys[len(self.keys) :]]

    def wanted(self, step: Step, key: int, values: Sequence[pa.Array], query: Ints | None, n: int) -> Ints:
        return self.index(self.keys[key]).wanted(values, n)

    def search(self, step: Step, key: int, wanted: Ints, least: int) -> TableSearch:
        index, rows = self.index(self.keys[key]), len(self.table) if self._visible else 0
        return TableSearch(self, step, index, wanted, rows, index.counts(wanted, 0, rows))

    def arrivals_at(self, rows: Ints) -> Ints | None:
        return None

    def column(self, i: int, rows: Ints) -> pa.Array:
        return self.table.columns[i].take(pa.array(rows))

    def segments(self, step: Step, key: int) -> list[TableSegment]:
        segments = self.table.segments() if self._visible else []
        index = self.index(self.keys[key])
        parts = [(self.table.rows(s.start, s.stop), s.derived) for s in segments]
        return [TableSegment(self._selected(rows), self.keys[key], self.condition, index, d) for rows, d in parts]

    def _selected(self, rows: Delta) -> Delta:
        """Rows that do not satisfy the condition of the join have no instant."""
        if self.condition is None:
            return rows
        exp = np.where(holds(self.condition, rows.columns, (), len(rows)), MAX, MIN - 1)
        return Delta(rows.columns, None, rows.ts, exp, rows.sign, rows.first, rows.last)

    def index(self, exprs: tuple[Expr, ...]) -> KeyIndex:
        """The index of the table by some expressions."""

        def values(rows: Delta) -> list[pa.Array]:
            return [evaluate(e, rows.columns, (), len(rows)) for e in exprs]

        return self.table.index(exprs, [e.type for e in exprs], values)

    # state

    def expire(self, step: Step) -> None:
        """Rows of tables do not expire."""


@dataclass(frozen=True)
class TableSearch:
    stem: TableStem
    step: Step
    index: KeyIndex
    wanted: Ints
    rows: int
    counts: Ints

    def times(self) -> tuple[int, int]:
        return MIN, MAX

    def matches(self, start: int, stop: int, retracting: Retracting | None = None) -> Matches:
        probing, rows = self.index.matches(self.wanted[start:stop], 0, self.rows, self.counts[start:stop])
        condition, stem = self.stem.condition, self.stem
        if condition is not None and len(rows):
            used = columns_of(condition)
            columns = [stem.column(i, rows) if i in used else None for i in range(len(stem.table.columns))]
            true = holds(condition, columns, (), len(rows), self.step.functions)
            probing, rows = probing[true], rows[true]
        begin, end, arrival = (np.broadcast_to(np.int64(x), len(rows)) for x in (MIN, MAX, NO_ARRIVAL))
        return Matches(probing, rows, begin, end, end, arrival, None)


@dataclass(frozen=True)
class TableSegment:
    """A segment of the table as it is now."""

    rows: Delta
    key: Hashable
    ends: Hashable
    index: KeyIndex
    derived: dict[Hashable, Any]

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, rows: Ints) -> Delta:
        return self.rows.take(rows).spread()

    @cached_property
    def slots(self) -> Ints:
        return self.index.slots(self.rows)

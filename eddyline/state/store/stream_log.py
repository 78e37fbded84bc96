"""The log of a stream: its rows in the order of arrival, stored once for all families that read the stream.

Rows are appended, and dropped when no reader needs them. A row is its columns and its arrival number; its event time
is one of the columns. A row is identified by its position, which is valid until the next `evict`. Key indexes
(`key_index.py`) link rows by key; segments are ranges of positions for structures that need sorted rows.

Invariants: arrival numbers ascend; segments cover all rows in order, the rows of the last append are a segment of their
own, and each other one is at least twice as long as the next. Appending costs a copy of the row and a constant for each
index, evicting a constant a row.
(Document 1, section 3.3; document 2, section 3.)
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from eddyline.arrays import Ints, Mask, Shorts
from eddyline.index.filters.domains import as_integers
from eddyline.index.runtime.garbage import worth_compacting
from eddyline.index.timelines.count_windows import OrderedRows
from eddyline.state.delta import MAX, MIN, Delta, concat
from eddyline.state.pages import Pages, Saved
from eddyline.state.saved_tables import loaded_columns, loaded_ints, saved_columns
from eddyline.state.store.growing import ColumnView, GrowingArray, GrowingColumn
from eddyline.state.store.key_index import KeyIndex
from eddyline.state.store.time_order import TimeOrder
from eddyline.state.store.value_blocks import ValueBlocks

BLOCK = 1024  # rows for which the highest event time up to their end is known
PAGE = 8192  # rows that are saved together


@dataclass(slots=True)
class LogSegment:
    """Rows start … stop - 1 of a log. `derived` caches what operators compute from them."""

    start: int
    stop: int
    derived: dict[Hashable, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        return self.stop - self.start


class LogView(NamedTuple):
    """The rows of a log at one moment."""

    columns: tuple[ColumnView, ...]
    ts: Ints
    arrivals: Ints

    def column(self, i: int, rows: Ints) -> pa.Array:
        """The values of a column at some rows."""
        return self.columns[i].take(rows)

    def arrivals_at(self, rows: Ints) -> Ints | None:
        return self.arrivals[rows]

    def rows(self, start: int, stop: int) -> Delta:
        """Consecutive rows, as insertions without an end."""
        n, arrivals = stop - start, self.arrivals[start:stop]
        columns = tuple(c.slice(start, stop) for c in self.columns)
        ends, signs = np.broadcast_to(np.int64(MAX), n), np.broadcast_to(np.int64(1), n)
        return Delta(columns, None, self.ts[start:stop], ends, signs, arrivals, arrivals)


class StreamLog:
    def __init__(self, types: Sequence[pa.DataType], time: int) -> None:
        """`time` is the position of the column of event times."""
        self.types = tuple(types)
        self.time = time
        self.indexes: dict[Hashable, KeyIndex] = {}
        self._clear()

    def _clear(self) -> None:
        self._columns = [GrowingColumn(x) for x in self.types]
        self._time_order: TimeOrder | None = None  # once a reader needs it
        self._integers: dict[Hashable, GrowingArray] = {}  # by attribute that a reader needs, as integers
        self._blocks: dict[Hashable, ValueBlocks] = {}  # by attribute that a reader needs
        self.unchecked = 0  # rows appended since the last `evict`
        self.eviction_due = False  # whether the next `evict` drops all it can, however little that is
        self._staged: list[Delta] = []  # appended, and not copied yet
        self._staged_rows = 0
        self._arrivals = GrowingArray(np.int64)
        self._highest = GrowingArray(np.int64)  # by block: the highest event time up to its end
        self._segments: list[LogSegment] = []
        self._newest: LogSegment | None = None
        self._fresh = 0  # where the rows of the last append begin
        self._dropped = 0  # rows dropped from the front so far
        self._pages: dict[int, pa.RecordBatch] = {}  # full ones that have been saved, by number
        self._view: LogView | None = None  # until rows are appended or dropped

    def __len__(self) -> int:
        return len(self._arrivals) + self._staged_rows

    @property
    def ts(self) -> Ints:
        self._flush()
        return self._columns[self.time].numbers

    @property
    def arrivals(self) -> Ints:
        self._flush()
        return self._arrivals.values

    def column(self, i: int) -> GrowingColumn:
        self._flush()
        return self._columns[i]

    @property
    def nbytes(self) -> int:
        """The bytes of rows, their order and key indexes; what segments cache is not counted."""
        self._flush()
        columns = sum(c.nbytes for c in self._columns)
        order = 0 if self._time_order is None else self._time_order.nbytes
        derived = sum(i.nbytes for i in self.indexes.values())
        derived += sum(i.nbytes for i in self._integers.values()) + sum(b.nbytes for b in self._blocks.values())
        return columns + self._arrivals.nbytes + order + derived

    def append(self, batch: Delta) -> None:
        """Adds arriving tuples. They are copied when rows are read; those that only snapshots need may never be."""
        if len(batch):
            self._staged.append(batch)
            self._staged_rows += len(batch)
            self.unchecked += len(batch)

    def _flush(self) -> None:
        if not self._staged:
            return
        staged, self._staged, self._staged_rows, self._view = self._staged, [], 0, None
        for batch in staged:
            self._fresh = len(self._arrivals)
            batch = batch.spread()
            if (batch.last[1:] < batch.last[:-1]).any():
                batch = batch.take(np.argsort(batch.last, kind="stable")).spread()
            for column, values in zip(self._columns, batch.columns, strict=True):
                column.append(values)
            self._arrivals.append(batch.last)
        self._summarise()

    def _summarise(self) -> None:
        """Computes the highest event time of each new block of rows."""
        done, blocks = len(self._highest), len(self) // BLOCK
        if blocks > done:
            highest = self.ts[done * BLOCK : blocks * BLOCK].reshape(-1, BLOCK).max(axis=1)
            before = self._highest.values[-1] if done else MIN
            self._highest.append(np.maximum.accumulate(np.maximum(highest, before)))

    # reading

    def view(self) -> LogView:
        """Its present rows; what is appended or dropped later does not change them."""
        self._flush()
        if self._view is None:
            self._view = LogView(tuple(c.view() for c in self._columns), self.ts, self.arrivals)
        return self._view

    def rows(self, start: int, stop: int) -> Delta:
        return self.view().rows(start, stop)

    def all(self) -> Delta:
        return self.rows(0, len(self))

    def position_of(self, arrival: int) -> int:
        """The position of the first row with this arrival number or a later one."""
        return int(np.searchsorted(self.arrivals, arrival))

    def position_from(self, ts: int) -> int:
        """A position before which all rows have smaller event times; at most a block too early."""
        self._flush()
        return int(np.searchsorted(self._highest.values, ts)) * BLOCK

    def first_from(self, ts: int) -> int:
        """The position of the first row with this event time or a later one."""
        start = self.position_from(ts)
        while start < len(self):
            later = self.ts[start : start + BLOCK] >= ts
            if later.any():
                return start + int(np.argmax(later))
            start += BLOCK
        return len(self)

    def index(self, key: Hashable, types: Sequence[pa.DataType], values: Callable[[Delta], list[pa.Array]]) -> KeyIndex:
        """The index of a key, made on first use; `values` evaluates the key for rows."""
        if key not in self.indexes:
            self.indexes[key] = KeyIndex(types, values)
        index = self.indexes[key]
        if len(index) < len(self):
            index.extend(self.rows(len(index), len(self)))
        return index

    def integers(self, attribute: Hashable, values: Callable[[Delta], pa.Array]) -> Ints:
        """The values of an attribute as integers of the same order, the least one for NULL; `values` evaluates it."""
        known = self._integers.setdefault(attribute, GrowingArray(np.int64))
        if len(known) < len(self):
            numbers, missing = as_integers(values(self.rows(len(known), len(self))))
            known.append(np.where(missing, MIN, numbers))
        integers: Ints = known.values
        return integers

    def by_value(self, attribute: Hashable, values: Ints) -> Shorts:
        """Its rows in time order, sorted by an attribute within blocks; `values` are those of the attribute."""
        self.in_time_order()
        assert self._time_order is not None
        return self._blocks.setdefault(attribute, ValueBlocks()).of(self._time_order, self.ts, values)

    def in_time_order(self) -> OrderedRows:
        """Its rows in the order (event time, arrival); valid until rows are appended or dropped."""
        if self._time_order is None:
            self._time_order = TimeOrder()
        return self._time_order.rows(self.ts)

    def segments(self, upto: int) -> list[LogSegment]:
        """Segments that cover the rows before a position. What is cut off at the position is not cached."""
        self._flush()
        older, newest = self._segments, self._newest
        covered = older[-1].stop if older else 0
        if covered < self._fresh:
            while older and len(older[-1]) < 2 * (self._fresh - covered):
                covered = older.pop().start
            known = newest is not None and (newest.start, newest.stop) == (covered, self._fresh)
            older.append(newest if known and newest is not None else LogSegment(covered, self._fresh))
        if newest is None or (newest.start, newest.stop) != (self._fresh, len(self)):
            newest = self._newest = LogSegment(self._fresh, len(self))
        whole = [s for s in (*older, newest) if s.start < upto]
        return [s if s.stop <= upto else LogSegment(s.start, upto) for s in whole]

    # eviction

    def evict(self, before: int, since: int) -> None:
        """Drops rows with event times below `before` or arrival numbers below `since`, if that frees enough memory."""
        self.unchecked, due, self.eviction_due = 0, self.eviction_due, False
        if not len(self._arrivals):  # they may never be read: whole batches, or half-empty ones, are dropped
            self._staged = [b for b in (_needed(b, before, since) for b in self._staged) if len(b)]
            self._staged_rows = sum(len(b) for b in self._staged)
            return
        needed = (self.ts >= before) & (self.arrivals >= since)
        used = int(np.count_nonzero(needed))
        if due and used < len(needed):
            self._keep(needed)
            return
        if not worth_compacting(len(needed), used):
            return
        first = int(np.argmax(needed)) if used else len(needed)
        if worth_compacting(len(needed) - first, used):
            self._keep(needed)
        elif first:
            self._drop_oldest(first)

    def _drop_oldest(self, dropped: int) -> None:
        self._keep_rows(slice(dropped, None))
        self._dropped += dropped
        self._integers = {a: known for a, known in self._integers.items() if len(known) > dropped}  # the others are old
        self._blocks = {a: blocks for a, blocks in self._blocks.items() if a in self._integers}
        for known in self._integers.values():
            known.keep(slice(dropped, None))
        self._pages = {n: page for n, page in self._pages.items() if n * PAGE >= self._dropped}
        for key, index in list(self.indexes.items()):
            index.drop_oldest(dropped)
            if index.is_sparse:
                self.indexes.pop(key).in_use = False  # it is made anew on its next use
        if self._time_order is not None:
            self._time_order.drop_oldest(dropped)
        self._renumbered()

    def _keep(self, needed: Mask) -> None:
        self._keep_rows(np.nonzero(needed)[0])
        self._drop_indexes()
        self._time_order, self._integers, self._blocks = None, {}, {}
        self._dropped, self._pages = 0, {}
        self._renumbered()

    def _drop_indexes(self) -> None:
        for index in self.indexes.values():
            index.in_use = False
        self.indexes = {}

    def _keep_rows(self, rows: slice | Ints) -> None:
        self._view = None
        self._arrivals.keep(rows)
        for column in self._columns:
            column.keep(rows)

    def _renumbered(self) -> None:
        self._highest = GrowingArray(np.int64)
        self._summarise()
        self._forget_segments()

    def _forget_segments(self) -> None:
        self._segments = []
        self._newest = None
        self._fresh = len(self)

    # saving

    def save(self) -> dict[str, Saved]:
        """Its rows, in pages of which only the last changes, and what determines how it goes on."""
        self._flush()
        stop = self._dropped + len(self)
        numbers = range(self._dropped // PAGE, -(-stop // PAGE)) if len(self) else range(0)
        pages = {n: self._pages.get(n) or self._page(n * PAGE, n * PAGE + PAGE) for n in numbers}
        self._pages = {n: page for n, page in pages.items() if page.num_rows == PAGE}
        self._fresh = len(self)
        starts = [s.start for s in self.segments(len(self)) if len(s)]
        state = pa.table({"segment": pa.array(starts, pa.int64()), "unchecked": [self.unchecked] * len(starts)})
        return {"rows": Pages(self._page(0, 0).schema, tuple(pages.values())), "state": state}

    def _page(self, start: int, stop: int) -> pa.RecordBatch:
        """The rows between two positions that count dropped rows too."""
        first, last = (min(max(p - self._dropped, 0), len(self)) for p in (start, stop))
        rows = self.rows(first, last)
        columns = saved_columns(rows) | {"ts": rows.ts, "arrival": rows.last}
        return pa.RecordBatch.from_pydict(columns)

    def restore(self, saved: Mapping[str, pa.Table]) -> None:
        """Goes on exactly like the log that was saved."""
        self.load(saved["rows"])
        self._flush()
        starts, unchecked = loaded_ints(saved["state"], "segment", "unchecked")
        stops = np.append(starts, len(self))[1:]
        self._segments = [LogSegment(int(a), int(b)) for a, b in zip(starts, stops, strict=True)]
        self._fresh, self._newest = len(self), None
        self.unchecked = int(unchecked[0]) if len(unchecked) else 0

    def load(self, saved: pa.Table) -> None:
        """Adds saved rows that it does not have yet; rows are equal if their arrival numbers are."""
        ts, arrivals = loaded_ints(saved, "ts", "arrival")
        n = len(ts)
        ends, signs = np.full(n, MAX), np.ones(n, np.int64)
        self.adopt(Delta(loaded_columns(saved, len(self.types)), None, ts, ends, signs, arrivals, arrivals))

    def adopt(self, rows: Delta) -> None:
        """Adds rows of any arrival numbers, unless it has them."""
        new = rows.take(~np.isin(rows.last, self.arrivals)).spread()
        if not len(new):
            return
        if not len(self) or new.last.min() > self.arrivals[-1]:
            self.append(new)
            return
        both = concat([self.all(), new], self.types, attached=False)
        self._drop_indexes()
        self._clear()
        self.append(both)


def _needed(batch: Delta, before: int, since: int) -> Delta:
    """A batch without the rows that are not needed, if they are most of it."""
    needed = (batch.ts >= before) & (batch.last >= since)
    return batch if 2 * np.count_nonzero(needed) > len(batch) else batch.take(needed).spread()

"""The SteM of a stream: a view of the stream's log, which all families that read the stream share.

The log has every tuple of the stream. What differs between joins is applied when rows are read: the window, a condition
on the stream alone, and which rows of the current step are visible already. A join that cannot share (clock = 'max'
hides tuples from some families; a test drives one operator alone) has a log of its own, and appends to it here.
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
from eddyline.operators.evaluate import Functions, evaluate, holds
from eddyline.operators.joins.stem import Matches, Retracting
from eddyline.operators.scan import StreamScan
from eddyline.plan.expressions import anonymous, columns_of
from eddyline.plan.physical import Key, StreamInput
from eddyline.sql.bound import Expr
from eddyline.state.delta import MAX, MIN, Delta
from eddyline.state.pages import as_table
from eddyline.state.saved_tables import loaded_columns, loaded_ints
from eddyline.state.store.key_index import KeyIndex
from eddyline.state.store.stream_log import LogSegment, LogView, StreamLog


class LogStem:
    def __init__(self, source: StreamInput, scan: StreamScan, keys: Sequence[Key], log: StreamLog | None) -> None:
        self.scan = scan
        self.condition = source.condition
        self.keys: list[tuple[Expr, ...]] = []
        self.add_keys(keys)
        self.shared = log is not None
        self.log = log if log is not None else StreamLog(source.scan.types, source.scan.source.time)
        self._indexes: dict[int, KeyIndex] = {}  # by key, those used last
        self._visible: int | None = None  # rows from this arrival number on are not visible yet

    def __len__(self) -> int:
        return len(self.log)

    @property
    def shared_store(self) -> StreamLog | None:
        return self.log if self.shared else None

    @property
    def nbytes(self) -> int:
        return self.log.nbytes

    def prepare(self, step: Step, delta: Delta) -> None:
        if not self.shared:
            self.log.append(delta)
        self._visible = int(delta.first.min()) if len(delta) else None

    def show(self, step: Step, delta: Delta) -> None:
        self._visible = None
        if not self.shared and 2 * self.log.unchecked > len(self.log):
            self._evict(step)

    def retract(self, delta: Delta) -> None:
        raise AssertionError("tuples of streams are never retracted")

    def forget_leaving(self) -> None:
        """No row leaves before its end."""

    def _evict(self, step: Step) -> None:
        width = self.scan.width(step)
        self.log.evict(MIN if width is None else max(MIN, step.before - width), 0)

    def add_keys(self, keys: Sequence[Key]) -> None:
        self.keys += [tuple(anonymous(e) for e in key.exprs) for key in keys[len(self.keys) :]]

    def wanted(self, step: Step, key: int, values: Sequence[pa.Array], query: Ints | None, n: int) -> Ints:
        return self.index(key).wanted(values, n)

    def search(self, step: Step, key: int, wanted: Ints, least: int) -> LogSearch:
        low, high = self._positions(step, least)
        index = self.index(key)
        return LogSearch(self, step, index, wanted, low, high, index.counts(wanted, low, high))

    def column(self, i: int, rows: Ints) -> pa.Array:
        return self.log.column(i).take(rows)

    def arrivals_at(self, rows: Ints) -> Ints | None:
        return self.log.arrivals[rows]

    def columns(self, expr: Expr, rows: Ints) -> list[pa.Array | None]:
        """The columns that an expression over this stream needs, at some rows."""
        used = columns_of(expr)
        return [self.column(i, rows) if i in used else None for i in range(len(self.log.types))]

    def segments(self, step: Step, key: int) -> list[LogStemSegment]:
        _, high = self._positions(step, MIN)
        view, width, index = self.log.view(), self.scan.width(step), self.index(key)
        if self.scan.pending and width is not None:  # a bound that changes rarely; windows are applied later
            width = 1 << width.bit_length()
        return [LogStemSegment(self, view, s, self.keys[key], width, index, s.derived) for s in self.log.segments(high)]

    def _positions(self, step: Step, least: int) -> tuple[int, int]:
        """The range of positions that has all visible rows which end at `least` or later."""
        log, width = self.log, self.scan.width(step)
        low = log.first_from(least - width) if width is not None and least > MIN + width else 0
        oldest = step.queries.oldest
        if oldest is not None and len(log) and log.arrivals[min(low, len(log) - 1)] < oldest:
            low = max(low, log.position_of(oldest))
        return low, len(log) if self._visible is None else log.position_of(self._visible)

    def index(self, key: int) -> KeyIndex:
        """The index of the log by one of the keys."""
        known = self._indexes.get(key)
        if known is not None and known.in_use and len(known) == len(self.log):
            return known
        index = self._indexes[key] = self._find_index(self.keys[key])
        return index

    def _find_index(self, exprs: tuple[Expr, ...]) -> KeyIndex:
        def values(rows: Delta) -> list[pa.Array]:
            return [evaluate(e, rows.columns, (), len(rows)) for e in exprs]

        return self.log.index(exprs, [e.type for e in exprs], values)

    def expire(self, step: Step) -> None:
        """A shared log keeps what other families need; the engine evicts the rest after the step."""
        self.log.eviction_due = True
        if not self.shared:
            self._evict(step)

    def forget(self, queries: Ints) -> None:
        """The rows belong to no query."""

    def save(self) -> pa.Table | None:
        return None if self.shared else as_table(self.log.save()["rows"])

    @property
    def restores_exactly(self) -> bool:
        """The engine saves a shared log with its division into segments; of an own log only the rows are saved."""
        return self.shared

    def load(self, saved: pa.Table, functions: Functions) -> None:
        """Rows that an earlier version saved for this join alone are added to the log."""
        if "arrival" in saved.column_names:
            self.log.load(saved)
            return
        ts, exp, first = loaded_ints(saved, "ts", "exp", "first")
        columns = loaded_columns(saved, len(self.log.types))
        self.log.adopt(Delta(columns, None, ts, exp, np.ones(len(ts), np.int64), first, first))


@dataclass(frozen=True)
class LogSearch:
    stem: LogStem
    step: Step
    index: KeyIndex
    wanted: Ints
    low: int
    high: int
    counts: Ints

    def times(self) -> tuple[int, int]:
        ts = self.stem.log.ts[self.low : self.high]
        return int(ts.max(initial=MIN)), int(ended(ts, self.stem.scan.width(self.step)).min(initial=MAX))

    def matches(self, start: int, stop: int, retracting: Retracting | None = None) -> Matches:
        stem, log = self.stem, self.stem.log
        probing, rows = self.index.matches(self.wanted[start:stop], self.low, self.high, self.counts[start:stop])
        condition = stem.condition
        if condition is not None and stem.shared and len(rows):
            true = holds(condition, stem.columns(condition, rows), (), len(rows), self.step.functions)
            probing, rows = probing[true], rows[true]
        ts, arrivals = log.ts[rows], log.arrivals[rows]
        return Matches(probing, rows, ts, ended(ts, stem.scan.width(self.step)), arrivals, arrivals, None)


@dataclass(frozen=True)
class LogStemSegment:
    """A segment of the log with the ends that a join's window gives its rows."""

    stem: LogStem
    view: LogView
    segment: LogSegment
    key: Hashable
    width: int | None
    index: KeyIndex
    derived: dict[Hashable, Any]

    def __len__(self) -> int:
        return len(self.segment)

    @property
    def ends(self) -> Hashable:
        return self.width, self.stem.condition

    @cached_property
    def rows(self) -> Delta:
        """Rows that do not satisfy the condition of the join have no instant."""
        rows = self.view.rows(self.segment.start, self.segment.stop)
        exp, condition = ended(rows.ts, self.width), self.stem.condition
        if condition is not None and self.stem.shared:
            exp = np.where(holds(condition, rows.columns, (), len(rows)), exp, MIN)
        return Delta(rows.columns, None, rows.ts, exp, rows.sign, rows.first, rows.last)

    def take(self, rows: Ints) -> Delta:
        position = rows + self.segment.start
        ts, arrivals, ones = self.view.ts[position], self.view.arrivals[position], np.ones(len(rows), np.int64)
        columns = tuple(c.take(position) for c in self.view.columns)
        return Delta(columns, None, ts, ended(ts, self.width), ones, arrivals, arrivals)

    @cached_property
    def slots(self) -> Ints:
        return self.index.slots(self.rows)


def ended(ts: Ints, width: int | None) -> Ints:
    """The ends of rows under a window; None: they have no end."""
    if width is None:
        return np.full(len(ts), MAX, np.int64)
    return np.where(ts > MAX - width, MAX, ts + width)

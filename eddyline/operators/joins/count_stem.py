"""The SteM of a count window: a view of the stream's log, in which the windows of all queries are computed.

A row is in the window of a query from its event time until as many visible rows as the window holds have entered after
it. Both follow from the order of event times of the log (`index/timelines/window_members.py`), so this SteM stores no
rows, neither per query nor per size of window. Conditions on the stream alone are applied to the rows that match.

Within a step the windows are first as they were before it; then rows that leave have their ends; and once the changes
of this input have probed, the rows that enter are in the windows too. Rows that left in earlier steps ended before the
clock of this step, so they share no instant with any change that probes.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from eddyline.arrays import Ints, Mask
from eddyline.index.timelines.count_windows import CountWindows, OrderedRows, first_places
from eddyline.index.timelines.window_members import (
    BEFORE,
    EVERY,
    RETRACTED,
    SHOWN,
    Reach,
    Span,
    Wanted,
    count_members,
    list_members,
    reach_of,
)
from eddyline.operators.base import Step
from eddyline.operators.evaluate import evaluate, holds
from eddyline.operators.joins.stem import Matches, ReadsElsewhere, Retracting, StemSegment
from eddyline.operators.matcher import Matcher
from eddyline.operators.rows_window import CountWindow
from eddyline.operators.window_sizes import QueryWindows, WindowSizes
from eddyline.plan.equalities import inlined
from eddyline.plan.expressions import anonymous, columns_of
from eddyline.plan.physical import CountInput, Key
from eddyline.sql.bound import Column
from eddyline.state.delta import MAX, MIN, Delta
from eddyline.state.store.key_index import NO_MATCH, KeyIndex
from eddyline.state.store.stream_log import StreamLog


@dataclass(frozen=True)
class _Windows:
    """The windows of all queries in one step."""

    rows: OrderedRows
    queries: QueryWindows
    windows: CountWindows
    reach: Reach
    shown: int
    upto: int


class CountStem(ReadsElsewhere):
    def __init__(self, source: CountInput, window: CountWindow, keys: Sequence[Key]) -> None:
        self.window = window
        self.outputs = source.outputs
        self.add_keys(keys)
        self.condition = source.condition
        self.matcher = None if source.per_query is None else Matcher(source.per_query, (), window.types)
        self._sizes = WindowSizes(source.window.size)
        self._now: _Windows | None = None
        self._phase = BEFORE
        self._leaving = False  # whether rows that leave in this step are retracted by whatever leaves first

    def add_keys(self, keys: Sequence[Key]) -> None:
        self.keys = [tuple(anonymous(inlined(e, self.outputs)) for e in key.exprs) for key in keys]
        self._per_query = [key.with_query for key in keys]

    @property
    def log(self) -> StreamLog:
        return self.window.log

    def __len__(self) -> int:
        """The rows are those of the window."""
        return 0

    @property
    def shared_store(self) -> StreamLog | None:
        return self.log if self.window.shared else None

    @property
    def nbytes(self) -> int:
        return self.log.nbytes

    # the phases of a step

    def prepare(self, step: Step, delta: Delta) -> None:
        self._now, self._phase, self._leaving = None, BEFORE, False

    def retract(self, delta: Delta) -> None:
        self._phase, self._leaving = RETRACTED, True

    def forget_leaving(self) -> None:
        self._leaving = False

    def show(self, step: Step, delta: Delta) -> None:
        self._phase = SHOWN

    def windows(self, step: Step) -> _Windows:
        """The windows in this step, computed when a change first probes them."""
        if self._now is None:
            rows, queries = self.log.in_time_order(), self._sizes.of(step.queries, step.functions)
            shown, upto = self.window.entered
            if step.kind == "replay":  # tuples of the next step may be in the log
                shown = upto = self.window.shown(step.now)
            windows = queries.over(self.log, rows, shown)
            reach = reach_of(rows, windows, first_places(windows, shown))
            self._now = _Windows(rows, queries, windows, reach, shown, upto)
        return self._now

    # searching

    def wanted(self, step: Step, key: int, values: Sequence[pa.Array], query: Ints | None, n: int) -> Ints:
        """A slot of the log's index, and the place of the query among those with windows."""
        slots = self._index(key).wanted(values, n)
        if query is None:
            return slots
        known = self.windows(step).queries.query
        place = np.minimum(np.searchsorted(known, query), len(known) - 1)
        if not len(known):
            return np.full(n, NO_MATCH, np.int64)
        return np.where((slots >= 0) & (known[place] == query), slots * len(known) + place, NO_MATCH)

    def search(self, step: Step, key: int, wanted: Ints, least: int) -> CountSearch:
        now, index = self.windows(step), self._index(key)
        slot, window = wanted, np.full(len(wanted), EVERY, np.int64)
        if self._per_query[key] and len(now.queries.query):
            slot, window = np.divmod(wanted, len(now.queries.query))
            slot = np.where(wanted < 0, NO_MATCH, slot)
        span = Span(now.shown, now.upto, self._phase)
        return CountSearch(self, step, now, index, span, Wanted(slot, window), leaving=self._leaving)

    def _index(self, key: int) -> KeyIndex:
        exprs = self.keys[key]

        def values(rows: Delta) -> list[pa.Array]:
            return [evaluate(e, rows.columns, (), len(rows)) for e in exprs]

        return self.log.index(exprs, [e.type for e in exprs], values)

    def arrivals_at(self, rows: Ints) -> Ints | None:
        return None

    def column(self, i: int, rows: Ints) -> pa.Array:
        output = self.outputs[i]
        if isinstance(output, Column):
            return self.log.column(output.index).take(rows)
        return evaluate(output, self.stream_columns(columns_of(output), rows), (), len(rows))

    def stream_columns(self, used: Set[int], rows: Ints) -> list[pa.Array | None]:
        """Columns of the stream at some rows; None for those that are not used."""
        return [self.log.column(i).take(rows) if i in used else None for i in range(len(self.log.types))]

    def segments(self, step: Step, key: int) -> Sequence[StemSegment]:
        raise AssertionError("no tactic by ranges is planned for windows of queries")

    # state

    def expire(self, step: Step) -> None:
        """The count window lets the log drop rows."""


@dataclass(frozen=True)
class CountSearch:
    stem: CountStem
    step: Step
    now: _Windows
    index: KeyIndex
    span: Span
    wanted: Wanted
    leaving: bool

    @cached_property
    def counts(self) -> Ints:
        now = self.now
        return count_members(self.index.chains, now.rows, now.windows, self.span, self.wanted, now.reach)

    def times(self) -> tuple[int, int]:
        """Not known: conditions may reject rows that match."""
        return MAX, MIN

    def matches(self, start: int, stop: int, retracting: Retracting | None = None) -> Matches:
        now, log = self.now, self.stem.log
        wanted = Wanted(self.wanted.slot[start:stop], self.wanted.window[start:stop])
        counts = self.counts[start:stop]
        probing, rows, window, end = list_members(
            self.index.chains, now.rows, now.windows, self.span, wanted, now.reach, counts
        )
        if retracting is not None and self.leaving:
            kept, end = _first_to_leave(retracting, probing, end)
            probing, rows, window, end = probing[kept], rows[kept], window[kept], end[kept]
        arrivals = log.arrivals[rows]
        matches = Matches(probing, rows, log.ts[rows], end, arrivals, arrivals, now.queries.query[window])
        return self._selected(matches) if len(rows) else matches

    def _selected(self, matches: Matches) -> Matches:
        """The matches that satisfy the conditions on this input."""
        condition, matcher = self.stem.condition, self.stem.matcher
        if condition is not None:
            rows, which = np.unique(matches.rows, return_inverse=True)
            true = holds(
                condition, self.stem.stream_columns(columns_of(condition), rows), (), len(rows), self.step.functions
            )
            matches = matches.take(true[which])
        if matcher is None or not len(matches.rows) or matches.query is None:
            return matches
        ones = np.ones(len(matches.rows), np.int64)
        columns = tuple(self.stem.stream_columns(matcher.columns, matches.rows))
        delta = Delta(columns, None, matches.ts, matches.exp, ones, matches.first, matches.last, matches.query)
        position = self.step.queries.positions(matches.query)
        kept = np.zeros(len(ones), np.bool_)
        kept[matcher.holding(self.step, delta, np.arange(len(ones)), position)[0]] = True
        return matches.take(kept)


def _first_to_leave(retracting: Retracting, probing: Ints, end: Ints) -> tuple[Mask, Ints]:
    """The pairs in which the retraction is not later than that of the row, if the row leaves in this step too; and the
    ends with which the rows were sent (`leaving.py`)."""
    at = retracting.leaves[probing]
    kept = (end == MAX) | (at <= end)
    if retracting.precedes:
        kept |= at - 1 == end
    return kept, np.full(len(end), MAX, np.int64)

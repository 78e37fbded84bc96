"""Ends of windows that are not stored: they are read from the log of the stream.

An aggregate over the rows of a window must know when each row leaves the window. With many queries over one stream,
storing that for every row and query takes a multiple of the stream itself. Here a query keeps `next`, the instant at
which the oldest of its rows leaves. When that has come, the rows that have left are read from the log, in blocks in the
order of event time (`index/timelines/window_ends.py`), and subtracted. State is the log, which families share, and by
query `next` and its bounds.

Invariant: `next` is the earliest end among the rows of a query that have been added and not subtracted; all rows of the
log from that one on that the query accepts are such rows. So the log must keep the widest window, a condition must be
a range of numbers along each attribute, and no row is added whose end has passed.

A family that an earlier version saved has stored the ends of its rows so far; those are subtracted from there. `begin`
is the arrival number from which on rows are read from the log.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa

from eddyline.arrays import Doubles, Ints, Mask
from eddyline.index.filters.slot_boxes import LEAST, MOST
from eddyline.index.timelines.window_ends import NEVER, WindowQueries, WindowRows, ended_rows
from eddyline.operators.condition import Condition
from eddyline.operators.counter_layout import Layout, contributions
from eddyline.operators.evaluate import Functions, evaluate
from eddyline.operators.query_boxes import box_ranges
from eddyline.operators.scan import StreamScan
from eddyline.operators.slots import grown
from eddyline.plan.expressions import anonymous, columns_of
from eddyline.sql.bound import Expr
from eddyline.state.delta import Delta
from eddyline.state.query_table import QueryRows
from eddyline.state.store.stream_log import StreamLog
from eddyline.state.timeline import Events


class LoggedEnds:
    """By slot, which is one query where a grouping has no keys: when the oldest of its rows leaves."""

    def __init__(self, condition: Expr | None, scan: StreamScan, log: StreamLog, layout: Layout) -> None:
        self.scan, self.log, self.layout = scan, log, layout
        self.next: Ints = np.empty(0, np.int64)
        self.begin = 0
        self._condition = Condition(condition)
        self._attributes = [anonymous(a) for a in self._condition.attributes]
        self._boxes: tuple[tuple[int, int], Ints, Ints] | None = None  # (version and removals of queries), low, high

    def grow(self, slots: int) -> None:
        self.next = grown(self.next, slots, NEVER)

    def keep(self, used: Mask) -> None:
        self.next = self.next[: len(used)][used]

    def expect(self, slot: Ints, rows: Delta) -> None:
        """Rows that have been added to slots will leave after their ends."""
        will_end = rows.exp < NEVER
        np.minimum.at(self.next, slot[will_end], rows.exp[will_end] + 1)

    def due(self, slots: Ints, query: Ints, upto: int, queries: QueryRows, functions: Functions) -> Events:
        """The events of the rows that leave the windows of slots up to an instant, in no order; `query` has the queries
        of the slots."""
        mine = np.nonzero(self.next[slots] <= upto)[0]
        slots, positions = slots[mine], queries.positions(query[mine])
        low, high = self._boxes_of(queries, functions)
        since = np.maximum(queries.since_at(positions), self.begin)
        widths = self.scan.widths(queries, positions, functions)
        windows = WindowQueries(low[:, positions], high[:, positions], since, widths, self.next[slots])
        of, row, following = ended_rows(self._rows(), windows, upto)
        self.next[slots] = following
        left, place = np.unique(row, return_inverse=True)
        ints, floats = self._contributions(left, functions)
        times = self.log.ts[row] + widths[of] + 1
        return Events(slots[of], times, -ints[place], -floats[place])

    def _rows(self) -> WindowRows:
        ordered = self.log.in_time_order()
        codes = tuple(self.log.integers(a, partial(_values, a)) for a in self._attributes)
        # Without a condition, any attribute serves, and all of its values are accepted.
        sorted_ = self.log.by_value(self._attributes[0], codes[0]) if codes else np.empty(0, np.uint16)
        return WindowRows(ordered.order, self.log.ts, self.log.arrivals, codes or (self.log.ts,), sorted_)

    def _boxes_of(self, queries: QueryRows, functions: Functions) -> tuple[Ints, Ints]:
        version = queries.version, queries.removed
        if self._boxes is None or self._boxes[0] != version:
            every = np.arange(len(queries))
            ranges = box_ranges(self._condition.attributes, self._condition.of_queries(queries, every, functions))
            shape = max(1, len(self._attributes)), len(queries)
            low, high = np.full(shape, LEAST), np.full(shape, MOST)
            for a, attribute in enumerate(self._condition.attributes):
                first, last = ranges[attribute]
                low[a], high[a] = np.maximum(first, LEAST + 1), last  # LEAST is NULL, which none accepts
            self._boxes = version, low, high
        return self._boxes[1:]

    def _contributions(self, rows: Ints, functions: Functions) -> tuple[Ints, Doubles]:
        """What rows of the log have added to counters."""
        arguments: list[pa.Array | None] = []
        for a in self.layout.aggregates:
            if a.argument is None:
                arguments.append(None)
                continue
            used = columns_of(a.argument)
            columns = [self.log.column(c).take(rows) if c in used else None for c in range(len(self.log.types))]
            arguments.append(evaluate(a.argument, columns, (), len(rows), functions))
        return contributions(self.layout, arguments, len(rows))

    # saving

    def save(self, slots: int) -> pa.Table:
        return pa.table({"next": self.next[:slots], "begin": np.full(slots, self.begin)})

    def load(self, saved: pa.Table | None) -> None:
        """None: an earlier version has stored the ends of all rows so far."""
        if saved is None:
            self.begin = int(self.log.arrivals[-1]) + 1 if len(self.log) else 0
            return
        self.next = np.array(saved.column("next").to_numpy())
        self.begin = saved.column("begin")[0].as_py() if saved.num_rows else 0


def _values(attribute: Expr, rows: Delta) -> pa.Array:
    return evaluate(attribute, rows.columns, (), len(rows))


def without_ends(rows: Delta) -> Delta:
    """The rows with no end, for the timeline: their ends are read from the log."""
    return replace(rows, exp=np.full(len(rows), NEVER))

"""Ends of rows that are not stored: windows over a stream are read from its log.

A windowed aggregate over a range of values needs to know, for every row in its window, when the row leaves. With many
queries over one stream, storing that for every row and query takes a multiple of the stream itself. Here a query keeps
one number: when the oldest of its rows leaves. What has left by then is read from the log, in the order of event time,
from that row on (`index/timelines/window_ends.py`). So state is the log, shared by all families, and a few numbers a
query. A query looks at every row of the log once.

Rows that were counted before a family was restored from a version that stored their ends are not read again: `begin`
is the arrival number from which on rows are read.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa

from eddyline.arrays import Ints
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
    """By slot of a grouping without keys, which is one query: when the oldest of its rows leaves."""

    def __init__(self, condition: Expr | None, scan: StreamScan, log: StreamLog, layout: Layout) -> None:
        self.scan, self.log, self.layout = scan, log, layout
        self.next: Ints = np.empty(0, np.int64)
        self.begin = 0
        self._condition = Condition(condition)
        self._attributes = [anonymous(a) for a in self._condition.attributes]
        self._boxes: tuple[tuple[int, int], Ints, Ints] | None = None  # (version of queries), by attribute and query

    def grow(self, slots: int) -> None:
        self.next = grown(self.next, slots, NEVER)

    def keep(self, used: np.ndarray) -> None:
        self.next = self.next[: len(used)][used]

    def expect(self, slot: Ints, rows: Delta) -> None:
        """Rows that have been added to slots will leave after their ends."""
        ends = rows.exp < NEVER
        np.minimum.at(self.next, slot[ends], rows.exp[ends] + 1)

    def due(self, slots: Ints, query: Ints, upto: int, queries: QueryRows, functions: Functions) -> Events:
        """The events of the rows that leave the windows of slots up to an instant; `query` has their queries."""
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
                low[a], high[a] = np.maximum(first, LEAST + 1), last  # LEAST stands for NULL
            self._boxes = version, low, high
        return self._boxes[1:]

    def _contributions(self, rows: Ints, functions: Functions) -> tuple[Ints, np.ndarray]:
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
    """Rows whose ends are read from the log."""
    return replace(rows, exp=np.full(len(rows), NEVER))

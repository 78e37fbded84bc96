"""The count window: the n latest tuples by (event time, arrival) up to the clock.

A tuple enters the window when the clock reaches it, and leaves when the n-th tuple after it enters. That time is not
known in advance, so the tuple is sent without an end and retracted later. The tuples are in the log of the stream,
which all families share; the log's order of event times and the clock determine the windows of all queries
(`index/timelines/count_windows.py`), so neither tuples nor positions are kept here. (Document 3, section 7.)
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from eddyline.arrays import Ints
from eddyline.index.timelines.count_windows import OrderedRows, enter_and_leave, first_places
from eddyline.operators.base import Operator, Step
from eddyline.operators.evaluate import Functions
from eddyline.operators.room import CHANGE
from eddyline.operators.window_sizes import WindowSizes
from eddyline.plan import physical
from eddyline.state.delta import MAX, MIN, Delta
from eddyline.state.pages import Saved
from eddyline.state.query_table import QueryRows
from eddyline.state.saved_tables import loaded_ints
from eddyline.state.store.stored_table import StoredTable
from eddyline.state.store.stream_log import StreamLog

SPAN = 4  # row numbers per change, up to which marking them is cheaper than sorting


class CountWindow(Operator):
    """Reads the log of its stream; without one that families share, it has a log of its own and appends to it."""

    def __init__(self, node: physical.CountWindow, children: Sequence[Operator], log: StreamLog | None = None) -> None:
        super().__init__(node, children)
        source = node.scan.source
        self.stream = source.stream.lower()
        self.sizes = WindowSizes(node.size)
        self._family_sizes = WindowSizes(node.size)  # by query of the family; the operator may run on classes of them
        self.shared = log is not None
        self.log = log if log is not None else StreamLog(self.types, source.time)
        self.seen = 0  # tuples with smaller arrival numbers have been read
        self.entered = 0, 0  # the places of the tuples that entered windows in the last step, in the order of the log

    def pull(self, step: Step) -> Delta:
        arrived = self.children[0].pull(step)
        if step.kind == "replay":
            return self.none()
        if not self.shared:
            self._evict(step)
            self.log.append(arrived)
        rows = self.log.in_time_order()
        first = int(arrived.first.min()) if len(arrived) else MAX
        self.entered = shown, upto = self._place(rows, step.before, first), self._place(rows, step.now, MAX)
        if len(arrived):
            self.seen = int(arrived.last.max()) + 1
        return self.none() if upto == shown else self._changes(step, rows, shown, upto)

    def shown(self, clock: int) -> int:
        """How many tuples of the log, in its order of event times, have entered windows by a clock of the past."""
        return self._place(self.log.in_time_order(), clock, self.seen)

    def _place(self, rows: OrderedRows, ts: int, arrival: int) -> int:
        """How many tuples are up to an event time; of those at that time, the ones before an arrival number."""
        before = len(rows.order) if arrival == MAX else self.log.position_of(arrival)
        return bisect_right(rows.order, (ts, before - 1), key=lambda row: (int(rows.ts[row]), int(row)))

    def _changes(self, step: Step, rows: OrderedRows, shown: int, upto: int) -> Delta:
        """The changes of the windows while the tuples at the places shown:upto enter."""
        queries = self.sizes.of(step.queries, step.functions)
        step.room.require(2 * (upto - shown) * int(np.count_nonzero(queries.size > 0)), CHANGE)  # the kernel's arrays
        windows = queries.over(self.log, rows, shown)
        window, sign, row, ts, exp, cause = enter_and_leave(rows, windows, shown, upto)
        if not len(row):
            return self.none()
        needed, place = _distinct(row)
        columns, arrivals = tuple(c.take(needed) for c in self.log.view().columns), self.log.arrivals
        return Delta(columns, place, ts, exp, sign, arrivals[row], arrivals[cause], queries.query[window])

    def needed_from(self, queries: QueryRows, functions: Functions, clock: int) -> int:
        """The least event time of the tuples that are in a window of the family's queries at the clock, or have not
        entered yet."""
        rows, shown = self.log.in_time_order(), self.shown(clock)
        windows = self._family_sizes.of(queries, functions).over(self.log, rows, shown)
        place = int(first_places(windows, shown).min(initial=shown))
        return clock if place == len(rows.order) else min(clock, int(rows.ts[rows.order[place]]))

    def _evict(self, step: Step) -> None:
        """Drops tuples of its own log that are in no window."""
        if 2 * self.log.unchecked > len(self.log) or self.log.eviction_due:
            before = self.needed_from(step.queries, step.functions, step.before) if step.before > MIN else MIN
            self.log.evict(before, 0)

    def expire(self, step: Step) -> None:
        """A shared log keeps what other families need; the engine evicts the rest after the step."""
        super().expire(step)
        self.log.eviction_due = True

    def size(self) -> int:
        return 0 if self.shared else len(self.log)

    def shared_stores(self) -> Sequence[StreamLog | StoredTable]:
        return [self.log] if self.shared else []

    def save(self) -> dict[str, Saved]:
        seen = pa.table({"seen": [self.seen]})
        return {"seen": seen} if self.shared else {"seen": seen, "rows": self.log.save()["rows"]}

    @property
    def restores_exactly(self) -> bool:
        """Of a log of its own, only the rows are saved."""
        return self.shared

    def load(self, saved: dict[str, pa.Table], functions: Functions) -> None:
        """Rows that an earlier version saved for this operator alone are added to the log."""
        if "rows" in saved:
            self.log.load(saved["rows"])
        (self.seen,) = (
            loaded_ints(saved["seen"], "seen")[0].tolist()
            if "seen" in saved
            else [int(loaded_ints(saved["rows"], "arrival")[0].max(initial=-1)) + 1]
        )


def _distinct(rows: Ints) -> tuple[Ints, Ints]:
    """The distinct row numbers in ascending order, and the place of each in them. O(rows * log)."""
    least, most = int(rows.min()), int(rows.max())
    if most - least > SPAN * len(rows):  # a row enters a wide window, and another leaves it
        return np.unique(rows, return_inverse=True)
    used = np.zeros(most - least + 1, np.bool_)
    used[rows - least] = True
    place = np.cumsum(used) - 1
    return np.nonzero(used)[0] + least, place[rows - least]

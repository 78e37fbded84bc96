"""The count window: the n latest tuples by (event time, arrival) up to the clock.

A tuple enters the window when the clock reaches it, and leaves when the n-th tuple after it enters. That time is not
known in advance, so the tuple is sent without an end and retracted later. All queries of the family share one log of
tuples, of which every window is a part (`index/timelines/count_windows.py`). (Document 3, section 7.)
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from eddyline.arrays import Ints, Mask
from eddyline.index.runtime.garbage import worth_compacting
from eddyline.index.timelines.count_windows import enter_and_leave, in_windows
from eddyline.operators.base import Operator, Step
from eddyline.operators.evaluate import Functions, evaluate
from eddyline.operators.room import CHANGE
from eddyline.plan import physical
from eddyline.plan.expressions import params_of
from eddyline.state.delta import MAX, Delta, concat, empty
from eddyline.state.saved_tables import loaded_columns, loaded_ints, saved_columns


class CountWindow(Operator):
    """Stores the tuples ahead of the clock, and those in the widest window of the oldest query."""

    def __init__(self, node: physical.CountWindow, children: Sequence[Operator]) -> None:
        super().__init__(node, children)
        self.size_of = node.size
        self.rows = empty(self.types, attached=False)  # in the order (ts, arrival)
        self.shown = 0  # the position in that order up to which tuples have entered windows
        self._sizes: tuple[tuple[int, int], Ints] | None = None  # (version of the query table, sizes)
        self._in_use = 0  # tuples in a window or ahead of the clock at the last check

    def pull(self, step: Step) -> Delta:
        arrived = self.children[0].pull(step).spread()
        if step.kind == "replay":
            return self.none()
        if len(arrived):
            self._append(arrived)
        upto = int(np.searchsorted(self.rows.ts, step.now, side="right"))
        if upto == self.shown:
            return self.none()
        changes = self._changes(step, self.shown, upto)
        self.shown = upto
        self._evict(step)
        return changes

    def _append(self, arrived: Delta) -> None:
        self.rows = concat([self.rows, arrived], self.types, attached=False)
        ts = self.rows.ts
        later = max(len(ts) - len(arrived) - 1, 0)
        if (ts[later:-1] > ts[later + 1 :]).any():  # arrivals are in the order of arrival
            self.rows = self.rows.take(np.lexsort((self.rows.last, ts))).spread()

    def _windows(self, step: Step) -> tuple[Ints, Ints, Ints]:
        """Size and `since` of the window of each live query, and the query."""
        queries = step.queries
        live = queries.live()
        version = queries.version, queries.removed
        if self._sizes is None or self._sizes[0] != version or queries.version < 0:
            params = queries.params_at(params_of(self.size_of), np.arange(len(queries)))
            sizes = evaluate(self.size_of, (), params, len(queries), step.functions).fill_null(0)
            self._sizes = version, sizes.to_numpy(zero_copy_only=False).astype(np.int64)
        return self._sizes[1][live], queries.since_at(live), queries.ids_at(live)

    def _changes(self, step: Step, shown: int, upto: int) -> Delta:
        """The changes of the windows while the tuples shown:upto enter."""
        size, since, query = self._windows(step)
        rows = self.rows
        step.room.require(2 * (upto - shown) * int(np.count_nonzero(size > 0)), CHANGE)  # the kernel's output arrays
        window, sign, row, ts, exp, cause = enter_and_leave(rows.ts, rows.first, shown, upto, size, since)
        return Delta(rows.columns, row, ts, exp, sign, rows.first[row], rows.last[cause], query[window])

    def _evict(self, step: Step) -> None:
        """Drops tuples that are in no window, once they may outnumber the others."""
        if not worth_compacting(len(self.rows), self._in_use):
            return
        kept = self._needed(step)
        if worth_compacting(len(kept), self._in_use):
            self._keep(kept)

    def _needed(self, step: Step) -> Mask:
        """The tuples in a window or ahead of the clock."""
        size, since, _ = self._windows(step)
        kept: Mask = in_windows(self.rows.first, self.shown, size, since)
        self._in_use = int(np.count_nonzero(kept))
        return kept

    def _keep(self, kept: Mask) -> None:
        self.shown = int(np.count_nonzero(kept[: self.shown]))
        self.rows = self.rows.take(kept).spread()

    def expire(self, step: Step) -> None:
        super().expire(step)
        if not (kept := self._needed(step)).all():
            self._keep(kept)

    def size(self) -> int:
        return len(self.rows)

    def save(self) -> dict[str, pa.Table]:
        data = saved_columns(self.rows) | {"ts": self.rows.ts, "arrival": self.rows.last}
        return {"rows": pa.table(data), "shown": pa.table({"shown": [self.shown]})}

    def load(self, saved: dict[str, pa.Table], functions: Functions) -> None:
        ts, arrival = loaded_ints(saved["rows"], "ts", "arrival")
        columns, n = loaded_columns(saved["rows"], len(self.types)), len(ts)
        self.rows = Delta(columns, None, ts, np.full(n, MAX), np.ones(n, np.int64), arrival, arrival)
        self.shown = saved["shown"].column("shown")[0].as_py()

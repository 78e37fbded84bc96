"""The count window: the n latest tuples by (event time, arrival), as the clock passes.

A tuple enters when the clock reaches it and leaves when the n-th tuple after it does, which cannot be foreseen: it is
sent without an end and taken back (document 3, section 7). Queries with the same n and the same registration share
one ordering.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from eddyline.index.upkeep import worth_clearing
from eddyline.operators.base import Operator, Step
from eddyline.operators.evaluate import Functions, evaluate
from eddyline.plan.expressions import params_of
from eddyline.sql.bound import Expr
from eddyline.state.delta import MAX, Delta, Ints, concat, empty


class RowsWindow(Operator):
    """Holds the tuples ahead of the clock, and those still in the widest window of the oldest query."""

    def __init__(self, child: Operator, size: Expr) -> None:
        super().__init__((child,))
        self.types, self.attached, self.takes_back = child.types, True, True
        self.size_of = size
        self.rows = empty(self.types, attached=False)  # in the order (ts, arrival)
        self.shown = 0  # the position in that order up to which tuples have entered windows

    def pull(self, step: Step) -> Delta:
        arrived = self.children[0].pull(step).spread()
        if step.kind == "replay":
            return self.none()
        if len(arrived):
            joined = concat([self.rows, arrived], self.types, attached=False)
            self.rows = joined.take(np.lexsort((joined.last, joined.ts))).spread()
        upto = int(np.searchsorted(self.rows.ts, step.now, side="right"))
        if upto == self.shown:
            return self.none()
        found = concat(list(self._by_window(step, self.shown, upto)), self.types, attached=True)
        self.shown = upto
        self._let_go(step)
        return found

    def _windows(self, step: Step) -> list[tuple[int, int, Ints]]:
        """(n, since, queries) for each distinct window among the live queries."""
        queries = step.queries
        live = queries.live()
        params = queries.params_at(params_of(self.size_of), live)
        sizes = (
            evaluate(self.size_of, (), params, len(live), step.functions).fill_null(0).to_numpy(zero_copy_only=False)
        )
        keys = np.column_stack([sizes, queries.since_at(live)])
        distinct, which = np.unique(keys, axis=0, return_inverse=True)
        which = which.ravel()
        return [
            (int(n), int(since), queries.ids_at(live[which == i])) for i, (n, since) in enumerate(distinct) if n > 0
        ]

    def _by_window(self, step: Step, shown: int, upto: int) -> list[Delta]:
        """What enters and leaves each window while the tuples shown:upto enter."""
        parts = []
        for n, since, ids in self._windows(step):
            seen = np.nonzero(self.rows.first[:upto] >= since)[0]
            ts = self.rows.ts[seen]
            leaves = np.full(len(seen), MAX, np.int64)  # when the n-th tuple after it enters
            leaves[: max(len(seen) - n, 0)] = ts[n:]
            new = seen >= shown
            was_in = ~new & (np.arange(len(seen)) >= np.count_nonzero(~new) - n)
            enters = np.nonzero(new & (leaves > ts))[0]
            gone = np.nonzero(was_in & (leaves < MAX))[0]
            plus = replace(self.rows.take(seen[enters]), exp=np.where(leaves[enters] < MAX, leaves[enters] - 1, MAX))
            minus = replace(
                self.rows.take(seen[gone]),
                ts=leaves[gone],
                exp=np.full(len(gone), MAX, np.int64),
                sign=np.full(len(gone), -1, np.int64),
                last=self.rows.last[seen[gone + n]],  # the tuple that pushed it out
            )
            parts.append(_for_each(plus, ids))
            parts.append(_for_each(minus, ids))
        return parts

    def _let_go(self, step: Step) -> None:
        """Drops tuples that are in no window any more."""
        kept = np.zeros(len(self.rows), np.bool_)
        kept[self.shown :] = True
        for n, since, _ in self._windows(step):
            seen = np.nonzero(self.rows.first[: self.shown] >= since)[0]
            kept[seen[-n:]] = True
        if worth_clearing(len(kept), np.count_nonzero(kept)):
            self.shown = int(np.count_nonzero(kept[: self.shown]))
            self.rows = self.rows.take(kept).spread()

    def size(self) -> int:
        return len(self.rows)

    def save(self) -> dict[str, pa.Table]:
        data = {f"c{i}": c for i, c in enumerate(self.rows.columns)}
        data |= {"ts": self.rows.ts, "arrival": self.rows.last}
        return {"rows": pa.table(data), "shown": pa.table({"shown": [self.shown]})}

    def load(self, saved: dict[str, pa.Table], functions: Functions) -> None:
        table = saved["rows"]
        ts, arrival = (np.array(table.column(c).to_numpy(), np.int64) for c in ("ts", "arrival"))
        columns = tuple(table.column(f"c{i}").combine_chunks() for i in range(len(self.types)))
        n = len(ts)
        self.rows = Delta(columns, None, ts, np.full(n, MAX), np.ones(n, np.int64), arrival, arrival)
        self.shown = saved["shown"].column("shown")[0].as_py()


def _for_each(delta: Delta, ids: Ints) -> Delta:
    """Every change for every query."""
    n, k = len(delta), len(ids)
    return replace(delta.take(np.repeat(np.arange(n), k)), query=np.tile(ids, n))

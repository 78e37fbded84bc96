"""The leaves of a plan: a stream under a time window, and a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import numpy as np
import pyarrow as pa

from eddyline.arrays import Ints
from eddyline.operators.base import Operator, Step
from eddyline.operators.evaluate import Functions, evaluate
from eddyline.plan import physical
from eddyline.plan.expressions import params_of
from eddyline.sql.bound import Constant
from eddyline.state.delta import MAX, Delta
from eddyline.state.query_table import QueryRows


class StreamScan(Operator):
    """Arriving tuples. A window of one size for all queries sets their ends here. A per-query window is left pending;
    the largest window of the family then bounds the ends."""

    def __init__(self, node: physical.StreamScan, children: Sequence[Operator]) -> None:
        super().__init__(node, children)
        self.stream = node.source.stream.lower()
        self.pending = node.pending
        size = node.source.window.size
        self._constant: int | None = None
        if isinstance(size, Constant) and size.value is not None:
            self._constant = size.value // timedelta(microseconds=1)
        self._largest: tuple[tuple[int, int] | None, int] = None, 0  # (version and number of queries), size

    def pull(self, step: Step) -> Delta:
        arrived = step.streams.get(self.stream)
        if arrived is None or step.kind == "replay":
            return self.none()
        if not step.queries.alive.any():  # it is not visible to later queries
            return self.none()
        # With clock policy 'max', a tuple may be behind this family's clock: it is not visible to the family.
        visible = arrived.take(arrived.ts >= step.before)
        width = self.width(step)
        if width is None:
            return visible
        return replace(visible, exp=np.where(visible.ts > MAX - width, MAX, visible.ts + width))

    def width(self, step: Step) -> int | None:
        """The length of its window, or of the largest one of the family, in microseconds; None: it has no end."""
        if not self.pending:
            return self._constant
        queries = step.queries
        version = queries.version, int(np.count_nonzero(queries.alive))  # the version alone does not change with drops
        if self._largest[0] != version or queries.version < 0:
            live = queries.live()
            size = self.pending[0].size
            sizes = evaluate(size, (), queries.params_at(params_of(size), live), len(live), step.functions)
            widths = sizes.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
            self._largest = version, max(0, int(widths.max(initial=0)))
        return self._largest[1]

    def widths(self, queries: QueryRows, positions: Ints, functions: Functions) -> Ints:
        """The length of the window of each query, in microseconds; below 0 where it is NULL, MAX if it has no end."""
        if not self.pending:
            return np.full(len(positions), MAX if self._constant is None else self._constant)
        size = self.pending[0].size
        sizes = evaluate(size, (), queries.params_at(params_of(size), positions), len(positions), functions)
        return np.asarray(sizes.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False), np.int64)


class TableScan(Operator):
    """Changes of a table, effective from the family's clock on; in a replay, all its rows."""

    def __init__(self, node: physical.TableScan, children: Sequence[Operator]) -> None:
        super().__init__(node, children)
        self.table = node.source.table.lower()

    def pull(self, step: Step) -> Delta:
        changed = step.tables.get(self.table)
        if changed is None:
            return self.none()
        return replace(changed, ts=np.full(len(changed), step.now, np.int64))

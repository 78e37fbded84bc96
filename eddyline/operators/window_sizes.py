"""The sizes of the count windows of a family's queries."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from eddyline.arrays import Ints
from eddyline.index.timelines.count_windows import CountWindows, OrderedRows, count_windows
from eddyline.operators.evaluate import Functions, evaluate
from eddyline.plan.expressions import params_of
from eddyline.sql.bound import Expr
from eddyline.state.query_table import QueryRows
from eddyline.state.store.stream_log import StreamLog


class QueryWindows(NamedTuple):
    """By live query, in ascending order of ids: the size of its window, the first arrival number that is visible to it,
    and its id."""

    size: Ints
    since: Ints
    query: Ints

    def over(self, log: StreamLog, rows: OrderedRows, shown: int) -> CountWindows:
        """The windows over the rows of a log, after the first `shown` rows have entered."""
        return count_windows(rows, self.size, np.searchsorted(log.arrivals, self.since), shown)


class WindowSizes:
    """Evaluates the size of a window for all queries, once for each version of the query table."""

    def __init__(self, size: Expr) -> None:
        self._size = size
        self._known: tuple[tuple[int, int], QueryWindows] | None = None  # (version and number of live queries), windows

    def of(self, queries: QueryRows, functions: Functions) -> QueryWindows:
        version = queries.version, int(np.count_nonzero(queries.alive))  # the version alone does not change with drops
        if self._known is None or self._known[0] != version or queries.version < 0:
            live = queries.live()
            params = queries.params_at(params_of(self._size), live)
            sizes = evaluate(self._size, (), params, len(live), functions).fill_null(0)
            size = sizes.to_numpy(zero_copy_only=False).astype(np.int64)
            self._known = version, QueryWindows(size, queries.since_at(live), queries.ids_at(live))
        return self._known[1]

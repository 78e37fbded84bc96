"""The index of a family's query table: grouped filters, in runs, which match rows with the queries' conditions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from eddyline.arrays import Ints, Mask
from eddyline.index.filters.bitmaps import Bitmaps
from eddyline.index.filters.filter_search import Matches, Route, What, search
from eddyline.index.filters.grouped_filter import GroupedFilter, grouped_filter
from eddyline.index.filters.row_codes import AttributeValues, RowCodes
from eddyline.index.runtime.parallel import LARGEST
from eddyline.operators.checks import Checks
from eddyline.operators.condition import Condition
from eddyline.operators.evaluate import Functions
from eddyline.operators.query_runs import QueryRuns
from eddyline.routing.eddy import Eddy
from eddyline.routing.filter_eddy import FilterEddy, Lookups
from eddyline.state.query_table import QueryRows


class RoutedFilter:
    """A grouped filter with an eddy for each of its bitmaps, which orders their attributes."""

    def __init__(self, filter_: GroupedFilter, total: Lookups | None = None) -> None:
        """`total` counts the lookups of all filters of an index."""
        self.filter = filter_
        self.total = total or Lookups()
        self.eddies = tuple(FilterEddy(m, self.total) for m in filter_.maps)
        self.rows = 0  # searched so far
        self.lookups: Ints = np.zeros(len(filter_.domains), np.int64)  # codes made, by attribute

    @property
    def blocks(self) -> int:
        """The number of blocks of its bitmaps: the cost of listing one row."""
        return sum(m.blocks for m in self.filter.maps)

    def search(self, columns: Sequence[AttributeValues], rows: int, alive: Mask, what: What) -> Matches:
        """The conditions that rows satisfy; rows visit the attributes of bitmaps in the order of their eddy."""
        codes = RowCodes(self.filter.domains, columns, rows)
        matches = search(self.filter, codes, alive, self._route, what)
        self.rows += rows
        self.lookups += codes.lookups
        self.total.add(rows, int(codes.lookups.sum()))
        for eddy, maps, visits in zip(self.eddies, self.filter.maps, matches.visits, strict=True):
            eddy.searched(codes, visits, maps.blocks)
        return matches

    def _route(self, maps: Bitmaps, codes: RowCodes, alive: Mask) -> Route:
        (eddy,) = (e for e, m in zip(self.eddies, self.filter.maps, strict=True) if m is maps)
        return eddy.route(maps, codes, alive)


def rows_to_list(filters: Iterable[RoutedFilter]) -> int:
    """The number of rows to list at once, which bounds the memory for their sets."""
    return LARGEST // (1 + max((f.blocks for f in filters), default=0) // 4)


class QueryIndex:
    def __init__(self, condition: Condition) -> None:
        self.condition = condition
        self.checks = Checks(condition.checks, Eddy())  # the clauses, evaluated where no filter is sure
        self.lookups = Lookups()
        self.runs = QueryRuns(self._filter)

    def _filter(self, queries: QueryRows, positions: Ints, functions: Functions) -> RoutedFilter:
        return RoutedFilter(grouped_filter(self.condition.of_queries(queries, positions, functions)), self.lookups)

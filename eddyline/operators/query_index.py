"""The index of a family's query table: grouped filters, in runs, which match rows with the queries' conditions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from eddyline.arrays import Codes, Ints, Mask
from eddyline.index.filters.bitmaps import Bitmaps
from eddyline.index.filters.domains import ValueColumn
from eddyline.index.filters.grouped_filter import GroupedFilter, Matches, grouped_filter, search
from eddyline.index.runtime.parallel import LARGEST
from eddyline.operators.condition import Condition
from eddyline.operators.evaluate import Functions
from eddyline.operators.query_runs import QueryRuns
from eddyline.routing.eddy import Eddy
from eddyline.state.query_table import QueryRows

SAMPLE = 128  # rows of a batch from which the eddy learns


class RoutedFilter:
    """A grouped filter with an eddy, which orders the attributes of its bitmaps."""

    def __init__(self, filter_: GroupedFilter) -> None:
        self.filter = filter_
        self.eddy = Eddy()

    @property
    def blocks(self) -> int:
        """The number of blocks of its bitmaps: the cost of listing one row."""
        return sum(m.blocks for m in self.filter.maps)

    def search(self, columns: Sequence[ValueColumn], rows: int, alive: Mask, what: str) -> Matches:
        """The conditions that rows satisfy; rows visit the attributes of bitmaps in the eddy's order."""
        matches = search(self.filter, columns, rows, alive, self._order, what)
        for maps, entered in zip(self.filter.maps, matches.entered, strict=True):
            for attribute, times in zip(maps.attributes.tolist(), entered.tolist(), strict=True):
                self.eddy.entered(attribute, times)
        return matches

    def _order(self, maps: Bitmaps, codes: Codes) -> Ints:
        """The order of attributes for these rows, learnt from a sample of them."""
        some = codes[:, :: max(1, codes.shape[1] // SAMPLE)]
        attributes = maps.attributes.tolist()
        for a, predicates, accepted in zip(
            attributes, maps.predicates.tolist(), maps.accepted(some).tolist(), strict=True
        ):
            self.eddy.learn(a, some.shape[1], predicates * some.shape[1], accepted, codes.shape[1])
        return np.array(self.eddy.order(attributes), np.int64)


def rows_to_list(filters: Iterable[RoutedFilter]) -> int:
    """The number of rows to list at once, which bounds the memory for their sets."""
    return LARGEST // (1 + max((f.blocks for f in filters), default=0) // 4)


class QueryIndex:
    def __init__(self, condition: Condition) -> None:
        self.condition = condition
        self.eddy = Eddy()  # orders the clauses that are evaluated
        self.runs = QueryRuns(self._filter)

    def _filter(self, queries: QueryRows, positions: Ints, functions: Functions) -> RoutedFilter:
        return RoutedFilter(grouped_filter(self.condition.of_queries(queries, positions, functions)))

    # the clauses that are evaluated

    def check_order(self) -> list[int]:
        """The order in which the clauses of the condition are evaluated."""
        return self.eddy.order(range(len(self.condition.checks)))

    def learn_check(self, clause: int, pairs: int, held: int, seconds: float) -> None:
        self.eddy.learn(clause, pairs, pairs, held)
        self.eddy.learn_cost(clause, seconds / pairs)
        self.eddy.entered(clause, pairs)

"""The affected queries of each arriving row, as a list, runs or a bitmap, whichever is smallest
(`index/runtime/row_sets.py`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np

from eddyline.arrays import Ints
from eddyline.errors import DataError
from eddyline.index.runtime.row_sets import Containers
from eddyline.operators.matcher import Portion
from eddyline.state.query_table import QueryRows


class QuerySets:
    """A set of queries for each arriving row of one stream; `rows` are the rows' positions in the push.

    A query is identified by its position; `names` returns its name.
    """

    def __init__(self, stream: str, rows: Ints, portions: Sequence[Portion], queries: QueryRows) -> None:
        self.stream = stream
        self.rows = rows
        self._portions = portions
        self._queries = queries

    def __len__(self) -> int:
        return len(self.rows)

    @cached_property
    def counts(self) -> Ints:
        """The number of queries that each row affects."""
        return np.concatenate([np.empty(0, np.int64), *(p.counts for p in self._portions)])

    def __iter__(self) -> Iterator[tuple[int, Ints]]:
        """Yields every row's position in the push, and the positions of its queries, ascending."""
        for portion in self._portions:
            listed = portion.listed()
            for i in range(portion.rows):
                place = int(self.rows[portion.start + i])
                yield place, listed.members[listed.starts[i] : listed.starts[i + 1]].astype(np.int64)

    def names(self, positions: Ints) -> list[str]:
        """The names of queries, given the positions that iterating yields."""
        where = np.asarray(positions, np.int64)
        if len(where) and not 0 <= where.min() <= where.max() < len(self._queries):
            least, most = int(where.min()), int(where.max())
            raise DataError(
                f"Positions of queries are 0 to {len(self._queries) - 1}, not {least} or {most}.",
                hint="Positions are those that iterating over the sets gives.",
            )
        names: list[str] = self._queries.names_at(where).to_pylist()
        return names

    @property
    def nbytes(self) -> int:
        return sum(part.nbytes for p in self._portions for part in p.parts)

    def kinds(self) -> dict[str, int]:
        """The number of bitmap containers that are lists, runs, bitmaps or empty."""
        total = Counter[str]()
        for part in (part for p in self._portions for part in p.parts if isinstance(part, Containers)):
            total.update(part.kinds())
        return total

    def __repr__(self) -> str:
        return f"<QuerySets: {int(self.counts.sum())} queries of {len(self)} rows, {self.nbytes} bytes>"

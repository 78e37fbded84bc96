"""The codes of a batch, made only for the attributes and rows that a search asks for.

An attribute may be an expression that is costly to evaluate, or a text; a row that enters few attributes needs few
codes. Every code made is a *lookup*, counted and timed by attribute.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Protocol

import numpy as np

from eddyline.arrays import Codes, Doubles, Ints
from eddyline.index.filters.domains import Domain, ValueColumn


class AttributeValues(Protocol):
    """The values of an attribute in a batch; a column of values is one, and so is an expression still to evaluate."""

    def at(self, rows: Ints | None) -> ValueColumn:
        """The values of these rows; of all rows if None."""
        ...


class RowCodes:
    def __init__(self, domains: Sequence[Domain], columns: Sequence[AttributeValues], rows: int) -> None:
        self.domains, self.columns, self.rows = domains, columns, rows
        self.table: Codes = np.zeros((len(domains), rows), np.uint16)  # 0 where no code was made
        self.complete = [False] * len(domains)  # by attribute: whether all rows have a code
        self.lookups: Ints = np.zeros(len(domains), np.int64)
        self.seconds: Doubles = np.zeros(len(domains))

    def make(self, attributes: Iterable[int], rows: Ints | None = None) -> None:
        """Makes the codes of some attributes for these rows, or for all rows, unless they are complete."""
        for a in attributes:
            if self.complete[a]:
                continue
            begun = time.perf_counter()
            values = self.columns[a].at(rows)
            if rows is None:
                self.domains[a].codes(values, self.table[a])
                self.complete[a] = True
            else:
                some = np.empty(len(rows), np.uint16)
                self.domains[a].codes(values, some)
                self.table[a, rows] = some
            self.lookups[a] += self.rows if rows is None else len(rows)
            self.seconds[a] += time.perf_counter() - begun

"""Twin classes: classes of queries with equal parameters that began at different moments, and when they may merge.

Two such classes differ only in tuples that arrived before the younger began. Once all of these have left every window
below, at the clock `horizon + window + 1`, both see the same tuples, and all later ones. If the rows that were sent to
both are equal too, with their ends, then both have the same future, and the members of the younger join the older. Rows
sent may still differ then, where ends were predicted from other tuples: the classes are compared again later.

Unbounded and count windows never forget a tuple by time, so classes over them do not merge. (Document 3, section 7:
sharing among queries.)
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from eddyline.arrays import Ints
from eddyline.index.keys.key_table import ColumnCoder, KeyTable
from eddyline.state.delta import MAX, MIN

RETRY = 8  # classes whose sent rows differ are compared again after this part of their window


class SentRows(NamedTuple):
    """Rows that an operator has sent, among them all that have not ended: their queries, values and ends."""

    query: Ints
    columns: Sequence[pa.Array]
    end: Ints


class Twins:
    """Pairs of a class and the next younger one with the same parameters, by the clock at which they may merge."""

    def __init__(self) -> None:
        self.seen = MIN  # the highest event time of any tuple so far
        self.horizon: dict[int, int] = {}  # by class that may merge: the highest event time of tuples before it
        self._youngest: dict[int, int] = {}  # by parameters (their slot): the class that began last
        self._table: tuple[ColumnCoder, KeyTable] | None = None
        self._merged: dict[int, int] = {}  # by class that was merged: the class that it joined
        self._waiting: list[tuple[int, int, int, int]] = []  # a heap of (clock, younger, older, window)

    def see(self, times: Ints) -> None:
        """Tuples with these event times have arrived."""
        self.seen = max(self.seen, int(times.max(initial=MIN)))

    def add(self, classes: Ints, params: Sequence[pa.Array], windows: Ints, horizon: int | Ints) -> None:
        """New classes, in the order of their ids; `windows` has the widest window of each, MAX if it has no end."""
        if self._table is None:
            coder = ColumnCoder([c.type for c in params])
            self._table = coder, KeyTable(coder.width)
        coder, table = self._table
        slots = table.insert(coder.codes(params, len(classes)))
        before = np.broadcast_to(horizon, len(classes))
        for class_, slot, window, seen in zip(
            classes.tolist(), slots.tolist(), windows.tolist(), before.tolist(), strict=True
        ):
            older = self._youngest.get(slot)
            self._youngest[slot] = class_
            if older is not None and 0 <= window < MAX:
                self.horizon[class_] = seen
                due = MIN if seen == MIN else min(seen + window + 1, MAX)
                heapq.heappush(self._waiting, (due, class_, older, window))

    def due(self, clock: int) -> list[tuple[int, int, int]]:
        """Pairs that may merge at a clock: the younger class, the older one, and their window. The caller merges each
        or postpones it."""
        pairs = []
        while self._waiting and self._waiting[0][0] <= clock:
            _, younger, older, window = heapq.heappop(self._waiting)
            while older in self._merged:
                older = self._merged[older]
            pairs.append((younger, older, window))
        return pairs

    def postpone(self, younger: int, older: int, window: int, clock: int) -> None:
        heapq.heappush(self._waiting, (clock + max(1, window // RETRY), younger, older, window))

    def merged(self, younger: int, older: int) -> None:
        self._merged[younger] = older
        self.horizon.pop(younger, None)

    def dropped(self, classes: Ints) -> None:
        """Classes without members."""
        for class_ in classes.tolist():
            self.horizon.pop(class_, None)


def equal_rows(classes: Ints, sent: Sequence[SentRows], clock: int) -> dict[int, tuple[bytes, ...]]:
    """By class, a value that is equal for classes with equal rows of every operator that end at the clock or later."""
    parts: dict[int, list[bytes]] = {c: [] for c in classes.tolist()}
    for rows in sent:
        coder = ColumnCoder([c.type for c in rows.columns])
        table = KeyTable(coder.width + 1)
        codes = np.column_stack([coder.codes(rows.columns, len(rows.end)), rows.end])
        number = table.insert(np.ascontiguousarray(codes))
        order = np.lexsort((number, rows.query))
        order = order[rows.end[order] >= clock]
        query, number = rows.query[order], number[order]
        begin, end = np.searchsorted(query, classes), np.searchsorted(query, classes, "right")
        for class_, a, b in zip(classes.tolist(), begin.tolist(), end.tolist(), strict=True):
            parts[class_].append(number[a:b].tobytes())
    return {c: tuple(p) for c, p in parts.items()}

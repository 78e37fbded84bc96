"""Twin classes: classes of queries with equal parameters that began at different moments, and when they may merge.

Let the horizon of a class be the highest event time of the tuples that arrived before it began. A class and an older
one with equal parameters differ only in such tuples. At the clock `horizon + window + 1` all of these have left the
windows of the operators below: both classes see the same tuples, and all later ones. If the rows that were sent to both
are equal too, with their ends, then both have the same future, and the members of the younger join the older.

Rows sent may still differ then: DISTINCT, say, predicts the end of a row from the tuples known when it is sent, and the
next row begins after that end, so two classes may never have the same ends. They are compared again later.

Invariant: a class that may merge has one entry in the heap. Cost: O(log pairs) a pair, and O(n log n) for comparing n
sent rows. Unbounded and count windows never forget a tuple by time, so classes over them are not added, or with a
window of MAX. (Document 3, section 7: sharing among queries.)
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

RETRY = 8  # classes whose sent rows differ are compared again after an eighth of their window


class SentRows(NamedTuple):
    """Rows that an operator has sent, at least those that have not ended: the query or class, the values, the ends."""

    query: Ints
    columns: Sequence[pa.Array]
    end: Ints


class _Pair(NamedTuple):
    """What is known of a class that may merge: the older class, the slot of their parameters, and its horizon."""

    older: int
    params: int
    horizon: int


class Twins:
    """Pairs of a class and the next older one with the same parameters, by the clock at which they may merge."""

    def __init__(self) -> None:
        self.seen = MIN  # the highest event time of any tuple so far
        self._pairs: dict[int, _Pair] = {}  # by the younger class
        self._youngest: dict[int, int] = {}  # by slot of parameters: the class that began last
        self._params: tuple[ColumnCoder, KeyTable] | None = None  # the slots of parameters
        self._gone: dict[int, int] = {}  # by class that is gone: an older one in its place; while pairs wait
        self._waiting: list[tuple[int, int, int, int]] = []  # a heap of (clock, younger, older, window)

    @property
    def horizons(self) -> dict[int, int]:
        """By class that may merge: the highest event time of the tuples before it."""
        return {younger: pair.horizon for younger, pair in self._pairs.items()}

    def see(self, times: Ints) -> None:
        """Tuples with these event times have arrived."""
        self.seen = max(self.seen, int(times.max(initial=MIN)))

    def add(self, classes: Ints, params: Sequence[pa.Array], windows: Ints, horizons: int | Ints) -> None:
        """New or restored classes, in the order of their ids. `windows` has the widest window of each: MAX if it has no
        end, below 0 if its size is NULL."""
        if self._params is None:
            coder = ColumnCoder([c.type for c in params])
            self._params = coder, KeyTable(coder.width)
        coder, table = self._params
        slots = table.insert(coder.codes(params, len(classes)))
        each = (classes, slots, windows, np.broadcast_to(horizons, len(classes)))
        for class_, slot, window, horizon in zip(*(x.tolist() for x in each), strict=True):
            older = self._youngest.get(slot)
            self._youngest[slot] = class_
            if older is not None and 0 <= window < MAX:
                self._pairs[class_] = _Pair(older, slot, horizon)
                clock = MIN if horizon == MIN else min(horizon + window + 1, MAX)
                heapq.heappush(self._waiting, (clock, class_, older, window))

    def due(self, clock: int) -> list[tuple[int, int, int]]:
        """Pairs that may merge at a clock: the younger class, the older one, and their window. The caller merges each
        or postpones it; it leaves out classes that are gone. An older class may be the younger one of another pair."""
        pairs = []
        while self._waiting and self._waiting[0][0] <= clock:
            _, younger, older, window = heapq.heappop(self._waiting)
            while older in self._gone:
                older = self._gone[older]
            pairs.append((younger, older, window))
        return pairs

    def postpone(self, younger: int, older: int, window: int, clock: int) -> None:
        heapq.heappush(self._waiting, (clock + max(1, window // RETRY), younger, older, window))

    def merged(self, younger: int, older: int) -> None:
        """The members of a class have joined an older one."""
        pair = self._pairs.pop(younger)
        if self._youngest.get(pair.params) == younger:
            self._youngest[pair.params] = older
        self._gone[younger] = older
        if not self._waiting:
            self._gone.clear()

    def dropped(self, classes: Ints) -> None:
        """These classes have no members any more."""
        for class_ in classes.tolist():
            if class_ in self._pairs:
                self.merged(class_, self._pairs[class_].older)


def equal_rows(classes: Ints, sent: Sequence[SentRows], clock: int) -> dict[int, tuple[bytes, ...]]:
    """By class, a value that is equal for two classes if and only if the rows of every operator are equal that end at
    the clock or later."""
    parts: dict[int, list[bytes]] = {c: [] for c in classes.tolist()}
    for rows in sent:
        live = np.nonzero(rows.end >= clock)[0]
        columns = [c.take(pa.array(live)) for c in rows.columns]
        coder = ColumnCoder([c.type for c in columns])
        table = KeyTable(coder.width + 1)
        codes = np.column_stack([coder.codes(columns, len(live)), rows.end[live]])
        number = table.insert(np.ascontiguousarray(codes))
        order = np.lexsort((number, rows.query[live]))
        query, number = rows.query[live][order], number[order]
        begin, end = np.searchsorted(query, classes), np.searchsorted(query, classes, "right")
        for class_, a, b in zip(classes.tolist(), begin.tolist(), end.tolist(), strict=True):
            parts[class_].append(number[a:b].tobytes())
    return {c: tuple(p) for c, p in parts.items()}

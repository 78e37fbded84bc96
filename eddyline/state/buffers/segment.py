"""Segments: the unit in which state buffers store rows and in which operators read them.

A segment never changes, except that a retraction shortens the interval of the row it retracts. For each key it has the
order that sorts its rows by their slots, so that the rows of a slot are found by binary search.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from eddyline.arrays import Ints, Mask
from eddyline.index.keys import sorted_runs
from eddyline.index.keys.sorted_runs import pieces, spread
from eddyline.state.delta import Delta


@dataclass(slots=True)
class Segment:
    """Rows, the ends they were inserted with (`born`), and their slots under each key.

    `derived` caches what operators compute from the segment, until a row is retracted. `leaving` has the positions of
    the rows that `StateBuffer.retract` shortened, until `StateBuffer.forget_leaving`."""

    rows: Delta
    born: Ints
    slots: list[Ints]
    orders: list[Ints]
    sorted_slots: list[Ints]
    derived: dict[Hashable, Any] = field(default_factory=dict)
    leaving: Ints | None = None

    @classmethod
    def of(cls, rows: Delta, born: Ints, slots: list[Ints]) -> Segment:
        orders = [np.argsort(s, kind="stable") for s in slots]
        return cls(rows, born, slots, orders, [s[o] for s, o in zip(slots, orders, strict=True)])

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def nbytes(self) -> int:
        """The bytes of rows and index; `derived` is a cache and not counted."""
        r = self.rows
        numbers = [r.ts, r.exp, r.sign, r.first, r.last, *([] if r.query is None else [r.query])]
        arrays = [*r.columns, *numbers, *self.slots, *self.orders, *self.sorted_slots]
        return sum(int(a.nbytes) for a in arrays) + (0 if self.born is r.exp else self.born.nbytes)

    def without(self, dropped: Mask) -> Segment:
        """The segment without the rows under the mask."""
        if not dropped.any():
            return self
        kept = ~dropped
        return Segment.of(self.rows.take(kept).spread(), self.born[kept], [s[kept] for s in self.slots])


class KeyMatches(NamedTuple):
    """The rows of a segment that match each wanted slot: positions low … high in the order of the key."""

    segment: Segment
    key: int
    low: Ints
    high: Ints
    total: int  # of matches

    def pairs(self) -> Iterator[tuple[Ints, Ints]]:
        """Which of the wanted slots, and which row: for all matches, in portions of bounded size."""
        order = self.segment.orders[self.key]
        if self.total <= sorted_runs.PAIRS_AT_ONCE:
            which, position = spread(self.low, self.high)
            yield which, order[position]
            return
        for start, low, high in pieces(self.low, self.high):
            which, position = spread(low, high)
            yield which + start, order[position]

"""The state of one aggregate in the form `Extreme`: the rows that can be the extreme of their group now or later.

Rows are stored in a SteM by group. For a set of instants, rows are painted over the instants at which they hold, the
best rows first (`index/timelines/painted_extremes.py`); this also gives the end of each extreme. If rows are never
retracted, those that are the extreme at no future instant are marked, and not read again; a merge of segments forgets
marks, and the next reading of a group sets them again. A segment is rewritten without its marked rows once they are
half of it, so that a row is dropped at a constant cost, and little more than the skyline of each group is stored.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.arrays import Ints, Mask
from eddyline.index.timelines.painted_extremes import paint
from eddyline.index.timelines.versions import holds_until
from eddyline.plan.physical import Buffer
from eddyline.state.buffers import build_buffer
from eddyline.state.buffers.segment import Segment
from eddyline.state.delta import MAX, Delta, concat, query_of

_LOSERS = "losers"  # where a segment caches its marked rows


@dataclass
class _Losers:
    """The rows of a segment that are the extreme at no future instant."""

    marked: Mask
    count: int = 0

    @classmethod
    def of(cls, segment: Segment) -> _Losers:
        if _LOSERS not in segment.derived:
            segment.derived[_LOSERS] = cls(np.zeros(len(segment), np.bool_))
        losers: _Losers = segment.derived[_LOSERS]
        return losers

    def mark(self, rows: Ints) -> None:
        self.marked[rows] = True
        self.count += len(rows)


class Extremes:
    def __init__(
        self, which: Literal["least", "greatest"], type_: pa.DataType, buffer: Buffer, *, retracts: bool
    ) -> None:
        self.which = which
        self.retracts = retracts
        self.stem = build_buffer(buffer, [type_], 1, attached=True, retracts=retracts)

    def insert(self, slot: Ints, rows: Delta, column: pa.Array, clock: int) -> None:
        """Stores rows of groups; NULLs are never an extreme."""
        present = column.is_valid().to_numpy(zero_copy_only=False)
        if present.any():
            own = replace(rows, columns=(column,), query=slot).take(present).spread()
            self.stem.insert(own, [slot[present]], clock)

    def at(self, slot: Ints, time: Ints, last: Mask, last_known: Callable[[Ints], Ints]) -> tuple[pa.Array, Ints]:
        """The extreme of each (slot, time), in that order, and for the last of each slot its end.

        `last_known` gives the instant before the next event of a slot: a group of NULLs may end at any event.
        """
        groups = slot[last]
        probed = [
            (matches.segment, self._unmarked(matches.segment, rows))
            for matches in self.stem.probe(0, groups)
            for _, rows in matches.pairs()
        ]
        candidates = concat([s.rows.take(r).spread() for s, r in probed], self.stem.types, attached=True)
        ends = np.full(len(slot), MAX, np.int64)
        if not len(candidates):
            ends[last] = last_known(groups)
            return pa.nulls(len(slot), self.stem.types[0]), ends
        rank = ranks(candidates.columns[0], self.which)
        group = np.searchsorted(groups, query_of(candidates))
        group_of_slot = np.searchsorted(groups, slot)
        # Relevant instants: those of the caller, and the later ones at which a row begins or ends.
        begin, end = candidates.ts, candidates.exp
        begins_or_ends = np.concatenate([begin, np.where(end < MAX, end + 1, begin)])
        twice = np.concatenate([group, group])
        ahead = begins_or_ends > time[last][twice]
        of_group = np.concatenate([group_of_slot, twice[ahead]])
        instant = np.concatenate([time, begins_or_ends[ahead]])
        order = np.lexsort((instant, of_group))
        of_group, instant = of_group[order], instant[order]
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        place = place[: len(slot)]
        instant_at = np.searchsorted(of_group, np.arange(len(groups) + 1))
        best_first = np.lexsort((-end, rank, group))
        painted = paint(instant_at, instant, group[best_first], begin[best_first], end[best_first])
        winner = np.where(painted >= 0, best_first[painted], -1)
        value = np.where(winner >= 0, rank[winner], -1)
        until = holds_until(value, instant, place[last], instant_at[1:])
        ends[last] = np.where(value[place[last]] < 0, last_known(groups), until)
        if not self.retracts:
            coming = instant >= time[last][of_group]
            self._drop_losers(probed, winner[(winner >= 0) & coming], len(candidates))
        chosen = winner[place]
        return candidates.columns[0].take(pa.array(np.maximum(chosen, 0), mask=chosen < 0)), ends

    def _unmarked(self, segment: Segment, rows: Ints) -> Ints:
        losers: _Losers | None = segment.derived.get(_LOSERS)
        return rows if losers is None else rows[~losers.marked[rows]]

    def _drop_losers(self, probed: list[tuple[Segment, Ints]], winners: Ints, n: int) -> None:
        """Marks the probed rows that are not winners, once they are half of all n; drops them from segments of which
        half is marked."""
        useful = np.zeros(n, np.bool_)
        useful[winners] = True
        if 2 * np.count_nonzero(useful) > n:
            return
        start, crowded = 0, False
        for segment, rows in probed:
            losers = _Losers.of(segment)
            losers.mark(rows[~useful[start : start + len(rows)]])
            crowded |= 2 * losers.count >= len(segment)
            start += len(rows)
        if crowded:
            self.stem.segments = [s for s in map(_without_losers, self.stem.segments) if len(s)]


def _without_losers(segment: Segment) -> Segment:
    losers: _Losers | None = segment.derived.get(_LOSERS)
    return segment if losers is None or 2 * losers.count < len(segment) else segment.without(losers.marked)


def ranks(column: pa.Array, which: Literal["least", "greatest"]) -> Ints:
    """1, 2, … from the least or greatest value on, equal values alike; NaN is above all numbers."""
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.int8())
    rank = np.array(pc.rank(column, sort_keys="ascending", tiebreaker="dense"), np.int64)
    return rank if which == "least" else rank.max(initial=0) + 1 - rank

"""What a tuple adds to the counters of the queries it affects, without listing its rows.

A joined row adds its contribution when it begins and takes it away after its end. Contributions of all tuples to one
query at one instant are summed in a hash table, so that what leaves here is one event per query and instant. For
extremes only rows are listed that no other row of the same tuple and query outdoes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from eddyline.arrays import Bytes, Ints, Ints32
from eddyline.index.ranges.axes import AXES, EXP, TS, Arrivals, Axes, first_from, place_of, seen
from eddyline.index.ranges.range_rows import Asked
from eddyline.index.runtime.kernel_cache import kernel
from eddyline.index.runtime.row_sets import Lists
from eddyline.index.sums.limbs import LOW_BITS

MAX = int(np.iinfo(np.int64).max)
FREE = -1
AT_MOST = 2**30  # contributions to counters of 32 bits in int64 between carries; no segment has so many rows


@dataclass
class Sums:
    """Events of queries: at an instant, so much is added to each counter; `last` is the latest arrival that begins
    something then, -1 if something only ends. A hash table of (query, time), at most half full.

    Counters are integers; each limb of a sum of doubles is one (`limbs.py`). Among them `low_halves` pass what exceeds
    32 bits on to `high_halves`, one after the other, before AT_MOST contributions could make one overflow."""

    low_halves: Sequence[int]
    high_halves: Sequence[int]
    query: Ints
    time: Ints
    last: Ints
    ints: Ints
    used: int = 0
    since_carry: int = 0  # contributions

    @classmethod
    def empty(
        cls, ints: int, low_halves: Sequence[int] = (), high_halves: Sequence[int] = (), room: int = 1024
    ) -> Sums:
        nobody, never = np.full(room, FREE, np.int64), np.zeros(room, np.int64)
        counters = np.zeros((room, ints), np.int64)
        return cls(low_halves, high_halves, nobody, never, np.full(room, -1, np.int64), counters)

    def add(
        self,
        queries: Lists,
        asked: Asked,
        axes: Axes,
        arrivals: Arrivals,
        last: Ints,
        own: Ints,
        segment: Ints,
        rows: Ints,
        begin: Ints,
        end: Ints,
        time_axis: int,
    ) -> None:
        """Adds what tuples and the rows of a segment make together: `own` and `rows` have their factors of each
        counter, one line a tuple or row. `time_axis` is where queries' own windows stand, -1 if they have none."""
        # The tuple and its query from which to go on, how many entries that needs; contributions since the last carry,
        # and how many there may be.
        at = np.array([0, 0, 0, self.since_carry, AT_MOST], np.int64)
        while at[0] < len(arrivals):
            while 2 * (self.used + at[2]) > len(self.query):
                self._grow()
            if at[3] + at[2] > at[4]:
                self._carry()
                at[3] = 0
            self.used = _add(
                queries.starts, queries.members, asked.low, asked.high, asked.since, segment, begin, end, axes.kinds,
                axes.directions, arrivals.shift, arrivals.ts, arrivals.exp, arrivals.first, last, own, rows,
                self.query, self.time, self.last, self.ints, self.used, time_axis, at,
            )  # fmt: skip
        self.since_carry = int(at[3])

    def _grow(self) -> None:
        wider = Sums.empty(self.ints.shape[1], room=2 * len(self.query))
        taken = np.nonzero(self.query != FREE)[0]
        place = np.empty(len(taken), np.int64)
        _replace(self.query[taken], self.time[taken], wider.query, wider.time, place)
        for name in ("last", "ints"):
            getattr(wider, name)[place] = getattr(self, name)[taken]
        for name in ("query", "time", "last", "ints"):
            setattr(self, name, getattr(wider, name))

    def _carry(self) -> None:
        for low, high in zip(self.low_halves, self.high_halves, strict=True):
            self.ints[:, high] += self.ints[:, low] >> 32
            self.ints[:, low] &= LOW_BITS

    def events(self) -> tuple[Ints, Ints, Ints, Ints]:
        """(query, time, last, counters), by query and time."""
        taken = np.nonzero(self.query != FREE)[0]
        taken = taken[np.lexsort((self.time[taken], self.query[taken]))]
        return self.query[taken], self.time[taken], self.last[taken], self.ints[taken]


def contenders(
    queries: Lists,
    asked: Asked,
    axes: Axes,
    arrivals: Arrivals,
    segment: Ints,
    values: Ints,
    begin: Ints,
    end: Ints,
    time_axis: int,
) -> tuple[Ints, Ints, Ints, Ints]:
    """(tuple, row of the segment, query, end) of rows that may be the smallest for a while: no row of the same tuple
    and query has a value as small, begins as early and ends as late."""
    room = 1024
    at = np.zeros(2, np.int64)
    parts: list[tuple[Ints, ...]] = []
    while at[0] < len(arrivals):
        found = [np.empty(room, np.int64) for _ in range(4)]
        used = _contend(
            queries.starts, queries.members, asked.low, asked.high, asked.since, segment, begin, end, axes.kinds,
            axes.directions, arrivals.shift, arrivals.ts, arrivals.exp, arrivals.first, values, found[0], found[1],
            found[2], found[3], time_axis, at,
        )  # fmt: skip
        parts.append(tuple(f[:used] for f in found))
        room *= 2
    none = np.empty(0, np.int64)
    tuples, rows, query, ends = (np.concatenate([none, *(p[i] for p in parts)]) for i in range(4))
    return tuples, rows, query, ends


# --- kernels ---------------------------------------------------------------------------------------------------------


@kernel
def _end(row_ts: int, row_exp: int, own_ts: int, own_exp: int, back: int, on: int) -> int:
    """When a joined row ends for a query whose windows on the row's and the tuple's input are so long, or MAX."""
    ends = min(row_exp, own_exp)
    if back < MAX and row_ts <= MAX - back:
        ends = min(ends, row_ts + back)
    if on < MAX and own_ts <= MAX - on:
        ends = min(ends, own_ts + on)
    return ends


@kernel
def _place(query: Ints, time: Ints, q: int, t: int) -> int:
    """Where the entry of (q, t) stands, or would."""
    mask = np.uint64(len(query) - 1)
    h = (np.uint64(q) * np.uint64(0x9E3779B97F4A7C15)) ^ (np.uint64(t) * np.uint64(0xC2B2AE3D27D4EB4F))
    h ^= h >> np.uint64(29)
    at: int = np.int64(h & mask)  # type: ignore[assignment]
    while query[at] != FREE and (query[at] != q or time[at] != t):
        at = (at + 1) & (len(query) - 1)
    return at


@kernel
def _replace(from_query: Ints, from_time: Ints, query: Ints, time: Ints, place: Ints) -> None:
    for i in range(len(from_query)):
        at = _place(query, time, from_query[i], from_time[i])
        query[at], time[at] = from_query[i], from_time[i]
        place[i] = at


@kernel
def _add(
    starts: Ints,
    members: Ints32,
    low: Ints,
    high: Ints,
    since: Ints,
    table: Ints,
    begin: Ints,
    end: Ints,
    kinds: Bytes,
    directions: Ints,
    shift: Ints,
    own_ts: Ints,
    own_exp: Ints,
    own_first: Ints,
    own_last: Ints,
    own_ints: Ints,
    row_ints: Ints,
    query: Ints,
    time: Ints,
    last: Ints,
    ints: Ints,
    used: int,
    time_axis: int,
    at: Ints,
) -> int:
    """Goes on from at[0], at[1] until all is added, or at[2] further entries or a carry are needed; returns how many
    entries are used. at[3] counts contributions, at[4] is how many there may be between carries.

    O(log rows + rows in range) for every tuple and query.
    """
    for i in range(at[0], len(own_ts)):
        for m in range(max(starts[i], at[1]), starts[i + 1] if begin[i] < end[i] else 0):
            q = members[m]
            if own_first[i] < since[q]:
                continue
            first = first_from(table, begin[i], end[i], kinds[0], directions[0], shift[0, i], low[0, q])
            stop = first
            while stop < end[i] and place_of(kinds[0], directions[0], table[AXES, stop], shift[0, i]) <= high[0, q]:
                stop += 1
            if 2 * (used + 2 * (stop - first)) > len(query) or (at[3] > 0 and at[3] + 2 * (stop - first) > at[4]):
                at[0], at[1], at[2] = i, m, 2 * (stop - first)
                return used
            at[3] += 2 * (stop - first)
            back, on = (-low[time_axis, q], high[time_axis, q]) if time_axis >= 0 else (MAX, MAX)
            for k in range(first, stop):
                begins = max(table[TS, k], own_ts[i])
                ends = _end(table[TS, k], table[EXP, k], own_ts[i], own_exp[i], back, on)
                if begins > ends or not seen(table, k, i, q, low, high, kinds, directions, shift, since[q]):
                    continue
                for end_of_it in range(2 if ends < MAX else 1):
                    t = ends + 1 if end_of_it else begins
                    p = _place(query, time, q, t)
                    if query[p] == FREE:
                        query[p], time[p] = q, t
                        used += 1
                    if end_of_it == 0:
                        last[p] = max(last[p], own_last[i])
                    sign = -1 if end_of_it else 1
                    for c in range(ints.shape[1]):
                        ints[p, c] += sign * own_ints[i, c] * row_ints[k, c]
        at[0], at[1], at[2] = i + 1, 0, 0
    return used


@kernel
def _contend(
    starts: Ints,
    members: Ints32,
    low: Ints,
    high: Ints,
    since: Ints,
    table: Ints,
    begin: Ints,
    end: Ints,
    kinds: Bytes,
    directions: Ints,
    shift: Ints,
    own_ts: Ints,
    own_exp: Ints,
    own_first: Ints,
    values: Ints,
    found_tuple: Ints,
    found_row: Ints,
    found_query: Ints,
    found_end: Ints,
    time_axis: int,
    at: Ints,
) -> int:
    """Goes on from at[0], at[1] until all is found or there is no room; returns how many were found."""
    used = 0
    for i in range(at[0], len(own_ts)):
        for m in range(max(starts[i], at[1]), starts[i + 1] if begin[i] < end[i] else 0):
            q = members[m]
            if own_first[i] < since[q]:
                continue
            mine = used
            back, on = (-low[time_axis, q], high[time_axis, q]) if time_axis >= 0 else (MAX, MAX)
            k = first_from(table, begin[i], end[i], kinds[0], directions[0], shift[0, i], low[0, q])
            while k < end[i] and place_of(kinds[0], directions[0], table[AXES, k], shift[0, i]) <= high[0, q]:
                begins = max(table[TS, k], own_ts[i])
                ends = _end(table[TS, k], table[EXP, k], own_ts[i], own_exp[i], back, on)
                if begins <= ends and seen(table, k, i, q, low, high, kinds, directions, shift, since[q]):
                    outdone = False
                    kept = mine
                    for other in range(mine, used):
                        j = found_row[other]
                        its_begin, its_end = max(table[TS, j], own_ts[i]), found_end[other]
                        if values[j] <= values[k] and its_begin <= begins and its_end >= ends:
                            outdone = True
                            break
                        if not (values[k] <= values[j] and begins <= its_begin and ends >= its_end):
                            found_row[kept], found_end[kept] = j, its_end
                            kept += 1
                    if not outdone:
                        used = kept
                        if used == len(found_tuple):
                            at[0], at[1] = i, m
                            return mine
                        found_row[used], found_end[used] = k, ends
                        used += 1
                k += 1
            for other in range(mine, used):
                found_tuple[other], found_query[other] = i, q
        at[0], at[1] = i + 1, 0
    return used

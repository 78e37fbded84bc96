"""Contributions: the amounts that arriving tuples add to counters of the queries they affect, without listing rows.

A joined row adds its amount when it begins and subtracts it after its end. Amounts for one query at one instant are
summed in a hash table, so that there is one event for each query and instant. For extremes, only those joined rows are
listed that no other row of the same tuple and query dominates.
Cost for each tuple and query: O(log partners + rows in range), and for extremes up to the square of the rows listed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from eddyline.arrays import Ints
from eddyline.index.ranges.probes import AXES, EXP, TS, first_from, holds_row, place_of
from eddyline.index.ranges.range_rows import SegmentJoin
from eddyline.index.runtime.kernel_cache import kernel
from eddyline.index.sums.limbs import LOW_BITS

MAX = int(np.iinfo(np.int64).max)
FREE = -1
AT_MOST = 2**30  # contributions to counters of 32 bits in int64 between carries; no segment has so many rows
TUPLE, MEMBER, NEEDED, SINCE_CARRY, LIMIT = range(5)  # the state of an interrupted `_add`


class Factors(NamedTuple):
    """By tuple, its latest arrival number; by tuple and by row, their factors of each counter."""

    last: Ints
    own: Ints
    rows: Ints


class EventTable(NamedTuple):
    """A hash table of events by (query, time), at most half full. An event adds amounts to each counter of the query;
    `last` is the latest arrival number of a row that begins then, -1 if rows only end."""

    query: Ints
    time: Ints
    last: Ints
    amounts: Ints

    @classmethod
    def empty(cls, counters: int, size: int = 1024) -> EventTable:
        free, zero = np.full(size, FREE, np.int64), np.zeros(size, np.int64)
        return cls(free, zero, np.full(size, -1, np.int64), np.zeros((size, counters), np.int64))


@dataclass
class Sums:
    """Events of queries. Counters are integers; a sum of doubles has one counter for each limb (`limbs.py`).

    `low_halves` are counters that carry what exceeds 32 bits to their `high_halves`, in this order, before AT_MOST
    contributions could make one overflow."""

    table: EventTable
    low_halves: Sequence[int] = ()
    high_halves: Sequence[int] = ()
    used: int = 0
    since_carry: int = 0  # contributions

    def add(self, join: SegmentJoin, factors: Factors, time_axis: int) -> None:
        """Adds the contributions of joined rows. `time_axis` is the axis of the queries' windows, -1 without any."""
        state = np.array([0, 0, 0, self.since_carry, AT_MOST], np.int64)
        while state[TUPLE] < len(join.begin):
            while 2 * (self.used + state[NEEDED]) > len(self.table.query):
                grown = EventTable.empty(self.table.amounts.shape[1], 2 * len(self.table.query))
                _rehash(self.table, grown)
                self.table = grown
            if state[SINCE_CARRY] + state[NEEDED] > state[LIMIT]:
                self._carry()
                state[SINCE_CARRY] = 0
            self.used = _add(join, factors, time_axis, self.table, self.used, state)
        self.since_carry = int(state[SINCE_CARRY])

    def _carry(self) -> None:
        amounts = self.table.amounts
        for low, high in zip(self.low_halves, self.high_halves, strict=True):
            amounts[:, high] += amounts[:, low] >> 32
            amounts[:, low] &= LOW_BITS

    def events(self) -> EventTable:
        """The events, sorted by query and time."""
        query, time, last, amounts = self.table
        taken = np.nonzero(query != FREE)[0]
        taken = taken[np.lexsort((time[taken], query[taken]))]
        return EventTable(query[taken], time[taken], last[taken], amounts[taken])


class Contenders(NamedTuple):
    """Joined rows that may be an extreme: tuple, row of the segment, query, and end."""

    tuples: Ints
    rows: Ints
    queries: Ints
    ends: Ints


def contenders(join: SegmentJoin, values: Ints, time_axis: int) -> Contenders:
    """The joined rows that may have the smallest value at some time: no row of the same tuple and query has a value as
    small, begins as early and ends as late."""
    size = 1024
    state = np.zeros(2, np.int64)
    parts = [Contenders(*np.empty((4, 0), np.int64))]
    while state[TUPLE] < len(join.begin):
        part = Contenders(*np.empty((4, size), np.int64))
        used = _contend(join, values, time_axis, part, state)
        parts.append(Contenders(*(column[:used] for column in part)))
        size *= 2
    return Contenders(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


# --- kernels ---------------------------------------------------------------------------------------------------------


@kernel
def _end(table: Ints, k: int, own_ts: int, own_exp: int, before: int, after: int) -> int:
    """The end of a joined row for a query with windows of these lengths on the row and on the tuple (MAX: none)."""
    end: int = min(table[EXP, k], own_exp)
    if before < MAX and table[TS, k] <= MAX - before:
        end = min(end, table[TS, k] + before)
    if after < MAX and own_ts <= MAX - after:
        end = min(end, own_ts + after)
    return end


@kernel
def _place(query: Ints, time: Ints, q: int, t: int) -> int:
    """The place of the entry of (q, t), or of the free entry where it belongs."""
    mask = np.uint64(len(query) - 1)
    h = (np.uint64(q) * np.uint64(0x9E3779B97F4A7C15)) ^ (np.uint64(t) * np.uint64(0xC2B2AE3D27D4EB4F))
    h ^= h >> np.uint64(29)
    at: int = np.int64(h & mask)  # type: ignore[assignment]
    while query[at] != FREE and (query[at] != q or time[at] != t):
        at = (at + 1) & (len(query) - 1)
    return at


@kernel
def _rehash(table: EventTable, to: EventTable) -> None:
    for i in range(len(table.query)):
        if table.query[i] != FREE:
            at = _place(to.query, to.time, table.query[i], table.time[i])
            to.query[at], to.time[at], to.last[at] = table.query[i], table.time[i], table.last[i]
            to.amounts[at] = table.amounts[i]


@kernel
def _add(join: SegmentJoin, factors: Factors, time_axis: int, events: EventTable, used: int, state: Ints) -> int:
    """Adds contributions from the tuple and member in `state` on, until all are added, or NEEDED further entries or a
    carry are needed; returns the number of entries used."""
    starts, members, ranges, since, axes, arrivals, table, begin, end = join
    kind, direction, shift = axes.kinds[0], axes.directions[0], arrivals.shift
    low, high = ranges
    query, time, last, amounts = events
    for i in range(state[TUPLE], len(begin)):
        ts, exp, by = arrivals.ts[i], arrivals.exp[i], shift[0, i]
        for m in range(max(starts[i], state[MEMBER]), starts[i + 1] if begin[i] < end[i] else 0):
            q = members[m]
            if arrivals.first[i] < since[q]:
                continue
            first = first_from(table, begin[i], end[i], kind, direction, by, low[0, q])
            stop = first
            while stop < end[i] and place_of(kind, direction, table[AXES, stop], by) <= high[0, q]:
                stop += 1
            needed, done = 2 * (stop - first), state[SINCE_CARRY]
            if 2 * (used + needed) > len(query) or (done > 0 and done + needed > state[LIMIT]):
                state[TUPLE], state[MEMBER], state[NEEDED] = i, m, needed
                return used
            state[SINCE_CARRY] += needed
            before, after = (-low[time_axis, q], high[time_axis, q]) if time_axis >= 0 else (MAX, MAX)
            for k in range(first, stop):
                begins, ends = max(table[TS, k], ts), _end(table, k, ts, exp, before, after)
                if begins > ends or not holds_row(ranges, q, table, k, axes, shift, i, since[q]):
                    continue
                for event in range(2 if ends < MAX else 1):  # the row begins, and ends
                    t, sign = (ends + 1, -1) if event else (begins, 1)
                    p = _place(query, time, q, t)
                    if query[p] == FREE:
                        query[p], time[p] = q, t
                        used += 1
                    if event == 0:
                        last[p] = max(last[p], factors.last[i])
                    for c in range(amounts.shape[1]):
                        amounts[p, c] += sign * factors.own[i, c] * factors.rows[k, c]
        state[TUPLE], state[MEMBER], state[NEEDED] = i + 1, 0, 0
    return used


@kernel
def _contend(join: SegmentJoin, values: Ints, time_axis: int, listed: Contenders, state: Ints) -> int:
    """Lists contenders from the tuple and member in `state` on, until all are listed or there is no room for those of
    a tuple and query; returns their number."""
    starts, members, ranges, since, axes, arrivals, table, begin, end = join
    kind, direction, shift = axes.kinds[0], axes.directions[0], arrivals.shift
    low, high = ranges
    tuples, rows, queries, row_ends = listed
    used = 0
    for i in range(state[TUPLE], len(begin)):
        ts, exp, by = arrivals.ts[i], arrivals.exp[i], shift[0, i]
        for m in range(max(starts[i], state[MEMBER]), starts[i + 1] if begin[i] < end[i] else 0):
            q = members[m]
            if arrivals.first[i] < since[q]:
                continue
            mine = used
            before, after = (-low[time_axis, q], high[time_axis, q]) if time_axis >= 0 else (MAX, MAX)
            k = first_from(table, begin[i], end[i], kind, direction, by, low[0, q])
            while k < end[i] and place_of(kind, direction, table[AXES, k], by) <= high[0, q]:
                begins, ends = max(table[TS, k], ts), _end(table, k, ts, exp, before, after)
                if begins <= ends and holds_row(ranges, q, table, k, axes, shift, i, since[q]):
                    dominated = False
                    kept = mine
                    for other in range(mine, used):
                        j = rows[other]
                        its_begin, its_end = max(table[TS, j], ts), row_ends[other]
                        if values[j] <= values[k] and its_begin <= begins and its_end >= ends:
                            dominated = True
                            break
                        if not (values[k] <= values[j] and begins <= its_begin and ends >= its_end):
                            rows[kept], row_ends[kept] = j, its_end
                            kept += 1
                    if not dominated:
                        used = kept
                        if used == len(tuples):
                            state[TUPLE], state[MEMBER] = i, m
                            return mine
                        rows[used], row_ends[used] = k, ends
                        used += 1
                k += 1
            tuples[mine:used], queries[mine:used] = i, q
        state[TUPLE], state[MEMBER] = i + 1, 0
    return used

"""The multi-way window joins of document 2 as it describes them: one row at a time, windows as linked lists.

Eager or lazy evaluation and expiration, nested loops (one bucket) or hash tables of any number of buckets, and any
probe order per origin. Comparisons are counted: every row of a scanned list is one. Rows are numbered by their arrival,
which is also their event time, so no two times are equal; a row joins only rows that arrived before it. (Sections 3
and 6.1, with the corrections: half-open intervals, and arrival numbers instead of times where they decide.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

Ints = npt.NDArray[np.int64]
NONE = -1


class Input(NamedTuple):
    """Rows in the order of arrival: the stream and the key of each."""

    stream: Ints
    key: Ints


class Lists(NamedTuple):
    """For each stream and bucket the first and the last row of a list, and for each row the next one."""

    head: Ints
    tail: Ints
    following: Ints


class Plan(NamedTuple):
    """`orders[i]`: the streams that new rows of stream i probe. Windows and the interval count arrivals; an interval of
    0 means eager evaluation and expiration."""

    orders: Ints
    windows: Ints
    buckets: Ints
    interval: int


@dataclass(frozen=True)
class Counted:
    comparisons: int
    results: int
    hash: int  # a sum over results, so their order does not matter


class WindowMultijoin:
    def __init__(
        self,
        rows: Input,
        order: Sequence[int],
        windows: Sequence[int],
        buckets: Sequence[int],
        interval: int = 0,
    ) -> None:
        """All origins follow one global order, with their new rows first."""
        n = len(order)
        orders = np.array([[s for s in order if s != origin] for origin in range(n)], np.int64)
        self.rows, self.at = rows, 0
        self.plan = Plan(orders, np.array(windows, np.int64), np.array(buckets, np.int64), interval)
        empty = np.full((n, max(buckets)), NONE, np.int64)
        self.lists = Lists(empty, empty.copy(), np.full(len(rows.stream), NONE, np.int64))

    def run(self, until: int) -> Counted:
        """Processes further rows, up to this arrival number."""
        comparisons, results, hashed = _run(self.rows, self.plan, self.lists, self.at, until)
        self.at = until
        return Counted(int(comparisons), int(results), int(hashed))


@njit
def _run(rows: Input, plan: Plan, lists: Lists, begin: int, end: int) -> tuple[int, int, np.uint64]:
    comparisons, results, hashed = 0, 0, np.uint64(0)
    evaluated = begin
    for k in range(begin, end):
        if plan.interval == 0:
            _expire(plan, lists, k)
            c, r, h = _join(rows, plan, lists, k)
            comparisons, results, hashed = comparisons + c, results + r, hashed + h
            _insert(rows, plan, lists, k)
            continue
        _insert(rows, plan, lists, k)
        if (k + 1) % plan.interval == 0 or k + 1 == end:
            for new in range(evaluated, k + 1):
                c, r, h = _join(rows, plan, lists, new)
                comparisons, results, hashed = comparisons + c, results + r, hashed + h
            evaluated = k + 1
            _expire(plan, lists, k + 1)
    return comparisons, results, hashed


@njit
def _insert(rows: Input, plan: Plan, lists: Lists, k: int) -> None:
    s = rows.stream[k]
    b = rows.key[k] % plan.buckets[s]
    if lists.head[s, b] == NONE:
        lists.head[s, b] = k
    else:
        lists.following[lists.tail[s, b]] = k
    lists.tail[s, b] = k


@njit
def _expire(plan: Plan, lists: Lists, now: int) -> None:
    """Drops the rows that no row arriving now or later can join."""
    for s in range(len(plan.windows)):
        for b in range(plan.buckets[s]):
            first = lists.head[s, b]
            while first != NONE and first < now - plan.windows[s]:
                first = lists.following[first]
            lists.head[s, b] = first


@njit
def _join(rows: Input, plan: Plan, lists: Lists, k: int) -> tuple[int, int, np.uint64]:
    """Joins one row in nested loops; `cursor` is the next row of every loop that is open."""
    origin, key = rows.stream[k], rows.key[k]
    order = plan.orders[origin]
    cursor, chosen = np.empty(len(order), np.int64), np.empty(len(order) + 1, np.int64)
    chosen[origin] = k
    comparisons, results, hashed, loop = 0, 0, np.uint64(0), 0
    cursor[0] = lists.head[order[0], key % plan.buckets[order[0]]]
    while loop >= 0:
        row = cursor[loop]
        if row == NONE:
            loop -= 1
            continue
        cursor[loop] = lists.following[row]
        comparisons += 1
        s = order[loop]
        if rows.key[row] != key or row >= k or row < k - plan.windows[s]:
            continue
        chosen[s] = row
        if loop + 1 < len(order):
            loop += 1
            cursor[loop] = lists.head[order[loop], key % plan.buckets[order[loop]]]
        else:
            results += 1
            hashed += _hash(chosen)
    return comparisons, results, hashed


@njit
def _hash(chosen: Ints) -> np.uint64:
    word = np.uint64(0)
    for row in chosen:
        word = (word ^ np.uint64(row)) * np.uint64(0x9E3779B97F4A7C15)
        word ^= word >> np.uint64(29)
    return word


def hash_of_results(chosen: Ints) -> int:
    """The same hash, of results given as one row of arrival numbers for each stream."""
    word = np.zeros(chosen.shape[1], np.uint64)
    for rows in chosen.astype(np.uint64):
        word = (word ^ rows) * np.uint64(0x9E3779B97F4A7C15)
        word ^= word >> np.uint64(29)
    return int(word.sum(dtype=np.uint64))


def arrivals(rates: Sequence[float], distinct: Sequence[int], count: int, seed: int) -> Input:
    """Rows of random streams in proportion to their rates, with keys that are uniform in 0 to the stream's distinct
    values (section 6.1)."""
    rng = np.random.default_rng(seed)
    stream = rng.choice(len(rates), count, p=np.array(rates) / sum(rates))
    return Input(stream.astype(np.int64), rng.integers(0, np.array(distinct)[stream]))

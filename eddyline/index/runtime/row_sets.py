"""Row sets: for each row of a batch, the set of query slots that it matches.

There are two forms. `Lists` has the slots themselves, ascending, for rows with few matches. `Containers` has the result
of searching bitmaps, as a roaring bitmap does: for every row and block of 4,096 bits one container, which is a list of
16-bit members, a list of runs (first member, length) or the bitmap itself, whichever is smallest. An empty container
takes no memory, a row with 50,000 members some kilobytes; neither form makes a Python object per row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from eddyline.arrays import Bytes, Ints, Ints32, Mask, Shorts, Words
from eddyline.index.runtime.kernel_cache import kernel
from eddyline.index.runtime.result_memory import result_words
from eddyline.index.runtime.vectors import SET_WORDS, copy_set, lowest_bit, members, run_starts

EMPTY, LIST, RUNS, BITMAP = range(4)
SHORT = 32  # rows of so many members are sorted by insertion
KINDS = ("empty", "list", "runs", "bitmap")


@dataclass(frozen=True)
class Lists:
    """The members of row i are members[starts[i]:starts[i + 1]], ascending."""

    starts: Ints
    members: Ints32

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def counts(self) -> Ints:
        return np.diff(self.starts)

    @property
    def nbytes(self) -> int:
        return self.starts.nbytes + self.members.nbytes


class ContainerArrays(NamedTuple):
    """Containers as kernels read and write them. The first three columns are by block and row."""

    kind: Bytes
    size: Shorts  # the number of members
    start: Ints  # the word where the container begins
    words: Words
    halves: Shorts  # the memory of `words`, in units of 16 bits

    @classmethod
    def allocate(cls, blocks: int, rows: int) -> ContainerArrays:
        """Memory for the largest containers that there can be. Pages that are never written stay unused."""
        shape = (blocks, rows)
        words = result_words(blocks * rows * (SET_WORDS + 8))
        kind, size, start = np.zeros(shape, np.uint8), np.zeros(shape, np.uint16), np.zeros(shape, np.int64)
        return cls(kind, size, start, words, words.view(np.uint16))


NO_CONTAINERS = ContainerArrays.allocate(0, 0)


@dataclass(frozen=True)
class Containers:
    arrays: ContainerArrays
    used: int  # words written
    slots: Ints32  # the query slot that each bit stands for
    ascending: bool = True  # whether the slots are in ascending order

    def __len__(self) -> int:
        return int(self.arrays.kind.shape[1])

    @property
    def counts(self) -> Ints:
        counts: Ints = self.arrays.size.sum(axis=0, dtype=np.int64)
        return counts

    @property
    def nbytes(self) -> int:
        return self.arrays.kind.nbytes + self.arrays.size.nbytes + self.arrays.start.nbytes + 8 * self.used

    def kinds(self) -> dict[str, int]:
        """The number of containers of each kind."""
        return dict(zip(KINDS, np.bincount(self.arrays.kind.reshape(-1), minlength=len(KINDS)).tolist(), strict=True))

    def rows_by_bit(self) -> Ints:
        """For each bit, the number of rows that have it. O(members)."""
        rows = np.zeros(len(self.slots), np.int64)
        _count_rows(self.arrays, rows)
        return rows


def lists(rows: int, row: Ints32, member: Ints32) -> Lists:
    """Distinct pairs (row, member), in any order, as lists. O(pairs)."""
    starts = np.zeros(rows + 1, np.int64)
    np.cumsum(np.bincount(row, minlength=rows), out=starts[1:])
    listed = np.empty(len(row), np.int32)
    _scatter(row, member, starts, listed)
    _sort_rows(starts, listed, int(listed.max(initial=-1)) + 1)
    return Lists(starts, listed)


def merged(rows: int, parts: Sequence[Lists | Containers]) -> Lists:
    """The union of disjoint sets as one list per row. O(members)."""
    parts = [p for p in parts if len(p)]
    if len(parts) == 1 and isinstance(parts[0], Lists):
        return parts[0]
    starts = np.zeros(rows + 1, np.int64)
    for p in parts:
        starts[1:] += p.counts
    np.cumsum(starts, out=starts)
    listed = np.empty(int(starts[-1]), np.int32)
    ends = starts[:-1].copy()  # by row, the end of what is listed so far
    for p in parts:
        if isinstance(p, Lists):
            _append_lists(p.starts, p.members, ends, listed)
        else:
            _append_containers(p.arrays, p.slots, ends, listed)
    if len(parts) > 1 or not all(isinstance(p, Lists) or p.ascending for p in parts):
        _sort_rows(starts, listed, int(listed.max(initial=-1)) + 1)
    return Lists(starts, listed)


def mark(part: Lists | Containers, flags: Mask) -> None:
    """Sets the flags of all members of all rows."""
    flags[part.members if isinstance(part, Lists) else part.slots[part.rows_by_bit() > 0]] = True


def tally(part: Lists | Containers, group_of: Ints32, groups: int) -> Ints:
    """The number of pairs (row, member) in each group; `group_of` gives the group of a member. O(members)."""
    if isinstance(part, Lists):
        return np.bincount(group_of[part.members], minlength=groups)
    totals = np.zeros(groups, np.int64)
    np.add.at(totals, group_of[part.slots], part.rows_by_bit())
    return totals


# --- kernels ---------------------------------------------------------------------------------------------------------


@kernel
def _scatter(row: Ints32, member: Ints32, starts: Ints, listed: Ints32) -> None:
    at = starts[:-1].copy()
    for i in range(len(row)):
        listed[at[row[i]]] = member[i]
        at[row[i]] += 1


@kernel
def _sort_rows(starts: Ints, listed: Ints32, universe: int) -> None:
    """Sorts the members of every row, which are distinct and below `universe`.

    Short rows are sorted by insertion. The members of a longer row are set as bits of `words`, and the words that have
    any as bits of `tops`; reading the bits yields the members in order. O(members + universe / 4,096) per row.
    """
    one = np.uint64(1)
    words = np.zeros((universe + 63) // 64, np.uint64)
    tops = np.zeros((len(words) + 63) // 64, np.uint64)
    for i in range(len(starts) - 1):
        begin, end = starts[i], starts[i + 1]
        if end - begin <= SHORT:
            for j in range(begin + 1, end):
                x = listed[j]
                k = j
                while k > begin and listed[k - 1] > x:
                    listed[k] = listed[k - 1]
                    k -= 1
                listed[k] = x
            continue
        for j in range(begin, end):
            x = np.uint64(listed[j])
            w = x >> np.uint64(6)
            words[w] |= one << (x & np.uint64(63))
            tops[w >> np.uint64(6)] |= one << (w & np.uint64(63))
        k = begin
        for t in range(len(tops)):
            top = tops[t]
            tops[t] = 0
            while top != 0:
                at = t * 64 + lowest_bit(top)
                top &= top - one
                word = words[at]
                words[at] = 0
                while word != 0:
                    listed[k] = at * 64 + lowest_bit(word)
                    word &= word - one
                    k += 1


@kernel
def _append_lists(starts: Ints, members: Ints32, ends: Ints, listed: Ints32) -> None:
    for i in range(len(starts) - 1):
        for j in range(starts[i], starts[i + 1]):
            listed[ends[i]] = members[j]
            ends[i] += 1


@kernel
def _append_containers(containers: ContainerArrays, slots: Ints32, ends: Ints, listed: Ints32) -> None:
    for row in range(len(ends)):
        ends[row] = _list_row(containers, row, slots, ends[row], listed)


@kernel
def _count_rows(containers: ContainerArrays, rows: Ints) -> None:
    bits, listed = np.arange(len(rows)).astype(np.int32), np.empty(len(rows), np.int32)
    for row in range(containers.kind.shape[1]):
        for j in range(_list_row(containers, row, bits, 0, listed)):
            rows[listed[j]] += 1


@kernel
def _list_row(containers: ContainerArrays, row: int, slots: Ints32, k: int, listed: Ints32) -> int:
    """Writes the slots of all bits of a row from position k on; returns the new end."""
    kind, size, start, words, halves = containers
    for block in range(len(kind)):
        base = block * 4096
        first = start[block, row] * 4
        if kind[block, row] == LIST:
            for j in range(size[block, row]):
                listed[k] = slots[base + halves[first + j]]
                k += 1
        elif kind[block, row] == RUNS:
            left = np.int64(size[block, row])
            while left > 0:
                for j in range(halves[first + 1]):
                    listed[k] = slots[base + halves[first] + j]
                    k += 1
                left -= halves[first + 1]
                first += 2
        elif kind[block, row] == BITMAP:
            for w in range(64):
                word = words[start[block, row] + w]
                while word != 0:
                    listed[k] = slots[base + w * 64 + lowest_bit(word)]
                    word &= word - np.uint64(1)
                    k += 1
    return k


@kernel
def put(bits: Words, block: int, row: int, containers: ContainerArrays, end: int) -> int:
    """Writes the set in `bits` as the container of a block and row, from word `end` on; returns the new end."""
    kind, size, start, words, halves = containers
    count = members(bits, 0)
    size[block, row] = count
    start[block, row] = end
    if count == 0:
        kind[block, row] = EMPTY
        return end
    smallest = min(512, 2 * count)
    if count > 32 and 4 * run_starts(bits, 0) < smallest:
        kind[block, row] = RUNS
        return _put_runs(bits, halves, end)
    if smallest < 512:
        kind[block, row] = LIST
        at = end * 4
        for w in range(64):
            word = bits[w]
            while word != 0:
                halves[at] = w * 64 + lowest_bit(word)
                word &= word - np.uint64(1)
                at += 1
        return (at + 3) // 4
    kind[block, row] = BITMAP
    end = (end + 7) // 8 * 8  # on a cache line
    start[block, row] = end
    copy_set(words, end, bits, 0)
    return end + 64


@kernel
def _put_runs(bits: Words, halves: Shorts, end: int) -> int:
    at = end * 4
    w, word = 0, bits[0]
    while True:
        while word == 0 and w < 63:
            w += 1
            word = bits[w]
        if word == 0:
            break
        begin = w * 64 + lowest_bit(word)
        word = ~word & (~np.uint64(0) << np.uint64(begin & 63))  # where the run may stop
        while word == 0 and w < 63:
            w += 1
            word = ~bits[w]
        stop = w * 64 + lowest_bit(word) if word != 0 else 4096
        halves[at], halves[at + 1] = begin, stop - begin
        at += 2
        if stop == 4096:
            break
        word = bits[w] & (~np.uint64(0) << np.uint64(stop & 63))
    return (at + 3) // 4

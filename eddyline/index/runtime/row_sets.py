"""Sets of numbers, one for each row of a batch, in as little room as they need.

Few members stand in a list. Those found in bitmaps stand in containers, as in a roaring bitmap: one for every row and
block of 4,096 numbers, which is a list of 16-bit members, a list of runs (first member, length), or the bitmap itself,
whichever is smallest; an empty one takes no room. A row with 50,000 members costs some kilobytes, and no object.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from eddyline.arrays import Bytes, Ints, Ints32, Shorts, Words
from eddyline.index.runtime.kernel_cache import kernel
from eddyline.index.runtime.vectors import copy_set, lowest_bit, members, run_starts

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


@dataclass(frozen=True)
class Containers:
    """By block and row: the kind of the container, how many members it has, and the word where it begins."""

    kind: Bytes
    size: npt.NDArray[np.uint16]
    start: Ints
    words: Words
    numbers: Ints32  # which number each bit stands for
    ascending: bool = True  # whether the numbers are

    def __len__(self) -> int:
        return int(self.kind.shape[1])

    @property
    def counts(self) -> Ints:
        found: Ints = self.size.sum(axis=0, dtype=np.int64)
        return found

    @property
    def nbytes(self) -> int:
        return self.kind.nbytes + self.size.nbytes + self.start.nbytes + self.words.nbytes

    def kinds(self) -> dict[str, int]:
        """How many containers there are of each kind."""
        return dict(zip(KINDS, np.bincount(self.kind.reshape(-1), minlength=len(KINDS)).tolist(), strict=True))


def lists(rows: int, row: Ints32, member: Ints32) -> Lists:
    """The lists of some distinct pairs, in any order. O(pairs)."""
    starts = np.zeros(rows + 1, np.int64)
    np.cumsum(np.bincount(row, minlength=rows), out=starts[1:])
    found = np.empty(len(row), np.int32)
    _scatter(row, member, starts, found)
    _sort_rows(starts, found, int(found.max(initial=-1)) + 1)
    return Lists(starts, found)


def merged(rows: int, parts: Sequence[Lists | Containers]) -> Lists:
    """Sets without a member in common, as one list per row. O(members), and a sort of rows that are in several."""
    parts = [p for p in parts if len(p)]
    if len(parts) == 1 and isinstance(parts[0], Lists):
        return parts[0]
    starts = np.zeros(rows + 1, np.int64)
    for p in parts:
        starts[1:] += p.counts
    np.cumsum(starts, out=starts)
    found = np.empty(int(starts[-1]), np.int32)
    at = starts[:-1].copy()
    for p in parts:
        if isinstance(p, Lists):
            _place_lists(p.starts, p.members, at, found)
        else:
            _place_containers(p.kind, p.size, p.start, p.words, p.words.view(np.uint16), p.numbers, at, found)
    if len(parts) > 1 or not all(isinstance(p, Lists) or p.ascending for p in parts):
        _sort_rows(starts, found, int(found.max(initial=-1)) + 1)
    return Lists(starts, found)


def mark(part: Lists | Containers, flags: npt.NDArray[np.bool_]) -> None:
    """Sets the flags of all members of all rows."""
    if isinstance(part, Lists):
        flags[part.members] = True
        return
    numbers = np.zeros(len(part.numbers), np.int64)
    _tally(part.kind, part.size, part.start, part.words, part.words.view(np.uint16), numbers)
    flags[part.numbers[numbers > 0]] = True


def tally(part: Lists | Containers, slot_of: Ints32, slots: int) -> Ints:
    """How many members there are in all rows together, by the slot that `slot_of` gives a member. O(members)."""
    if isinstance(part, Lists):
        return np.bincount(slot_of[part.members], minlength=slots)
    numbers = np.zeros(len(part.numbers), np.int64)
    _tally(part.kind, part.size, part.start, part.words, part.words.view(np.uint16), numbers)
    found = np.zeros(slots, np.int64)
    np.add.at(found, slot_of[part.numbers], numbers)
    return found


# --- kernels ---------------------------------------------------------------------------------------------------------


@kernel
def _scatter(row: Ints32, member: Ints32, starts: Ints, found: Ints32) -> None:
    at = starts[:-1].copy()
    for i in range(len(row)):
        found[at[row[i]]] = member[i]
        at[row[i]] += 1


@kernel
def _sort_rows(starts: Ints, found: Ints32, universe: int) -> None:
    """Sorts the members of every row, which are distinct and below `universe`.

    Short rows by insertion. Those of longer ones set bits, and bits in a second set that tells which words of the first
    have any; read from there they come in order. O(members + universe / 4,096) for a row.
    """
    one = np.uint64(1)
    words = np.zeros((universe + 63) // 64, np.uint64)
    tops = np.zeros((len(words) + 63) // 64, np.uint64)
    for i in range(len(starts) - 1):
        begin, end = starts[i], starts[i + 1]
        if end - begin <= SHORT:
            for j in range(begin + 1, end):
                x = found[j]
                k = j
                while k > begin and found[k - 1] > x:
                    found[k] = found[k - 1]
                    k -= 1
                found[k] = x
            continue
        for j in range(begin, end):
            x = np.uint64(found[j])
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
                    found[k] = at * 64 + lowest_bit(word)
                    word &= word - one
                    k += 1


@kernel
def _place_lists(starts: Ints, members: Ints32, at: Ints, found: Ints32) -> None:
    for i in range(len(starts) - 1):
        for j in range(starts[i], starts[i + 1]):
            found[at[i]] = members[j]
            at[i] += 1


@kernel
def _place_containers(
    kind: Bytes, size: Shorts, start: Ints, words: Words, halves: Shorts, numbers: Ints32, at: Ints, found: Ints32
) -> None:
    for row in range(kind.shape[1]):
        k = at[row]
        for block in range(len(kind)):
            base = block * 4096
            if kind[block, row] == LIST:
                first = start[block, row] * 4
                for j in range(size[block, row]):
                    found[k] = numbers[base + halves[first + j]]
                    k += 1
            elif kind[block, row] == RUNS:
                first = start[block, row] * 4
                left = np.int64(size[block, row])
                while left > 0:
                    for j in range(halves[first + 1]):
                        found[k] = numbers[base + halves[first] + j]
                        k += 1
                    left -= halves[first + 1]
                    first += 2
            elif kind[block, row] == BITMAP:
                for w in range(64):
                    word = words[start[block, row] + w]
                    while word != 0:
                        found[k] = numbers[base + w * 64 + lowest_bit(word)]
                        word &= word - np.uint64(1)
                        k += 1
        at[row] = k


@kernel
def _tally(kind: Bytes, size: Shorts, start: Ints, words: Words, halves: Shorts, found: Ints) -> None:
    for block in range(len(kind)):
        base = block * 4096
        for row in range(kind.shape[1]):
            first = start[block, row] * 4
            if kind[block, row] == LIST:
                for j in range(size[block, row]):
                    found[base + halves[first + j]] += 1
            elif kind[block, row] == RUNS:
                left = np.int64(size[block, row])
                while left > 0:
                    for j in range(halves[first + 1]):
                        found[base + halves[first] + j] += 1
                    left -= halves[first + 1]
                    first += 2
            elif kind[block, row] == BITMAP:
                for w in range(64):
                    word = words[start[block, row] + w]
                    while word != 0:
                        found[base + w * 64 + lowest_bit(word)] += 1
                        word &= word - np.uint64(1)


@kernel
def put(
    r: Words, block: int, row: int, kind: Bytes, size: Shorts, start: Ints, words: Words, halves: Shorts, end: int
) -> int:
    """Writes the set in `r` as the container of a block and row, from word `end` on; returns where the next goes."""
    count = members(r, 0)
    size[block, row] = count
    start[block, row] = end
    if count == 0:
        kind[block, row] = EMPTY
        return end
    smallest = min(512, 2 * count)
    if count > 32 and 4 * run_starts(r, 0) < smallest:
        kind[block, row] = RUNS
        at = end * 4
        w, word = 0, r[0]
        while True:
            while word == 0 and w < 63:
                w += 1
                word = r[w]
            if word == 0:
                break
            begin = w * 64 + lowest_bit(word)
            word = ~word & (~np.uint64(0) << np.uint64(begin & 63))  # where the run may stop
            while word == 0 and w < 63:
                w += 1
                word = ~r[w]
            stop = w * 64 + lowest_bit(word) if word != 0 else 4096
            halves[at], halves[at + 1] = begin, stop - begin
            at += 2
            if stop == 4096:
                break
            word = r[w] & (~np.uint64(0) << np.uint64(stop & 63))
        return (at + 3) // 4
    if smallest < 512:
        kind[block, row] = LIST
        at = end * 4
        for w in range(64):
            word = r[w]
            while word != 0:
                halves[at] = w * 64 + lowest_bit(word)
                word &= word - np.uint64(1)
                at += 1
        return (at + 3) // 4
    kind[block, row] = BITMAP
    end = (end + 7) // 8 * 8  # on a cache line
    start[block, row] = end
    copy_set(words, end, r, 0)
    return end + 64

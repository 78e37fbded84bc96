"""Slot lists: for each slot a short list of rows of integers, all in one array.

A list has a place in the array with room for `capacity` rows. One that outgrows its place moves to the end, with twice
the room; when less than half of the array is in use, it is compacted. So reading and replacing the lists of some slots
costs O(slots + their rows), amortised, whatever the other slots have. 16 to 18 bytes a slot, beside the rows; none
until some list has a row.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from eddyline.arrays import Ints, Ints32, Mask
from eddyline.index.runtime.garbage import worth_compacting
from eddyline.index.runtime.kernel_cache import kernel


class Lists(NamedTuple):
    """By slot: where its list begins, how many rows it has, and for how many there is room."""

    start: Ints
    length: Ints32
    capacity: Ints32


class SlotLists:
    def __init__(self, width: int) -> None:
        """`width`: integers in a row."""
        self._lists = _no_lists()
        self._rows: Ints = np.empty((0, width), np.int64)
        self._slots = 0
        self._end = 0  # of the places in use
        self._held = 0  # rows in lists

    def __len__(self) -> int:
        """The number of rows in all lists."""
        return self._held

    @property
    def nbytes(self) -> int:
        return self._rows.nbytes + sum(a.nbytes for a in self._lists)

    def grow(self, slots: int) -> None:
        """Makes room for slots up to this number; their lists are empty."""
        self._slots = max(self._slots, slots)

    def _make_places(self) -> None:
        """Gives every slot an entry in `_lists`, and some to spare. Called when there are rows, or will be."""
        have = len(self._lists.start)
        if self._slots > have:
            more = self._slots + self._slots // 8 - have
            self._lists = Lists(*(np.concatenate([a, np.zeros(more, a.dtype)]) for a in self._lists))

    def of(self, slots: Ints) -> tuple[Ints, Ints]:
        """The lists of some slots: list i is rows[at[i] : at[i + 1]]. Returns (at, rows)."""
        at = np.zeros(len(slots) + 1, np.int64)
        if not self._held:
            return at, np.empty((0, self._rows.shape[1]), np.int64)
        self._make_places()
        np.cumsum(self._lists.length[slots], out=at[1:])
        return at, _gather(self._lists, self._rows, slots, at)

    def replace(self, slots: Ints, at: Ints, rows: Ints) -> None:
        """Replaces the lists of different slots; `at` and `rows` are as `of` returns them."""
        if not self._held and not len(rows):
            return
        self._make_places()
        count = np.diff(at)
        moves = count > self._lists.capacity[slots]
        needed = self._end + 2 * int(count[moves].sum())
        if needed > len(self._rows):
            memory = np.empty((max(needed, len(self._rows) * 3 // 2), self._rows.shape[1]), np.int64)
            memory[: self._end] = self._rows[: self._end]
            self._rows = memory
        self._held += len(rows) - int(self._lists.length[slots].sum())
        self._end = _replace(self._lists, self._rows, self._end, slots, at, rows)
        if worth_compacting(self._end, self._held):
            self._rebuild(np.arange(len(self._lists.start)))

    def keep(self, used: Mask) -> None:
        """Keeps the slots under the mask, and renumbers them in their order."""
        slots = np.nonzero(used)[0]
        self._rebuild(slots)
        self._slots = len(slots)

    def _rebuild(self, slots: Ints) -> None:
        at, rows = self.of(slots)
        count = np.diff(at).astype(np.int32)
        self._lists = Lists(at[:-1].copy(), count, count.copy()) if len(rows) else _no_lists()
        self._rows = rows
        self._end = self._held = len(rows)


def _no_lists() -> Lists:
    return Lists(np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0, np.int32))


@kernel
def _gather(lists: Lists, memory: Ints, slots: Ints, at: Ints) -> Ints:
    """The rows of the lists, one after the other. O(rows)."""
    rows = np.empty((at[-1], memory.shape[1]), np.int64)
    for i in range(len(slots)):
        start = lists.start[slots[i]]
        for j in range(at[i + 1] - at[i]):
            rows[at[i] + j] = memory[start + j]
    return rows


@kernel
def _replace(lists: Lists, memory: Ints, end: int, slots: Ints, at: Ints, rows: Ints) -> int:
    """Writes lists to their places, or to the end of the memory; returns the new end. O(rows)."""
    for i in range(len(slots)):
        s, count = slots[i], at[i + 1] - at[i]
        if count > lists.capacity[s]:
            room = count if lists.capacity[s] == 0 else 2 * count
            lists.start[s], lists.capacity[s] = end, room
            end += room
        for j in range(count):
            memory[lists.start[s] + j] = rows[at[i] + j]
        lists.length[s] = count
    return end

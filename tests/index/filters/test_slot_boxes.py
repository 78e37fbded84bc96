"""Slot boxes: which slots accept rows and matches, as comparing one by one gives."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from eddyline.arrays import Words
from eddyline.index.filters.slot_boxes import (
    LEAST,
    MOST,
    Matched,
    Times,
    Values,
    Windows,
    accepted,
    boxes_of,
    by_owner,
    having,
    narrowed,
    overlapping,
)


def sets(bits: Words) -> list[set[int]]:
    """The slots of each row."""
    return [{s for s in range(64 * len(row)) if int(row[s // 64]) >> s % 64 & 1} for row in bits]


def mask_of(slots: set[int], words: int) -> Words:
    mask = np.zeros(words, np.uint64)
    for slot in slots:
        mask[slot // 64] |= np.uint64(1) << np.uint64(slot % 64)
    return mask


class World:
    """Random boxes, values and windows."""

    def __init__(self, rnd: Random) -> None:
        self.slots, self.attributes, self.rows = rnd.choice([1, 3, 64, 65, 200]), rnd.randint(0, 3), rnd.randint(1, 20)
        shape = self.attributes, self.slots
        low, high = np.full(shape, LEAST), np.full(shape, MOST)
        for a in range(self.attributes):
            for s in range(self.slots):
                if rnd.random() < 0.6:
                    low[a, s] = rnd.randint(0, 9)
                if rnd.random() < 0.6:
                    high[a, s] = rnd.randint(0, 9)
        numbers = np.array([[rnd.randint(0, 9) for _ in range(self.rows)] for _ in range(self.attributes)], np.int64)
        missing = np.array([[rnd.random() < 0.2 for _ in range(self.rows)] for _ in range(self.attributes)], np.bool_)
        shape = self.attributes, self.rows
        self.low, self.high, self.boxes = low, high, boxes_of(low, high)
        self.values = Values(numbers.reshape(shape), missing.reshape(shape))

    def accepts(self, row: int, slot: int) -> bool:
        for a in range(self.attributes):
            low, high = int(self.low[a, slot]), int(self.high[a, slot])
            restricted = (low, high) != (LEAST, MOST)
            if restricted and (self.values.missing[a, row] or not low <= self.values.numbers[a, row] <= high):
                return False
        return True


@pytest.mark.parametrize("seed", range(20))
def test_rows_get_the_slots_whose_boxes_accept_them(seed: int) -> None:
    rnd = Random(seed)
    w = World(rnd)
    bits = accepted(w.boxes, w.values, mask_of(set(range(w.slots)), -(-w.slots // 64)))
    expected = [{s for s in range(w.slots) if w.accepts(r, s)} for r in range(w.rows)]
    assert sets(bits) == expected
    some = {s for s in range(w.slots) if rnd.random() < 0.1}
    mask = mask_of(some, bits.shape[1])
    assert having(bits, mask).tolist() == [r for r, e in enumerate(expected) if e & some]
    assert overlapping(bits, mask) == any(e & some for e in expected)


@pytest.mark.parametrize("seed", range(20))
def test_rows_are_listed_by_the_owners_of_their_slots(seed: int) -> None:
    rnd = Random(seed)
    slots, owners = rnd.choice([1, 64, 130]), rnd.randint(1, 9)
    owner, words = np.array([rnd.randrange(owners) for _ in range(slots)], np.int64), -(-slots // 64)
    held = [{s for s in range(slots) if rnd.random() < 0.1} for _ in range(rnd.randint(0, 12))]
    mask = {s for s in range(slots) if rnd.random() < 0.5}
    bits = np.stack([mask_of(h, words) for h in held]) if held else np.empty((0, words), np.uint64)
    expected: dict[int, list[int]] = {}
    for row, own in enumerate(held):
        for slot in sorted(own & mask):
            expected.setdefault(int(owner[slot]), []).append(row)
    having_any, starts, rows = by_owner(bits, mask_of(mask, words), owner, owners)
    listed = {o: rows[a:b].tolist() for o, a, b in zip(having_any.tolist(), starts[:-1], starts[1:], strict=True)}
    assert listed == expected and list(listed) == sorted(expected)


@pytest.mark.parametrize("seed", range(20))
def test_matches_keep_the_slots_that_see_them_in_all_windows(seed: int) -> None:
    rnd = Random(seed)
    w, levels, partial = World(rnd), rnd.randint(1, 3), 5
    width = np.array([[rnd.choice([-1, 0, 2, 9, MOST]) for _ in range(w.slots)] for _ in range(levels + 1)], np.int64)
    since = np.array([rnd.randint(0, 5) for _ in range(w.slots)], np.int64)
    probing = np.array([rnd.randrange(partial) for _ in range(w.rows)], np.int64)
    before = np.array([[rnd.randint(0, 12) for _ in range(partial)] for _ in range(levels)], np.int64)
    ts = np.array([rnd.randint(0, 12) for _ in range(w.rows)], np.int64)
    arrival = np.array([rnd.randint(0, 9) for _ in range(w.rows)], np.int64)
    words = -(-w.slots // 64)
    held = [{s for s in range(w.slots) if rnd.random() < 0.5} for _ in range(partial)]
    mask = {s for s in range(w.slots) if rnd.random() < 0.7}
    bits = np.stack([mask_of(h, words) for h in held])

    def lasts(row: int, slot: int) -> bool:
        times = [*before[:, probing[row]].tolist(), int(ts[row])]
        spans = [(t, t + int(width[d, slot])) for d, t in enumerate(times)]
        return all(begin <= end for begin, end in (spans[0], spans[-1])) and all(
            spans[-1][0] <= end and begin <= spans[-1][1] for begin, end in spans[:-1]
        )

    expected = {}
    for r in range(w.rows):
        left = {s for s in held[probing[r]] & mask if arrival[r] >= since[s] and lasts(r, s) and w.accepts(r, s)}
        if left:
            expected[r] = left
    masked = sorted(mask) or [0]
    narrowest, widest = width[:, masked].min(axis=1), width[:, masked].max(axis=1)
    windows = Windows(width, since, narrowest, int(since[masked].max()), widest, int(since[masked].min()))
    times, matched = Times(before, ts, arrival), Matched(probing, np.arange(w.rows))
    places, rows, joined, left = narrowed(w.boxes, w.values, windows, times, matched, bits, mask_of(mask, words))
    assert dict(zip(rows.tolist(), sets(left), strict=True)) == expected
    assert (places == probing[rows]).all()
    assert (joined == np.vstack([before[:, places], ts[rows]])).all()

"""State buffers against a plain list of rows, by what they mean: how often each row counts at each instant."""

from __future__ import annotations

import itertools
from collections import Counter
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from eddyline.state.buffers.buffer import StateBuffer
from eddyline.state.buffers.sorted_segments import SortedSegments
from eddyline.state.delta import MAX, Delta, concat

TYPES = (pa.int64(), pa.string())
HORIZON = 40
Row = tuple[int, str]
Change = tuple[Row, int, int, int, int, int]  # row, query, first, sign, ts, exp


def delta(changes: list[Change], *, attached: bool = True) -> Delta:
    columns = tuple(pa.array([c[0][i] for c in changes], t) for i, t in enumerate(TYPES))
    query, first, sign, ts, exp = (np.array([c[i] for c in changes], np.int64) for i in range(1, 6))
    return Delta(columns, None, ts, exp, sign, first, first, query if attached else None)


def slots_of(rows: Delta) -> list[np.ndarray]:
    """Two keys to probe by: the first column, and its parity."""
    first = np.array(rows.columns[0].to_numpy(zero_copy_only=False), np.int64)
    return [first, first % 2]


def insert(stem: StateBuffer, changes: list[Change], clock: int) -> None:
    rows = delta(changes, attached=stem.attached)
    stem.insert(rows, slots_of(rows), clock)


def rows_of(stem: StateBuffer) -> Delta:
    return concat([s.rows for s in stem.segments], stem.types, attached=stem.attached)


def counts(changes: list[Change], since: int) -> Counter[Any]:
    """How often each (row, query, first) counts at each instant from `since` on."""
    found: Counter[Any] = Counter()
    for row, query, first, sign, ts, exp in changes:
        for t in range(max(ts, since), min(exp, HORIZON) + 1):
            found[row, query, first, t] += sign
    assert min(found.values(), default=0) >= 0, "the test retracts what is not there"
    return +found


def held(rows: Delta) -> list[Change]:
    values = zip(*(c.to_pylist() for c in rows.columns), strict=True)
    query = np.zeros(len(rows), np.int64) if rows.query is None else rows.query
    numbers = zip(*(x.tolist() for x in (query, rows.first, rows.sign, rows.ts, rows.exp)), strict=True)
    return [(v, *n) for v, n in zip(values, numbers, strict=True)]


def check(stem: StateBuffer, changes: list[Change], clock: int, note: str = "") -> None:
    assert counts(held(rows_of(stem)), clock) == counts(changes, clock), note
    for key in (0, 1):
        wanted = np.array([0, 1, 2, 3, 7, 1], np.int64)
        owners = [
            (int(wanted[o]), c)
            for m in stem.probe(key, wanted)
            for which, rows in m.pairs()
            for o, c in zip(which, held(m.segment.rows.take(rows).spread()), strict=True)
        ]
        found = [c for _, c in owners]
        expected = [c for w in wanted.tolist() for c in changes if (c[0][0] if key == 0 else c[0][0] % 2) == w]
        assert counts(found, clock) == counts(expected, clock), note
        assert all(w == (c[0][0] if key == 0 else c[0][0] % 2) for w, c in owners), note


class Input:
    """Random changes: rows with few values, so that twins are common; what is retracted is there."""

    def __init__(self, rnd: Random, *, queries: int = 3) -> None:
        self.rnd = rnd
        self.queries = queries
        self.all: list[Change] = []
        self.live: list[Change] = []

    def batch(self, clock: int) -> list[Change]:
        rnd, changes = self.rnd, []
        for _ in range(rnd.choice([0, 1, 1, 2, 5, 12])):
            ts = clock + rnd.choice([0, 0, 1, 3, 6])
            exp = rnd.choice([MAX, MAX, ts + rnd.randint(0, 8), 30])
            query, first = rnd.randrange(self.queries), rnd.choice([1, 1, 2])
            changes.append(((rnd.randrange(4), rnd.choice("ab")), query, first, 1, ts, max(ts, exp)))
        self.live += changes
        for row, query, first, _, ts, exp in rnd.sample(
            self.live, rnd.choice([0, 0, min(1, len(self.live)), len(self.live) // 3])
        ):
            at = max(ts, clock - rnd.randint(0, 2) if clock > 2 else clock)
            if at <= exp:
                self.live.remove((row, query, first, 1, ts, exp))
                changes.append((row, query, first, -1, at, exp))
        self.all += changes
        return changes


@pytest.mark.parametrize("seed", range(15))
def test_rows_and_probes_are_those_of_a_list(seed: int) -> None:
    rnd = Random(seed)
    stem, source, clock = SortedSegments(TYPES, 2, attached=True, retracts=True), Input(rnd), 0
    for _ in range(25):
        insert(stem, source.batch(clock), clock)
        check(stem, source.all, clock, f"seed {seed}")
        clock += rnd.choice([0, 0, 1, 2])
        event = rnd.random()
        if event < 0.1:
            gone = rnd.randrange(3)
            stem.forget(np.array([gone]))
            source.all = [c for c in source.all if c[1] != gone]
            source.live = [c for c in source.live if c[1] != gone]
        elif event < 0.2:
            saved, stem = stem.save(), SortedSegments(TYPES, 2, attached=True, retracts=True)
            stem.load(saved, slots_of)
        elif event < 0.3:
            stem.renumber(slots_of)
        elif event < 0.4:
            stem._renew_identity()
        check(stem, source.all, clock, f"seed {seed}")


@pytest.mark.parametrize("seed", range(5))
def test_rows_shared_by_a_family_are_those_of_a_list(seed: int) -> None:
    rnd = Random(seed)
    stem, source = SortedSegments(TYPES, 2, attached=False, retracts=True), Input(rnd, queries=1)
    for clock in range(20):
        insert(stem, source.batch(clock), clock)
        check(stem, source.all, clock, f"seed {seed}")


@pytest.mark.parametrize("seed", range(5))
def test_without_retractions_rows_are_those_of_a_list_until_they_expire(seed: int) -> None:
    rnd = Random(seed)
    stem, changes = SortedSegments(TYPES, 2, attached=True, retracts=False), list[Change]()
    for clock in range(25):
        batch = [c for c in Input(rnd).batch(clock) if c[3] > 0]
        changes += batch
        insert(stem, batch, clock)
        check(stem, changes, clock, f"seed {seed}")


A: Row = (1, "a")


def retracted(rows: list[list[tuple[int, int]]], back: list[tuple[int, int]]) -> SortedSegments:
    """One stem with twins of the given intervals, batch by batch, after one batch that retracts some."""
    stem = SortedSegments(TYPES, 2, attached=True, retracts=True)
    for batch in rows:
        insert(stem, [(A, 0, 1, 1, ts, exp) for ts, exp in batch], 0)
    insert(stem, [(A, 0, 1, -1, at, exp) for at, exp in back], 0)
    changes = [(A, 0, 1, 1, ts, exp) for batch in rows for ts, exp in batch]
    check(stem, changes + [(A, 0, 1, -1, at, exp) for at, exp in back], 0)
    return stem


def test_of_twins_as_many_end_as_are_retracted() -> None:
    stem = retracted([[(0, MAX)] * 5, [(0, MAX)]], [(4, MAX), (7, MAX), (7, MAX)])
    assert Counter(rows_of(stem).exp.tolist()) == {3: 1, 6: 2, MAX: 3}


def test_of_twins_with_other_ends_the_one_with_the_end_named_is_retracted() -> None:
    stem = retracted([[(0, 9), (0, 20), (0, MAX)]], [(5, 20)])
    assert Counter(rows_of(stem).exp.tolist()) == {9: 1, 4: 1, MAX: 1}


@pytest.mark.parametrize("batches", [[[(2, MAX), (8, MAX)]], [[(8, MAX), (2, MAX)]], [[(2, MAX)] * 3, [(8, MAX)]]])
def test_of_twins_that_begin_at_other_times_none_ends_that_begins_later(batches: list[list[tuple[int, int]]]) -> None:
    retracted(batches, [(5, MAX), (8, MAX)])


def test_of_twins_from_other_arrivals_the_one_that_is_named_ends() -> None:
    stem = SortedSegments(TYPES, 2, attached=False, retracts=True)
    insert(stem, [(A, 0, 1, 1, 0, MAX), ((2, "b"), 0, 2, 1, 0, MAX), ((3, "b"), 0, 3, 1, 0, MAX)], 0)
    insert(stem, [(A, 0, 9, 1, 1, MAX)], 1)
    insert(stem, [(A, 0, 1, -1, 2, MAX)], 2)
    assert [(c[2], c[5]) for c in held(rows_of(stem)) if c[0] == A] == [(1, 1), (9, MAX)]


def test_rows_that_leave_are_known_with_the_ends_they_were_sent_with_until_they_are_forgotten() -> None:
    stem = SortedSegments(TYPES, 2, attached=True, retracts=True)
    insert(stem, [((7, "x"), 0, 1, 1, 0, MAX), (A, 0, 1, 1, 0, 9), (A, 0, 2, 1, 0, 9)], 0)
    stem.retract(delta([(A, 0, 2, -1, 4, 9)]))
    (segment,) = stem.segments
    assert segment.leaving is not None
    assert segment.leaving.tolist() == [2]
    assert (segment.rows.exp.tolist(), segment.born.tolist()) == ([MAX, 9, 3], [MAX, 9, 9])
    stem.forget_leaving()
    assert segment.leaving is None


def test_a_row_can_be_inserted_and_retracted_in_one_batch() -> None:
    stem = SortedSegments(TYPES, 2, attached=True, retracts=True)
    insert(stem, [(A, 0, 1, 1, 3, MAX), (A, 0, 1, -1, 5, MAX)], 0)
    assert (rows_of(stem).ts.tolist(), rows_of(stem).exp.tolist()) == ([3], [4])


def test_a_retracted_row_stays_so_after_save_and_load() -> None:
    stem = retracted([[(0, MAX), (0, MAX)]], [(4, MAX)])
    again = SortedSegments(TYPES, 2, attached=True, retracts=True)
    again.load(stem.save(), slots_of)
    insert(again, [(A, 0, 1, -1, 6, MAX)], 0)
    assert sorted(rows_of(again).exp.tolist()) == [3, 5]


def test_a_retraction_leaves_the_arrays_of_others_alone() -> None:
    stem = SortedSegments(TYPES, 2, attached=True, retracts=True)
    rows = delta([(A, 0, 1, 1, 0, MAX)])
    stem.insert(rows, slots_of(rows), 0)
    insert(stem, [(A, 0, 1, -1, 5, MAX)], 0)
    assert rows.exp.tolist() == [MAX]


def test_expired_rows_are_dropped_by_a_merge() -> None:
    stem = SortedSegments(TYPES, 2, attached=True, retracts=False)
    insert(stem, [((i % 4, "a"), 0, 1, 1, 0, i) for i in range(10)], 0)
    insert(stem, [((i % 4, "a"), 0, 1, 1, 20, MAX) for i in range(6)], 8)
    assert (len(stem), sorted(rows_of(stem).exp.tolist())) == (8, [8, 9] + [MAX] * 6)


def test_segments_grow_geometrically() -> None:
    rnd = Random(0)
    stem = SortedSegments(TYPES, 2, attached=True, retracts=True)
    for _ in range(200):
        insert(stem, [((rnd.randrange(4), "a"), 0, 1, 1, 0, MAX)] * rnd.randint(1, 4), 0)
        sizes = [len(s) for s in stem.segments]
        assert all(a >= 2 * b for a, b in itertools.pairwise(sizes)), sizes


@pytest.mark.parametrize("retracts", [True, False])
def test_move_renumbers_rows_and_drops_those_mapped_away(retracts: bool) -> None:
    stem = SortedSegments(TYPES, 1, attached=True, retracts=retracts)
    for batch in ([0, 1, 2, 2, 1], [2], [0]):
        rows = delta([((q, "a"), q, 1, 1, 0, MAX) for q in batch])
        stem.insert(rows, [rows.query], 0)
    stem.move(np.array([1, -1, 0]))
    assert sorted((c[0][0], c[1]) for c in held(rows_of(stem))) == [(0, 1)] * 2 + [(2, 0)] * 3
    matches = list(stem.probe(0, np.array([0])))
    found = [c for m in matches for _, r in m.pairs() for c in held(m.segment.rows.take(r).spread())]
    assert [c[0][0] for c in found] == [2, 2, 2]
    if retracts:
        back = delta([((2, "a"), 0, 1, -1, 5, MAX)])
        stem.insert(back, [back.query], 0)
        assert Counter(c[5] for c in held(rows_of(stem)) if c[1] == 0) == {MAX: 2, 4: 1}


def test_drop_leaves_the_rows_that_are_not_under_the_masks() -> None:
    stem = SortedSegments(TYPES, 2, attached=True, retracts=False)
    insert(stem, [((i, "a"), 0, 1, 1, 0, MAX) for i in range(4)], 0)
    insert(stem, [((7, "b"), 0, 1, 1, 0, MAX)], 0)
    assert [len(s) for s in stem.segments] == [4, 1]
    stem.drop([np.array([False, True, True, False]), np.array([True])])
    assert [c[0][0] for c in held(rows_of(stem))] == [0, 3]
    assert len(stem.segments) == 1


def test_an_empty_buffer_matches_nothing_and_is_saved_and_loaded() -> None:
    stem = SortedSegments(TYPES, 2, attached=True, retracts=True)
    insert(stem, [], 0)
    again = SortedSegments(TYPES, 2, attached=True, retracts=True)
    again.load(stem.save(), slots_of)
    assert len(again) == 0
    assert [pair for m in again.probe(0, np.array([0, 1])) for pair in m.pairs()] == []
    insert(again, [(A, 0, 1, -1, 5, MAX)], 0)
    assert len(rows_of(again)) == 0

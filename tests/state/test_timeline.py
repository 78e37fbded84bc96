"""A timeline against a dict from slot to its events still to come."""

import itertools
from collections import Counter
from random import Random

import numpy as np
import pyarrow as pa
import pytest

from eddyline.state.delta import MAX
from eddyline.state.timeline import Events, Timeline

Event = tuple[int, int, float]  # time, what it adds to an integer and to a double


class Plain:
    """What a timeline means."""

    def __init__(self) -> None:
        self.events: dict[int, list[Event]] = {}

    def due(self, slot: int, upto: int) -> list[tuple[int, ...]]:
        mine = self.events.get(slot, [])
        self.events[slot] = [e for e in mine if e[0] > upto]
        return [(slot, *e) for e in mine if e[0] <= upto]

    def later(self, slot: int) -> list[tuple[int, ...]]:
        return [(slot, *e) for e in self.events.get(slot, [])]


def listed(events: Events) -> Counter[tuple[int, ...]]:
    ints, floats = events.ints[:, 0].tolist(), events.floats[:, 0].tolist()
    return Counter(zip(events.slot.tolist(), events.time.tolist(), ints, floats, strict=True))


def batch(rows: list[tuple[int, int, int, float]]) -> Events:
    slot, time, whole = (np.array([r[i] for r in rows], np.int64) for i in range(3))
    return Events(slot, time, whole.reshape(-1, 1), np.array([r[3] for r in rows], np.float64).reshape(-1, 1))


def compare(timeline: Timeline, plain: Plain, slots: list[int]) -> None:
    which = np.array(slots, np.int64)
    assert listed(timeline.later(which)) == Counter(e for s in slots for e in plain.later(s))
    expected = [min((e[1] for e in plain.later(s)), default=MAX) for s in slots]
    assert timeline.next_time(which).tolist() == expected


@pytest.mark.parametrize("seed", range(12))
def test_events_come_due_once_and_the_rest_stay_as_in_a_dict(seed: int) -> None:
    rnd = Random(seed)
    timeline, plain, slots, now = Timeline(1, 1), Plain(), 6, 0
    timeline.grow(slots)
    for _ in range(60):
        kind = rnd.choice(["add", "add", "add", "due", "due", "grow", "keep", "save"])
        if kind == "add":
            rows = [
                (rnd.randrange(slots), now + rnd.choice([1, 2, 5, 9, 30]), rnd.randint(-2, 2), rnd.random())
                for _ in range(rnd.choice([0, 1, 1, 3, 20]))
            ]
            timeline.add(batch(rows))
            for slot, *event in rows:
                plain.events.setdefault(slot, []).append(tuple(event))
        elif kind == "due":
            now += rnd.choice([0, 1, 4])
            some = rnd.sample(range(slots), rnd.randint(0, slots))
            expected = Counter(e for s in some for e in plain.due(s, now))
            assert listed(timeline.due(np.array(some, np.int64), now)) == expected, f"seed {seed}"
            for s in set(range(slots)) - set(some):  # the others catch up before the clock moves on
                assert listed(timeline.due(np.array([s]), now)) == Counter(plain.due(s, now)), f"seed {seed}"
        elif kind == "grow":
            slots += rnd.randint(0, 3)
            timeline.grow(slots)
        elif kind == "keep":
            kept = sorted(rnd.sample(range(slots), rnd.randint(1, slots)))
            mapping = np.full(slots, -1, np.int64)
            mapping[kept] = np.arange(len(kept))
            timeline.keep(mapping)
            plain.events = {i: plain.events.get(s, []) for i, s in enumerate(kept)}
            slots = len(kept)
        else:
            saved, timeline = timeline.save(), Timeline(1, 1)
            timeline.load(saved)
        compare(timeline, plain, list(range(slots)))
    assert max(len(r) for r in timeline.runs or [timeline.none()]) <= 60 * 20


def test_taking_twice_gives_nothing_the_second_time() -> None:
    timeline = Timeline(1, 1)
    timeline.grow(1)
    timeline.add(batch([(0, 5, 1, 0.5), (0, 5, 2, 0.5), (0, 6, 3, 0.5)]))
    assert listed(timeline.due(np.array([0]), 5)) == Counter({(0, 5, 1, 0.5): 1, (0, 5, 2, 0.5): 1})
    assert listed(timeline.due(np.array([0]), 5)) == Counter()
    assert listed(timeline.later(np.array([0]))) == Counter({(0, 6, 3, 0.5): 1})


def test_events_that_were_taken_are_gone_after_the_next_merge() -> None:
    timeline = Timeline(1, 1)
    timeline.grow(1)
    timeline.add(batch([(0, t, 1, 0.0) for t in range(1, 9)]))
    timeline.due(np.array([0]), 8)
    timeline.add(batch([(0, t, 1, 0.0) for t in range(9, 15)]))
    assert [len(r) for r in timeline.runs] == [6]


def test_a_large_timeline_keeps_few_events_that_were_taken() -> None:
    window, step = 40_000, 1_000
    timeline, every = Timeline(1, 1), np.arange(10)
    timeline.grow(len(every))
    kept = []
    for now in range(0, 4 * window, step):
        timeline.due(every, now)
        timeline.add(batch([(t % len(every), t, 1, 0.0) for t in range(now + window, now + window + step)]))
        kept.append(sum(len(r) for r in timeline.runs))
    assert max(kept) <= 1.2 * window


@pytest.mark.parametrize("seed", range(2))
def test_runs_grow_geometrically(seed: int) -> None:
    rnd = Random(seed)
    timeline = Timeline(1, 1)
    timeline.grow(10)
    for _ in range(300):
        timeline.add(batch([(rnd.randrange(10), rnd.randint(1, 99), 1, 0.0)] * rnd.randint(1, 5)))
        sizes = [len(r) for r in timeline.runs]
        assert all(a >= 2 * b for a, b in itertools.pairwise(sizes)), f"seed {seed}: {sizes}"


def test_an_empty_timeline_is_saved_and_loaded() -> None:
    timeline, again = Timeline(2, 0), Timeline(2, 0)
    saved = timeline.save()
    assert isinstance(saved["events"], pa.Table)
    again.load(saved)
    again.grow(3)
    assert again.next_time(np.arange(3)).tolist() == [MAX] * 3
    assert len(again.due(np.arange(3), 7)) == 0

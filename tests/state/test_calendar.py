"""A calendar against a plain array of instants: the slots that are due, each once, and the entries it looks at."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from eddyline.arrays import Ints
from eddyline.index.timelines.time_partitions import partition_of, partitions_of
from eddyline.state.calendar import Calendar
from eddyline.state.delta import MAX, MIN


@pytest.mark.parametrize("seed", range(30))
def test_slots_are_due_at_the_instant_given_last(seed: int) -> None:
    rnd = Random(seed)
    calendar, plain, now = Calendar(), list[int](), rnd.choice([MIN, -50, 0])
    for _ in range(200):
        plain += [MAX] * rnd.choice([0, 0, 5, 400])
        calendar.grow(len(plain))
        slots = np.array(rnd.sample(range(len(plain)), min(len(plain), rnd.choice([0, 3, 300]))), np.int64)
        times = np.array(
            [rnd.choice([MAX, now, now + rnd.randint(1, 1 << rnd.randint(0, 40))]) for _ in slots], np.int64
        )
        if rnd.random() < 0.5:
            calendar.schedule(slots, times)
            for s, t in zip(slots.tolist(), times.tolist(), strict=True):
                plain[s] = t
        else:
            calendar.hasten(np.repeat(slots, 2), np.repeat(times, 2) + np.tile([0, 0], len(slots)))
            for s, t in zip(slots.tolist(), times.tolist(), strict=True):
                plain[s] = min(plain[s], t)
        if rnd.random() < 0.1:
            used = np.array([rnd.random() < 0.5 for _ in plain], np.bool_)
            plain = [t for t, u in zip(plain, used, strict=True) if u]
            calendar.keep(used)
        if rnd.random() < 0.1:
            calendar, saved = Calendar(), calendar.wake[: len(plain)].copy()
            calendar.load(saved)
        now = rnd.choice([now, max(now, -60) + rnd.randint(0, 1 << rnd.randint(0, 40))])
        assert calendar.take(now).tolist() == [s for s, t in enumerate(plain) if t <= now]
        plain = [MAX if t <= now else t for t in plain]
        assert calendar.wake[: len(plain)].tolist() == plain


def test_the_partition_of_an_instant_is_the_highest_bit_in_which_it_differs_from_the_clock() -> None:
    instants = [MIN, -3, -1, 0, 1, 5, 2**31, 2**32, 2**53 + 1, 2**54 - 1, MAX]
    for clock in [MIN - 1, -2, 0, 4, 2**33, MAX]:
        one_by_one = [partition_of(t, clock) for t in instants]
        assert partitions_of(np.array(instants, np.int64), clock).tolist() == one_by_one
    assert [partition_of(t, 4) for t in (3, 4, 5, 6, 7, 8, 16)] == [0, 0, 1, 2, 2, 4, 5]


class Counting(Calendar):
    """Counts the entries that are filed."""

    filed = 0

    def _add(self, times: Ints, slots: Ints) -> None:
        self.filed += len(times)
        super()._add(times, slots)


@pytest.mark.parametrize("waiting", [10_000, 300_000])
def test_a_step_looks_at_few_entries_whatever_waits(waiting: int) -> None:
    """An entry moves once for each halving of the time until it is due: 17 times at most for an hour of seconds."""
    calendar = Counting()
    calendar.grow(waiting)
    times = 1_800_000_000_000_000 + np.random.default_rng(1).integers(0, 3_600_000_000, waiting)
    calendar.schedule(np.arange(waiting), times)
    for second in range(0, 3600, 10):
        calendar.take(1_800_000_000_000_000 + second * 1_000_000)
    assert calendar.filed < 12 * waiting


def test_rescheduling_often_keeps_no_more_entries_than_twice_the_slots() -> None:
    calendar = Calendar()
    calendar.grow(10)
    for i in range(5000):
        calendar.schedule(np.arange(10), np.full(10, i))
    assert len(calendar) <= 2 * 10 + 1010

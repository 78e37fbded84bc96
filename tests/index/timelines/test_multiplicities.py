"""`reconcile` by what it means: what was out plus what is sent is the multiplicity at every instant up to the clock."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eddyline.index.timelines.multiplicities import DISTINCT, INTERSECT, NEGATION, reconcile
from eddyline.state.delta import MAX, MIN
from tests.index.timelines.operations import lines_executed
from tests.nightly import TIMES

MEANING: dict[int, Callable[[int, int], int]] = {
    DISTINCT: lambda left, right: int(left > 0),
    NEGATION: lambda left, right: max(left - right, 0),
    INTERSECT: lambda left, right: min(left, right),
}
LAST = 40  # beyond any end of a row that has one
Change = tuple[int, int, int, int]  # side, sign, ts, exp
Change3 = tuple[int, int, int]  # time, left, right
Outcome = tuple[list[Change3], list[tuple[int, int, bool]], list[tuple[int, int, bool]]]  # sent, rows out: old, new


@dataclass
class Slot:
    """One value: the changes of its inputs, and what the kernel keeps and sends for it."""

    changes: list[Change] = field(default_factory=list)
    coming: list[tuple[int, int, int]] = field(default_factory=list)  # (time, left, right) not yet applied
    out: list[int] = field(default_factory=list)
    sent: list[tuple[int, int, int]] = field(default_factory=list)
    wake: int = MAX

    def take(self, changes: list[Change]) -> None:
        self.changes += changes
        for side, sign, ts, exp in changes:
            self.coming.append((ts, sign * (side == 0), sign * (side == 1)))
            if exp < MAX:
                self.coming.append((exp + 1, -sign * (side == 0), -sign * (side == 1)))

    def multiplicity(self, kind: int, t: int) -> int:
        left, right = (sum(s for x, s, a, b in self.changes if x == side and a <= t <= b) for side in (0, 1))
        return MEANING[kind](left, right)

    def answer(self, t: int) -> int:
        return sum(s for s, a, b in self.sent if a <= t <= b)


def bring_up(kind: int, now: int, slots: list[Slot], counts: np.ndarray) -> np.ndarray:
    """One call for all slots; the slots take up what came of it. Returns the counts afterwards."""
    for s in slots:
        s.coming.sort()
    events = [e for s in slots for e in s.coming]
    ends = [e for s in slots for e in s.out]
    sent, out, wake, after = reconcile(
        kind,
        now,
        counts.copy(),
        np.cumsum([0, *(len(s.coming) for s in slots)]),
        np.array([e[0] for e in events], np.int64),
        np.array([e[1:] for e in events], np.int64).reshape(-1, 2),
        np.cumsum([0, *(len(s.out) for s in slots)]),
        np.array(ends, np.int64),
    )
    for i, s in enumerate(slots):
        s.coming = [e for e in s.coming if e[0] > now]
        s.sent += [(sign, ts, exp) for slot, sign, ts, exp in sent.T.tolist() if slot == i]
        s.out = [end for slot, end in out.T.tolist() if slot == i]
        s.wake = int(wake[i])
    return after


def check(kind: int, now: int, s: Slot) -> None:
    for t in range(now + 1):
        assert s.answer(t) == s.multiplicity(kind, t), f"instant {t} of {now}: {s}"
    for t in range(now, LAST):
        assert s.answer(t) == sum(end >= t for end in s.out), f"rows out at {t}: {s}"
    differ = [t for t in range(now + 1, LAST) if s.answer(t) != s.multiplicity(kind, t)]
    assert min(differ, default=MAX) == s.wake, f"wake at {s.wake}: {s}"
    for sign, ts, exp in s.sent:
        assert ts <= exp and sign in (-1, 1)


def by_scanning(kind: int, now: int, left: int, right: int, events: list[Change3], out: list[int]) -> Outcome:
    """The rows of one slot brought up to `now`, looking at all of them at every instant."""
    rows = [(0, end, True) for end in out]  # begin, end, whether it was sent before
    sent, events = [], sorted(events)

    def due() -> int:
        return min([t for t, _, _ in events] + [end + 1 for _, end, _ in rows if end < MAX], default=MAX)

    while (t := due()) <= now:
        left, right = (x + sum(e[i] for e in events if e[0] <= t) for i, x in ((1, left), (2, right)))
        events = [e for e in events if e[0] > t]
        rows = [r for r in rows if r[1] >= t]
        m = MEANING[kind](left, right)
        rows += [(t, MAX, False)] * (m - len(rows))
        while len(rows) > max(m, 0):
            # the one that would stay longest goes; of those without end, the latest that nobody has seen
            begin, end, known = gone = max(rows, key=lambda r: (r[1], not r[2], r[0]))
            rows.remove(gone)
            sent += [(-1, t, end)] if known else [(1, begin, t - 1)] if begin < t else []
    return sent, [r for r in rows if r[2]], [r for r in rows if not r[2]]


@pytest.mark.parametrize("kind", [DISTINCT, NEGATION, INTERSECT])
def test_what_is_sent_up_to_the_clock_is_what_scanning_all_rows_at_every_instant_finds(kind: int) -> None:
    rnd = Random(f"scanning {kind}")
    for _ in range(400 * TIMES):
        now = rnd.randint(0, 30)
        n = rnd.randint(0, 1 if kind == DISTINCT else 6)
        s = Slot(out=[rnd.choice([MAX, rnd.randint(0, 40)]) for _ in range(n)])
        for _ in range(rnd.randint(0, 25)):
            begin = rnd.randint(0, 35)
            s.take([(rnd.randint(0, 1), 1, begin, rnd.choice([MAX, begin + rnd.randint(0, 10)]))])
        left, right = {DISTINCT: (n, 0), NEGATION: (n + 3, 3), INTERSECT: (n, n + 2)}[kind]
        expected, old, new = by_scanning(kind, now, left, right, s.coming, s.out)
        bring_up(kind, now, [s], np.array([[left, right]]))
        assert s.sent[: len(expected)] == expected, s
        assert [begin for _, begin, _ in s.sent[len(expected) :]] == [begin for begin, _, _ in new], s
        left_out = Counter(s.out) - Counter(end for _, _, end in s.sent[len(expected) :])
        assert left_out == Counter(end for _, end, _ in old), s
        assert s.out == sorted(s.out)


@pytest.mark.parametrize("ends", ["none", "all different"])
def test_one_value_costs_in_proportion_to_its_rows(ends: str) -> None:
    def work(n: int) -> int:
        """Rows of a value come one after the other, then as many on the other side retract them."""
        times = np.arange(2 * n)
        changes = np.zeros((2 * n, 2), np.int64)
        changes[:n, 0] = changes[n:, 1] = 1
        out = np.full(n, MAX) if ends == "none" else 10 * n + np.arange(n)
        at = np.array([0, 2 * n]), np.array([0, n])
        counts = np.array([[n, 0]])
        return lines_executed(lambda: reconcile.py_func(NEGATION, 2 * n, counts, at[0], times, changes, at[1], out))

    small, large = work(100), work(800)
    assert large < 8.5 * small, f"{small} lines for 100 rows, {large} for 800"


@st.composite
def scenario(draw: st.DrawFn) -> list[tuple[int, list[list[Change]]]]:
    """Steps (clock, changes per slot): rows begin at or after the last clock, some are taken back before their end."""
    width = draw(st.integers(1, 3))
    live: list[list[Change]] = [[] for _ in range(width)]
    steps, before = [], 0
    for _ in range(draw(st.integers(1, 4))):
        now = before + draw(st.integers(0, 6))
        batch: list[list[Change]] = []
        for i in range(width):
            changes: list[Change] = []
            for _ in range(draw(st.integers(0, 4))):
                ts = draw(st.integers(before, now + 3))
                end = draw(st.one_of(st.just(MAX), st.just(20), st.integers(ts, ts + 6)))
                changes.append((draw(st.integers(0, 1)), 1, ts, max(ts, end)))
            for row in draw(st.lists(st.sampled_from(live[i]), max_size=2, unique_by=id)) if live[i] else []:
                side, _, ts, exp = row
                at = max(ts, draw(st.integers(before, max(before, now))))
                if at <= exp:
                    changes.append((side, -1, at, exp))
                    live[i].remove(row)
            live[i] += [c for c in changes if c[1] > 0]
            batch.append(changes)
        steps.append((now, batch))
        before = now
    return steps


@pytest.mark.parametrize("kind", [DISTINCT, NEGATION, INTERSECT])
def test_what_is_sent_makes_the_multiplicity_at_every_instant_and_wake_is_the_first_disagreement(kind: int) -> None:
    @settings(deadline=None, max_examples=150)
    @given(scenario(), st.booleans())
    def run(steps: list[tuple[int, list[list[Change]]]], only_touched: bool) -> None:
        slots = [Slot() for _ in steps[0][1]]
        counts = np.zeros((len(slots), 2), np.int64)
        for now, batch in steps:
            for s, changes in zip(slots, batch, strict=True):
                s.take(changes)
            which = [i for i, s in enumerate(slots) if not only_touched or batch[i] or s.wake <= now]
            if which:
                counts[which] = bring_up(kind, now, [slots[i] for i in which], counts[which])
            for i in which:
                check(kind, now, slots[i])
            for s in slots:
                assert all(s.answer(t) == s.multiplicity(kind, t) for t in range(now + 1)), "not woken in time"

    run()


def test_nothing_to_do_sends_nothing() -> None:
    empty = np.empty(0, np.int64)
    counts, at = np.zeros((2, 2), np.int64), np.zeros(3, np.int64)
    sent, out, wake, _ = reconcile(DISTINCT, 5, counts, at, empty, np.empty((0, 2), np.int64), at, empty)
    assert (sent.shape, out.shape, wake.tolist()) == ((4, 0), (2, 0), [MAX, MAX])


def test_rows_without_beginning_or_end_are_sent_once() -> None:
    s = Slot()
    s.take([(0, 1, MIN, MAX), (0, 1, MIN, MAX)])
    bring_up(DISTINCT, MIN, [s], np.zeros((1, 2), np.int64))
    assert (s.sent, s.out, s.wake) == ([(1, MIN, MAX)], [MAX], MAX)


def test_many_rows_with_one_end_leave_together_and_need_no_waking() -> None:
    s = Slot()
    s.take([(0, 1, 0, 9)] * 50)
    bring_up(NEGATION, 3, [s], np.zeros((1, 2), np.int64))
    assert s.sent == [(1, 0, 9)] * 50
    assert (s.out, s.wake) == ([9] * 50, MAX)


def test_of_many_rows_out_only_as_many_are_taken_back_as_the_right_side_covers() -> None:
    s = Slot()
    s.take([(0, 1, 0, 9)] * 50)
    counts = bring_up(NEGATION, 3, [s], np.zeros((1, 2), np.int64))
    s.sent.clear()
    s.take([(1, 1, 5, MAX)] * 20)
    bring_up(NEGATION, 5, [s], counts)
    assert s.sent == [(-1, 5, 9)] * 20
    assert s.out == [9] * 30


def test_a_distinct_value_lasts_as_long_as_its_longest_row() -> None:
    s = Slot()
    s.take([(0, 1, 0, 4), (0, 1, 2, 8), (0, 1, 3, 5)])
    bring_up(DISTINCT, 3, [s], np.zeros((1, 2), np.int64))
    assert (s.sent, s.wake) == ([(1, 0, 8)], MAX)

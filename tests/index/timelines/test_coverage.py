"""`extend_coverage` by what it means: the rows sent cover exactly the instants up to the clock that intervals cover."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from eddyline.index.timelines.coverage import NOTHING_SENT, extend_coverage
from eddyline.state.delta import MAX, MIN
from tests.index.timelines.operations import lines_executed
from tests.nightly import TIMES

Interval = tuple[int, int]


class Value:
    """One slot: the intervals it was given, and what the kernel keeps and sends for it."""

    def __init__(self) -> None:
        self.given: list[Interval] = []
        self.out_end = self.cover_end = NOTHING_SENT
        self.ahead: list[Interval] = []
        self.sent: list[Interval] = []
        self.wake = MAX

    def covered(self, t: int) -> bool:
        return any(begin <= t <= end for begin, end in self.given)


def bring_up(now: int, values: list[Value], new: list[list[Interval]]) -> None:
    out_end, cover_end = (np.array([getattr(v, name) for v in values]) for name in ("out_end", "cover_end"))
    ahead = np.array([i for v in values for i in v.ahead], np.int64).reshape(-1, 2)
    intervals = np.array([i for part in new for i in sorted(part)], np.int64).reshape(-1, 2)
    sent, at, left, wake = extend_coverage(
        now, out_end, cover_end, np.cumsum([0, *(len(v.ahead) for v in values)]), ahead,
        np.cumsum([0, *map(len, new)]), intervals,
    )  # fmt: skip
    assert sent[0].tolist() == sorted(sent[0].tolist())
    for i, v in enumerate(values):
        v.given += new[i]
        v.out_end, v.cover_end, v.wake = int(out_end[i]), int(cover_end[i]), int(wake[i])
        v.ahead = [(b, e) for b, e in left[at[i] : at[i + 1]].tolist()]
        v.sent += [(ts, exp) for slot, ts, exp in sent.T.tolist() if slot == i]


@pytest.mark.parametrize("seed", range(200 * TIMES))
def test_rows_sent_cover_what_intervals_cover_once_and_as_far_as_is_known(seed: int) -> None:
    rnd = Random(seed)
    values, now = [Value() for _ in range(3)], 0
    for _ in range(10):
        new: list[list[Interval]] = [[] for _ in values]
        for part in new:
            for _ in range(rnd.choice([0, 0, 1, 3])):
                begin = now + rnd.randint(0, 6)
                part.append((begin, rnd.choice([begin - 1, begin, begin + rnd.randint(0, 6), MAX])))
        earlier, now = now, now + rnd.randint(0, 5)
        before = [len(v.sent) for v in values]
        due = [v.wake <= now for v in values]
        bring_up(now, values, new)
        for v, already, part, was_due in zip(values, before, new, due, strict=True):
            for t in range(now + 1):
                assert sum(b <= t <= e for b, e in v.sent) == v.covered(t), f"instant {t}: {vars(v)}"
            for begin, end in v.sent[already:]:
                assert earlier <= begin <= now
                assert end == MAX or not v.covered(end + 1), "a row has the latest end known"
            if len(v.sent) > already:
                assert part or was_due, "what nobody asked for need not be processed"
            assert all(a[1] + 1 < b[0] for a, b in zip(v.ahead, v.ahead[1:], strict=False)), "kept merged"
            assert all(b > max(now, v.cover_end + 1) for b, _ in v.ahead)


def test_a_row_may_begin_at_the_least_instant_and_have_no_end() -> None:
    value = Value()
    bring_up(0, [value], [[(MIN, MAX)]])
    assert value.sent == [(MIN, MAX)] and value.wake == MAX


def test_the_cost_follows_the_intervals_given() -> None:
    def lines(n: int) -> int:
        new_at, new = np.array([0, n]), np.array([(2 * i, 2 * i) for i in range(n)], np.int64)
        nothing = np.empty((0, 2), np.int64)
        at = np.zeros(2, np.int64)
        ends = np.full((2, 1), NOTHING_SENT)
        function = extend_coverage.py_func  # type: ignore[attr-defined]
        return lines_executed(lambda: function(n, ends[0], ends[1], at, nothing, new_at, new))

    assert lines(2000) < 2.2 * lines(1000)

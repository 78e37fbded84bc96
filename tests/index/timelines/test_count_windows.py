"""Count windows over a shared log against their definition: at every instant, the n latest rows that each has seen."""

from collections import Counter
from random import Random
from typing import Any

import numpy as np
import pytest

from eddyline.index.timelines.count_windows import enter_and_leave, in_windows
from eddyline.state.delta import MAX
from tests.index.timelines.operations import lines_executed
from tests.nightly import TIMES

Log = list[tuple[int, int]]  # (event time, arrival), in that order


def held(log: Log, upto: int, n: int, since: int) -> list[int]:
    """The positions in a window after so many rows of the log."""
    return [p for p in range(upto) if log[p][1] >= since][-n:] if n > 0 else []


def some_log(rnd: Random, size: int) -> Log:
    arrivals = rnd.sample(range(3 * size + 1), size)
    return sorted((rnd.randint(0, size), a) for a in arrivals)


def arrays(log: Log) -> tuple[np.ndarray, np.ndarray]:
    return tuple(np.array([row[i] for row in log], np.int64) for i in (0, 1))  # type: ignore[return-value]


@pytest.mark.parametrize("seed", range(3))
def test_changes_make_every_window_hold_the_n_latest_rows_at_every_instant(seed: int) -> None:
    rnd = Random(f"windows {seed}")
    for _ in range(100 * TIMES):
        log = some_log(rnd, rnd.randint(1, 25))
        ts, first = arrays(log)
        size = np.array([rnd.randint(-1, 8) for _ in range(6)])
        since = np.array([rnd.choice([0, rnd.randint(0, 60)]) for _ in range(6)])
        # Steps end between instants: rows of one event time enter together.
        cuts = [p for p in range(1, len(log)) if log[p][0] > log[p - 1][0] and rnd.random() < 0.4]
        counts: Counter[Any] = Counter()
        for shown, upto in zip([0, *cuts], [*cuts, len(log)], strict=True):
            for window, sign, row, begin, end, cause in zip(
                *(x.tolist() for x in enter_and_leave(ts, first, shown, upto, size, since)), strict=True
            ):
                assert begin <= end
                assert (begin, first[cause] >= since[window]) == (log[cause][0], True)
                for t in range(begin, min(end, 30) + 1):
                    counts[window, row, t] += sign
            now = log[upto - 1][0]
            for w in range(len(size)):
                inside = {p for p in range(len(log)) if counts[w, p, now] == 1}
                assert inside == set(held(log, upto, int(size[w]), int(since[w]))), (seed, log, size, since)
        for w, t in ((w, t) for w in range(len(size)) for t in range(log[-1][0] + 1)):
            upto = sum(row[0] <= t for row in log)
            inside = {p for p in range(len(log)) if counts[w, p, t]}
            assert inside == set(held(log, upto, int(size[w]), int(since[w]))), (seed, t, log, size, since)


def test_rows_that_are_kept_are_those_in_some_window_and_those_still_to_enter() -> None:
    rnd = Random("kept")
    for _ in range(200 * TIMES):
        log = some_log(rnd, rnd.randint(1, 25))
        _, first = arrays(log)
        shown = rnd.randint(0, len(log))
        size = np.array([rnd.randint(-1, 5) for _ in range(4)])
        since = np.array([rnd.choice([0, rnd.randint(0, 60)]) for _ in range(4)])
        windows = [p for n, s in zip(size, since, strict=True) for p in held(log, shown, int(n), int(s))]
        kept = in_windows(first, shown, size, since)
        assert np.nonzero(kept)[0].tolist() == sorted({*windows, *range(shown, len(log))})


def test_rows_of_one_instant_beyond_the_size_are_not_sent() -> None:
    ts, first = np.array([5, 5, 5]), np.array([0, 1, 2])
    found = enter_and_leave(ts, first, 0, 3, np.array([2]), np.array([0]))
    assert [x.tolist() for x in found] == [[0, 0], [1, 1], [1, 2], [5, 5], [MAX, MAX], [1, 2]]


def test_a_window_that_has_seen_the_whole_log_costs_its_changes_not_its_size() -> None:
    ts = first = np.arange(4000)

    def work(n: int, windows: int) -> int:
        size, since = np.full(windows, n), np.zeros(windows, np.int64)
        return lines_executed(lambda: enter_and_leave.py_func(ts, first, 3999, 4000, size, since))

    work(5, 0)  # loads the kernels that it calls
    fixed = work(5, 0)
    assert work(3000, 50) - fixed == work(5, 50) - fixed
    assert work(5, 500) - fixed <= 10.1 * (work(5, 50) - fixed)

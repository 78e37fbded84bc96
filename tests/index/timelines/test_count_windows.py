"""Count windows over a shared log against their definition: at every instant, the n latest rows that each has seen."""

from collections import Counter
from random import Random
from typing import Any

import numpy as np
import pytest

from eddyline.index.timelines.count_windows import OrderedRows, count_windows, enter_and_leave, first_places
from eddyline.state.delta import MAX
from tests.index.timelines.operations import lines_executed
from tests.nightly import TIMES

Log = list[tuple[int, int]]  # (event time, row), in that order; rows are numbered as they arrive


def held(log: Log, upto: int, n: int, since: int) -> list[int]:
    """The rows in a window after so many rows in the order of event times."""
    return [row for _, row in log[:upto] if row >= since][-n:] if n > 0 else []


def some_log(rnd: Random, size: int) -> Log:
    """Rows with event times that are up to some distance out of order."""
    distance = rnd.choice([0, 2, size])
    return sorted((max(0, row + rnd.randint(-distance, 0)), row) for row in range(size))


def ordered(log: Log) -> OrderedRows:
    order = np.array([row for _, row in log], np.int32)
    ts = np.empty(len(log), np.int64)
    ts[order] = [t for t, _ in log]
    return OrderedRows(order, ts, int(np.abs(order - np.arange(len(order))).max(initial=0)))


def some_windows(rnd: Random, log: Log) -> tuple[Any, Any]:
    size = np.array([rnd.randint(-1, 8) for _ in range(6)])
    return size, np.array([rnd.choice([0, rnd.randint(0, len(log))]) for _ in range(6)])


@pytest.mark.parametrize("seed", range(3))
def test_changes_make_every_window_hold_the_n_latest_rows_at_every_instant(seed: int) -> None:
    rnd = Random(f"windows {seed}")
    for _ in range(100 * TIMES):
        log = some_log(rnd, rnd.randint(1, 25))
        rows, (size, since) = ordered(log), some_windows(rnd, log)
        # Steps end between instants: rows of one event time enter together.
        cuts = [p for p in range(1, len(log)) if log[p][0] > log[p - 1][0] and rnd.random() < 0.4]
        counts: Counter[Any] = Counter()
        for shown, upto in zip([0, *cuts], [*cuts, len(log)], strict=True):
            windows = count_windows(rows, size, since, shown)
            for window, sign, row, begin, end, cause in zip(
                *(x.tolist() for x in enter_and_leave(rows, windows, shown, upto)), strict=True
            ):
                assert begin <= end
                assert (begin, cause >= since[window]) == (rows.ts[cause], True)
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


def test_the_first_place_of_a_window_is_that_of_its_oldest_row() -> None:
    rnd = Random("first")
    for _ in range(200 * TIMES):
        log = some_log(rnd, rnd.randint(1, 25))
        rows, (size, since) = ordered(log), some_windows(rnd, log)
        shown = rnd.randint(0, len(log))
        places = first_places(count_windows(rows, size, since, shown), shown).tolist()
        for place, n, s in zip(places, size.tolist(), since.tolist(), strict=True):
            inside = held(log, shown, n, s)
            assert place == (log.index((int(rows.ts[inside[0]]), inside[0])) if inside else shown)


def test_rows_of_one_instant_beyond_the_size_are_not_sent() -> None:
    rows = ordered([(5, 0), (5, 1), (5, 2)])
    windows = count_windows(rows, np.array([2]), np.array([0]), 0)
    changes = enter_and_leave(rows, windows, 0, 3)
    assert [x.tolist() for x in changes] == [[0, 0], [1, 1], [1, 2], [5, 5], [MAX, MAX], [1, 2]]


def test_a_window_costs_its_changes_not_its_size() -> None:
    rows = ordered([(t, t) for t in range(4000)])

    def work(n: int, windows: int, since: int) -> int:
        of = count_windows(rows, np.full(windows, n), np.full(windows, since), 3999)
        return lines_executed(lambda: enter_and_leave.py_func(rows, of, 3999, 4000))

    for since in (0, 500):
        work(5, 1, since)  # loads the kernels that it calls
        fixed = work(5, 0, since)
        assert work(3000, 50, since) - fixed == work(5, 50, since) - fixed
        assert work(5, 500, since) - fixed <= 10.1 * (work(5, 50, since) - fixed)

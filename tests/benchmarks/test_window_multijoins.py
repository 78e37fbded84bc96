"""The joins of document 2, row by row: their results are those of nested loops over all rows, whatever the settings."""

from __future__ import annotations

from itertools import permutations, product
from random import Random

import numpy as np
import pytest

from benchmarks.yardsticks.window_multijoins import Input, WindowMultijoin, arrivals, hash_of_results


def all_results(rows: Input, windows: list[int], begin: int) -> np.ndarray:  # type: ignore[type-arg]
    """Arrival numbers of all results whose last row is `begin` or later."""
    of_stream = [np.nonzero(rows.stream == s)[0].tolist() for s in range(len(windows))]
    results = [
        r
        for r in product(*of_stream)
        if max(r) >= begin
        and len({int(rows.key[i]) for i in r}) == 1
        and all(i >= max(r) - windows[s] for s, i in enumerate(r))
    ]
    return np.array(results, np.int64).reshape(-1, len(windows)).T


@pytest.mark.parametrize("seed", range(12))
def test_results_do_not_depend_on_order_buckets_or_intervals(seed: int) -> None:
    rnd = Random(seed)
    n = rnd.randint(2, 3)
    rows = arrivals([rnd.randint(1, 4) for _ in range(n)], [rnd.randint(1, 5) for _ in range(n)], 80, seed)
    windows = [rnd.randint(1, 30) for _ in range(n)]
    expected = all_results(rows, windows, 40)
    for order in permutations(range(n)):
        for interval in (0, 1, 7, 100):
            join = WindowMultijoin(rows, order, windows, [rnd.randint(1, 6) for _ in range(n)], interval)
            join.run(40)
            counted = join.run(80)
            assert counted.results == expected.shape[1], f"seed {seed}, {order}, every {interval}"
            assert counted.hash == hash_of_results(expected), f"seed {seed}, {order}, every {interval}"


def test_the_example_of_tables_2_and_3_has_two_correct_results() -> None:
    """Windows of 100, all keys equal. Times of the example, divided by 5, are arrival numbers; no other row joins."""
    stream, key = np.zeros(43, np.int64), np.arange(1, 44)
    for s, times in enumerate([(90, 100), (150, 180), (195, 205)]):
        for t in times:
            stream[t // 5], key[t // 5] = s, 0
    join = WindowMultijoin(Input(stream, key), (0, 1, 2), [20, 20, 20], [1, 1, 1], interval=43)
    counted = join.run(43)
    correct = np.array([[100, 100], [150, 180], [195, 195]]) // 5
    assert (counted.results, counted.hash) == (2, hash_of_results(correct))


def test_a_scan_compares_every_row_of_the_window() -> None:
    rows = Input(np.array([0, 0, 0, 1]), np.array([5, 6, 5, 5]))
    assert WindowMultijoin(rows, (0, 1), [9, 9], [1, 1]).run(4).comparisons == 3
    assert WindowMultijoin(rows, (0, 1), [9, 9], [2, 2]).run(4).comparisons == 2
    assert WindowMultijoin(rows, (0, 1), [2, 9], [1, 1]).run(4).comparisons == 2

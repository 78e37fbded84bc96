"""Intermediate indexes give the results of three-way joins that nested loops give."""

from __future__ import annotations

from collections import Counter
from itertools import combinations, product
from random import Random

import numpy as np
import pytest

from benchmarks.yardsticks.intermediate_indexes import IntermediateIndexes

Row = tuple[int, float, int]  # k, v, ts


@pytest.mark.parametrize("seed", range(10))
def test_results_are_those_of_nested_loops_and_expired_pairs_are_dropped(seed: int) -> None:
    rnd, window = Random(seed), 20
    indexes, pushed = IntermediateIndexes(4, window), [list[Row]() for _ in range(4)]
    results: Counter[tuple[tuple[int, ...], int, tuple[float, ...], int, int]] = Counter()
    for now in range(0, 100, 5):
        for stream in rnd.sample(range(4), 4):
            rows = [(rnd.randrange(3), rnd.random(), now + rnd.randrange(5)) for _ in range(rnd.randint(1, 3))]
            pushed[stream] += rows
            k, v, ts = (np.array([r[i] for r in rows], t) for i, t in enumerate((np.int64, np.float64, np.int64)))
            for streams, joined in indexes.push(stream, k, v, ts):
                values = map(tuple, joined.v.T.tolist())
                columns = zip(joined.k.tolist(), values, joined.latest.tolist(), joined.earliest.tolist(), strict=True)
                results.update((streams, *row) for row in columns)
    expected: Counter[tuple[tuple[int, ...], int, tuple[float, ...], int, int]] = Counter()
    for streams in combinations(range(4), 3):
        for rows_of in product(*(pushed[s] for s in streams)):
            keys, values_of, times = zip(*rows_of, strict=True)
            if len(set(keys)) == 1 and max(times) - min(times) <= window:
                expected[streams, keys[0], values_of, max(times), min(times)] += 1
    assert results == expected and expected, f"seed {seed}"
    oldest = min(int(i.earliest.min()) for i in indexes.pairs.values() if len(i))
    assert oldest >= 90 - window, f"seed {seed}: every stream has reached 90 before the last round"

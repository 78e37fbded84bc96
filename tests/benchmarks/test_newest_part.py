"""Structures for the newest queries of range joins against counting every query on every tuple, in plain lines."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.yardsticks.newest_part import HotspotPart, PartitionPart, RunsPart, Tuples
from eddyline.arrays import Ints

IDS, ROWS, TUPLES = 600, 300, 12
Own = tuple[Ints, Ints]


def plainly(alive: Ints, low: Ints, high: Ints, own: Own, t: Tuples) -> list[int]:
    counts = []
    for begin, end, shift, value in zip(t.begin, t.end, t.shift, t.own, strict=True):
        rows = t.places[begin:end] - shift
        affected = [q for q in alive if ((low[q] <= rows) & (rows <= high[q])).any()]
        if len(own[0]):
            affected = [q for q in affected if own[0][q] <= value <= own[1][q]]
        counts.append(len(affected))
    return counts


@pytest.mark.parametrize("with_own", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_every_structure_counts_the_queries_that_a_tuple_affects(seed: int, with_own: bool) -> None:
    rng = np.random.default_rng(seed)
    middle = rng.choice([rng.integers(0, 1000, IDS), np.full(IDS, 300), np.full(IDS, 310)])
    low = middle - rng.integers(0, 30, IDS)
    high = middle + rng.integers(0, 30, IDS)
    own_low = rng.integers(0, 100, IDS)
    none = np.empty(0, np.int64)
    own = (own_low, own_low + 40) if with_own else (none, none)
    places = np.sort(rng.integers(0, 1000, ROWS))
    parts = [PartitionPart(own), HotspotPart(own), RunsPart(own, places, 4), RunsPart(own, places, np.inf)]
    alive = none
    for start in range(0, IDS, 20):
        gone = rng.permutation(alive)[: rng.integers(0, 30)]
        new = np.arange(start, start + 20)
        alive = np.append(np.setdiff1d(alive, gone), new)
        begin = rng.integers(0, ROWS, TUPLES)
        end = np.minimum(begin + rng.integers(0, 40, TUPLES), ROWS)
        tuples = Tuples(places, begin, end, rng.integers(-50, 50, TUPLES), rng.integers(0, 140, TUPLES))
        counts = plainly(alive, low, high, own, tuples)
        for part in parts:
            part.update(new, gone, low, high)
            assert part.count(tuples).tolist() == counts, f"seed {seed}, {type(part).__name__}, {len(alive)} queries"

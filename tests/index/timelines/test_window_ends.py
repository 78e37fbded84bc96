"""Ends of windows: the rows that leave, and the next to leave, as looking at every row gives."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from eddyline.index.timelines.window_ends import BLOCK, NEVER, WindowQueries, WindowRows, ended_rows
from eddyline.state.store.time_order import TimeOrder
from eddyline.state.store.value_blocks import ValueBlocks


@pytest.mark.parametrize("seed", range(12))
def test_rows_leave_windows_as_looking_at_every_row_gives(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, attributes, queries = int(rng.choice([0, 5, 700, BLOCK, 3 * BLOCK + 17])), int(rng.integers(1, 4)), 40
    ts = np.sort(rng.integers(0, 500, n)) + rng.integers(0, 9, n)
    values = tuple(rng.integers(0, 30, n) for _ in range(attributes))
    order, arrivals = TimeOrder(), np.arange(n) + 7
    sorted_ = ValueBlocks().of(order, ts, values[0])
    rows = WindowRows(order.rows(ts).order, ts, arrivals, values, sorted_)
    low, width = rng.integers(0, 30, (attributes, queries)), rng.integers(0, 300, queries)
    high = low + rng.integers(-1, 20, (attributes, queries))
    high[:, ::5] = NEVER
    since = rng.choice([0, 7, n // 2], queries)

    def ends(q: int) -> list[tuple[int, int]]:
        """(instant, row) of all rows that a query sees."""
        seen = [r for r in range(n) if arrivals[r] >= since[q]]
        own = [r for r in seen if all(low[a, q] <= values[a][r] <= high[a, q] for a in range(attributes))]
        return sorted((int(ts[r] + width[q] + 1), r) for r in own)

    every = [ends(q) for q in range(queries)]
    upto, next_ = 0, np.array([e[0][0] if e else NEVER for e in every])
    gone: list[list[tuple[int, int]]] = [[] for _ in range(queries)]
    while upto < 900:
        upto += int(rng.integers(1, 250))
        query, row, next_ = ended_rows(rows, WindowQueries(low, high, since, width, next_), upto)
        for q, r in zip(query.tolist(), row.tolist(), strict=True):
            gone[q].append((int(ts[r] + width[q] + 1), r))
        for q in range(queries):
            assert sorted(gone[q]) == [e for e in every[q] if e[0] <= upto]
            assert next_[q] == min((e[0] for e in every[q] if e[0] > upto), default=NEVER)


@pytest.mark.parametrize("seed", range(6))
def test_blocks_follow_late_rows_and_evictions(seed: int) -> None:
    rnd = Random(seed)
    order, blocks = TimeOrder(), ValueBlocks()
    ts, values = np.empty(0, np.int64), np.empty(0, np.int64)
    for _ in range(40):
        n = rnd.choice([1, 300, BLOCK])
        late = rnd.choice([0, 0, 5, 2000])
        ts = np.append(ts, len(ts) + np.arange(n) - np.array([rnd.randint(0, late) for _ in range(n)], np.int64))
        values = np.append(values, np.array([rnd.randint(0, 9) for _ in range(n)], np.int64))
        if rnd.random() < 0.1:
            order.rows(ts)
            dropped = rnd.randint(0, len(ts))
            order.drop_oldest(dropped)
            ts, values = ts[dropped:], values[dropped:]
        if rnd.random() < 0.6:
            places, rows = blocks.of(order, ts, values), order.rows(ts).order
            assert len(places) == len(ts) // BLOCK * BLOCK
            for first in range(0, len(places), BLOCK):
                own = values[rows[first : first + BLOCK]]
                assert (np.argsort(own, kind="stable") == places[first : first + BLOCK]).all()

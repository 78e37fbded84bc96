"""The state of MIN and MAX: the extreme of each group at any instant from the clock on, and when it ends."""

from __future__ import annotations

from random import Random
from typing import Literal

import numpy as np
import pyarrow as pa
import pytest

from eddyline import types as t
from eddyline.operators.extremes import Extremes
from eddyline.plan.physical import Buffer
from eddyline.state.delta import MAX, query_of
from tests.operators.driving import Change, delta_of, given
from tests.operators.driving import Source as Input

GROUPS = [0, 1, 2]
BEST = {"least": min, "greatest": max}


def best(changes: list[Change], which: str, group: int, instant: int) -> int | None:
    held: dict[int, int] = {}
    for c in changes:
        if c.query == group and c.ts <= instant <= c.exp and c.row[0] is not None:
            held[c.row[0]] = held.get(c.row[0], 0) + c.sign
    values = [v for v, n in held.items() if n]
    return BEST[which](values) if values else None


def insert(state: Extremes, changes: list[Change], clock: int) -> None:
    rows = delta_of(changes, (t.INT, t.INT), attached=True)
    state.insert(query_of(rows), rows, rows.columns[0], clock)


@pytest.mark.parametrize("retracts", [False, True])
@pytest.mark.parametrize("which", ["least", "greatest"])
def test_extremes_and_their_ends_are_those_of_a_list(which: Literal["least", "greatest"], retracts: bool) -> None:
    for seed in range(10):
        rnd = Random(seed)
        state = Extremes(which, t.INT, Buffer(), retracts=retracts)
        source = Input(rnd, given(per_query=True, retracts=retracts))
        for clock in range(0, 20, 2):
            insert(state, source.batch(clock, GROUPS, 0), clock)
            slot, time = np.repeat(GROUPS, 2), np.array([clock, clock + 1] * 3)
            last = np.array([False, True] * 3)
            values, ends = state.at(slot, time, last, lambda groups: np.full(len(groups), MAX))
            for g, at, value in zip(slot.tolist(), time.tolist(), values.to_pylist(), strict=True):
                assert value == best(source.changes, which, g, at), (seed, g, at)
            for g, value, end in zip(GROUPS, values.to_pylist()[1::2], ends[last].tolist(), strict=True):
                held = [best(source.changes, which, g, i) for i in range(clock + 1, min(end, 40) + 1)]
                assert value is None or set(held) == {value}, (seed, g)
                assert value is None or end == MAX or best(source.changes, which, g, end + 1) != value, (seed, g)
            if rnd.random() < 0.3:
                saved, state = state.stem.save(), Extremes(which, t.INT, Buffer(), retracts=retracts)
                state.stem.load(saved, lambda rows: [query_of(rows)])


def test_without_retractions_rows_that_can_never_be_the_extreme_are_dropped() -> None:
    state = Extremes("greatest", t.INT, Buffer(), retracts=False)
    for clock in range(200):  # of two rows with the same end, the lesser one never is the greatest
        insert(state, [Change((clock % 7, 0), clock, 1000, 1, clock, 0)] * 5, clock)
        values, _ = state.at(np.array([0]), np.array([clock]), np.array([True]), lambda groups: groups)
        assert values == pa.array([min(clock, 6)], t.INT)
    assert len(state.stem) < 20

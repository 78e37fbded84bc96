"""Steps in which several streams have tuples, as a pipeline takes them: joins that share routes answer as alone."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from eddyline.engine import shared_joins
from eddyline.engine.actions import AddQueries, Define, DropQueries, NewFamily
from eddyline.engine.definitions import Definitions
from eddyline.engine.engine import Engine
from eddyline.engine.family import Family
from eddyline.engine.running_family import EngineOptions, arrived
from eddyline.state.delta import Delta, query_of
from tests.engine.test_engine import Contained

SECOND = 1_000_000
STREAMS = ("a", "b", "c")
SHAPES = (
    "FROM a [RANGE 4 SECONDS], b [RANGE 4 SECONDS], c [RANGE 3 SECONDS] WHERE a.k = b.k AND b.k = c.k AND b.v > :lo",
    "FROM a [RANGE 2 SECONDS], b [RANGE 4 SECONDS], c [RANGE 3 SECONDS] WHERE a.k = b.k AND a.v = c.v AND a.v > :lo",
    "FROM a [RANGE 4 SECONDS], b [RANGE 2 SECONDS] WHERE a.k = b.k AND a.v > :lo",
    "FROM a [RANGE 4 SECONDS], a AS x [RANGE 2 SECONDS] WHERE a.k = x.k AND x.v > :lo",
    "FROM c [RANGE 4 SECONDS], b [RANGE 5 SECONDS], c AS x [RANGE 1 SECONDS] WHERE c.k = b.k AND b.k = x.k"
    " AND x.v > :lo AND c.v < b.v",
)


def added(family: int, rnd: Random, name: str) -> AddQueries:
    return AddQueries(family, pa.array([name]), (pa.array([rnd.randrange(5)], pa.int64()),))


def play(seed: int, fewest: int, monkeypatch: pytest.MonkeyPatch) -> tuple[list[Any], int]:
    """The changes of every step in their order, and the partial results of shared routes."""
    monkeypatch.setattr(shared_joins, "FEWEST_JOINS", fewest)
    rnd, made = Random(seed), Engine(Definitions(), Contained(), EngineOptions(results="at once", answers="not kept"))
    for s in STREAMS:
        made.apply(Define(f"CREATE STREAM {s} (k BIGINT, v BIGINT, ts TIMESTAMP) WATERMARK ts"))
    for i, shape in enumerate(SHAPES):
        first = shape.split()[1]
        sql = f"CREATE QUERY FAMILY f{i} (lo BIGINT) AS SELECT {first}.k {shape}"
        made.apply(NewFamily(i + 1, f"f{i}", "declared", sql))
        made.apply(added(i + 1, rnd, f"q{i}"))
    said: list[Any] = []
    undropped = rnd.sample(range(1, len(SHAPES) + 1), len(SHAPES))
    for step in range(20):
        batches: dict[str, Delta] = {}
        for s in rnd.sample(STREAMS, rnd.choice([1, 2, 3])):
            n = rnd.choice([1, 4, 12])
            ts = np.sort(np.array([step * SECOND // 2 + rnd.randrange(SECOND // 2) for _ in range(n)]))
            made.clocks.streams[s].arrive(ts)
            values = [pa.array([rnd.randrange(4) for _ in range(n)], pa.int64()) for _ in range(2)]
            batches[s] = arrived([*values, pa.array(ts).cast(pa.timestamp("us"))], ts, made.arrivals)
            made.arrivals += n

        def rows(family: Family, stream: str, batches: dict[str, Delta] = batches) -> Delta | None:
            return batches.get(stream)

        for part in made.step(rows):
            delta = part.resolve().delta.spread()
            numbers = (query_of(delta), delta.sign, delta.ts, delta.exp, delta.first, delta.last)
            if len(delta):
                said.append((step, part.family.name, delta.columns[0].to_pylist(), *(x.tolist() for x in numbers)))
        if rnd.random() < 0.4:
            family = rnd.randrange(len(SHAPES)) + 1
            made.apply(added(family, rnd, f"late {step}"))
        if rnd.random() < 0.1 and undropped:
            made.apply(DropQueries(undropped.pop(), np.array([0])))
    said.append([r.clock for r in made.running.values()])
    return said, sum(x.routes.built for x in made.shared_joins.values())


@pytest.mark.parametrize("seed", range(8))
def test_steps_of_several_streams_answer_as_joins_alone(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    together, built = play(seed, 2, monkeypatch)
    alone, none = play(seed, 1 << 30, monkeypatch)
    assert together == alone
    assert len(together) > 20 and built > 20 and none == 0, "the joins did not share"

"""Joins of different families that probe together give what each of them gives alone."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import eddyline
from eddyline.engine import shared_joins
from eddyline.local.connection import Connection
from eddyline.state.store.store import LogName

STREAMS = "abcd"
SHAPES = [
    "SELECT {x}.v AS p, {y}.v AS q, {z}.v AS r FROM {x} [RANGE {w} SECONDS], {y} [RANGE 2 SECONDS],"
    " {z} [RANGE 1 SECONDS] WHERE {x}.k = {y}.k AND {y}.k = {z}.k AND {x}.v BETWEEN {lo} AND {hi}",
    "SELECT {x}.v AS p, {z}.v AS r FROM {x} [RANGE 1 SECONDS], {y} [RANGE {w} SECONDS], {z} [RANGE 2 SECONDS]"
    " WHERE {x}.k = {y}.k AND {y}.j = {z}.j AND {z}.v >= {lo} AND {y}.v <> {hi}",
    "SELECT one.v AS p, two.v AS q, {y}.v AS r FROM {x} [RANGE {w} SECONDS] AS one, {x} [RANGE 1 SECONDS] AS two,"
    " {y} [RANGE 1 SECONDS] WHERE one.k = two.k AND {y}.k = two.k AND one.v > {lo}",
    "SELECT {x}.v AS p, {y}.v AS q FROM {x} [RANGE 1 SECONDS], {y} [RANGE 1 SECONDS], {z} [RANGE {w} SECONDS]"
    " WHERE {x}.k = {y}.k AND {y}.k = {z}.k AND {x}.v + {y}.v < {z}.v AND {x}.v < {hi}",
    "SELECT {x}.k AS k, COUNT(*) AS n FROM {x} [RANGE 1 SECONDS], {y} [RANGE 1 SECONDS], {z} [RANGE {w} SECONDS]"
    " WHERE {x}.k = {y}.k AND {x}.k = {z}.k AND {z}.v < {hi} GROUP BY {x}.k",
]


def text(rnd: Random) -> str:
    x, y, z = rnd.sample(STREAMS, 3)
    low = rnd.randint(0, 60)
    return rnd.choice(SHAPES).format(x=x, y=y, z=z, w=rnd.choice([1, 2, 3]), lo=low, hi=low + rnd.choice([5, 30, 60]))


def rows(rng: np.random.Generator, n: int, clock: float) -> pa.Table:
    ts = np.sort(rng.integers(int(clock * 1e6), int(clock * 1e6) + 500_000, n))
    missing = rng.random(n) < 0.1
    return pa.table({
        "k": pa.array(rng.integers(0, 6, n), pa.int64(), mask=missing),
        "j": rng.integers(0, 3, n),
        "v": pa.array(rng.integers(0, 100, n), pa.int64(), mask=rng.random(n) < 0.1),
        "ts": pa.array(ts, pa.timestamp("us")),
    })  # fmt: skip


def world() -> Connection:
    db = eddyline.connect()
    for s in STREAMS:
        db.execute(
            f"CREATE STREAM {s} (k BIGINT, j BIGINT, v BIGINT, ts TIMESTAMP) WATERMARK ts DELAY OF INTERVAL 1 SECOND"
        )
    return db


def told(changes: Any) -> list[Any]:
    named = sorted(changes.queries())
    return [changes.count(), named, [(q, sorted(map(repr, changes.rows(q).to_pylist()))) for q in named]]


def play(seed: int, fewest: int, monkeypatch: pytest.MonkeyPatch) -> tuple[list[Any], int]:
    """What a random run tells; changes are read at once, or after the next push. And how often families shared."""
    monkeypatch.setattr(shared_joins, "FEWEST_JOINS", fewest)
    rnd, rng, db = Random(seed), np.random.default_rng(seed), world()
    known, made, log, unread = list[str](), 0, list[Any](), list[Any]()
    for step in range(30):
        for _ in range(rnd.choice([0, 0, 1, 6]) if step else 12):
            db.execute(f"CREATE CONTINUOUS QUERY q{made} AS {text(rnd)}")
            known.append(f"q{made}")
            made += 1
        if rnd.random() < 0.2:
            db.execute(f"DROP CONTINUOUS QUERY {known.pop(rnd.randrange(len(known)))}")
        some = rnd.sample(STREAMS, rnd.choice([1, 1, 2]))
        tables = {s: rows(rng, rnd.choice([1, 5, 20]), step / 4) for s in some}
        unread.append(db.push(tables))
        if rnd.random() < 0.5:
            log += [told(changes) for changes in unread]
            unread.clear()
    log += [sorted(map(repr, db.snapshot(q).to_pylist())) for q in known]
    return log, sum(x.routes.built for x in db.engine.shared_joins.values())


@pytest.mark.parametrize("seed", range(6))
def test_joins_that_probe_together_answer_as_alone(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    together, built = play(seed, 2, monkeypatch)
    alone, none = play(seed, 1 << 30, monkeypatch)
    assert together == alone
    assert built > 50 and none == 0, "the joins did not share"


def test_a_partial_result_that_no_query_accepts_is_not_probed_further() -> None:
    db = world()
    for i in range(8):
        db.execute(
            f"CREATE CONTINUOUS QUERY q{i} AS SELECT a.k FROM a [RANGE 9 SECONDS], b [RANGE 9 SECONDS],"
            f" c [RANGE 9 SECONDS] WHERE a.k = b.k AND b.k = c.k AND b.v = {i} AND {i} = {i}{' AND a.j >= 0' * (i % 4)}"
        )
    ones = pa.array(np.ones(100, np.int64))
    ts = pa.array(np.arange(100), pa.timestamp("us"))
    db.push("b", pa.table({"k": ones, "j": ones, "v": pa.array(np.full(100, 50)), "ts": ts}))
    db.push("c", pa.table({"k": ones, "j": ones, "v": ones, "ts": ts}))
    assert db.push("a", pa.table({"k": ones, "j": ones, "v": ones, "ts": ts})).count() == 0
    routes = db.engine.shared_joins[LogName("a", "")].routes
    assert len(routes.members) >= 4
    assert routes.built == 100 * 100, "each tuple probes b once; no pair is accepted, so none probes c"


def test_a_family_without_candidates_takes_no_step() -> None:
    db = world()
    for i, column in enumerate(("k", "j", "v", "ts")):
        db.execute(
            f"CREATE CONTINUOUS QUERY q{i} AS SELECT a.{column} FROM a [RANGE 9 SECONDS], b [RANGE 9 SECONDS],"
            f" c [RANGE 9 SECONDS] WHERE a.k = b.k AND b.k = c.k AND a.v = {i}"
        )
    changes = db.push("a", rows(np.random.default_rng(1), 10, 1))
    assert changes.count() == 0 and changes.queries() == [] and not changes.rows("q1").num_rows
    clocks = {r.clock for r in db.engine.running.values()}
    assert clocks == {db.engine.clocks.of({"a", "b", "c"})}


def test_a_failure_in_shared_routes_lets_every_family_probe_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*given: Any) -> Any:
        raise MemoryError

    alone, _ = play(3, 1 << 30, monkeypatch)
    monkeypatch.setattr(shared_joins.SharedRoutes, "candidates", fails)
    assert play(3, 2, monkeypatch)[0] == alone

"""Lazy evaluation in buckets: collected tuples are state, are recovered, and a replayed step is the same to the byte.

The option is given to every query that reads a stream. These runs have no Spark in them: what Spark promises is in
`bare.py`. `EDDYLINE_NIGHTLY=1` plays many more.
"""

from __future__ import annotations

import os
import tempfile
from datetime import timedelta
from pathlib import Path
from random import Random

import pytest

from eddyline.engine.family import Family
from eddyline.spark.worker import keeping
from eddyline.spark.worker.placement import partitioning_of
from tests.oracle import queries
from tests.oracle.scenario import START, stream_row
from tests.spark.bare import Bare
from tests.spark.expected import check, expected
from tests.spark.inputs import Batch, World, families_of, script
from tests.spark.test_replay import Twice, take

SEEDS = range(60 if os.environ.get("EDDYLINE_NIGHTLY") == "1" else 2)


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Snapshots of state are made all the time."""
    monkeypatch.setattr(keeping, "LONGEST_LOG", 3)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def last_batch(rnd: Random) -> Batch:
    """Rows of every stream so much later that every query is evaluated."""
    later = START + timedelta(days=1)
    return Batch(rows={s: [[stream_row(rnd, later)]] for s in queries.STREAMS})


def lazily(milliseconds: int) -> property:
    return property(lambda family: 1000 * milliseconds if family.physical.reads_streams else 0)


@pytest.mark.parametrize("milliseconds", [30, 1_500, 20_000])
@pytest.mark.parametrize("seed", SEEDS)
def test_buckets_deliver_the_same_rows_when_they_are_evaluated_lazily(
    seed: int, milliseconds: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rnd = Random(f"lazy {seed}")
    world = World(rnd)
    batches = [world.batch() for _ in range(10)]
    for batch in batches:  # a dropped query does not get what it would have been sent later
        batch.events = [e for e in batch.events if e[0] != "drop"]
    batches.append(last_batch(rnd))
    with monkeypatch.context() as patched:
        patched.setattr(Family, "evaluate", lazily(milliseconds))
        bare: Bare = Twice(tmp_path, script(tmp_path, world.delays, families_of(batches)), 2)
        for batch in batches:
            take(bare, batch)
        bare.delivery.sweep()
    check(expected(world.delays, batches), tmp_path)


def test_a_filter_that_collects_tuples_runs_in_buckets(tmp_path: Path) -> None:
    catalog = Bare(tmp_path, script(tmp_path, {"r": 0, "s": 0}, []), 2).catalog
    for name, options in {"plain": "", "lazy": " WITH (evaluate = '5 seconds')"}.items():
        catalog.execute(f"CREATE CONTINUOUS QUERY {name}{options} AS SELECT a FROM r WHERE a > 0")
    kinds = [partitioning_of(f, None).kind for f in catalog.definitions.families.values()]
    assert kinds == ["stateless", "anywhere"]

"""Random inputs, cut at random into files, triggers and runs, give the rows that the reference gives.

Which rows were in which micro-batch is read from Spark's logs. `EDDYLINE_NIGHTLY=1` plays many more.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession

from tests.oracle import queries
from tests.spark.inputs import Batch, World
from tests.spark.live import Live
from tests.spark.micro_batches import committed, whole

pytestmark = pytest.mark.xdist_group("spark")
NIGHTLY = os.environ.get("EDDYLINE_NIGHTLY") == "1"
SEEDS = [*range(16 if NIGHTLY else 3)]


@pytest.mark.parametrize("seed", SEEDS)
def test_random_inputs_in_random_files_triggers_and_runs_equal_the_reference(
    seed: int, spark: SparkSession, tmp_path: Path
) -> None:
    rnd = Random(f"inputs {seed}")
    world = World(rnd)
    most = rnd.choice([1, 1, 2, 0])
    trigger = f", maxFilesPerTrigger '{most}'" if most else ""
    live = Live(spark, tmp_path, world.delays, streams=trigger, buckets=rnd.choice([1, 2, 3]))
    live.do(*world.wide(*rnd.sample(["fa", "fb", "fd", "fg", "fj", "fn", "fu", "fw"], 3)), *world.come(), *world.come())
    for available_now in rnd.sample([True, False], 2):
        for batch in pieces(world):
            live.give(batch)
        run = live.start(available_now)
        for batch in pieces(world):
            if rnd.random() < 0.5 and not available_now:
                live.settle()
            live.give(batch)
        if available_now:
            run.awaitTermination()
        elif rnd.random() < 0.5:
            live.settle()
        live.stop()  # in the middle of a micro-batch, if need be
    live.process()
    assert whole(tmp_path / "ck")
    live.check()
    rows = sum(len(part) for batch in live.micro_batches() for parts in batch.rows.values() for part in parts)
    print(f"seed {seed}: {committed(tmp_path / 'ck')} micro-batches, {rows} rows in, {dict(live.judge.compared)}")
    assert live.judge.compared["rows"] and live.judge.compared["queries"] == len(live.judge.host.ended) > 3


def pieces(world: World) -> Iterator[Batch]:
    """What happens next; rows come in files of any size."""
    rnd = world.rnd
    for _ in range(rnd.randint(1, 2)):
        batch = world.batch(rnd.choice([2, 6, 25]))
        if rnd.random() < 0.3:
            batch.rows.setdefault(rnd.choice(sorted(queries.STREAMS)), []).append(world.late_rows(rnd.randint(1, 3)))
        yield batch

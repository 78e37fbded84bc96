"""Many random joins of many inputs in one pipeline give the rows that the reference gives.

The shapes, their variants and the rows are those of `tests/oracle/multi_joins.py`. Which rows were in which micro-batch
is read from Spark's logs. `EDDYLINE_NIGHTLY=1` plays many more.
"""

from __future__ import annotations

import os
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession

from tests.spark.join_inputs import JoinWorld
from tests.spark.live import Live
from tests.spark.micro_batches import whole

pytestmark = pytest.mark.xdist_group("spark")
NIGHTLY = os.environ.get("EDDYLINE_NIGHTLY") == "1"
SEEDS = [*range(40 if NIGHTLY else 3)]


@pytest.mark.parametrize("seed", SEEDS)
def test_random_joins_over_shared_streams_equal_the_reference(seed: int, spark: SparkSession, tmp_path: Path) -> None:
    rnd = Random(f"joins {seed}")
    world = JoinWorld(rnd)
    trigger = rnd.choice(["", ", maxFilesPerTrigger '1'", ", maxFilesPerTrigger '3'"])
    buckets = rnd.choice([1, 2, 3])
    live = Live(spark, tmp_path, world.delays, streams=trigger, schema=world.schema, buckets=buckets)
    live.give(world.first())
    for _ in range(2):  # runs; the second restores what the first has kept
        live.start()
        for _ in range(rnd.randint(2, 3)):
            live.give(world.batch())
            if rnd.random() < 0.7:
                live.settle()
        live.stop()
    live.give(world.last())
    live.process()
    assert whole(tmp_path / "ck")
    live.check()
    print(f"seed {seed}: {len(world.schema.families)} families, {dict(live.judge.compared)}")
    assert live.judge.compared["queries"] == len(live.judge.host.ended) > 3

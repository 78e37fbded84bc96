"""What a run leaves on the machine is only ever a help: lost, damaged or out of date, it changes no row."""

from __future__ import annotations

import shutil
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession

from eddyline.spark.worker.keeping import local_folder
from tests.spark.inputs import World
from tests.spark.live import Live
from tests.spark.processes import jvm, kill, residents

pytestmark = pytest.mark.xdist_group("spark")


def test_local_copies_of_state_may_be_lost_or_damaged(spark: SparkSession, tmp_path: Path) -> None:
    rnd = Random("copies")
    world = World(rnd)
    live = Live(spark, tmp_path, world.delays, ("fj", "fg", "fn"))
    live.do(*world.wide("fj", "fg", "fn"))
    live.put(world.full_batch())
    live.process()
    for damage in ("none", "deleted", "cut off", "emptied", "garbled", "swapped"):
        for resident in residents(jvm()):
            kill(resident)
        copies = [f for bucket in range(2) for f in local_folder(live.pipe.settings, bucket).iterdir()]
        assert len(copies) >= 2
        contents = [f.read_bytes() for f in copies]
        for i, file in enumerate(copies):
            match damage:
                case "deleted":
                    file.unlink()
                case "cut off":
                    file.write_bytes(contents[i][: rnd.randrange(1, len(contents[i]))])
                case "emptied":
                    file.write_bytes(b"")
                case "garbled":
                    file.write_bytes(rnd.randbytes(len(contents[i])))
                case "swapped":
                    file.write_bytes(contents[i - 1])
        live.put(world.full_batch())
        live.caches.clear()
        live.process()
        assert live.caches["miss"] == 2, "state was not brought back"
        live.check()


def test_a_new_checkpoint_in_an_old_place_knows_nothing_of_the_old_one(spark: SparkSession, tmp_path: Path) -> None:
    """Residents are still there from the run before."""
    for attempt in range(2):
        world = World(Random(f"place {attempt}"))
        live = Live(spark, tmp_path, world.delays, ("fa", "fj"))
        live.do(world.members("fa", 1), *world.wide("fa", "fj"), world.members("fj", 1))
        live.put(world.full_batch())
        live.process()
        live.check()
        for left in ("ck", "in", "out"):
            shutil.rmtree(tmp_path / left)

"""A planned micro-batch whose catalog is the problem: a later DROP takes effect in it, and nothing is lost."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from eddyline.spark import amendments
from eddyline.spark.checkpoint import mirror_of
from eddyline.spark.commits import AddQueries, CommitLog, Define, DropQueries, NewFamily, RemoveFamily, Undefine
from eddyline.spark.netting import net
from eddyline.spark.settings import Settings
from tests.spark.inputs import World
from tests.spark.live import Live

pytestmark = pytest.mark.xdist_group("spark")
FAMILIES = ("fa", "fj", "fg")


def declare_unchecked(checkpoint: Path, sql: str) -> None:
    """As an earlier version did, which did not look at formats."""
    log = CommitLog(checkpoint / "eddyline" / "catalog")
    with log.lock():
        log.append([Define(sql)])


def test_dropping_a_sink_that_cannot_be_opened_gets_the_pipeline_going_again(
    spark: SparkSession, tmp_path: Path
) -> None:
    world = World(Random("a bad sink"))
    live = Live(spark, tmp_path, world.delays, FAMILIES)
    live.do(*world.wide(*FAMILIES))
    live.put(world.full_batch())
    live.process()
    declare_unchecked(tmp_path / "ck", "CREATE SINK extra USING parqet")
    live.put(world.full_batch())
    with pytest.raises(StreamingQueryException, match=r"could not be delivered to the sink 'extra'[^$]*DROP SINK"):
        live.process()
    mirror_of(tmp_path / "ck").execute("DROP SINK extra")
    live.open()
    live.do(world.go(), *world.wide("fa"))  # these take effect in the same micro-batch
    live.put(world.full_batch())
    live.process()
    found = live.check()
    assert {family for family, _, _ in found.places} == set(FAMILIES)
    amended = [f.stem for f in (tmp_path / "ck" / "eddyline" / "amendments").iterdir()]
    assert amended == ["000000001"]


def test_rows_for_a_dropped_sink_that_cannot_be_written_are_kept_and_the_run_goes_on(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The sink is dropped while a micro-batch that has rows for it is being delivered."""
    world = World(Random("dropped meanwhile"))
    first = "CREATE SINK first USING foreach_batch FOR fa"
    live = Live(spark, tmp_path, world.delays, FAMILIES, [first])
    live.pipe.execute(f"CREATE SINK gone USING parquet OPTIONS (path '{tmp_path}/gone') FOR fa")

    def break_the_sink(*_: object) -> None:
        mirror_of(tmp_path / "ck").execute("DROP SINK gone")
        for writer in range(8):  # folders are in the way of the files to come
            (tmp_path / "gone" / f"part-000000000-{writer:05}-000.parquet").mkdir()

    live.consumers["first"] = break_the_sink
    live.do(*world.wide(*FAMILIES))
    live.put(world.full_batch())
    live.process()
    live.check()
    kept = list((tmp_path / "ck" / "eddyline" / "undelivered" / "gone").glob("part-000000000-*.parquet"))
    assert kept


# without Spark


def checkpoint(folder: Path, batches: dict[int, int], committed: int) -> Settings:
    """A checkpoint whose offset log has these commits by micro-batch, so many of them committed."""
    for name in ("offsets", "commits"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    for batch, commit in batches.items():
        lines = [{"batchTimestampMs": 1}, {"eddyline": 1, "commit": commit, "now": 1}]
        (folder / "offsets" / str(batch)).write_text("\n".join(["v1", *map(json.dumps, lines)]))
    for batch in range(committed):
        (folder / "commits" / str(batch)).touch()
    return Settings(str(folder), 2, "min", str(folder), "set apart", "null")


def test_a_failed_micro_batch_takes_the_latest_commit_when_it_is_done_again(tmp_path: Path) -> None:
    settings = checkpoint(tmp_path, {0: 3, 1: 5}, 1)
    amendments.note_failure(settings, "a sink")
    found = amendments.amend(settings, 8)
    assert found == amendments.Amendment(1, 8, 1, "a sink")
    assert [amendments.commit_of(tmp_path, b) for b in (0, 1)] == [3, 8]
    amendments.note_failure(settings, "another")
    assert amendments.amend(settings, 9) == amendments.Amendment(1, 9, 2, "another")
    assert amendments.in_force(settings.own, 1, 5) == (9, 2)
    assert amendments.in_force(settings.own, 2, 7) == (9, 0)  # no micro-batch goes back behind it


def test_a_micro_batch_that_was_broken_off_once_is_done_again_as_it_was(tmp_path: Path) -> None:
    settings = checkpoint(tmp_path, {0: 3, 1: 5}, 1)
    assert amendments.amend(settings, 8) is None
    assert amendments.commit_of(tmp_path, 1) == 5


def test_a_micro_batch_that_was_begun_twice_and_never_ended_counts_as_failed(tmp_path: Path) -> None:
    """Nobody may have been left to say so."""
    settings = checkpoint(tmp_path, {0: 3, 1: 5}, 1)
    assert amendments.amend(settings, 8) is None
    found = amendments.amend(settings, 8)
    assert found is not None and found.commit == 8


def test_attempts_at_one_micro_batch_do_not_count_for_the_next(tmp_path: Path) -> None:
    settings = checkpoint(tmp_path, {0: 3, 1: 5}, 1)
    amendments.note_failure(settings, "a sink")
    checkpoint(tmp_path, {2: 5}, 2)
    assert amendments.amend(settings, 8) is None


def test_a_checkpoint_without_a_planned_micro_batch_is_not_amended(tmp_path: Path) -> None:
    settings = checkpoint(tmp_path, {0: 3}, 1)
    amendments.note_failure(settings, "between micro-batches")
    assert amendments.amend(settings, 8) is None
    assert not (settings.own / "attempts.json").exists()


def test_netted_commits_start_nothing_that_they_remove() -> None:
    new = [NewFamily(n, f"f{n}", "declared", "") for n in (4, 5)]
    names = pa.array(["a", "b"])
    added = [AddQueries(n, names, ()) for n in (3, 4, 5)]
    drop = DropQueries(5, np.array([1]))
    found = net([Define("x"), *new, *added, RemoveFamily(4), drop, RemoveFamily(3), Undefine("sink", "x")], {3, 9})
    assert found.actions == [RemoveFamily(3), Define("x"), new[1], added[2], drop, Undefine("sink", "x")]
    assert found.removed == {5: {1}}

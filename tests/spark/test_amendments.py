"""A planned micro-batch whose catalog is the problem: a later DROP takes effect in it, and nothing is lost."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from eddyline.engine import engine
from eddyline.engine.actions import AddQueries, Define, DropQueries, NewFamily, Quarantine, RemoveFamily, Undefine
from eddyline.engine.family import Family
from eddyline.engine.running_family import RunningFamily
from eddyline.errors import CatalogError
from eddyline.spark.catalog import amendments
from eddyline.spark.catalog.commits import CommitLog
from eddyline.spark.catalog.following import net
from eddyline.spark.output.outputs import PER_ATTEMPT, PER_WRITER
from eddyline.spark.run.checkpoint import catalog_of
from eddyline.spark.run.settings import Settings, write_whole
from tests.spark.bare import Bare
from tests.spark.inline import Inline
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
    live.start()
    live.settle()
    declare_unchecked(tmp_path / "ck", "CREATE SINK extra USING parqet")
    live.put(world.full_batch())
    with pytest.raises(StreamingQueryException, match=r"could not be delivered to the sink 'extra'[^$]*DROP SINK"):
        live.settle()
    live.stop()
    with pytest.raises(CatalogError, match=r"Spark has no format 'parqet' for the sink 'extra'[^$]*DROP SINK extra"):
        live.process()
    catalog_of(tmp_path / "ck").execute("DROP SINK extra")
    live.open()
    live.do(world.go(), *world.wide("fa"))  # these take effect in the same micro-batch
    live.put(world.full_batch())
    live.process()
    found = live.check()
    assert {family for family, _, _ in found.places} == set(FAMILIES)
    assert len(list((tmp_path / "ck" / "eddyline" / "amendments").iterdir())) == 1


def test_rows_for_a_dropped_sink_that_cannot_be_written_are_kept_and_the_run_goes_on(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The sink is dropped while a micro-batch that has rows for it is being delivered."""
    world = World(Random("dropped meanwhile"))
    first = "CREATE SINK first USING foreach_batch FOR fa"
    live = Live(spark, tmp_path, world.delays, FAMILIES, [first])
    live.pipe.execute(f"CREATE SINK gone USING parquet OPTIONS (path '{tmp_path}/gone') FOR fa")

    def break_the_sink(*_: object) -> None:
        catalog_of(tmp_path / "ck").execute("DROP SINK gone")
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


def test_a_micro_batch_that_was_delivered_to_all_sinks_is_not_amended(tmp_path: Path) -> None:
    settings = checkpoint(tmp_path, {0: 3, 1: 5}, 1)
    write_whole(settings.clocks_file(1), "{}")
    amendments.note_failure(settings, "a listener")
    assert amendments.amend(settings, 8) is None


def test_amendments_stay_for_long(tmp_path: Path) -> None:
    settings = checkpoint(tmp_path, {0: 3, 1: 5}, 1)
    amendments.note_failure(settings, "a sink")
    amendments.amend(settings, 8)
    amendments.forget(settings, 1 + amendments.KEPT)
    assert amendments.commit_of(tmp_path, 1) == 8
    amendments.forget(settings, 2 + amendments.KEPT)
    assert amendments.commit_of(tmp_path, 1) == 5


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


@pytest.mark.parametrize("distinct", ["", "DISTINCT"])  # answered where rows are packed, and in buckets
def test_a_family_that_cannot_start_goes_into_quarantine_and_others_do_not_notice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, distinct: str
) -> None:
    monkeypatch.setattr(engine, "RunningFamily", refusing(ValueError("no such plan")))
    bare = Bare(tmp_path, f"{STREAM}; CREATE SINK out USING parquet OPTIONS (path '{tmp_path}/out')", 2, "quarantine")
    bare.catalog.execute("CREATE CONTINUOUS QUERY fine AS SELECT k FROM r")
    bare.catalog.execute(f"CREATE QUERY FAMILY bad (n INT) AS SELECT {distinct} k FROM r [RANGE 1 HOUR] WHERE k > :n")
    bare.catalog.register("bad", pa.table({"query": ["a", "b"], "n": pa.array([1, 2], pa.int32())}))
    for now in (1, 2):
        bare.take({"r": [ROWS]}, bare.catalog.version, now)
    (errors,) = bare.catalog.quarantined.values()
    assert list(errors.values()) == ["ValueError: no such plan"] * 2
    assert len(delivered_to(tmp_path / "out")) == 4


def test_a_family_that_is_dropped_is_never_started_in_an_amended_micro_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it does when it starts is the machine's fault, so that it is not put into quarantine."""
    monkeypatch.setattr(engine, "RunningFamily", refusing(OSError("too much")))
    inline = Inline(tmp_path, 2, loses=lambda: True)
    inline.catalog.execute(f"{STREAM}; CREATE SINK out USING parquet OPTIONS (path '{inline.out}')")
    inline.catalog.execute("CREATE CONTINUOUS QUERY fine AS SELECT k FROM r")
    inline.step({"r": [ROWS]})
    inline.catalog.execute("CREATE QUERY FAMILY bad (n INT) AS SELECT DISTINCT k FROM r [RANGE 1 HOUR] WHERE k > :n")
    inline.catalog.register("bad", pa.table({"query": ["a"], "n": pa.array([1], pa.int32())}))
    with pytest.raises(OSError, match="too much"):
        inline.step({"r": [ROWS]})
    inline.catalog.execute("DROP QUERY FAMILY bad; CREATE CONTINUOUS QUERY later AS SELECT k + 1 AS k FROM r")
    inline.step({"r": [ROWS]}, amended=1)
    inline.step({"r": [ROWS]})
    found = delivered_to(inline.out)
    assert Counter(query for query, *_ in found) == {"fine": 6, "later": 4}
    positions = [position % PER_WRITER for _, batch, position in found if batch == 1]
    assert positions and min(positions) >= PER_ATTEMPT, "positions of the attempt before might mean other rows"
    assert all(position % PER_WRITER < PER_ATTEMPT for _, batch, position in found if batch != 1)


STREAM = "CREATE STREAM r (k INT, ts TIMESTAMP) WATERMARK ts"
ROWS = pa.table({"k": pa.array([1, 2], pa.int32()), "ts": pa.array([5, 5], pa.timestamp("us"))})


def refusing(error: Exception) -> type[RunningFamily]:
    """A family called `bad` that cannot start."""

    class Refusing(RunningFamily):
        def __init__(self, family: Family, *more: Any, **others: Any) -> None:
            if family.name == "bad":
                raise error
            super().__init__(family, *more, **others)

    return Refusing


def delivered_to(out: Path) -> list[tuple[str, int, int]]:
    tables = [pq.read_table(f).select(["query", "batch", "position"]) for f in out.glob("*/part-*")]
    return [tuple(row.values()) for t in tables for row in t.to_pylist()]  # type: ignore[misc]


def test_netted_commits_start_nothing_that_they_remove() -> None:
    new = [NewFamily(n, f"f{n}", "declared", "") for n in (4, 5)]
    names = pa.array(["a", "b"])
    added = [AddQueries(n, names, ()) for n in (3, 4, 5)]
    drop, quarantine, end = DropQueries(5, np.array([1])), Quarantine(3, (7,), "for a reason"), RemoveFamily(3)
    given = [Define("x"), *new, *added, quarantine, RemoveFamily(4), drop, end, Undefine("sink", "x")]
    amended = net(given, {3, 9}, "first")
    assert amended.actions == [end, Define("x"), new[1], added[2], drop, Undefine("sink", "x")]
    planned = net(given, {3, 9}, "in order")
    assert planned.actions == [Define("x"), new[1], added[2], quarantine, drop, end, Undefine("sink", "x")]
    assert [n.removed[5].tolist() for n in (amended, planned)] == [[1], [1]]

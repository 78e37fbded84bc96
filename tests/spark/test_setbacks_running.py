"""What may go wrong while a pipeline runs, one thing at a time: no row is lost, and nobody else stops."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import eddyline
from eddyline.engine import running_family as running
from eddyline.engine.running_family import RunningFamily
from eddyline.errors import StateError
from eddyline.operators.base import Step
from eddyline.spark.catalog import logged
from eddyline.spark.catalog.pipeline_catalog import PipelineCatalog
from eddyline.spark.input.control import ControlReader
from eddyline.spark.run.checkpoint import Alone
from eddyline.spark.worker import keeping
from eddyline.spark.worker.calling import machine_folder
from tests.spark.inline import Inline
from tests.spark.processes import until
from tests.spark.setbacks import ADD, COUNT, SINK, STREAM, bare, batches, no_room, rows, take

pytestmark = pytest.mark.usefixtures("apart")
OVERFLOWS = {"query": "over", "by": 2**63 - 10}


# quarantine


def test_a_query_that_was_dropped_before_its_quarantine_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logged, "COMMITS", 2)
    host = bare(tmp_path, ADD, SINK)
    host.catalog.register("f", [OVERFLOWS])
    version = host.catalog.log.latest()
    other = PipelineCatalog(host.settings.log())
    other.drop("f", ["over"])
    for i in range(3):  # until a snapshot no longer knows the query
        other.execute(f"CREATE SINK s{i} USING console FOR f")
        other.execute(f"DROP SINK s{i}")
    host.start("\n".join((STREAM, ADD, SINK)))
    take(host, (1, 100, 0), version=version)
    assert host.catalog.quarantined == {}


def test_a_run_over_what_is_there_takes_up_quarantines_and_no_other_commit(tmp_path: Path) -> None:
    host = bare(tmp_path, ADD, SINK)
    host.catalog.register("f", [OVERFLOWS])
    reader = ControlReader(host.settings.log().path, 0)
    reader.prepareForTriggerAvailableNow()
    offset = reader.initialOffset()
    for v in (1, 100, 2, 100, 3):
        offset = reader.latestOffset(offset, None)  # type: ignore[arg-type]
        take(host, (1, v, host.batch), version=offset["commit"])
    assert batches(tmp_path / "out") == [0]
    assert [len(found) for found in host.catalog.quarantined.values()] == [1]
    host.catalog.register("f", [{"query": "new", "by": 0}])
    assert reader.latestOffset(offset, None) == offset  # type: ignore[arg-type]


def failing(monkeypatch: pytest.MonkeyPatch, when: Callable[[int], bool], error: Exception) -> None:
    """Lets steps of families fail, by their number from here on."""
    real, count = RunningFamily.arrive, iter(range(1000))

    def arrive(self: RunningFamily, *given: Any, **named: Any) -> Any:
        if when(next(count)):
            raise error
        return real(self, *given, **named)

    monkeypatch.setattr(RunningFamily, "arrive", arrive)


def test_memory_that_a_family_does_not_get_is_its_own_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    host = bare(tmp_path, COUNT, "CREATE CONTINUOUS QUERY other AS SELECT DISTINCT v FROM t;", SINK, buckets=1)
    take(host, (1, 1, 0))
    with monkeypatch.context() as patch:
        failing(patch, lambda n: n == 0, MemoryError("for a moment"))
        take(host, (1, 2, 1))
    take(host, (1, 3, 2))
    assert list(host.catalog.quarantined.values()) == [{0: "MemoryError: for a moment"}]
    assert batches(tmp_path / "out" / "family_1") == [0] and batches(tmp_path / "out" / "family_2") == [0, 1, 2]


CROSS = "CREATE CONTINUOUS QUERY cross_ WITH (most_bytes = '100000') AS SELECT x.v, y.v AS w FROM t x, t y;"


def test_a_join_that_explodes_goes_into_quarantine_and_stops_nobody_else(tmp_path: Path) -> None:
    host = bare(tmp_path, CROSS, COUNT, SINK, buckets=1)
    take(host, (1, 1, 0), (1, 2, 0))
    take(host, *((1, i, 1) for i in range(200)))
    (error,) = host.catalog.quarantined.popitem()[1].values()
    assert "would make a step larger than 100,000 bytes" in error
    host.start(STREAM)
    take(host, (1, 1, 2))
    host.catalog.execute("DROP CONTINUOUS QUERY cross_")
    take(host, (1, 1, 3))
    assert batches(tmp_path / "out" / "family_1") == [0] and batches(tmp_path / "out" / "family_2") == [0, 1, 2, 3]


@pytest.mark.parametrize("query", ["SELECT DISTINCT v FROM t", "SELECT v FROM t WHERE v > 3"])
def test_a_family_whose_operators_cannot_be_built_stops_nobody_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, query: str
) -> None:
    host = bare(tmp_path, COUNT, SINK)
    host.catalog.execute(f"CREATE CONTINUOUS QUERY bad AS {query}")  # by a version that could
    real = running.build

    def lower(plan: Any, *given: Any) -> Any:
        if "GroupBy" not in repr(plan):
            raise RuntimeError("not this plan")
        return real(plan, *given)

    monkeypatch.setattr(running, "build", lower)
    with pytest.raises(eddyline.FamilyError, match="not this plan"):
        host.catalog.execute(f"CREATE CONTINUOUS QUERY worse AS {query} UNION ALL {query}")
    host.start(STREAM)
    take(host, (1, 1, 0))
    take(host, (1, 5, 1))
    assert batches(tmp_path / "out" / "family_1") == [0, 1]
    assert list(host.catalog.quarantined.values()) == [{0: "RuntimeError: not this plan"}]
    host.catalog.execute("DROP CONTINUOUS QUERY bad")
    take(host, (1, 1, 2))
    assert batches(tmp_path / "out" / "family_1") == [0, 1, 2]


def test_a_family_that_fails_only_when_it_is_brought_back_stops_the_run_and_not_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = bare(tmp_path, COUNT, SINK, buckets=1)
    for second in range(3):
        take(host, (1, 1, second))
    host.start(STREAM)
    with monkeypatch.context() as patch:
        failing(patch, lambda n: n == 1, RuntimeError("for a moment"))
        with pytest.raises(StateError, match="'family_1' failed in a step that it had taken before: RuntimeError"):
            take(host, (1, 1, 3))
    take(host, (1, 1, 3))
    assert batches(tmp_path / "out") == [0, 1, 2, 3] and host.catalog.quarantined == {}


def test_a_family_that_failed_once_has_failed_also_when_it_is_brought_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else it would know more after its queries were resumed than a bucket that was never lost."""
    found = []
    for lost in (False, True):
        folder = tmp_path / str(lost)
        host = bare(folder, COUNT, SINK, buckets=1)
        take(host, (1, 1, 0))
        with monkeypatch.context() as patch:
            failing(patch, lambda n: n == 0, RuntimeError("once"))
            take(host, (1, 1, 1))
        take(host, (1, 1, 2))
        host.catalog.resume("q")
        take(host, (1, 1, 3))
        if lost:
            host.start(STREAM)
        take(host, (1, 1, 4))
        found.append([pq.read_table(f).drop_columns(["ts"]) for f in sorted((folder / "out").rglob("part-*"))])
    assert found[0] == found[1] and len(found[0]) == 3


def test_a_family_that_cannot_start_stops_nobody_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    host = bare(tmp_path, "CREATE TABLE c (k INT);", "INSERT INTO c VALUES (1);", COUNT, SINK)
    real = RunningFamily.run

    def run(self: RunningFamily, step: Step) -> Any:
        if step.tables:
            raise RuntimeError("not this table")
        return real(self, step)

    monkeypatch.setattr(RunningFamily, "run", run)
    host.catalog.execute("CREATE CONTINUOUS QUERY bad AS SELECT t.v FROM t, c WHERE t.k = c.k")
    take(host, (1, 1, 0))
    take(host, (1, 1, 1))
    assert batches(tmp_path / "out" / "family_1") == [0, 1]
    assert list(host.catalog.quarantined.values()) == [{0: "RuntimeError: not this table"}]


def test_a_family_that_cannot_forget_a_dropped_query_stops_nobody_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    family = "CREATE QUERY FAMILY g (lo BIGINT) AS SELECT DISTINCT v FROM t WHERE v > :lo;"
    host = bare(tmp_path, COUNT, family, SINK, buckets=1)
    host.catalog.register("g", [{"query": f"q{i}", "lo": 0} for i in range(3)])
    take(host, (1, 1, 0))
    monkeypatch.setattr(RunningFamily, "forget", lambda self, ids: True)
    monkeypatch.setattr(RunningFamily, "compact", lambda self: 1 / 0)
    host.catalog.drop("g", ["q1"])
    take(host, (1, 2, 1))
    take(host, (1, 3, 2))
    assert batches(tmp_path / "out" / "family_1") == [0, 1, 2]
    assert [sorted(out) for out in host.catalog.quarantined.values()] == [[0, 2]]


def test_families_that_cannot_be_matched_together_are_matched_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filters = [
        f"CREATE CONTINUOUS QUERY f{i} AS SELECT {', '.join(['v'] * (i + 1))} FROM t WHERE v > 0;" for i in range(5)
    ]
    host = bare(tmp_path, *filters, SINK, buckets=1)
    monkeypatch.setattr("eddyline.operators.pool.PoolMatching._in_portions", lambda *_: 1 / 0)
    take(host, (1, 1, 0))
    assert [batches(tmp_path / "out" / f"family_{i + 1}") for i in range(5)] == [[0]] * 5
    assert host.catalog.quarantined == {}


# sinks


def test_rows_go_where_their_sink_was_when_they_were_made(tmp_path: Path) -> None:
    host = bare(tmp_path, COUNT, SINK)
    version = host.catalog.log.latest()
    host.catalog.execute("DROP SINK out; CREATE SINK out USING json OPTIONS (path 'other')")  # while it is computed
    take(host, (1, 1, 0), version=version)
    take(host, (1, 1, 1))
    assert batches(tmp_path / "out") == [0] and batches(tmp_path / "other") == [1]
    assert not list((tmp_path / "out" / "_staged").iterdir())
    (file,) = (tmp_path / "other").rglob("part-*")
    assert json.loads(file.read_text().splitlines()[0])["batch"] == 1


# machines


def test_a_machine_without_room_for_copies_of_state_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    host = bare(tmp_path, COUNT, SINK)
    monkeypatch.setattr(Path, "write_bytes", no_room)
    take(host, (1, 1, 0))
    assert batches(tmp_path / "out") == [0]
    assert not [f for f in (machine_folder() / "segments").rglob("*") if f.is_file()]


def test_a_folder_that_others_can_write_to_is_not_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine_folder().chmod(0o777)
    with pytest.raises(StateError, match="is open to other users"):
        machine_folder()


def test_what_is_known_of_queries_that_have_gone_is_let_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeping, "LONGEST_LOG", 3)
    host = bare(tmp_path, "CREATE QUERY FAMILY f (w INT) AS SELECT count(*) AS n FROM t [RANGE :w SECONDS];", buckets=1)
    host.catalog.register("f", [{"query": "stays", "w": 5}])
    for i in range(20):
        host.catalog.register("f", [{"query": f"q{i}", "w": 5}])
        take(host, (1, 1, i))
        host.catalog.drop("f", [f"q{i}"])
    ((runs,),) = [json.loads(store.head or b"")["meta"]["since"].values() for store in host.stores]
    assert len(runs) <= 3
    host.start(STREAM)
    take(host, (1, 1, 20))


def test_two_processes_cannot_run_one_checkpoint(tmp_path: Path) -> None:
    code = (
        "import sys, pathlib; from eddyline.spark.run.checkpoint import Alone\n"
        "with Alone(pathlib.Path(sys.argv[1])): pathlib.Path(sys.argv[1], 'held').touch(); sys.stdin.read()"
    )
    other = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdin=subprocess.PIPE, env=os.environ)
    try:
        assert until((tmp_path / "held").exists)
        with pytest.raises(StateError, match="Another run is at work"), Alone(tmp_path):
            pass
    finally:
        other.communicate()
    with Alone(tmp_path), Alone(tmp_path):
        pass
    with Alone(tmp_path, lambda: True), pytest.raises(StateError, match="Another run is at work"), Alone(tmp_path):
        pass


# time


def test_tuples_behind_the_clock_of_a_query_are_set_apart_under_the_latest_clock(tmp_path: Path) -> None:
    inline = Inline(tmp_path, 2, clock="max")
    for statement in (
        "CREATE STREAM r (k INT, ts TIMESTAMP) WATERMARK ts",
        "CREATE STREAM s (k INT, ts TIMESTAMP) WATERMARK ts",
        "CREATE CONTINUOUS QUERY q AS SELECT r.k FROM r [RANGE 10 SECONDS], s [RANGE 10 SECONDS] WHERE r.k = s.k",
    ):
        inline.catalog.execute(statement)
    inline.step({"r": [rows((1, 0, 100)).drop_columns("v")]})
    inline.step({"s": [rows((1, 0, 50), (2, 0, 100), (3, 0, 95)).drop_columns("v")]})
    (file,) = (inline.settings.own / "dead_letter" / "s").glob("part-*")
    found = pq.read_table(file)
    assert found["k"].to_pylist() == [1, 3]
    assert set(found["reason"].to_pylist()) == {"behind the clock of a query"}


# files

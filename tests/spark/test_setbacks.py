"""What may go wrong around a pipeline, one thing at a time: no row is lost, nobody else stops, the log stays whole."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from eddyline.errors import CatalogError, DataError, Error, StateError
from eddyline.local.running import RunningFamily
from eddyline.spark import Pipeline, keeping
from eddyline.spark import mirror as mirror_of_a_pipeline
from eddyline.spark.bad_files import File, unread
from eddyline.spark.calling import machine_folder
from eddyline.spark.checkpoint import Alone
from eddyline.spark.commits import CommitLog
from eddyline.spark.control import ControlReader
from eddyline.spark.mirror import Mirror
from tests.spark.bare import Bare
from tests.spark.inline import Inline
from tests.spark.processes import until

STREAM = "CREATE STREAM t (k INT, v BIGINT, ts TIMESTAMP) WATERMARK ts USING parquet OPTIONS (path 'in');"
SINK = "CREATE SINK out USING parquet OPTIONS (path 'out');"
COUNT = "CREATE CONTINUOUS QUERY q AS SELECT k, count(*) AS n FROM t [RANGE 100 SECONDS] GROUP BY k;"
ADD = "CREATE QUERY FAMILY f (by BIGINT) AS SELECT k, v + :by AS w FROM t;"
OVERFLOWS = {"query": "over", "by": 2**63 - 10}


@pytest.fixture(autouse=True)
def _apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def bare(folder: Path, *statements: str, buckets: int = 2) -> Bare:
    return Bare(folder, "\n".join((STREAM, *statements)), buckets, "quarantine")


def rows(*found: tuple[int, int, int]) -> pa.Table:
    """k, v and the second."""
    k, v, ts = zip(*found, strict=True)
    times = pa.array([t * 1_000_000 for t in ts], pa.int64()).cast(pa.timestamp("us"))
    return pa.table({"k": pa.array(k, pa.int32()), "v": pa.array(v, pa.int64()), "ts": times})


def take(host: Bare, *found: tuple[int, int, int], version: int | None = None) -> list[dict[str, Any]]:
    latest = host.mirror.log.latest()
    return host.take({"t": [rows(*found)]}, latest if version is None else version, 1000 * host.batch)


def batches(folder: Path) -> list[int]:
    """The micro-batches of which a sink has files."""
    return sorted({int(f.name.split("-")[1]) for f in folder.rglob("part-*")})


def no_room(*_: Any) -> None:
    raise OSError(28, "No space left on device")


# the catalog


def test_a_commit_that_cannot_be_written_leaves_the_catalog_as_the_log_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = bare(tmp_path, SINK)
    with monkeypatch.context() as patch:
        patch.setattr(CommitLog, "_write", no_room)
        with pytest.raises(OSError, match="No space"):
            host.mirror.execute(COUNT)
    assert not list(host.mirror.registry)
    host.mirror.execute(COUNT)
    take(host, (1, 5, 2))
    assert batches(tmp_path / "out") == [0]
    Mirror(host.settings.log()).catch_up()


def test_a_sink_may_have_the_name_of_a_stream_and_go(tmp_path: Path) -> None:
    host = bare(tmp_path, COUNT, SINK, "CREATE SINK t USING json OPTIONS (path 'other');")
    take(host, (1, 5, 0))
    host.mirror.execute("DROP SINK t")
    take(host, (1, 5, 2))
    assert batches(tmp_path / "out") == [0, 1] and batches(tmp_path / "other") == [0]


def started(host: Bare) -> None:
    """As Spark leaves it when it has planned a micro-batch."""
    offsets = Path(host.settings.checkpoint) / "offsets"
    offsets.mkdir(exist_ok=True)
    (offsets / "0").touch()


def test_streams_of_a_pipeline_that_has_started_stay(tmp_path: Path) -> None:
    host = bare(tmp_path)
    started(host)
    with pytest.raises(CatalogError, match="'t' stays: Spark fixes the sources"):
        host.mirror.execute("DROP STREAM t")
    assert host.mirror.catalog.streams.get("t") is not None


def test_a_sink_in_code_without_its_function_is_refused_while_a_pipeline_runs(tmp_path: Path) -> None:
    host = bare(tmp_path, COUNT)
    started(host)
    with pytest.raises(CatalogError, match="The sink 'own' has no function"):
        host.mirror.execute("CREATE SINK own USING foreach_batch FOR q")
    host.mirror.served.add("own")
    host.mirror.execute("CREATE SINK own USING foreach_batch FOR q")


def test_a_statement_that_a_script_has_twice_is_carried_out_twice_and_not_again(tmp_path: Path) -> None:
    script = ("CREATE TABLE c (k INT);", *["INSERT INTO c VALUES (1);"] * 2)
    host = bare(tmp_path, *script)
    assert host.mirror.execute("SELECT k FROM c").num_rows == 2
    host.start("\n".join((STREAM, *script)))
    assert host.mirror.execute("SELECT k FROM c").num_rows == 2


def test_a_statement_is_known_by_its_words(tmp_path: Path) -> None:
    host = bare(tmp_path, COUNT, SINK)
    take(host, (1, 1, 0))
    spaced = COUNT.replace(" AS ", "  /* but */ AS  ").replace("GROUP BY", "GROUP   BY")
    host.start(f"-- the same\n{STREAM}\n{spaced}\n{SINK}")
    assert host.mirror.execute("SHOW QUERIES").num_rows == 1 and not host.mirror.dropped_from_script
    with pytest.raises(CatalogError, match="There is already a query 'q'") as e:
        host.start(f"{STREAM}\n{COUNT.replace('100', '200')}")
    assert "The checkpoint has it from before" in str(e.value)


def test_a_script_that_never_ran_may_be_changed_at_will(tmp_path: Path) -> None:
    host = bare(tmp_path, COUNT, SINK)
    host.start(STREAM.replace("k INT", "k BIGINT") + COUNT.replace("100", "200"))
    assert host.mirror.execute("SHOW QUERIES").num_rows == 1 and not len(host.mirror.catalog.sinks)
    host.mirror.execute("CREATE CONTINUOUS QUERY other AS SELECT k FROM t")  # not by a script: it stays
    with pytest.raises(CatalogError, match="is taken by a stream"):
        host.start(STREAM)
    assert host.mirror.execute("SHOW QUERIES").num_rows == 2


def test_a_function_that_cannot_be_sent_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    host = bare(tmp_path)
    lock = threading.Lock()
    with pytest.raises(DataError, match="The function 'held' cannot be pickled"):
        host.mirror.function("held", lambda k: lock and k, ["INT"], "INT")
    with pytest.raises(Error, match="held"):
        host.mirror.execute("CREATE CONTINUOUS QUERY h AS SELECT held(k) AS k FROM t")


def test_files_of_the_log_may_go_while_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mirror_of_a_pipeline, "COMMITS", 4)
    host = bare(tmp_path, ADD)
    for i in range(6):
        host.mirror.register("f", [{"query": f"q{i}", "by": i}])
    log = CommitLog(host.settings.log().path)
    read = log.read_snapshot

    def read_late(number: int) -> Any:
        for i in range(6, 12):
            host.mirror.register("f", [{"query": f"q{i}", "by": i}])
        host.mirror.log.trim(host.mirror.version)
        monkeypatch.setattr(log, "read_snapshot", read)
        return read(number)

    monkeypatch.setattr(log, "read_snapshot", read_late)
    reader = Mirror(log)
    reader.catch_up()
    assert reader.execute("SHOW QUERIES").num_rows == 12


# quarantine


def test_a_query_that_was_dropped_before_its_quarantine_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mirror_of_a_pipeline, "COMMITS", 2)
    host = bare(tmp_path, ADD, SINK)
    host.mirror.register("f", [OVERFLOWS])
    version = host.mirror.log.latest()
    other = Mirror(host.settings.log())
    other.drop("f", ["over"])
    for i in range(3):  # until a snapshot no longer knows the query
        other.execute(f"CREATE SINK s{i} USING console FOR f")
        other.execute(f"DROP SINK s{i}")
    host.start("\n".join((STREAM, ADD, SINK)))
    take(host, (1, 100, 0), version=version)
    assert host.mirror.quarantined == {}


def test_a_run_over_what_is_there_takes_up_quarantines_and_no_other_commit(tmp_path: Path) -> None:
    host = bare(tmp_path, ADD, SINK)
    host.mirror.register("f", [OVERFLOWS])
    reader = ControlReader(host.settings.log().path, 0)
    reader.prepareForTriggerAvailableNow()
    offset = reader.initialOffset()
    for v in (1, 100, 2, 100, 3):
        offset = reader.latestOffset(offset, None)  # type: ignore[arg-type]
        take(host, (1, v, host.batch), version=offset["commit"])
    assert batches(tmp_path / "out") == [0]
    assert [len(found) for found in host.mirror.quarantined.values()] == [1]
    host.mirror.register("f", [{"query": "new", "by": 0}])
    assert reader.latestOffset(offset, None) == offset  # type: ignore[arg-type]


def failing(monkeypatch: pytest.MonkeyPatch, when: Callable[[int], bool], error: Exception) -> None:
    """Lets steps of families fail, by their number from here on."""
    real, count = RunningFamily.run, iter(range(1000))

    def run(self: RunningFamily, *given: Any, **named: Any) -> Any:
        if when(next(count)):
            raise error
        return real(self, *given, **named)

    monkeypatch.setattr(RunningFamily, "run", run)


def test_a_machine_without_memory_is_the_fault_of_no_query(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    host = bare(tmp_path, COUNT, SINK, buckets=1)
    take(host, (1, 1, 0))
    with monkeypatch.context() as patch:
        failing(patch, lambda n: n == 0, MemoryError("for a moment"))
        with pytest.raises(StateError, match="MemoryError: for a moment"):
            take(host, (1, 1, 1))
    take(host, (1, 1, 1))
    assert batches(tmp_path / "out") == [0, 1] and host.mirror.quarantined == {}


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
    assert batches(tmp_path / "out") == [0, 1, 2, 3] and host.mirror.quarantined == {}


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
        host.mirror.resume("q")
        take(host, (1, 1, 3))
        if lost:
            host.start(STREAM)
        take(host, (1, 1, 4))
        found.append([pq.read_table(f).drop_columns(["ts"]) for f in sorted((folder / "out").rglob("part-*"))])
    assert found[0] == found[1] and len(found[0]) == 3


def test_a_family_that_cannot_start_stops_nobody_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    host = bare(tmp_path, "CREATE TABLE c (k INT);", "INSERT INTO c VALUES (1);", COUNT, SINK)
    real = RunningFamily.run

    def run(self: RunningFamily, *given: Any, **named: Any) -> Any:
        if named.get("tables"):
            raise RuntimeError("not this table")
        return real(self, *given, **named)

    monkeypatch.setattr(RunningFamily, "run", run)
    host.mirror.execute("CREATE CONTINUOUS QUERY bad AS SELECT t.v FROM t, c WHERE t.k = c.k")
    take(host, (1, 1, 0))
    take(host, (1, 1, 1))
    assert batches(tmp_path / "out" / "family_1") == [0, 1]
    assert list(host.mirror.quarantined.values()) == [{0: "RuntimeError: not this table"}]


# sinks


def test_rows_go_where_their_sink_was_when_they_were_made(tmp_path: Path) -> None:
    host = bare(tmp_path, COUNT, SINK)
    version = host.mirror.log.latest()
    host.mirror.execute("DROP SINK out; CREATE SINK out USING json OPTIONS (path 'other')")  # while it is computed
    take(host, (1, 1, 0), version=version)
    take(host, (1, 1, 1))
    assert batches(tmp_path / "out") == [0] and batches(tmp_path / "other") == [1]
    assert not list((tmp_path / "out" / "_staged").iterdir())
    (file,) = (tmp_path / "other").rglob("part-*")
    assert json.loads(file.read_text().splitlines()[0])["batch"] == 1


# what users say


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"buckets": 0}, "at least one bucket"),
        ({"clock": "mid"}, "clock is 'min' or 'max', not 'mid'"),
        ({"on_error": "nul"}, "on_error is 'quarantine' or 'null'"),
        ({"on_bad_rows": "go on"}, "on_bad_rows is 'set apart' or 'stop'"),
        ({"script": "no such file"}, "cannot be read"),
    ],
)
def test_what_a_pipeline_is_given_is_checked_before_it_begins(
    tmp_path: Path, given: dict[str, Any], problem: str
) -> None:
    script = tmp_path / "pipeline.sql"
    script.write_text(STREAM)
    with pytest.raises(DataError, match=problem):
        Pipeline(None, **({"script": script, "checkpoint": tmp_path / "ck"} | given))  # type: ignore[arg-type]
    assert not (tmp_path / "ck").exists()


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
    host.mirror.register("f", [{"query": "stays", "w": 5}])
    for i in range(20):
        host.mirror.register("f", [{"query": f"q{i}", "w": 5}])
        take(host, (1, 1, i))
        host.mirror.drop("f", [f"q{i}"])
    ((runs,),) = [json.loads(store.head or b"")["meta"]["since"].values() for store in host.stores]
    assert len(runs) <= 3
    host.start(STREAM)
    take(host, (1, 1, 20))


def test_two_processes_cannot_run_one_checkpoint(tmp_path: Path) -> None:
    code = (
        "import sys, pathlib; from eddyline.spark.checkpoint import Alone\n"
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
        inline.mirror.execute(statement)
    inline.step({"r": [rows((1, 0, 100)).drop_columns("v")]})
    inline.step({"s": [rows((1, 0, 50), (2, 0, 100), (3, 0, 95)).drop_columns("v")]})
    (file,) = (inline.settings.own / "dead_letter" / "s").glob("part-*")
    found = pq.read_table(file)
    assert found["k"].to_pylist() == [1, 3]
    assert set(found["reason"].to_pylist()) == {"behind the clock of a query"}


# files


@pytest.mark.parametrize(
    ("files", "came", "bad"),
    [
        ([File("a", 3), File("b", 4)], 7, []),
        ([File("a", 3), File("b", 0, "no footer")], 3, ["b"]),
        ([File("a", 3), File("b", 4, "another type", sure=False)], 7, []),
        ([File("a", 3), File("b", 4, "another type", sure=False)], 3, ["b"]),
        ([File("/no/such", 3), File("b", 4, "another type", sure=False)], 2, ["b", "/no/such"]),
    ],
)
def test_files_are_held_to_the_rows_that_came(files: list[File], came: int, bad: list[str]) -> None:
    assert [f.path for f in unread(files, came)] == bad

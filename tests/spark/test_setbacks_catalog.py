"""What may go wrong with the catalog, scripts and settings: the log stays whole, and what does not fit is refused."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from eddyline.errors import CatalogError, DataError, Error
from eddyline.spark import Pipeline
from eddyline.spark.catalog import logged
from eddyline.spark.catalog.commits import CommitLog
from eddyline.spark.catalog.pipeline_catalog import PipelineCatalog
from tests.spark.bare import Bare
from tests.spark.setbacks import ADD, COUNT, SINK, STREAM, bare, batches, no_room, take

pytestmark = pytest.mark.usefixtures("apart")


# the catalog


def test_a_commit_that_cannot_be_written_leaves_the_catalog_as_the_log_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = bare(tmp_path, SINK)
    with monkeypatch.context() as patch:
        patch.setattr(CommitLog, "_write", no_room)
        with pytest.raises(OSError, match="No space"):
            host.catalog.execute(COUNT)
    assert not list(host.catalog.registry)
    host.catalog.execute(COUNT)
    take(host, (1, 5, 2))
    assert batches(tmp_path / "out") == [0]
    PipelineCatalog(host.settings.log()).catch_up()


def test_a_sink_may_have_the_name_of_a_stream_and_go(tmp_path: Path) -> None:
    host = bare(tmp_path, COUNT, SINK, "CREATE SINK t USING json OPTIONS (path 'other');")
    take(host, (1, 5, 0))
    host.catalog.execute("DROP SINK t")
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
        host.catalog.execute("DROP STREAM t")
    assert host.catalog.catalog.streams.get("t") is not None


def test_a_sink_in_code_without_its_function_is_refused_while_a_pipeline_runs(tmp_path: Path) -> None:
    host = bare(tmp_path, COUNT)
    started(host)
    with pytest.raises(CatalogError, match="The sink 'own' has no function"):
        host.catalog.execute("CREATE SINK own USING foreach_batch FOR q")
    host.catalog.served.add("own")
    host.catalog.execute("CREATE SINK own USING foreach_batch FOR q")


def test_a_statement_that_a_script_has_twice_is_carried_out_twice_and_not_again(tmp_path: Path) -> None:
    script = ("CREATE TABLE c (k INT);", *["INSERT INTO c VALUES (1);"] * 2)
    host = bare(tmp_path, *script)
    assert host.catalog.execute("SELECT k FROM c").num_rows == 2
    host.start("\n".join((STREAM, *script)))
    assert host.catalog.execute("SELECT k FROM c").num_rows == 2


def test_a_statement_is_known_by_its_words(tmp_path: Path) -> None:
    host = bare(tmp_path, COUNT, SINK)
    take(host, (1, 1, 0))
    spaced = COUNT.replace(" AS ", "  /* but */ AS  ").replace("GROUP BY", "GROUP   BY")
    host.start(f"-- the same\n{STREAM}\n{spaced}\n{SINK}")
    assert host.catalog.execute("SHOW QUERIES").num_rows == 1 and not host.catalog.dropped_from_script
    with pytest.raises(CatalogError, match="There is already a query 'q'") as e:
        host.start(f"{STREAM}\n{COUNT.replace('100', '200')}")
    assert "The checkpoint has it from before" in str(e.value)


def test_a_script_that_never_ran_may_be_changed_at_will(tmp_path: Path) -> None:
    host = bare(tmp_path, COUNT, SINK)
    host.start(STREAM.replace("k INT", "k BIGINT") + COUNT.replace("100", "200"))
    assert host.catalog.execute("SHOW QUERIES").num_rows == 1 and not len(host.catalog.catalog.sinks)
    host.catalog.execute("CREATE CONTINUOUS QUERY other AS SELECT k FROM t")  # not by a script: it stays
    with pytest.raises(CatalogError, match="is taken by a stream"):
        host.start(STREAM)
    assert host.catalog.execute("SHOW QUERIES").num_rows == 2


def test_a_function_that_cannot_be_sent_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    host = bare(tmp_path)
    lock = threading.Lock()
    with pytest.raises(DataError, match="The function 'held' cannot be pickled"):
        host.catalog.function("held", lambda k: lock and k, ["INT"], "INT")
    with pytest.raises(Error, match="held"):
        host.catalog.execute("CREATE CONTINUOUS QUERY h AS SELECT held(k) AS k FROM t")


def test_files_of_the_log_may_go_while_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logged, "COMMITS", 4)
    host = bare(tmp_path, ADD)
    for i in range(6):
        host.catalog.register("f", [{"query": f"q{i}", "by": i}])
    log = CommitLog(host.settings.log().path)
    read = log.read_snapshot

    def read_late(number: int) -> Any:
        for i in range(6, 12):
            host.catalog.register("f", [{"query": f"q{i}", "by": i}])
        host.catalog.log.trim(host.catalog.version)
        monkeypatch.setattr(log, "read_snapshot", read)
        return read(number)

    monkeypatch.setattr(log, "read_snapshot", read_late)
    reader = PipelineCatalog(log)
    reader.catch_up()
    assert reader.execute("SHOW QUERIES").num_rows == 12


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

"""The catalog changes of one micro-batch take effect together, whether commits or a snapshot are read."""

from __future__ import annotations

import os
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest

from eddyline.engine.actions import Action
from eddyline.engine.definitions import Definitions
from eddyline.spark.catalog import logged
from eddyline.spark.catalog.commits import CommitLog
from eddyline.spark.catalog.following import Follower
from eddyline.spark.catalog.pipeline_catalog import PipelineCatalog
from tests.spark.bare import BrokenOff
from tests.spark.expected import delivered
from tests.spark.inline import Inline

SCRIPT = """CREATE STREAM r (k INT, ts TIMESTAMP) WATERMARK ts;
CREATE TABLE t (k INT);
INSERT INTO t VALUES (1), (2);
CREATE QUERY FAMILY f (lo INT) AS SELECT k FROM t WHERE k >= :lo"""
ROWS = pa.table({"k": pa.array([5], pa.int32()), "ts": pa.array([5], pa.timestamp("us"))})


@pytest.fixture(params=["first", "second"])
def inline(request: pytest.FixtureRequest, tmp_path: Path) -> Inline:
    """A pipeline before its first or second micro-batch."""
    inline = Inline(tmp_path, 2)
    inline.catalog.execute(f"{SCRIPT}; CREATE SINK out USING parquet OPTIONS (path '{inline.out}')")
    if request.param == "second":
        inline.step({"r": [ROWS]})
    return inline


def answered(inline: Inline) -> Counter[str]:
    """By query: how many changes were delivered."""
    return Counter({name: len(changes) for name, changes in delivered(inline.out).changes.items()})


def lo(*names: str) -> pa.Table:
    return pa.table({"query": list(names), "lo": pa.array([1] * len(names), pa.int32())})


@pytest.fixture(params=[1, 3, 1000], ids=["at each commit", "at some commits", "never"])
def snapshots(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """How often the catalog writes a snapshot."""
    monkeypatch.setattr(logged, "COMMITS", request.param)
    monkeypatch.setattr(logged, "MOST_COMMITS", request.param)


@pytest.mark.usefixtures("snapshots")
def test_a_query_that_is_dropped_before_the_next_micro_batch_gets_no_answer(inline: Inline) -> None:
    for name in ("brief", "lasting"):
        inline.catalog.execute(f"CREATE CONTINUOUS QUERY {name} AS SELECT COUNT(*) AS n FROM r [RANGE 1 HOUR]")
    inline.catalog.register("f", lo("a", "b"))
    inline.catalog.register("f", lo("c"))
    inline.catalog.execute("CREATE CONTINUOUS QUERY alone AS SELECT MAX(k) AS m FROM t")
    for name in ("brief", "alone", "b"):
        inline.catalog.execute(f"DROP CONTINUOUS QUERY {name}")
    inline.step({})
    assert answered(inline) == {"lasting": 1, "a": 2, "c": 2}
    inline.step({"r": [ROWS]})
    assert answered(inline) == {"lasting": 3, "a": 2, "c": 2}


@pytest.mark.usefixtures("snapshots")
def test_a_family_that_is_dropped_before_the_next_micro_batch_gets_no_new_queries(inline: Inline) -> None:
    inline.catalog.register("f", lo("a"))
    inline.step({})
    inline.catalog.register("f", lo("b"))
    inline.catalog.execute("INSERT INTO t VALUES (3); DROP QUERY FAMILY f")
    inline.step({})
    assert answered(inline) == {"a": 3}, "what changed before the drop is delivered"


def test_a_snapshot_that_is_written_after_a_step_does_not_change_its_replay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With other actions, queries would be answered together with others, and rows would get other positions."""
    monkeypatch.setattr(logged, "COMMITS", 1)
    monkeypatch.setattr(logged, "MOST_COMMITS", 1)
    catalog = PipelineCatalog(CommitLog(tmp_path / "ck" / "eddyline" / "catalog"))
    catalog.execute(SCRIPT)
    catalog.register("f", lo("a"))
    with monkeypatch.context() as not_yet:
        not_yet.setattr(catalog, "_write_snapshot", lambda: None)
        catalog.register("f", lo("b"))
    before = applied(catalog.log)
    catalog._write_snapshot()
    assert applied(catalog.log) == before


@pytest.mark.parametrize("removed", range(8))
def test_a_snapshot_replaces_the_commits_that_were_trimmed(
    removed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if trimming was broken off after some files."""
    monkeypatch.setattr(logged, "COMMITS", 3)
    monkeypatch.setattr(logged, "MOST_COMMITS", 3)
    catalog = PipelineCatalog(CommitLog(tmp_path / "ck" / "eddyline" / "catalog"))
    catalog.execute(SCRIPT)
    for name in "abcde":
        catalog.register("f", lo(name))
    assert catalog.log.snapshot_before(catalog.version - 1) == 3
    assert catalog.log.snapshot_before(catalog.version) == 6
    lives = iter([*range(removed), None])

    def mortal_unlink(file: Path, missing_ok: bool = False) -> None:
        if next(lives) is None:
            raise BrokenOff
        os.unlink(file)

    monkeypatch.setattr(Path, "unlink", mortal_unlink)
    with suppress(BrokenOff):
        catalog.log.trim(catalog.version)
    definitions = Definitions()
    Follower(catalog.log, definitions).define(catalog.version)
    assert len(definitions.families[1].queries) == 5


def applied(log: CommitLog) -> list[type[Action]]:
    """The actions that an engine applies in its first step."""
    found: list[type[Action]] = []
    Follower(log, Definitions()).move_to(log.latest(), lambda action: found.append(type(action)) or [])
    return found

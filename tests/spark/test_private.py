"""A checkpoint is its owner's alone, no reader can halt it, and what is announced is on the disk."""

from __future__ import annotations

import fcntl
import logging
import os
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from eddyline.spark.catalog.commits import CommitLog
from eddyline.spark.output.delivery import TRIM_EVERY
from eddyline.spark.run import private
from eddyline.spark.run.backups import back_up, unpack
from eddyline.spark.run.checkpoint import Alone, Fixed, begin, catalog_of
from eddyline.spark.run.settings import write_whole
from tests.spark.processes import until
from tests.spark.setbacks import ADD, SINK, bare, take

pytestmark = pytest.mark.usefixtures("apart")
STREAM = "CREATE STREAM s (k INT, ts TIMESTAMP) WATERMARK ts"


@contextmanager
def held(file: Path) -> Iterator[None]:
    """As somebody who may only read the file holds its lock."""
    with file.open() as f:
        fcntl.flock(f, fcntl.LOCK_EX)
        yield


def open_to_others(folder: Path) -> list[Path]:
    return [f for f in [folder, *folder.rglob("*")] if stat.S_IMODE(f.stat().st_mode) & 0o077]


def test_what_the_pipeline_writes_for_itself_is_open_to_nobody_else(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        begin(tmp_path / "ck", Fixed(1, "min"))
        with Alone(tmp_path / "ck"):
            catalog_of(tmp_path / "ck").execute(STREAM)
            write_whole(tmp_path / "ck" / "eddyline" / "seen.json", "{}")
    finally:
        os.umask(before)
    assert {f.name for f in (tmp_path / "ck" / "eddyline" / "catalog").iterdir()} == {"lock", "000000000001.commit"}
    assert open_to_others(tmp_path / "ck") == []


def test_a_checkpoint_of_an_earlier_version_is_closed_to_others_when_it_is_used(tmp_path: Path) -> None:
    begin(tmp_path / "ck", Fixed(1, "min"))
    own = tmp_path / "ck" / "eddyline"
    catalog_of(tmp_path / "ck").execute(STREAM)
    for place in (own, own / "catalog"):
        place.chmod(0o755)
    (own / "catalog" / "lock").chmod(0o644)
    with Alone(tmp_path / "ck"):
        catalog_of(tmp_path / "ck").execute("CREATE CONTINUOUS QUERY q AS SELECT k FROM s")
    assert stat.S_IMODE(own.stat().st_mode) == 0o700
    assert stat.S_IMODE((own / "catalog" / "lock").stat().st_mode) == 0o600


def test_a_backup_and_what_is_restored_from_it_are_open_to_nobody_else(tmp_path: Path) -> None:
    begin(tmp_path / "ck", Fixed(1, "min"))
    catalog_of(tmp_path / "ck").execute(STREAM)
    back_up(tmp_path / "ck", tmp_path / "backup")
    restored = unpack(tmp_path / "backup", tmp_path / "ck")
    assert [stat.S_IMODE(f.stat().st_mode) for f in (tmp_path / "backup", restored)] == [0o700, 0o700]


def test_a_lock_that_is_held_does_not_stop_the_upkeep_of_the_catalog(tmp_path: Path) -> None:
    host = bare(tmp_path, ADD, SINK)
    host.catalog.register("f", [{"query": "q", "by": 1}])
    (reports,) = [take(host, (1, 1, 100))]
    host.delivery._needed = TRIM_EVERY - 1, 1
    with held(host.settings.log().path / "lock"):
        upkeep = threading.Thread(target=host.delivery._trim, args=(TRIM_EVERY, reports), daemon=True)
        upkeep.start()
        upkeep.join(20)
        assert not upkeep.is_alive()


def test_who_waits_for_a_lock_says_for_which_and_who_holds_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(private, "PATIENCE", 0.01)
    begin(tmp_path / "ck", Fixed(1, "min"))
    catalog = catalog_of(tmp_path / "ck")
    catalog.execute(STREAM)
    lock = catalog.log.path / "lock"
    adding = threading.Thread(
        target=catalog.execute, args=("CREATE CONTINUOUS QUERY q AS SELECT k FROM s",), daemon=True
    )
    with caplog.at_level(logging.WARNING, "eddyline"), held(lock):
        adding.start()
        assert until(lambda: "Waiting for the lock" in caplog.text)
    adding.join()
    assert f"Waiting for the lock {lock}, held by process {os.getpid()} (" in caplog.text
    assert catalog.query("q")


def test_commits_and_small_files_are_on_the_disk_before_they_are_announced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    named: list[tuple[str, bool]] = []  # what was given a name, and whether its content was synchronised
    fsync, link, replace = os.fsync, os.link, os.replace

    def note(handle: int) -> None:
        synced.append(os.fstat(handle).st_ino)
        fsync(handle)

    def naming(way: Any) -> Any:
        def name(source: Path, target: Path) -> None:
            named.append((str(target), os.stat(source).st_ino in synced))
            way(source, target)
            synced[:] = [i for i in synced if i != os.stat(Path(target).parent).st_ino]

        return name

    monkeypatch.setattr(os, "fsync", note)
    monkeypatch.setattr(os, "link", naming(link))
    monkeypatch.setattr(os, "replace", naming(replace))
    log = CommitLog(tmp_path / "catalog")
    with log.lock():
        log.append([])
        log.write_snapshot(1, [])
    write_whole(tmp_path / "clocks" / "1.json", "{}")
    assert len(named) == 3
    assert all(was_synced for _, was_synced in named)
    assert {os.stat(tmp_path / folder).st_ino for folder in ("catalog", "clocks")} <= set(synced)

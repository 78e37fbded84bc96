"""What is announced is on the disk first: files before they are reported, names before a batch is done."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from eddyline.spark.output import delivery
from eddyline.spark.run.settings import write_whole
from eddyline.spark.run.spark_files import sync_plan
from tests.spark.setbacks import ADD, SINK, bare, take

pytestmark = pytest.mark.usefixtures("apart")


class Disk:
    """Remembers what was synchronised, by inode, and which names were given to what was not."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.synced: set[int] = set()
        self.folders: set[int] = set()
        self.unsafe: list[str] = []
        fsync, rename = os.fsync, Path.rename

        def note(handle: int) -> None:
            self.synced.add(os.fstat(handle).st_ino)
            fsync(handle)

        def move(file: Path, to: Path) -> Path:
            if file.stat().st_ino not in self.synced:
                self.unsafe.append(str(to))
            self.synced.discard(to.parent.stat().st_ino)
            self.folders.add(to.parent.stat().st_ino)
            return rename(file, to)

        monkeypatch.setattr(os, "fsync", note)
        monkeypatch.setattr(Path, "rename", move)


def test_files_of_sinks_and_their_names_are_on_the_disk_before_a_batch_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = bare(tmp_path, ADD, SINK)
    host.catalog.register("f", [{"query": "q", "by": 1}])
    disk = Disk(monkeypatch)
    take(host, (1, 1, 100), (2, 1, 101))
    take(host, (1, 1, 1))  # late: a dead letter
    assert list((tmp_path / "ck" / "eddyline" / "dead_letter" / "t").glob("part-*"))
    assert list((tmp_path / "out" / "f").glob("part-*"))
    assert disk.unsafe == []
    assert disk.folders and disk.folders <= disk.synced


def test_files_are_left_to_the_operating_system_if_so_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    host = bare(tmp_path, ADD, SINK)
    host.settings = host.delivery.settings = replace(host.settings, durability="none")
    host.catalog.register("f", [{"query": "q", "by": 1}])
    disk = Disk(monkeypatch)
    take(host, (1, 1, 100))
    assert any("part-000000000" in file for file in disk.unsafe)


def test_what_spark_planned_is_on_the_disk_before_a_batch_is_announced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    offsets = tmp_path / "offsets" / "3"
    files = [offsets, tmp_path / "sources" / "1" / "2", *(tmp_path / "state" / "0" / b / "4.changelog" for b in "01")]
    for file in (*files, tmp_path / "state" / "0" / "0" / "3.changelog"):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    offsets.write_text('v1\n{}\n{"eddyline": 1}\n{"logOffset": 2}')
    disk = Disk(monkeypatch)
    sync_plan(tmp_path, 3)
    assert disk.synced == {p.stat().st_ino for f in files for p in (f, f.parent)}
    host = bare(tmp_path, ADD, SINK)
    synced: list[int] = []
    monkeypatch.setattr(delivery, "sync_plan", lambda _, batch: synced.append(batch))
    announce = host.delivery._announce

    def announced(batch: int) -> None:
        assert synced == [batch]
        announce(batch)

    monkeypatch.setattr(host.delivery, "_announce", announced)
    take(host, (1, 1, 100))
    assert synced == [0]


def test_a_file_that_several_threads_write_at_once_is_always_whole(tmp_path: Path) -> None:
    file, texts = tmp_path / "f", [str(i) * 1000 for i in range(4)]

    def write(text: str) -> None:
        for _ in range(100):
            write_whole(file, text, "none")
            assert file.read_text() in texts

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(write, texts))
    assert [f.name for f in tmp_path.iterdir()] == ["f"]

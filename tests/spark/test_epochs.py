"""A sink's folder notices a checkpoint whose history is not its own: one restored from a backup, or a copy."""

from __future__ import annotations

import copy
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from eddyline.delivery.marks import read_mark
from eddyline.delivery.reading import Cursor, read_sink
from eddyline.errors import CatalogError, StateError
from eddyline.spark.catalog.asking import dead_letters
from eddyline.spark.output import delivery
from eddyline.spark.output.epochs import run_starts
from eddyline.spark.run.sink_rewinds import plan_rewind, rewind
from tests.spark.bare import Bare, BrokenOff
from tests.spark.expected import Delivered, delivered
from tests.spark.setbacks import COUNT, SINK, STREAM, batches, take

pytestmark = pytest.mark.usefixtures("apart")
SCRIPT = "\n".join((STREAM, COUNT, SINK))


class Kept:
    """A pipeline with a backup: its folder, and what Spark would have in it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.script = folder, SCRIPT
        self.host = Bare(folder, SCRIPT, 2)
        (folder / "ck" / "eddyline" / "pipeline.json").write_text('{"format": 1, "buckets": 2, "clock": "min"}')

    def take(self, *seconds: int) -> None:
        for s in seconds:
            take(self.host, (1, s, s), (2, s, s))

    def back_up(self) -> None:
        shutil.rmtree(self.folder / "backup", ignore_errors=True)
        shutil.copytree(self.folder / "ck", self.folder / "backup")
        self.stores, self.batch = copy.deepcopy(self.host.stores), self.host.batch

    def restore(self) -> None:
        shutil.rmtree(self.folder / "ck")
        shutil.copytree(self.folder / "backup", self.folder / "ck")
        self.host.stores, self.host.batch = copy.deepcopy(self.stores), self.batch

    def start(self) -> None:
        self.host.start(self.script)

    def delivered(self) -> Delivered:
        return delivered(self.folder / "out")


def undisturbed(folder: Path, *seconds: int) -> Delivered:
    kept = Kept(folder)
    kept.take(*seconds)
    return kept.delivered()


def test_a_restored_backup_is_refused_and_goes_on_exactly_after_a_rewind(tmp_path: Path) -> None:
    kept = Kept(tmp_path / "a")
    kept.take(10, 20)
    kept.back_up()
    kept.take(30, 40)
    kept.restore()
    with pytest.raises(StateError, match="from micro-batch 2 on: the checkpoint was restored") as e:
        kept.start()
    assert "eddyline checkpoint rewind" in str(e.value)
    assert batches(tmp_path / "a" / "out") == [0, 1, 2, 3]
    ck = tmp_path / "a" / "ck"
    rewind(ck, plan_rewind(ck))
    assert plan_rewind(ck) == []
    kept.start()
    kept.take(25, 35)
    assert kept.delivered() == undisturbed(tmp_path / "b", 10, 20, 25, 35)


def test_a_restored_backup_is_noticed_also_where_no_batch_came_after_it(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    kept.take(10)
    kept.back_up()
    kept.start()  # another run, that found nothing to do
    kept.restore()
    with pytest.raises(StateError, match="does not know"):
        kept.start()


def test_a_batch_that_was_delivered_and_not_committed_is_no_other_history(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    kept.take(10, 20)
    (tmp_path / "ck" / "commits" / "1").unlink()
    kept.start()
    mark = read_mark(tmp_path / "out")
    assert mark is not None and mark.complete == 1 and len(mark.epochs) == 2


def test_of_two_copies_the_one_that_started_first_stops_and_may_not_start_again(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    kept.take(10)
    shutil.copytree(tmp_path / "ck", tmp_path / "copy")
    other = copy.copy(kept.host)
    other.stores, other.settings = (
        copy.deepcopy(kept.host.stores),
        replace(kept.host.settings, checkpoint=str(tmp_path / "copy")),
    )
    other.start(SCRIPT)
    with pytest.raises(StateError, match="Another run writes to the folder"):
        kept.take(20)
    take(other, (1, 5, 20))
    with pytest.raises(StateError, match="does not know, from micro-batch 1 on"):
        kept.start()
    assert batches(tmp_path / "out") == [0, 1]


def test_a_folder_of_rows_that_no_planned_batch_has_is_refused_without_epochs_too(tmp_path: Path) -> None:
    """As a version before epochs leaves it."""
    kept = Kept(tmp_path)
    kept.take(10, 20)
    for mark in (tmp_path / "out").glob(".eddyline"):
        mark.unlink()
    kept.start()
    (tmp_path / "out" / ".eddyline").unlink()
    (tmp_path / "ck" / "offsets" / "1").unlink()
    with pytest.raises(StateError, match="from micro-batch 1 on"):
        kept.start()


def test_half_a_line_of_an_interrupted_start_is_passed_over(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    with (tmp_path / "ck" / "eddyline" / "epochs").open("a") as f:
        f.write('{"id": "a')
    kept.start()
    kept.take(10)
    mark = read_mark(tmp_path / "out")
    assert mark is not None
    assert [s.epoch for s in run_starts(tmp_path / "ck")] == list(mark.epochs)


def test_files_are_compacted_by_the_sinks_option_and_each_row_is_read_once(tmp_path: Path) -> None:
    """While a reader goes along, runs are broken off, and the first batches are compacted behind it."""
    script = SCRIPT.replace("(path 'out')", "(path 'out', compact '3')")
    host = Bare(tmp_path / "a", script, 2)
    found: list[tuple[int, int]] = []
    cursor = Cursor()
    for batch in range(10):
        if batch in (4, 7):  # delivered, and then killed before Spark's commit
            host.lives = 8
            with pytest.raises(BrokenOff):
                take(host, (1, batch, 10 * batch), (2, batch, 10 * batch))
            host.start(script)
        take(host, (1, batch, 10 * batch), (2, batch, 10 * batch))
        rows = read_sink(tmp_path / "a" / "out", cursor)
        cursor = rows.cursor
        assert cursor.batch == batch
        for table in rows.tables.values():
            found += zip(table.column("batch").to_pylist(), table.column("position").to_pylist(), strict=True)
    files = list((tmp_path / "a" / "out").rglob("part-*"))
    plain = Bare(tmp_path / "b", SCRIPT, 2)
    for batch in range(10):
        take(plain, (1, batch, 10 * batch), (2, batch, 10 * batch))
    whole = delivered(tmp_path / "b" / "out")
    assert len(files) < len(list((tmp_path / "b" / "out").rglob("part-*"))) - 6
    assert sorted(found) == sorted((batch, position) for _, batch, position in whole.places)


def test_dead_letters_are_compacted_and_bounded_and_still_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery, "COMPACT_EVERY", 4)
    kept = Kept(tmp_path)
    take(kept.host, (1, 1, 1000))
    for _ in range(8):
        take(kept.host, (1, 1, 1))  # late
    place = tmp_path / "ck" / "eddyline" / "dead_letter" / "t"
    assert len(list(place.glob("part-*"))) == 5  # of batches 1 to 4, and one of each of 5 to 8
    late = dead_letters(tmp_path / "ck" / "eddyline", "t")
    assert late is not None and late.column("batch").to_pylist() == [1, 2, 3, 4, 5, 6, 7, 8]
    kept.host.settings = kept.host.delivery.settings = replace(kept.host.settings, dead_letter_limit=0)
    for _ in range(4):
        take(kept.host, (1, 1, 1))
    late = dead_letters(tmp_path / "ck" / "eddyline", "t")
    assert late is not None and late.column("batch").to_pylist() == [12]


@pytest.mark.parametrize("after", ["0", "-1", "x", ""])
def test_a_sink_says_after_how_many_batches_it_is_compacted(tmp_path: Path, after: str) -> None:
    catalog = Kept(tmp_path).host.catalog
    with pytest.raises(CatalogError, match="cannot be compacted after"):
        catalog.execute(f"CREATE SINK more USING parquet OPTIONS (path '{tmp_path}/more', compact '{after}')")

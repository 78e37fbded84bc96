"""Sinks are read by complete micro-batches, each row once, and compacted without a reader missing or doubling a row."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import eddyline
from eddyline.cli import app
from eddyline.delivery import compaction
from eddyline.delivery.compaction import Merge, compact, limit_size, read_log
from eddyline.delivery.marks import OLD_MARK, Epoch, Mark, folders_of, parts_of, write_mark
from eddyline.delivery.reading import Cursor, read_folder, read_sink
from eddyline.delivery.rewinding import rewind_files, rewind_mark, rewind_of
from eddyline.delivery.sinks import FILE_SINKS
from eddyline.delivery.sinks.json_lines import JSON_LINES
from eddyline.errors import DataError, StateError

Places = list[tuple[str, int, int]]


class Killed(BaseException):
    """Here the process was killed."""


class Folder:
    """The folder of a sink, as a pipeline writes it: two families, two writers, a few rows of each batch."""

    def __init__(self, place: Path, format_: str = "parquet") -> None:
        self.place, self.format = place, format_
        self.places: Places = []
        self.complete = -1
        place.mkdir()
        self.mark()

    def mark(self) -> None:
        write_mark(self.place, Mark("out", "ck", "one", (Epoch("e", 0),), self.complete), "none")

    def write(self, batch: int, complete: bool = True, families: tuple[str, ...] = ("f", "g")) -> None:
        for family in families:
            for writer in range(2):
                position = [writer * 2**40 + i for i in range(3)]
                self.places += [(family, batch, p) for p in position]
                rows = pa.table({"query": ["q"] * 3, "batch": [batch] * 3, "position": position, "v": [batch] * 3})
                file = self.place / family / f"part-{batch:09}-{writer:05}-000.{self.format}"
                file.parent.mkdir(exist_ok=True)
                if self.format == "json":
                    file.write_text("".join(json.dumps(r) + "\n" for r in rows.to_pylist()))
                else:
                    pq.write_table(rows, file)
        if complete:
            self.complete = batch
            self.mark()

    def files(self) -> list[Path]:
        return [p.path for f in folders_of(self.place) for p in parts_of(f)]

    def rows(self) -> Places:
        """What a reader of all files sees."""
        tables = {f.name: read_folder(self.place, f, -1, 10**6) for f in folders_of(self.place)[1:]}
        return sorted(of(tables))


def of(tables: dict[str, pa.Table | None]) -> Iterator[tuple[str, int, int]]:
    for name, rows in tables.items():
        for row in [] if rows is None else rows.to_pylist():
            yield name, row["batch"], row["position"]


@pytest.fixture(params=["parquet", "json"])
def folder(tmp_path: Path, request: pytest.FixtureRequest) -> Folder:
    return Folder(tmp_path / "out", request.param)


def test_only_complete_batches_are_read_and_a_cursor_goes_on_from_them(folder: Folder) -> None:
    folder.write(0)
    folder.write(1)
    folder.write(2, complete=False)
    first = eddyline.read_sink(folder.place)
    assert sorted(of(first.tables)) == sorted(p for p in folder.places if p[1] < 2)
    folder.write(3, families=("g",))
    second = read_sink(folder.place, str(first.cursor))
    assert sorted(of(second.tables)) == sorted(p for p in folder.places if p[1] >= 2)
    assert second.cursor == Cursor(3, 0)
    assert read_sink(folder.place, second.cursor).tables == {}
    assert {p[1] for p in of(read_sink(folder.place, 0, most_batches=2).tables)} == {1, 2}


def test_compaction_keeps_every_row_once_and_names_the_last_file(folder: Folder) -> None:
    for batch in range(20):
        folder.write(batch)
    newest = [f.name for f in folder.files() if "part-000000015" in f.name]
    found = compact(folder.place, 15)
    assert (found.before, found.after) == (64, 2)
    assert len(folder.files()) == 2 + 2 * 2 * 4
    assert set(newest) & {f.name for f in folder.files()} == {newest[1]}
    assert folder.rows() == sorted(folder.places)
    for cursor in (-1, 3, 14, 15, 18):
        assert sorted(of(read_sink(folder.place, cursor).tables)) == sorted(p for p in folder.places if p[1] > cursor)


def test_compaction_broken_off_anywhere_loses_and_doubles_nothing(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before every call that changes the disk, in turn; readers look at what is left, and the next one goes on."""
    for batch in range(6):
        folder.write(batch)
    real = {name: getattr(os, name) for name in ("replace", "unlink", "fsync")}
    for lives in range(60):
        left = iter(range(lives))

        def limited(name: str, left: Iterator[int] = left) -> object:
            def call(*args: object, **named: object) -> object:
                if next(left, None) is None:
                    raise Killed
                return real[name](*args, **named)

            return call

        with monkeypatch.context() as patch:
            for name in real:
                patch.setattr(os, name, limited(name))
            try:
                compact(folder.place, 4)
                ended = True
            except Killed:
                ended = False
        assert folder.rows() == sorted(folder.places)
        assert sorted(of(read_sink(folder.place, 2).tables)) == sorted(p for p in folder.places if p[1] > 2)
        if ended:
            break
    assert ended and len(folder.files()) == 2 + 2 * 2
    assert read_log(folder.place).state == "done"
    listed = sorted(row for f in folder.files() for row in of({f.parent.name: table_of(f)}))
    assert listed == sorted(folder.places)


def table_of(file: Path) -> pa.Table:
    if file.suffix == ".json":
        return pa.Table.from_pylist([json.loads(line) for line in file.read_text().splitlines()])
    return pq.read_table(file)


def test_a_reader_in_the_middle_of_a_compaction_sees_every_row_once(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files are merged, and removed, after they were listed and while they are read."""
    rnd = Random(7)
    for batch in range(12):
        folder.write(batch)
    kind, upto = FILE_SINKS[folder.format], iter(range(1, 11))
    real = kind.read

    def read(file: Path, after: int, last: int) -> pa.Table:
        if rnd.random() < 0.3 and (batch := next(upto, None)) is not None:
            compact(folder.place, batch)
        return real(file, after, last)

    monkeypatch.setattr(kind, "read", read)
    for _ in range(3):
        assert sorted(of(read_sink(folder.place).tables)) == sorted(folder.places)
    assert read_log(folder.place).number > 0


def test_a_row_is_merged_a_logarithmic_number_of_times(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "SMALL", 1)
    written = []
    real = JSON_LINES.merge

    def merge(files: list[Path], to: Path) -> None:
        real(files, to)
        written.append(to.stat().st_size)

    monkeypatch.setattr(JSON_LINES, "merge", merge)
    folder = Folder(tmp_path / "out", "json")
    for batch in range(128):
        folder.write(batch, families=("f",))
        compact(folder.place, batch)
    whole = sum(f.stat().st_size for f in folder.files())
    assert len(folder.files()) < 8
    assert sum(written) < 10 * whole
    assert folder.rows() == sorted(folder.places)


def test_files_of_other_columns_are_not_merged(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "out")
    for batch in range(4):
        folder.write(batch, families=("f",))
    other = folder.place / "f" / "part-000000002-00000-000.parquet"
    pq.write_table(pa.table({"query": ["q"], "batch": [2], "position": [7], "other": ["x"]}), other)
    found = compact(folder.place, 3)
    assert (found.before, found.after) == (8, 3)
    assert len(folder.rows()) == 7 * 3 + 1


def test_rows_of_a_family_declared_anew_with_other_types_are_read_in_parts(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "out")
    folder.write(0, families=("f",))
    other = folder.place / "f" / "part-000000001-00000-000.parquet"
    pq.write_table(pa.table({"query": ["q"], "batch": [1], "position": [7], "v": ["x"]}), other)
    folder.complete = 1
    folder.mark()
    with pytest.raises(StateError, match="columns of different types"):
        read_sink(folder.place)
    first = read_sink(folder.place, most_batches=1)
    assert len(list(of(first.tables))) == 6
    assert list(of(read_sink(folder.place, first.cursor).tables)) == [("f", 1, 7)]


def test_a_rewind_cuts_a_compacted_file_and_tells_readers(folder: Folder) -> None:
    for batch in range(8):
        folder.write(batch)
    before = read_sink(folder.place, most_batches=3).cursor
    after = read_sink(folder.place).cursor
    compact(folder.place, 6)
    rewind = rewind_of(folder.place, 4)
    rewind_files(rewind)
    rewind_mark(rewind, {"e"})
    folder.places = [p for p in folder.places if p[1] < 4]
    assert folder.rows() == sorted(folder.places)
    assert {p[1] for p in of(read_sink(folder.place, before).tables)} == {3}
    with pytest.raises(StateError, match="went back to micro-batch 3, after rows up to 7 were read"):
        read_sink(folder.place, after)
    assert read_sink(folder.place, 3).tables == {}


def test_one_compaction_at_a_time_and_other_users_cannot_hold_it_up(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "out")
    folder.write(0)
    compaction._write_log(folder.place, Merge(1, "merging", "f", ".x", "y", 1))
    with compaction.locked(folder.place):
        with pytest.raises(StateError, match="is being compacted"):
            compact(folder.place, 0)
        compaction.end_compaction(folder.place)  # the other one does it
    assert read_log(folder.place).state == "merging"
    assert (folder.place / compaction.LOCK).stat().st_mode & 0o077 == 0


def test_a_merged_file_that_is_gone_is_told_before_anything_is_removed(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "out")
    folder.write(0)
    folder.write(1)
    log = Merge(
        1, "merging", "f", ".gone", "part-000000001-00001-000.parquet", 1, ("part-000000000-00000-000.parquet",)
    )
    compaction._write_log(folder.place, log)
    with pytest.raises(StateError, match=r"was broken off, and its file '\.gone' is gone"):
        compact(folder.place, 1)
    assert folder.rows() == sorted(folder.places)


def test_a_sink_that_does_not_say_what_is_complete_is_not_read(tmp_path: Path) -> None:
    with pytest.raises(StateError, match="is not the folder of a sink"):
        read_sink(tmp_path)
    folder = Folder(tmp_path / "out")
    folder.write(0)
    (folder.place / ".eddyline").unlink()
    said = {"format": 1, "sink": "out", "checkpoint": "ck", "identity": "one"}
    (folder.place / OLD_MARK).write_text(json.dumps(said))
    with pytest.raises(StateError, match="an older version has written it"):
        read_sink(folder.place)
    folder.mark()
    with pytest.raises(DataError, match="is no cursor"):
        read_sink(folder.place, "x")


def test_the_command_compacts_all_but_the_last_batches(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "out")
    for batch in range(20):
        folder.write(batch)
    found = CliRunner().invoke(app, ["sink", "compact", str(folder.place), "--keep", "5"])
    assert (found.exit_code, found.stdout) == (0, "60 files of micro-batches before the last 5 are 2 now.\n")
    assert folder.rows() == sorted(folder.places)
    found = CliRunner().invoke(app, ["sink", "info", str(folder.place)])
    assert "complete up to micro-batch 19" in found.stdout and "f" in found.stdout.split()


def test_a_limit_of_bytes_removes_the_oldest_files(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "out")
    for batch in range(10):
        folder.write(batch)
    each = folder.files()[0].stat().st_size
    limit_size(folder.place, 6 * each, 9)
    assert sorted({p[1] for p in folder.rows()}) == [6, 7, 8, 9]

"""Random histories of a pipeline: kills, backups, restores, compactions, and a reader that goes along.

In the end the reader has exactly the rows that a pipeline delivers to which nothing happened. `EDDYLINE_NIGHTLY=1`
plays many more.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from eddyline.delivery import compaction
from eddyline.delivery.compaction import compact
from eddyline.delivery.marks import folders_of, parts_of, read_mark
from eddyline.delivery.reading import Cursor, read_sink
from eddyline.errors import StateError
from eddyline.spark.run.sink_rewinds import plan_rewind, rewind
from tests.nightly import TIMES
from tests.spark.bare import BrokenOff
from tests.spark.setbacks import take
from tests.spark.test_epochs import SCRIPT, Kept, undisturbed

pytestmark = pytest.mark.usefixtures("apart")
SEEDS = range(2 * TIMES)
COMPACTING = SCRIPT.replace("(path 'out')", "(path 'out', compact '2')")


class Reader:
    """Keeps what it has read, by batch, and drops what a sink that went back no longer has."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.cursor: Cursor | int = Cursor()
        self.rows: dict[int, list[tuple[str, int, str]]] = {}
        self.went_back = 0

    def read(self) -> None:
        try:
            found = read_sink(self.place, self.cursor)
        except StateError as e:
            left = int(str(e).partition("after=")[2].rstrip("."))
            self.rows = {batch: rows for batch, rows in self.rows.items() if batch <= left}
            self.cursor = left
            self.went_back += 1
            return self.read()
        for name, table in found.tables.items():
            for row in table.to_pylist():
                batch, position = row.pop("batch"), row.pop("position")
                self.rows.setdefault(batch, []).append((name, position, repr(sorted(map(str, row.values())))))
        self.cursor = found.cursor
        return None


@pytest.mark.parametrize("seed", SEEDS)
def test_a_reader_has_every_row_once_whatever_happened(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compaction, "SMALL", 3000)
    rnd = Random(f"histories {seed}")
    kept = Kept(tmp_path / "a")
    kept.script = COMPACTING
    kept.start()
    reader = Reader(tmp_path / "a" / "out")
    history: list[int] = []  # the second of each batch that counts
    backup: list[int] | None = None
    second = 0
    for _ in range(20):
        match rnd.choice(["take", "take", "take", "break", "read", "read", "backup", "restore", "compact", "start"]):
            case "take":
                second += 10
                kept.take(second)
                history.append(second)
            case "break":
                second += 10
                kept.host.lives = rnd.randrange(12)
                try:
                    kept.take(second)
                except BrokenOff:
                    kept.start()
                    kept.take(second)  # Spark has planned it
                kept.host.lives = None
                history.append(second)
            case "read":
                reader.read()
            case "backup":
                kept.back_up()
                backup = list(history)
                kept.start()
            case "restore" if backup is not None:
                kept.restore()
                history = list(backup)
                ck = tmp_path / "a" / "ck"
                rewind(ck, plan_rewind(ck))
                kept.start()
            case "compact":
                mark = read_mark(reader.place)
                assert mark is not None
                compact(reader.place, mark.complete - 1, rnd.choice(["tiered", "full"]))
            case _:
                kept.start()
    kept.take(second + 10)
    history.append(second + 10)
    reader.read()
    whole = undisturbed(tmp_path / "b", *history)
    found = sorted((name, batch, place) for batch, rows in reader.rows.items() for name, place, _ in rows)
    assert found == sorted(whole.places)
    plain = Reader(tmp_path / "b" / "out")
    plain.read()
    assert {b: sorted(r) for b, r in reader.rows.items()} == {b: sorted(r) for b, r in plain.rows.items()}
    assert all(p.path.stat().st_size for f in folders_of(reader.place) for p in parts_of(f))


def test_a_reader_is_told_when_a_sink_went_back(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    kept.script = COMPACTING
    kept.start()
    reader = Reader(tmp_path / "out")
    kept.take(10, 20, 30)
    kept.back_up()
    kept.start()
    kept.take(40, 50, 60, 70)
    reader.read()
    kept.restore()
    rewind(tmp_path / "ck", plan_rewind(tmp_path / "ck"))
    kept.start()
    take(kept.host, (1, 1, 45))
    reader.read()
    assert reader.went_back == 1
    assert sorted(reader.rows) == [0, 1, 2, 3]

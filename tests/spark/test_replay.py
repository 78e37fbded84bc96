"""A micro-batch that is done again gives the same rows at the same positions and the same state, whatever broke it off.

These runs have no Spark in them: what Spark promises is in `bare.py`. `EDDYLINE_NIGHTLY=1` plays many more.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from random import Random
from typing import Any

import pyarrow.parquet as pq
import pytest

from eddyline.engine.family import Family
from eddyline.spark.catalog import logged
from eddyline.spark.output import delivery
from eddyline.spark.worker import keeping
from eddyline.spark.worker.resident import Resident
from tests.spark.bare import Bare, BrokenOff
from tests.spark.expected import check, expected, tuples
from tests.spark.inputs import Batch, World, carry_out, families_of, script

NIGHTLY = os.environ.get("EDDYLINE_NIGHTLY") == "1"
SEEDS = [*range(200 if NIGHTLY else 3)]
FOUND = [
    13,  # commits were trimmed that a replayed micro-batch still needed
    34,  # a query that was dropped before its first micro-batch was answered, unless the catalog had a snapshot
    51,  # the segments of a table differed after a restore, and with them the order of joined rows
]


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What happens rarely in a run happens all the time: snapshots of state and catalog, and letting go of commits."""
    monkeypatch.setattr(keeping, "LONGEST_LOG", 3)
    monkeypatch.setattr(logged, "COMMITS", 4)
    monkeypatch.setattr(delivery, "TRIM_EVERY", 2)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


@pytest.fixture(params=["auto", "queries"])
def split(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Family, "split", request.param)


class Twice(Bare):
    """Every micro-batch is also taken by a resident that knows nothing yet; both must answer the same, to the byte."""

    def _step(self, bucket: int, store: Any, given: list[Any]) -> Any:
        first = super()._step(bucket, store, given)
        rows = [tuples(pq.read_table(s["file"])) for s in first[3]["staged"]]
        known, self.resident = self.resident, Resident()
        second = super()._step(bucket, store, given)
        self.resident = known
        assert second[3]["cache"] == ("miss" if store.head else "new")
        assert repr([tuples(pq.read_table(s["file"])) for s in second[3]["staged"]]) == repr(rows)
        assert second[:3] == first[:3], f"batch {self.batch}, bucket {bucket}"
        return first


@pytest.mark.usefixtures("split")
@pytest.mark.parametrize("seed", sorted({*SEEDS, *FOUND}))
def test_a_bucket_that_was_brought_back_answers_like_one_that_was_never_gone(seed: int, tmp_path: Path) -> None:
    world = World(Random(f"twice {seed}"))
    batches = [world.batch() for _ in range(12)]
    bare = Twice(tmp_path, script(tmp_path, world.delays, families_of(batches)), 2)
    for batch in batches:
        take(bare, batch)
    bare.delivery.sweep()
    check(expected(world.delays, batches), tmp_path)


@pytest.mark.usefixtures("split")
@pytest.mark.parametrize("seed", sorted({*SEEDS, *FOUND}))
def test_a_run_broken_off_anywhere_delivers_each_row_once_at_its_position(seed: int, tmp_path: Path) -> None:
    rnd = Random(f"broken off {seed}")
    world = World(rnd)
    batches = [world.batch() for _ in range(12)]
    buckets = rnd.choice([1, 2, 3])
    found = []
    for name in ("undisturbed", "broken off"):
        folder = tmp_path / name
        text = script(folder, world.delays, families_of(batches))
        bare = Bare(folder, text, buckets)
        for batch in batches:
            take(bare, batch, None if name == "undisturbed" else rnd, text)
        found.append(check(expected(world.delays, batches), folder))
    undisturbed, broken_off = (f.places for f in found)
    assert broken_off == undisturbed


def take(bare: Bare, batch: Batch, rnd: Random | None = None, text: str = "") -> None:
    """A micro-batch, broken off and begun again some times if there is chance in it."""
    for event in batch.events:
        carry_out(bare.catalog, event)
    version, now = bare.catalog.log.latest(), 1000 * bare.batch
    while rnd is not None and rnd.random() < 0.5:
        bare.lives = rnd.randrange(15)
        try:
            bare.take(batch.tables(), version, now)
            return
        except BrokenOff:
            bare.start(text, rnd.choice(["new", "the same"]))
    bare.lives = None
    bare.take(batch.tables(), version, now)

"""The SQL cases through the parts of the Spark host, without Spark, with buckets and packers lost on the way."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from eddyline.engine.family import Family
from eddyline.spark.catalog import logged
from eddyline.spark.worker import keeping
from tests.spark.inline import InlineHost
from tests.sql.suite import check, check_late, load, worlds

WORLDS = [folder for folder in worlds() if not load(folder)[0].only_in_process]


def sometimes(seed: int) -> Callable[[], bool]:
    rng = random.Random(seed)
    return lambda: rng.random() < 0.4


@pytest.mark.parametrize(("buckets", "split"), [(1, "auto"), (3, "auto"), (3, "queries")])
@pytest.mark.parametrize("folder", WORLDS, ids=lambda folder: folder.name)
def test_all_cases_give_what_their_files_expect_whatever_is_lost(
    folder: Path, buckets: int, split: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Snapshots of state and of the catalog are made at almost every step."""
    monkeypatch.setattr(Family, "split", split)
    monkeypatch.setattr(keeping, "SMALLEST_LOG", 1)
    monkeypatch.setattr(keeping, "LONGEST_LOG", 2)
    monkeypatch.setattr(logged, "COMMITS", 3)
    monkeypatch.setattr(logged, "MOST_COMMITS", 3)
    monkeypatch.setattr(keeping, "local_folder", lambda _, bucket: tmp_path / "segments" / str(bucket))
    world, cases = load(folder)
    outcome = InlineHost(tmp_path, buckets, sometimes(buckets)).run(world, cases)
    wrong = []
    for case in cases:
        try:
            check(world, case, outcome)
        except AssertionError as e:
            wrong.append(str(e))
    assert not wrong, "\n\n".join(wrong)
    for stream in world.streams:
        check_late(world, stream, outcome)

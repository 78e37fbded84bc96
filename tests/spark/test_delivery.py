"""Delivery depends on settings and on the reports of a micro-batch: it goes on from its pickle, in any process."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

from eddyline.errors import StateError
from eddyline.spark.output.reports import KEPT, read_reports, write_reports
from tests.spark.setbacks import ADD, COUNT, SINK, STREAM, bare, take
from tests.spark.suite_host import read

pytestmark = pytest.mark.usefixtures("apart")
OVERFLOWS = {"query": "over", "by": 2**63 - 10}


def delivered(folder: Path, made: str) -> dict[str, Any]:
    """What four micro-batches of a run have left, if delivery is made once, or anew for each of them."""
    folder.mkdir()
    host = bare(folder, ADD, COUNT, SINK)
    host.catalog.register("f", [{"query": "fine", "by": 1}, OVERFLOWS])
    for second in (1, 2, 3, 4):
        if made == "anew":
            host.delivery = pickle.loads(pickle.dumps(host.delivery))
        take(host, (1, 100, second), (second, 5, second))
    host.catalog.catch_up()
    rows = {f.name: read(f) for f in sorted((folder / "out").iterdir()) if f.is_dir()}
    return {
        "rows": {name: table.to_pylist() for name, table in rows.items() if table is not None},
        "quarantined": host.catalog.quarantined,
        "seen": (folder / "ck" / "eddyline" / "seen.json").read_text(),
    }


def test_it_can_be_made_anew_for_every_micro_batch(tmp_path: Path) -> None:
    found = delivered(tmp_path / "a", "anew")
    assert found == delivered(tmp_path / "b", "once")
    assert found["rows"]["f"] and found["quarantined"]


def test_that_of_a_run_which_was_followed_by_another_delivers_nothing(tmp_path: Path) -> None:
    host = bare(tmp_path, COUNT)
    old = pickle.dumps(host.delivery)
    host.start("\n".join((STREAM, COUNT)))
    reports = take(host, (1, 1, 1))
    with pytest.raises(StateError, match="Another run has begun"):
        pickle.loads(old).commit(1, reports)


def test_reports_are_kept_for_the_last_micro_batches(tmp_path: Path) -> None:
    for batch in range(KEPT + 1):
        write_reports(tmp_path, batch, [{"bucket": 0, "staged": ["file"], "packed": [{"rows": 1, "staged": []}]}], 0.5)
    assert read_reports(tmp_path, 0) is None
    found = read_reports(tmp_path, KEPT)
    assert found is not None and (found.batch, found.seconds) == (KEPT, 0.5)
    assert found.buckets == [{"bucket": 0, "packed": [{"rows": 1}]}]

"""Over Spark Connect a pipeline does what it does in the process of Spark's driver. Kills: `test_faults.py`."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.spark.processes import PATIENCE, ROOT, surroundings
from tests.spark.test_suite import WORLDS, check_world

pytestmark = pytest.mark.xdist_group("connect")


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What one session over Spark Connect has left."""
    folder = tmp_path_factory.mktemp("connect")
    with (folder / "log").open("w") as log:
        command = [sys.executable, "-m", "tests.spark.over_connect", str(folder)]
        ended = subprocess.run(command, cwd=ROOT, env=surroundings(), stdout=log, stderr=log, timeout=PATIENCE)
    assert ended.returncode == 0, (folder / "log").read_text()[-4000:]
    return folder


@pytest.fixture(scope="module")
def observed(base: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((base / "observed.json").read_text())
    return found


@pytest.mark.parametrize("folder", WORLDS, ids=lambda folder: folder.name)
def test_all_cases_of_a_world_give_what_their_files_expect(folder: Path, base: Path) -> None:
    own = base / "suite" / folder.name
    assert not (own / "error").exists(), (own / "error").read_text()
    check_world(folder, pickle.loads((own / "outcome").read_bytes()))


def test_figures_and_listeners_hear_of_every_micro_batch(observed: dict[str, Any]) -> None:
    seen = observed["watched"]
    batches = [batch for batch, *_ in seen["figures"]]
    assert batches == list(range(len(batches))) and seen["batch"] == batches[-1]
    assert sum(rows for _, rows, *_ in seen["figures"]) == 4
    assert sum(changes for _, _, changes, *_ in seen["figures"]) == 4
    assert seen["figures"][-1][3] == 2 and all(timed for *_, timed in seen["figures"])
    assert batches[-1] in seen["own"]


def test_queries_that_come_while_it_runs_are_answered(observed: dict[str, Any]) -> None:
    assert observed["watched"]["rows"] == [2, 3, 4, 14]


def test_a_function_for_rows_is_called_beside_the_server(observed: dict[str, Any]) -> None:
    seen = observed["watched"]
    assert seen["elsewhere"]
    assert [line.partition(" ")[2] for line in seen["taken"]] == ["[2, 3] 2", "[4] 2"]
    assert "comes too late" in seen["late"] and "Stop the run" in seen["late"]
    assert "cannot be pickled" in seen["unpicklable"]


def test_failures_are_told_in_the_same_words(observed: dict[str, Any]) -> None:
    seen = observed["failing"]
    assert "ValueError: my own trouble" in seen["failed"] and "Traceback" not in seen["failed"]
    assert seen["again"] == "" and seen["rows"] == 2
    assert seen["bad"].startswith("DataError: ") and "00001.parquet" in seen["bad"]
    assert seen["trigger"].startswith("DataError: The trigger 'soon' is no interval.")


def test_queries_that_go_wrong_are_in_quarantine(observed: dict[str, Any]) -> None:
    assert observed["quarantined"] == {"figures": 1, "resumed": 1, "rows": 2}

"""The demo as a user starts it: a pipeline on Spark, rows and alerts that come and go, a summary, a plot."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

from eddyline.demo.families import FAMILIES
from eddyline.demo.record import Written, delivered_in
from tests.spark.suite_host import read
from tests.spark.test_cli_run import COMMAND, ROOT, environ

PATIENCE = 600.0  # seconds until what does not end is given up

pytestmark = pytest.mark.xdist_group("spark")


def demo(*args: str) -> subprocess.CompletedProcess[str]:
    command = [*COMMAND, "demo", *args]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environ(), timeout=PATIENCE)


def test_a_small_demo_tells_what_the_sink_was_given_and_draws_a_plot(tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    found = demo("--queries", "600", "--seconds", "5", "--rate", "100", "--folder", str(folder))
    assert found.returncode == 0, found.stderr
    assert "CREATE QUERY FAMILY band" in (folder / "pipeline.sql").read_text()
    assert re.search(r"^First results after [\d.]+ s\.$", found.stdout, re.MULTILINE)
    for name in ("rows", "changes", "alerts", "latency", "micro-batches", "state"):
        assert re.search(rf"^{name} +\S", found.stdout, re.MULTILINE), name
    told = {name: count(rf"^{name} +[\d,]+ +([\d,]+)", found.stdout) for name in (a.name for a in FAMILIES)}
    given = {name: 0 if (rows := read(folder / "alerts" / name)) is None else rows.num_rows for name in told}
    assert told == given
    assert sum(given.values()) == count(r"^changes +([\d,]+)", found.stdout) > 0
    assert count(r"([\d,]+) added", found.stdout) > 0
    assert (folder / "demo.png").read_bytes().startswith(b"\x89PNG")
    again = demo("--folder", str(folder))
    assert (again.returncode, again.stderr.startswith("Error: ")) == (1, True)


def count(pattern: str, text: str) -> int:
    found = re.search(pattern, text, re.MULTILINE)
    assert found is not None, pattern
    return int(found[1].replace(",", ""))


def test_files_are_delivered_in_the_micro_batch_that_has_taken_their_last_row() -> None:
    written = [Written(float(n), rows) for n, rows in enumerate([10, 20, 5, 7])]
    assert np.array_equal(delivered_in(written, [0, 10, 25]), [1, 2, 2, 3])

"""Every example runs to its end, and shows what its comments say."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import ROOT, Run

EXAMPLES = sorted((ROOT / "examples").glob("*.sql"))
SHOWN = {
    "alerts": ["ACME     107.5", "Globex International   106200.0", "family_1         2"],
    "joins": ["ACME     100.75   100.0", "GLOB     GLOB    -0.25"],
    "windows": ["roof     2   33.0", "hall        99.0", "0 rows"],
}


def test_there_are_examples() -> None:
    assert {path.stem for path in EXAMPLES} == SHOWN.keys()


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_example_runs(path: Path, run: Run) -> None:
    found = run("sql", str(path))
    assert (found.returncode, found.stderr) == (0, "")
    assert [text for text in SHOWN[path.stem] if text not in found.stdout] == []

"""`eddyline bench` lists what there is, runs what is named, and says what is meant by a name that is none."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from eddyline.cli import app
from eddyline.commands import bench


def test_all_benchmarks_are_listed_with_what_they_show() -> None:
    found = CliRunner().invoke(app, ["bench"], env={"COLUMNS": "200"})
    assert found.exit_code == 0
    for name in ("cacq-lineage", "cacq-queries", "cacq-routing", "cacq-adaptivity", "cacq-joins", "filters"):
        assert name in found.output
    assert all(bench.benchmarks().values())


def test_a_name_that_is_none_is_told_with_the_nearest() -> None:
    found = CliRunner().invoke(app, ["bench", "cacq-rooting"])
    assert found.exit_code == 1
    assert "cacq-routing" in found.output


def test_without_a_checkout_there_is_nothing_to_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(bench, "ROOT", tmp_path)
    found = CliRunner().invoke(app, ["bench", "filters"])
    assert found.exit_code == 1
    assert "checkout" in found.output


def test_the_figure_of_routing_keeps_its_limits(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import benchmarks._chart
    import benchmarks._report

    for module in (benchmarks._chart, benchmarks._report):
        monkeypatch.setattr(module, "FOLDER", tmp_path)
    found = CliRunner().invoke(app, ["bench", "cacq-routing"])
    assert found.exit_code == 0, found.output
    assert {f.name for f in tmp_path.iterdir()} == {"cacq-routing.json", "cacq-routing.png"}

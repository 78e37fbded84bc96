"""`eddyline bench` lists what there is, runs what is named, and says what is meant by a name that is none."""

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

import benchmarks._report
from eddyline.cli import app
from eddyline.commands import bench


def test_all_benchmarks_are_listed_with_what_they_show() -> None:
    found = CliRunner().invoke(app, ["bench"], env={"COLUMNS": "200"})
    assert found.exit_code == 0
    for name in (
        "cacq-lineage",
        "cacq-queries",
        "cacq-routing",
        "cacq-adaptivity",
        "cacq-joins",
        "cacq-functions",
        "filters",
    ):
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


def test_the_figure_of_routing_keeps_its_limits_and_goes_where_it_is_asked_for(tmp_path: Path) -> None:
    found = CliRunner().invoke(app, ["bench", "cacq-routing", "--out", str(tmp_path / "figures")])
    assert found.exit_code == 0, found.output
    assert {f.name for f in (tmp_path / "figures").iterdir()} == {"cacq-routing.json", "cacq-routing.png"}
    assert str(tmp_path / "figures") in found.output.replace("\n", "")


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A source checkout with one quick benchmark."""
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks" / "quick.py").write_text('"""Nothing."""')

    def main() -> bool:
        return benchmarks._report.report("quick", [benchmarks._report.Figure("one", 1.0, "s")])

    monkeypatch.setitem(sys.modules, "benchmarks.quick", SimpleNamespace(main=main))
    monkeypatch.setattr(bench, "ROOT", tmp_path)
    monkeypatch.delenv(bench.OUT, raising=False)
    return tmp_path


def test_the_figures_of_the_documentation_are_rewritten_only_when_asked_for(checkout: Path) -> None:
    assert CliRunner().invoke(app, ["bench", "quick"]).exit_code == 0
    assert (checkout / "benchmarks" / "out" / "quick.json").exists() and not (checkout / "docs").exists()
    assert CliRunner().invoke(app, ["bench", "quick", "--update-docs"]).exit_code == 0
    assert [f.name for f in (checkout / "docs" / "benchmarks").iterdir()] == ["quick.json"]
    assert CliRunner().invoke(app, ["bench", "quick", "--update-docs", "--out", "x"]).exit_code == 2


def test_a_folder_that_cannot_be_made_is_told_before_anything_is_measured(checkout: Path) -> None:
    (checkout / "file").touch()
    found = CliRunner().invoke(app, ["bench", "quick", "--out", str(checkout / "file" / "figures")])
    assert found.exit_code == 1 and "--out" in found.output

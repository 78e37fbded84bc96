"""The package as others install it: dependencies in ranges, pins in the lock alone, and a wheel that is whole."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import Specifier
from packaging.version import Version

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
DEPENDENCIES = [Requirement(text) for text in PROJECT["project"]["dependencies"]]
LOCKED = dict(re.findall(r"^([a-z0-9-]+)==([\w.]+)", (ROOT / "requirements.lock").read_text(), re.MULTILINE))


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    code = f"from hatchling.build import build_wheel; build_wheel({str(folder)!r})"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, timeout=240)
    (found,) = folder.glob("*.whl")
    return found


@pytest.mark.parametrize("needed", DEPENDENCIES, ids=lambda r: r.name)
def test_a_dependency_has_a_range_and_the_locked_version_is_in_it(needed: Requirement) -> None:
    ends: list[Specifier] = list(needed.specifier)
    assert {s.operator for s in ends} == {">=", "<"}, "a lower bound that was tried, and an upper one"
    assert Version(LOCKED[needed.name]) in needed.specifier


def test_the_lock_names_no_registry() -> None:
    assert "://" not in (ROOT / "requirements.lock").read_text()


def test_a_wheel_has_every_file_of_the_package_and_nothing_else(wheel: Path) -> None:
    files = (f for f in (ROOT / "eddyline").rglob("*") if f.is_file() and "__pycache__" not in f.parts)
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if ".dist-info/" not in name}
        assert {str(f.relative_to(ROOT)) for f in files} == packed
        (entry,) = (n for n in archive.namelist() if n.endswith("entry_points.txt"))
        assert "eddyline = eddyline.cli:main" in archive.read(entry).decode()


def test_an_installed_wheel_runs_without_the_checkout(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:  # a wheel of Python alone is installed by unpacking it
        archive.extractall(tmp_path / "site")
    environ = {**os.environ, "PYTHONPATH": str(tmp_path / "site")}

    def call(*args: str) -> str:
        command = [sys.executable, "-c", "from eddyline.cli import main; main()", *args]
        done = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=240)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    where = [sys.executable, "-c", "import eddyline; print(eddyline.__file__)"]
    found = subprocess.run(where, cwd=tmp_path, env=environ, capture_output=True, text=True, check=True).stdout
    assert Path(found.strip()).is_relative_to(tmp_path / "site")
    assert call("--version") == f"eddyline {PROJECT['project']['version']}\n"
    assert "1 row" in call("sql", "-e", "CREATE TABLE t (a INT); INSERT INTO t VALUES (7); SELECT a FROM t;")

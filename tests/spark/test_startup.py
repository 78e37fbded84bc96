"""How the Python processes of a local Spark start: PySpark comes from its installation, and nothing else changes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyspark

from eddyline.spark import startup

INSTALLED = Path(pyspark.__file__).parent
ZIP = INSTALLED / "python" / "lib" / "pyspark.zip"
ASKED = "import pyspark, sys; print(pyspark.__file__); print(getattr(sys, 'customized', ''))"


def answers(*path: Path) -> list[str]:
    """Where a process with this path imports PySpark from, and whether the user's own `sitecustomize` has run."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path))}
    done = subprocess.run([sys.executable, "-c", ASKED], env=env, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.split("\n")


def test_pyspark_is_imported_from_its_installation_although_its_zip_is_first_on_the_path() -> None:
    assert answers(ZIP)[0].startswith(str(ZIP))
    assert answers(ZIP, Path(startup.__file__).parent)[0] == str(INSTALLED / "__init__.py")


def test_the_zip_of_another_spark_stays_on_the_path(tmp_path: Path) -> None:
    other = tmp_path / "pyspark" / "python" / "lib" / "pyspark.zip"
    other.parent.mkdir(parents=True)
    other.symlink_to(ZIP)
    assert answers(other, Path(startup.__file__).parent)[0].startswith(str(other))


def test_the_sitecustomize_of_the_user_runs_too(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.customized = 'yes'")
    assert answers(ZIP, Path(startup.__file__).parent, tmp_path)[1] == "yes"

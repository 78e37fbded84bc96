"""Where resident processes are met: at sockets, whose paths the system limits."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from eddyline.errors import StateError
from eddyline.spark.worker import calling


@pytest.fixture
def long(tmp_path: Path) -> Path:
    """A folder whose path alone is longer than that of a socket may be."""
    found = tmp_path / ("long" * 20) / ("name" * 20)
    found.mkdir(parents=True)
    return found


@pytest.fixture
def short() -> Iterator[Path]:
    found = Path(tempfile.mkdtemp(dir="/tmp"))
    yield found
    shutil.rmtree(found)


def test_a_resident_starts_and_answers_where_the_folder_for_temporary_files_has_a_long_path(long: Path) -> None:
    code = "from eddyline.spark.worker.calling import call; call(0).close(); call(0).close()"
    environ = {**os.environ, "TMPDIR": str(long)}
    done = subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, text=True, timeout=240)
    assert (done.returncode, done.stderr) == (0, "")


def test_sockets_stay_in_the_executors_folder_where_it_is_short_enough(
    long: Path, short: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calling, "SHORT", short / "elsewhere")
    monkeypatch.setattr(tempfile, "tempdir", str(short))
    assert calling.socket_of(7, 3) == short / f"eddyline-{os.getuid()}" / "executor-7" / "resident-3.sock"
    assert not (short / "elsewhere").exists()


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "file"))
    with pytest.raises(StateError, match="cannot be made: Not a directory") as raised:
        calling.machine_folder()
    assert "TMPDIR" in str(raised.value.hint)

"""A disk that is full, or a file that may not grow: commands end with one clear error, and nothing has changed."""

from __future__ import annotations

import errno
import resource
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from eddyline.errors import StateError
from eddyline.spark.catalog import commits, logged
from eddyline.spark.run.checkpoint import Fixed, begin, catalog_of
from eddyline.spark.run.disk import unwritable
from eddyline.spark.run.settings import write_whole
from tests.cli.conftest import COMMAND, ROOT

SCRIPT = """
CREATE STREAM s (a INT, ts TIMESTAMP) WATERMARK ts DELAY OF INTERVAL 0 SECONDS USING parquet OPTIONS (path 'in');
CREATE QUERY FAMILY above (least INT) AS SELECT a FROM s WHERE a >= :least;
"""


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    begin(tmp_path / "ck", Fixed(2, "min"))
    catalog_of(tmp_path / "ck").run_script(SCRIPT)
    return tmp_path / "ck"


def limited(size: int) -> Callable[[], None]:
    """In the process that is started, no file may become larger."""
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def call(*args: str, size: int) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *args], capture_output=True, text=True, timeout=240, cwd=ROOT, preexec_fn=limited(size)
    )


def test_query_add_tells_that_the_catalog_cannot_be_written_and_changes_nothing(
    checkpoint: Path, tmp_path: Path
) -> None:
    rows = tmp_path / "rows.csv"
    rows.write_text("query,least\n" + "".join(f"q{i},{i}\n" for i in range(20_000)))
    catalog = checkpoint / "eddyline" / "catalog"
    before = sorted(catalog.iterdir())
    done = call("query", "add", "--family", "above", "--from", str(rows), "--checkpoint", str(checkpoint), size=65536)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"Error: The catalog {str(catalog)!r} cannot be written: File too large.\n")
    assert "Traceback" not in done.stderr
    assert sorted(catalog.iterdir()) == before and catalog_of(checkpoint).version == 1


def test_a_run_looks_whether_its_checkpoint_has_space_before_it_starts_spark(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    script = tmp_path / "pipeline.sql"
    script.write_text(SCRIPT.replace("'in'", f"'{tmp_path / 'in'}'"))
    done = call("run", str(script), "--checkpoint", str(tmp_path / "ck"), "--once", size=4096)
    assert done.returncode == 1
    assert done.stderr.startswith(f"Error: The checkpoint {str(tmp_path / 'ck')!r} cannot be written: ")


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EROFS, errno.EFBIG])
def test_every_reason_has_a_remedy(code: int) -> None:
    found = unwritable("The file 'x'", OSError(code, "why"))
    assert found.message == "The file 'x' cannot be written: why." and found.hint


def test_a_file_that_cannot_be_written_stays_as_it_was_and_leaves_nothing_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_whole(tmp_path / "f", "old")

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(StateError, match="No space left"):
        write_whole(tmp_path / "f", "new")
    monkeypatch.undo()
    assert (tmp_path / "f").read_text() == "old" and [f.name for f in tmp_path.iterdir()] == ["f"]


def test_a_commit_stands_where_only_its_snapshot_could_not_be_written(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(logged, "COMMITS", 1)
    monkeypatch.setattr(logged, "MOST_COMMITS", 1)

    def full(*_: object) -> int:
        raise StateError("The catalog cannot be written.")

    monkeypatch.setattr(commits.CommitLog, "write_snapshot", full)
    catalog = catalog_of(checkpoint)
    catalog.register("above", [{"query": "a", "least": 1}])
    assert catalog.version == 2 and catalog_of(checkpoint).query("a")
    assert "No snapshot" in caplog.text

"""`eddyline query explain` on a checkpoint: what it says of a query, and why the query does not fire."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark import cloudpickle
from typer.testing import CliRunner

from eddyline.cli import app
from eddyline.spark.catalog import explaining
from eddyline.spark.run.checkpoint import Alone, Fixed, begin, is_running
from tests.spark.bare import Bare
from tests.spark.pipelines import _timed

SCRIPT = """
CREATE STREAM s (k INT, ts TIMESTAMP) WATERMARK ts DELAY OF INTERVAL 1 SECOND USING parquet OPTIONS (path 'in/s');
CREATE STREAM quiet (k INT, ts TIMESTAMP) WATERMARK ts USING parquet OPTIONS (path 'in/quiet');
CREATE TABLE customers (k INT PRIMARY KEY, n STRING) USING parquet OPTIONS (path 'in/customers');
CREATE QUERY FAMILY above (least INT) AS SELECT k FROM s WHERE k >= :least;
CREATE CONTINUOUS QUERY counted AS SELECT COUNT(*) AS n FROM s [RANGE 5 SECONDS] GROUP BY k;
CREATE CONTINUOUS QUERY both AS SELECT DISTINCT s.k FROM s [RANGE 5 SECONDS], quiet [RANGE 5 SECONDS]
  WHERE s.k = quiet.k;
CREATE CONTINUOUS QUERY silent AS SELECT k FROM quiet;
CREATE CONTINUOUS QUERY named AS SELECT s.k, n FROM s JOIN customers ON s.k = customers.k;
"""
SINK = "CREATE SINK out USING {} OPTIONS (path '{}');"


class Host(Bare):
    """A pipeline without Spark, that leaves Spark's own logs behind."""

    def run(self, rows: Mapping[str, Sequence[tuple[int, int | None]]], version: int | None = None) -> None:
        version = self.catalog.log.latest() if version is None else version
        batch, checkpoint = self.batch, Path(self.settings.checkpoint)
        given = {name: [_rows(r)] for name, r in rows.items()}
        self.take(given, version, batch)
        offset = f'v1\n{{"batchTimestampMs": {batch}}}\n{{"eddyline": 1, "commit": {version}, "now": {batch}}}\n'
        (checkpoint / "offsets" / str(batch)).write_text(offset)
        (checkpoint / "commits").mkdir(exist_ok=True)
        (checkpoint / "commits" / str(batch)).write_text("v1\n{}")


def _rows(rows: Sequence[tuple[int, int | None]]) -> pa.Table:
    found = pa.Table.from_pylist([_timed({"k": k, "ts": ts}) for k, ts in rows])
    return found.cast(pa.schema([("k", pa.int32()), ("ts", pa.timestamp("us"))]))


@pytest.fixture(params=["parquet", "json"])
def host(tmp_path: Path, request: pytest.FixtureRequest) -> Host:
    begin(tmp_path / "ck", Fixed(2, "min"))
    found = Host(tmp_path, SCRIPT + SINK.format(request.param, tmp_path / "out"), buckets=2)
    found.catalog.register("above", [{"query": "low", "least": 1}, {"query": "high", "least": 100}])
    return found


def said(host: Host, name: str) -> dict[str, str]:
    """The lines of the answer, by what comes before their colon."""
    found = CliRunner().invoke(app, ["query", "explain", name, "--checkpoint", host.settings.checkpoint])
    assert (found.exit_code, found.stderr) == (0, ""), found.stderr
    return {key.strip(): value.strip() for key, _, value in (x.partition(": ") for x in found.stdout.splitlines())}


class Leaves:
    """A function that leaves a file behind wherever it is loaded."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __call__(self, x: float) -> float:
        return x / 2

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self.file,)


WHY = "why it does not fire"


def test_it_shows_plan_split_clock_rows_and_the_last_change(host: Host) -> None:
    host.run({"s": [(1, 5), (2, 6)]})
    host.run({"s": [(3, 9), (0, 2)]})
    found = said(host, "low")
    assert found["family above"] == "2 queries" and found["low"] == "least = 1"
    assert found["split over buckets"] == "stateless"
    assert found["clock"] == "2026-01-01 00:00:08"
    assert found["stream s"] == ("4 rows, 1 late, 0 bad; the last came in micro-batch 1; watermark 2026-01-01 00:00:08")
    assert found["changes of family above"].startswith("3; the last in micro-batch 1, delivered at ")
    assert found["last change of low"] == "+ at 2026-01-01 00:00:09, micro-batch 1, in sink out"
    assert found["pipeline"] == "not running" and WHY not in found
    assert any("Select" in key or "select" in key.lower() for key in found)


def test_a_condition_that_no_row_has_met_is_the_reason(host: Host) -> None:
    host.run({"s": [(1, 5), (2, 6)]})
    found = said(host, "high")
    assert found["last change of high"] == "none in out"
    assert "no row that came after its registration has met its conditions" in found[WHY]


def test_a_stream_without_rows_is_the_reason(host: Host) -> None:
    host.run({"s": [(1, 5)]})
    assert said(host, "silent")[WHY] == "The stream 'quiet' has had no row."
    assert said(host, "both")[WHY] == "The stream 'quiet' has had no row."
    assert said(host, "named")["table customers"] == "0 rows, 0 late, 0 bad"


def test_bad_rows_are_the_reason(host: Host) -> None:
    host.run({"quiet": [(1, None), (2, None)], "s": [(1, 5)]})
    found = said(host, "silent")
    assert found["stream quiet"].startswith("2 rows, 0 late, 2 bad")
    assert found[WHY] == "All rows of the stream 'quiet' were bad: `eddyline late quiet` shows them."


def test_answers_that_wait_for_the_clock_name_the_stream_that_holds_it_back(host: Host) -> None:
    host.run({"s": [(1, 5)], "quiet": [(1, 5)]})
    host.run({"s": [(2, 500)]})
    found = said(host, "both")
    assert found["clock"] == "2026-01-01 00:00:05 (that of quiet)"
    reason = "Its answers wait for the stream 'quiet', which is at 2026-01-01 00:00:05, while 's' is ahead."
    assert found[WHY] == reason


def test_a_query_that_is_not_yet_in_force_says_by_which_commit_it_comes(host: Host) -> None:
    assert said(host, "low")[WHY] == "No micro-batch has ended yet. The pipeline is not running."
    before = host.catalog.version
    host.run({"s": [(1, 5)]})
    host.catalog.register("above", [{"query": "new", "least": 1}])
    found = said(host, "new")
    assert found["catalog"] == f"commit {before + 1}; the last micro-batch had commit {before}"
    assert f"registered by commit {before + 1}, the last micro-batch had commit {before}" in found[WHY]
    assert "registered" not in said(host, "low").get(WHY, "")
    host.run({"s": [(2, 6)]})
    assert said(host, "new")["last change of new"].endswith("micro-batch 1, in sink out")


def test_quarantine_is_the_reason_before_all_others(host: Host) -> None:
    host.run({"s": [(1, 5)]})
    family, query = host.catalog.query("low")
    host.catalog.quarantine(family.number, [query], "integer overflow")
    found = said(host, "low")
    assert found["quarantine"] == "integer overflow" and "eddyline query resume low" in found[WHY]
    assert "quarantine" not in said(host, "high")


def test_a_family_is_explained_as_a_whole(host: Host) -> None:
    host.run({"s": [(1, 5)]})
    found = said(host, "above")
    assert found["changes of family above"].startswith("1; ") and WHY not in found


def test_files_beyond_a_limit_are_not_read_and_that_is_said(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    for i in range(4):
        host.run({"s": [(1, 5 + i)]})
    monkeypatch.setattr(explaining, "MOST_FILES", 2)
    assert said(host, "high")["last change of high"] == (
        "not in the last 2 files of its sinks; 2 older ones were not read"
    )


def test_what_was_not_counted_is_not_a_reason(host: Host) -> None:
    host.run({"s": [(1, 5)]})
    for file in (host.settings.own / "counts").iterdir():
        file.unlink()
    assert said(host, "silent")["stream quiet"].startswith("not counted")
    host.run({"s": [(1, 6)]})
    found = said(host, "counted")
    assert "since micro-batch 1" in found["stream s"] and WHY not in found
    assert said(host, "silent")[WHY] == "The stream 'quiet' has had no row."  # its clock knows


def test_a_name_that_is_none_is_an_error(host: Host) -> None:
    found = CliRunner().invoke(app, ["query", "explain", "lowe", "--checkpoint", host.settings.checkpoint])
    assert found.exit_code == 1 and "Did you mean" in found.stderr


def test_it_writes_nothing_and_needs_neither_spark_nor_functions(host: Host) -> None:
    checkpoint = Path(host.settings.checkpoint)
    host.catalog.function("half", Leaves(checkpoint.parent / "loaded"), ["DOUBLE"], "DOUBLE")
    host.run({"s": [(1, 5)]})
    pickle.loads(cloudpickle.dumps(Leaves(checkpoint.parent / "loaded")))
    (checkpoint.parent / "loaded").unlink()  # so loading leaves it
    before = {f: f.stat().st_mtime_ns for f in checkpoint.rglob("*") if f.name != "lock"}
    code = (
        "import sys\n"
        "from eddyline.cli import app\n"
        "try: app(['query', 'explain', 'low', '--checkpoint', sys.argv[1]])\n"
        "except SystemExit as e: assert not e.code\n"
        "assert not [m for m in sys.modules if m.startswith('pyspark')]\n"
    )
    command = [sys.executable, "-c", code, str(checkpoint)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stderr) == (0, "") and "split over buckets" in done.stdout
    assert not (checkpoint.parent / "loaded").exists()
    assert {f: f.stat().st_mtime_ns for f in checkpoint.rglob("*") if f.name != "lock"} == before


def test_a_run_is_seen_from_another_process_and_its_lock_stays(tmp_path: Path) -> None:
    folder = tmp_path / "ck"
    code = "import sys; from pathlib import Path; from eddyline.spark.run.checkpoint import is_running\n"
    code += "print(is_running(Path(sys.argv[1])))"

    def seen() -> str:
        command = [sys.executable, "-c", code, str(folder)]
        return subprocess.run(command, capture_output=True, text=True, timeout=300, check=True).stdout.strip()

    assert seen() == "False"
    with Alone(folder, lambda: True):
        assert seen() == "True" and is_running(folder) and seen() == "True"
    assert seen() == "False"

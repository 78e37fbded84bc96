"""`eddyline run` as a user starts it: real processes, a real terminal, Ctrl-C."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.spark.suite_host import put, read

pytestmark = pytest.mark.xdist_group("spark")

ROOT = Path(__file__).resolve().parents[2]
COMMAND = [sys.executable, "-m", "eddyline.cli"]
SPARK = ["--master", "local[2]", "--conf", "spark.driver.memory=1g"]
PATIENCE = 240.0  # seconds until what does not come is given up
START = datetime(2026, 1, 1)
SCRIPT = """
CREATE STREAM s (a INT, ts TIMESTAMP) WATERMARK ts DELAY OF INTERVAL 0 SECONDS
  USING parquet OPTIONS (path '{in}');
CREATE QUERY FAMILY above (least INT) AS SELECT a FROM s WHERE a >= :least;
CREATE SINK out USING parquet OPTIONS (path '{out}');
"""


class Place:
    """A folder with a script, its input, its sink and its checkpoint."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.script, self.checkpoint = folder / "pipeline.sql", folder / "ck"
        (folder / "in").mkdir()
        self.script.write_text(SCRIPT.replace("{in}", str(folder / "in")).replace("{out}", str(folder / "out")))
        self.files = 0

    def put(self, *values: int | None) -> None:
        """Another file of input; None is a row without event time."""
        self.files += 1
        ts = [None if v is None else START + timedelta(seconds=self.files) for v in values]
        rows = pa.table({"a": pa.array([v or 0 for v in values], pa.int32()), "ts": pa.array(ts, pa.timestamp("us"))})
        put(self.folder / "in", f"{self.files:05}.parquet", rows)

    def found(self, family: str = "above") -> list[tuple[str, int]]:
        """What the sink has: names of queries with values of `a`."""
        rows = read(self.folder / "out" / family)
        return [] if rows is None else sorted((r["query"], r["a"]) for r in rows.to_pylist())

    def command(self, *args: str) -> list[str]:
        return [*COMMAND, *args, "--checkpoint", str(self.checkpoint)]

    def call(self, *args: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(*args), input=stdin, capture_output=True, text=True, cwd=ROOT, env=environ(), timeout=PATIENCE
        )

    def run(self, *args: str) -> subprocess.CompletedProcess[str]:
        return self.call("run", str(self.script), *SPARK, *args)


def environ() -> dict[str, str]:
    """As a user has it: nothing of what the other tests set for Spark."""
    own = ("SPARK_LOCAL_IP", "PYSPARK_PYTHON", "PYSPARK_GATEWAY_PORT", "SPARK_SUBMIT_OPTS", "COLUMNS", "LINES")
    kept = {k: v for k, v in os.environ.items() if k not in own}
    return {**kept, "TERM": "xterm", "PYTHONUTF8": "1"}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


class Terminal:
    """`eddyline run` behind a pseudo-terminal, with its errors apart."""

    def __init__(self, place: Place, *args: str) -> None:
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
        command = place.command("run", str(place.script), *SPARK, *args)
        self.process = subprocess.Popen(
            command,
            stdin=slave,
            stdout=slave,
            stderr=subprocess.PIPE,
            cwd=ROOT,
            env=environ(),
            preexec_fn=_own_terminal,
        )
        os.close(slave)
        self.screen, self.errors = "", b""
        self.readers = [threading.Thread(target=t, daemon=True) for t in (self._read_screen, self._read_errors)]
        for reader in self.readers:
            reader.start()

    def _read_screen(self) -> None:
        while True:
            try:
                data = os.read(self.master, 65536)
            except OSError:  # the other side has closed
                return
            self.screen += re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", data.decode(errors="replace"))

    def _read_errors(self) -> None:
        assert self.process.stderr is not None
        with self.process.stderr as stream:
            self.errors = stream.read()

    def until(self, true: Callable[[], Any], what: str) -> Any:
        """Waits for something; gives what it is."""
        deadline = time.monotonic() + PATIENCE
        while not (found := true()):
            told = f"{what}; there was {self.screen[-3000:]!r}"
            assert self.process.poll() is None, f"it ended with {self.process.returncode} before {told}"
            assert time.monotonic() < deadline, f"waited in vain for {told}"
            time.sleep(0.1)
        return found

    def type(self, keys: str) -> None:
        os.write(self.master, keys.encode())

    def wait(self) -> int:
        code = self.process.wait(PATIENCE)
        for reader in self.readers:
            reader.join(PATIENCE)
        return code

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.master)


def _own_terminal() -> None:
    """The terminal is the process's own, so that Ctrl-C reaches all in its group, as in a shell."""
    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


@pytest.fixture
def terminal(place: Place) -> Iterator[Terminal]:
    opened = Terminal(place, "--metrics-port", "0")
    yield opened
    opened.close()


def test_queries_come_and_go_while_it_runs_and_ctrl_c_ends_it_in_order(place: Place, terminal: Terminal) -> None:
    place.put(5)
    terminal.until(lambda: "batch 0" in terminal.screen, "the first micro-batch")

    rows = place.folder / "queries.csv"
    rows.write_text("query,least\nlow,1\nhigh,7\n")
    added = place.call("query", "add", "--family", "above", "--from", str(rows))
    assert (added.returncode, added.stderr) == (0, "")
    assert added.stdout == "+2: 2 queries now, from the next micro-batch on (commit 2).\n"
    place.put(6, 9)
    terminal.until(lambda: place.found() == [("high", 9), ("low", 6), ("low", 9)], "rows of the queries added")

    twice = place.run()
    assert twice.returncode == 1
    assert twice.stderr.startswith("Error: Another run is at work on the checkpoint")

    sink = f"CREATE SINK more USING json OPTIONS (path '{place.folder / 'more'}') FOR q;"
    query = f"CREATE CONTINUOUS QUERY q AS SELECT a * 2 AS b FROM s WHERE a > 1; {sink}"
    assert place.call("query", "add", "-", stdin=query).returncode == 0
    assert place.call("query", "drop", "low").returncode == 0
    place.put(8)
    terminal.until(lambda: list((place.folder / "more").glob("part-*.json")), "the sink that was added")
    terminal.until(lambda: ("high", 8) in place.found(), "rows of the query that stays")
    assert ("low", 8) not in place.found()

    port = terminal.until(lambda: re.search(r"127\.0\.0\.1:(\d+)/metrics", terminal.screen), "the metrics' address")
    with urllib.request.urlopen(f"http://127.0.0.1:{port[1]}/metrics") as answer:
        assert 'eddyline_queries{family="above"} 1.0' in answer.read().decode()

    terminal.type("\x03")
    assert terminal.wait() == 0
    assert terminal.errors == b""
    assert re.search(r"Stopped: \d+ micro-batches, 4 rows, 5 changes in ", terminal.screen)
    assert "above" in terminal.screen and "Traceback" not in terminal.screen


def test_a_bad_row_stops_a_run_with_a_clear_error_and_the_next_run_tells_what_it_did_not_read(
    place: Place,
) -> None:
    place.script.write_text(place.script.read_text() + "CREATE CONTINUOUS QUERY q AS SELECT a FROM s;")
    place.put(1, None, 3)
    garbage = place.folder / "in" / "garbage.parquet"
    stopped = place.run("--once", "--on-bad-rows", "stop", "--quiet")
    assert (stopped.returncode, stopped.stdout) == (1, "")
    first, *others = stopped.stderr.splitlines()
    assert re.match(r"Error: Row 1 of .* of stream 's' is bad: no event time", first)
    assert len(others) == 1 and "set apart" in others[0]

    garbage.write_bytes(b"no parquet at all")
    done = place.run("--once")
    assert done.returncode == 3  # it went well, but not all was read
    said, file, remedy = done.stderr.splitlines()
    assert said == "1 file was not read:" and file.startswith(f"  {garbage}: ") and "under a new name" in remedy
    assert re.search(r"^Batch 0 in .* · 3 rows .* · 2 changes .* · 1 query · .* · 1 bad", done.stdout, re.MULTILINE)
    last = done.stdout.splitlines()[-1]
    assert last.startswith("Done: 2 micro-batches, 3 rows, 2 changes, 1 bad, 1 file not read in ")
    assert place.found("family_2") == [("q", 1), ("q", 3)]
    late = place.call("late").stdout
    assert re.search(r"^s +no event time.* 1$", late, re.MULTILINE)
    assert re.search(r"^s +unreadable file +1$", late, re.MULTILINE)


def test_a_jvm_that_is_killed_ends_the_run_with_one_clear_error(place: Place, terminal: Terminal) -> None:
    place.put(5)
    terminal.until(lambda: "1 in all" in terminal.screen, "the first micro-batch")
    children = Path(f"/proc/{terminal.process.pid}/task/{terminal.process.pid}/children").read_text().split()
    (jvm,) = (int(c) for c in children if "java" in Path(f"/proc/{c}/comm").read_text())
    os.kill(jvm, signal.SIGKILL)
    assert terminal.wait() == 1
    first, second = terminal.errors.decode().splitlines()
    assert first == "Error: Spark has ended: its JVM was killed, or has crashed."
    assert "Start the pipeline again" in second and "Traceback" not in terminal.screen


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("CREATE STREEM s", "Error in pipeline.sql, line 1: "),
        ("\nCREATE CONTINUOUS QUERY q AS SELECT a FROM nowhere;", "Error in pipeline.sql, line 2: "),
        (
            "CREATE STREAM s (a INT, ts TIMESTAMP) WATERMARK ts DELAY OF INTERVAL 0 SECONDS;",
            "Error: The stream 's' has no source.\n  CREATE STREAM s (…)",
        ),
    ],
)
def test_what_is_wrong_with_a_script_is_told_and_leaves_nothing_behind(place: Place, script: str, message: str) -> None:
    place.script.write_text(script)
    found = place.run("--once")
    assert (found.returncode, found.stdout) == (1, "")
    assert found.stderr.startswith(message) and "Traceback" not in found.stderr
    assert not place.checkpoint.exists()


def test_the_checkpoint_of_another_streaming_query_is_refused(place: Place) -> None:
    (place.checkpoint / "offsets").mkdir(parents=True)
    found = place.run("--once")
    assert found.returncode == 1
    assert found.stderr.endswith("is the checkpoint of another streaming query.\n  Choose another.\n")
    assert [f.name for f in place.checkpoint.iterdir()] == ["offsets"]

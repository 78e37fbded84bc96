"""Processes of tests: jobs that run apart, in a session of their own, and what belongs to them by /proc."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType

ROOT = Path(__file__).parents[2]
PATIENCE = 400.0  # seconds that a job may take
MARK = "EDDYLINE_TEST_JOB"  # in the environment of all processes of a job


class Job:
    """`tests.spark.job` over a folder. Leaving the `with` block ends it, however it stands."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.folder = folder
        self.log = folder / "job.log"
        with self.log.open("ab") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.spark.job", str(folder), *options],
                cwd=ROOT,
                env=surroundings() | {MARK: str(folder)},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )

    def __enter__(self) -> Job:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.kill()
        if error is not None:
            error.add_note(self.last_words())
            for left in self.everyone():
                with suppress(ProcessLookupError):
                    kill(left)

    @property
    def running(self) -> bool:
        return self.process.poll() is None

    def end(self) -> int:
        """Waits until it has ended by itself; how."""
        return self.process.wait(PATIENCE)

    def kill(self) -> None:
        """Kills the process group: the driver program and the JVM. All others must end by themselves."""
        if self.running:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def last_words(self) -> str:
        return self.log.read_text(errors="replace")[-4000:]

    # its processes

    def everyone(self) -> list[int]:
        """All processes that were started for it, in whatever group or session they are."""
        return marked(self.folder)

    def jvm(self) -> int:
        return jvm(self.process.pid)

    def daemons(self) -> list[int]:
        """Spark's own, which fork Python workers."""
        return [p for p in children(self.jvm()) if "pyspark.daemon" in command(p)]

    def workers(self) -> list[int]:
        return [w for d in self.daemons() for w in children(d)]

    def residents(self) -> list[int]:
        return residents(self.jvm())


def surroundings() -> dict[str, str]:
    paths = [str(ROOT), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    return {
        **os.environ,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join(paths),
    }


def processes() -> list[int]:
    return [int(p.name) for p in Path("/proc").iterdir() if p.name.isdigit()]


def marked(folder: Path) -> list[int]:
    """The processes that tests have started for a folder, and theirs."""
    return [p for p in processes() if f"{MARK}={folder}" in _read(p, "environ").split("\0")]


def children(parent: int) -> list[int]:
    return [p for p in processes() if _parent(p) == parent]


def jvm(driver: int | None = None) -> int:
    """The JVM of a driver program, by default this one; -1 if there is none."""
    return next((p for p in children(driver or os.getpid()) if "java" in name(p)), -1)


def residents(executor: int) -> list[int]:
    own = [p for p in processes() if command(p).endswith(f" {executor}")]
    return [p for p in own if "eddyline.spark.worker.resident" in command(p)]


def executor_of(resident: int) -> int:
    return int(command(resident).rpartition(" ")[2])


def name(process: int) -> str:
    return _read(process, "comm").strip()


def command(process: int) -> str:
    return _read(process, "cmdline").replace("\0", " ").strip()


def kill(process: int) -> None:
    os.kill(process, signal.SIGKILL)


def busy_seconds(process: int) -> float:
    """Processor time that a process has used."""
    fields = _read(process, "stat").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK") if fields else 0.0


def until(found: Callable[[], object], patience: float = 60.0, every: float = 0.01) -> bool:
    """Waits until a function gives something; whether it did."""
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        if found():
            return True
        time.sleep(every)
    return False


def _parent(process: int) -> int:
    fields = _read(process, "stat").rpartition(")")[2].split()
    return int(fields[1]) if fields else -1


def _read(process: int, file: str) -> str:
    try:
        return Path(f"/proc/{process}/{file}").read_text(errors="replace")
    except OSError:
        return ""

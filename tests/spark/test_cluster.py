"""A pipeline on a standalone cluster on loopback, whose machines may be lost: a worker and its executor are killed."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pyspark
import pytest

from tests.spark.disturbed import PATIENCE, Disturbed
from tests.spark.job import QUICK
from tests.spark.processes import (
    MARK,
    Job,
    children,
    command,
    executor_of,
    kill,
    marked,
    name,
    residents,
    surroundings,
    until,
)

pytestmark = pytest.mark.xdist_group("spark")
SPARK = Path(pyspark.__file__).parent
ADDRESS = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")


class Cluster:
    """One master, and workers of one core each."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.started: list[subprocess.Popen[bytes]] = []
        self.workers: list[subprocess.Popen[bytes]] = []
        self._start("master", *ADDRESS)
        assert until(lambda: self._said("master", r"spark://127.0.0.1:\d+"), PATIENCE), self.last_words()
        self.url = self._said("master", r"spark://127.0.0.1:\d+")

    def add_worker(self) -> None:
        """Starts a worker, and waits until it belongs to the cluster."""
        label = f"worker {len(self.started)}"
        place = ("--work-dir", str(self.folder / label))
        self.workers.append(self._start(label, *ADDRESS, "--cores", "1", "--memory", "1g", *place, self.url))
        assert until(lambda: self._said(label, "Successfully registered with master"), PATIENCE), self.last_words()

    def executor(self, worker: subprocess.Popen[bytes]) -> int | None:
        return next((p for p in children(worker.pid) if "java" in name(p)), None)

    def executors(self) -> list[int]:
        return [e for w in self.workers if (e := self.executor(w)) is not None]

    def lose(self, executor: int) -> None:
        """A machine is gone: the worker and its executor are killed."""
        worker = next(w for w in self.workers if self.executor(w) == executor)
        self.workers.remove(worker)
        worker.kill()
        kill(executor)
        worker.wait()

    def last_words(self) -> str:
        return "\n".join(f.read_text(errors="replace")[-2000:] for f in sorted(self.folder.glob("*.log")))

    def _start(self, label: str, *given: str) -> subprocess.Popen[bytes]:
        kind = label.partition(" ")[0]
        with (self.folder / f"{label}.log").open("wb") as out:
            process = subprocess.Popen(
                [SPARK / "bin" / "spark-class", f"org.apache.spark.deploy.{kind}.{kind.capitalize()}", *given],
                env=surroundings()
                | {MARK: str(self.folder), "SPARK_HOME": str(SPARK), "SPARK_LOCAL_DIRS": str(self.folder / "local")}
                | {"SPARK_DAEMON_MEMORY": "256m", "SPARK_DAEMON_JAVA_OPTS": QUICK},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
            )
        self.started.append(process)
        return process

    def _said(self, label: str, what: str) -> str:
        found = re.search(what, (self.folder / f"{label}.log").read_text(errors="replace"))
        return found[0] if found else ""


@contextmanager
def cluster(folder: Path) -> Iterator[Cluster]:
    folder.mkdir()
    found = None
    try:
        found = Cluster(folder)
        yield found
    except Exception as e:
        e.add_note(found.last_words() if found is not None else "")
        raise
    finally:
        for process in marked(folder):
            with suppress(ProcessLookupError):
                kill(process)
        for started in found.started if found is not None else ():
            started.wait()


def test_a_cluster_that_loses_a_machine_in_the_middle_of_a_step_loses_and_doubles_nothing(tmp_path: Path) -> None:
    it = Disturbed(tmp_path, "cluster")
    with cluster(tmp_path / "cluster") as machines:
        machines.add_worker()
        machines.add_worker()
        with Job(tmp_path, "--master", machines.url, "--until", "told") as job:
            it.declare(job)
            it.give()
            it.through(job)
            both = machines.executors()
            assert len(both) == 2

            lost = executor_of(it.held(job, "process")[0])
            time.sleep(
                2
            )  # in which the other bucket may end: what was packed on the lost machine is packed again for one
            machines.lose(lost)
            machines.add_worker()
            it.let_go()
            it.through(job)
            assert until(lambda: len(set(machines.executors()) - set(both)) == 1, PATIENCE), machines.last_words()
            assert until(lambda: not residents(lost))
            it.give()
            it.finish()
            assert job.end() == 0, job.last_words()
        assert until(lambda: not marked(tmp_path)), [command(p) for p in marked(tmp_path)]
    assert "miss" in it.caches()
    print(f"{len(it.check('staged files').places)} rows")

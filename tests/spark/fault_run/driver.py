"""The pipeline as its operator runs it: `eddyline run` in a process of its own, started again whenever it has ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.spark.fault_run.world import World
from tests.spark.processes import MARK, ROOT, children, command, jvm, kill, marked, residents, surroundings, until

ENDS = 90.0  # seconds in which a run that was told to stop must have ended
CONF = {
    "spark.driver.memory": "1g",
    "spark.sql.streaming.minBatchesToRetain": "100000",
}


class Driver:
    def __init__(self, world: World) -> None:
        self.world = world
        self.log = world.folder / "driver.log"
        self.process: subprocess.Popen[bytes] | None = None
        self.starts = 0

    def start(self) -> None:
        self.gone()
        self.process = self._command(
            "run",
            str(self.world.script),
            "--checkpoint",
            str(self.world.checkpoint),
            "--master",
            "local[2,4]",
            *_conf(),
        )
        self.starts += 1

    def finish(self) -> int:
        """Processes all there is; the exit status."""
        self.gone()
        process = self._command(
            "run", str(self.world.script), "--checkpoint", str(self.world.checkpoint), "--once", "--quiet", *_conf()
        )
        return process.wait(600)

    def call(self, *words: str) -> tuple[int, str]:
        """Another command of Eddyline's; its exit status and what it printed."""
        done = subprocess.run(
            [sys.executable, "-m", "eddyline.cli", *words],
            cwd=ROOT,
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
        )
        return done.returncode, done.stdout + done.stderr

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def stop(self) -> None:
        """As Ctrl-C does, and at once if that takes too long."""
        if self.process is not None and self.running:
            self.process.send_signal(signal.SIGTERM)
            if not until(lambda: not self.running, ENDS, 0.1):
                self.kill()
        self.gone()

    def kill(self) -> None:
        if self.process is not None and self.running:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def gone(self) -> None:
        """Waits until all processes of the last run have ended by themselves; kills what has not."""
        if not until(lambda: not self._everyone(), 30.0, 0.1):
            for process in self._everyone():
                kill(process)
                print(f"    still there after 30 s and killed: {command(process)[:100]}", flush=True)

    def jvm(self) -> int:
        return -1 if self.process is None else jvm(self.process.pid)

    def residents(self) -> list[int]:
        return residents(self.jvm()) if self.jvm() > 0 else []

    def workers(self) -> list[int]:
        daemons = [p for p in children(self.jvm()) if "pyspark.daemon" in command(p)] if self.jvm() > 0 else []
        return [w for d in daemons for w in children(d)]

    def last_words(self) -> str:
        return self.log.read_text(errors="replace")[-3000:] if self.log.exists() else ""

    def _everyone(self) -> list[int]:
        return [p for p in marked(self.world.folder) if "fault_run.churn" not in command(p)]

    def _environment(self) -> dict[str, str]:
        return surroundings() | {MARK: str(self.world.folder)}

    def _command(self, *words: str) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as out:
            out.write(f"\n-- {time.strftime('%H:%M:%S')} eddyline {' '.join(words[:1])}\n".encode())
            out.flush()
            return subprocess.Popen(
                [sys.executable, "-m", "eddyline.cli", *words],
                cwd=ROOT,
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )


class Churners:
    """The processes that register and drop queries; they are paused while a checkpoint is copied."""

    def __init__(self, world: World, count: int) -> None:
        self.world, self.count = world, count
        self.begun = 0
        self.processes: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        for _ in range(self.count):
            self.begun += 1
            name = f"churn{self.begun}"
            with (self.world.folder / "churn.log").open("ab") as out:
                self.processes.append(
                    subprocess.Popen(
                        [
                            *(sys.executable, "-m", "tests.spark.fault_run.churn", str(self.world.checkpoint)),
                            *(str(self.world.folder / "operations" / f"{name}.jsonl"), name),
                        ],
                        cwd=ROOT,
                        env=surroundings(),
                        stdin=subprocess.DEVNULL,
                        stdout=out,
                        stderr=out,
                    )
                )

    def stop(self) -> None:
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            status = process.wait(60)
            if status not in (0, -signal.SIGTERM):  # it may not have begun to listen for the signal
                raise AssertionError(f"a process that registers queries ended with {status}: see churn.log")
        self.processes = []


def _conf() -> list[str]:
    return [word for key, value in CONF.items() for word in ("--conf", f"{key}={value}")]


def mounted(folder: Path, megabytes: int) -> None:
    """A disk of its own for what the pipeline writes, so that it can be filled."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(folder)], check=True)


def unmounted(folder: Path) -> None:
    subprocess.run(["umount", "-l", str(folder)], check=False)

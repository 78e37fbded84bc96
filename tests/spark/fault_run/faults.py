"""What goes wrong, and what an operator does about it. Each fault is a function that says in a line what it did."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from contextlib import suppress

from eddyline.errors import Error
from eddyline.spark.run.checkpoint import catalog_of
from tests.spark.fault_run.driver import Churners, Driver
from tests.spark.fault_run.world import World
from tests.spark.processes import kill, until

FAILS = 60.0  # seconds in which a run must have ended that cannot go on


class Faults:
    def __init__(self, world: World, driver: Driver, churners: Churners) -> None:
        self.world, self.driver, self.churners = world, driver, churners
        self.backup: tuple[str, int] | None = None  # the last one, and the version of its catalog
        self.made = 0
        self.all: dict[str, Callable[[], str]] = {
            "driver": self.kill_driver,
            "JVM": self.kill_jvm,
            "residents": self.kill_residents,
            "workers": self.kill_workers,
            "disk": self.fill_disk,
            "input": self.delete_input,
            "backup": self.make_backup,
            "restore": self.restore,
            "sink": self.break_sink,
            "query": self.explode,
        }

    # processes

    def kill_driver(self) -> str:
        self.driver.kill()
        return "driver killed"

    def kill_jvm(self) -> str:
        process = self.driver.jvm()
        if process > 0:
            kill(process)
        until(lambda: not self.driver.running, FAILS, 0.1)
        return "JVM killed"

    def kill_residents(self) -> str:
        return f"{self._kill(self.driver.residents())} residents killed"

    def kill_workers(self) -> str:
        return f"{self._kill(self.driver.workers())} workers killed"

    def _kill(self, processes: list[int]) -> int:
        for process in processes:
            with suppress(ProcessLookupError):
                kill(process)
        return len(processes)

    # disk and files

    def fill_disk(self) -> str:
        """Fills the disk until the run has ended or some seconds have passed, then makes room again."""
        filler = self.world.folder / "disk" / "filler"
        with suppress(OSError), filler.open("wb") as f:
            while True:
                f.write(b"\0" * 2**20)
                f.flush()
        ended = until(lambda: not self.driver.running, self.world.rnd.uniform(5, 20), 0.1)
        filler.unlink()
        return f"disk full; the run {'has ended' if ended else 'went on'}"

    def delete_input(self) -> str:
        self.world.give()
        until(lambda: False, self.world.rnd.uniform(0, 2))
        return f"input {self.world.delete_input()} deleted"

    # checkpoints

    def make_backup(self) -> str:
        with self._stopped():
            folder = self.world.folder / "backups" / str(self.made)
            self.made += 1
            self._command("verify")
            self._command("backup", str(folder))
            self.backup = str(folder), catalog_of(self.world.checkpoint).version
        return f"backup made at catalog version {self.backup[1]}"

    def restore(self) -> str:
        if self.backup is None:
            return self.make_backup()
        folder, version = self.backup
        with self._stopped():
            self.world.note_amendments()
            self._command("restore", folder, "--yes")
            self.world.restored(version)
        return f"backup restored, back to catalog version {version}"

    def _command(self, *words: str) -> None:
        status, said = self.driver.call("checkpoint", *words, "--checkpoint", str(self.world.checkpoint))
        assert status == 0, f"eddyline checkpoint {' '.join(words)}: {said}"

    def _stopped(self) -> _Stopped:
        return _Stopped(self.driver, self.churners)

    # the catalog

    def break_sink(self) -> str:
        """A sink whose folder becomes a file after it was declared. The run fails, until the sink is dropped."""
        self.made += 1
        name = f"broken{self.made}"
        place = self.world.folder / name
        self._tell(f"CREATE SINK {name} USING parquet OPTIONS (path '{place}')")
        shutil.rmtree(place, ignore_errors=True)
        place.write_text("no folder")
        ended = until(lambda: not self.driver.running, FAILS, 0.1)
        self._tell(f"DROP SINK {name}")
        os.unlink(place) if place.is_file() else shutil.rmtree(place, ignore_errors=True)
        return f"sink {name} broken and dropped; the run {'had ended' if ended else 'went on'}"

    def explode(self) -> str:
        """A query with hundreds of millions of results; later it is dropped."""
        self.made += 1
        name = f"exploding{self.made}"
        text = "SELECT a.id AS x, b.id AS y, c.id AS z FROM r [RANGE 1 HOUR] a, s [RANGE 1 HOUR] b, r [RANGE 1 HOUR] c"
        self._tell(f"CREATE CONTINUOUS QUERY {name} AS {text}")
        before = self.world.committed()
        until(lambda: not self.driver.running or self.world.committed() > before + 2, FAILS, 0.1)
        ended = not self.driver.running
        found = catalog_of(self.world.checkpoint)
        held = any(found.query(name)[1] in queries for queries in found.quarantined.values())
        self._tell(f"DROP CONTINUOUS QUERY {name}")
        return (
            f"{name}: {'in quarantine' if held else 'not in quarantine'}; the run {'had ended' if ended else 'went on'}"
        )

    def _tell(self, statement: str) -> None:
        """From outside, again and again while the disk is full or the catalog is busy."""
        for _ in range(20):
            try:
                catalog_of(self.world.checkpoint).execute(statement)
                return
            except (Error, OSError) as e:
                last = e
                time.sleep(0.5)
        raise AssertionError(f"{statement}: {last}")


class _Stopped:
    """Neither the pipeline nor those who change its catalog are at work."""

    def __init__(self, driver: Driver, churners: Churners) -> None:
        self.driver, self.churners = driver, churners

    def __enter__(self) -> None:
        self.churners.stop()
        self.driver.stop()

    def __exit__(self, *_: object) -> None:
        self.churners.start()

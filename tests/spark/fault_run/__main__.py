"""A pipeline under random faults, then recounted from its raw input.

    python -m tests.spark.fault_run [--minutes 30] [--seed SEED] [--report FILE]

Drivers, JVMs, residents and workers are killed, the disk is filled, input files are deleted, checkpoints backed up and
restored, sinks broken, exploding queries registered, while three processes register and drop a hundred queries a
second. Whatever happens, the pipeline must go on after at most one restart, every input row must be accounted for, and
the sink must hold what a recount of the input gives, whole and once. Needs root, for a disk that can be filled. Ends
with status 1 if anything does not hold.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from random import Random

import pyarrow as pa

from eddyline.spark.run.checkpoint import catalog_of
from tests.spark.fault_run import recount
from tests.spark.fault_run.driver import Churners, Driver, mounted, unmounted
from tests.spark.fault_run.faults import Faults
from tests.spark.fault_run.world import PERMANENT, STREAMS, World, operations, record
from tests.spark.processes import until

PATIENCE = 150.0  # seconds in which a run that was started must have ended a micro-batch
COMPILES = 600.0  # the same for the first run, which may have to compile kernels
AHEAD = 30  # files of a stream that may wait
DISK = 1500  # megabytes


class Report:
    def __init__(self, file: Path | None) -> None:
        self.file, self.begun = file, time.monotonic()
        if file is not None:
            file.write_text("")

    def say(self, line: str) -> None:
        line = f"{time.monotonic() - self.begun:7.1f} s  {line}"
        print(line, flush=True)
        if self.file is not None:
            with self.file.open("a") as f:
                f.write(f"{line}\n")


class Feed(threading.Thread):
    def __init__(self, world: World) -> None:
        super().__init__(daemon=True)
        self.world, self.ending = world, threading.Event()
        self.guard = threading.Lock()

    def run(self) -> None:
        while not self.ending.wait(1.0):
            with self.guard:
                self.world.give()


def main(given: list[str]) -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--seed", default=str(time.time_ns()))
    parser.add_argument("--report", type=Path)
    parser.add_argument("--only", nargs="*", help="kinds of faults; by default all")
    chosen = parser.parse_args(given)
    report = Report(chosen.report)
    report.say(f"seed {chosen.seed}, {chosen.minutes:g} minutes")
    with tempfile.TemporaryDirectory(prefix="eddyline-faults-", ignore_cleanup_errors=True) as name:
        world = World(Path(name), Random(chosen.seed))
        world.prepare()
        mounted(world.folder / "disk", DISK)
        try:
            return disturb(world, report, 60 * chosen.minutes, chosen.only)
        finally:
            unmounted(world.folder / "disk")


def disturb(world: World, report: Report, seconds: float, only: list[str] | None) -> int:
    driver, churners, feed = Driver(world), Churners(world, 3), Feed(world)
    faults = Faults(world, driver, churners)
    kinds = only or list(faults.all)
    happened: Counter[str] = Counter()
    try:
        world.give()
        driver.start()
        _progress(world, driver, report, after=-1, patience=COMPILES)
        _register_permanent(world)
        churners.start()
        feed.start()
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            time.sleep(world.rnd.uniform(0, 8))
            kind = world.rnd.choice(kinds)
            before = world.committed()
            with feed.guard if kind in ("input", "backup", "restore") else _nothing():
                what = faults.all[kind]()
            happened[kind] += 1
            world.note_amendments()
            report.say(f"{what}; {before + 1} micro-batches had ended")
            if not driver.running:
                driver.start()
            _progress(world, driver, report, after=world.committed())
        feed.ending.set()
        feed.join()
        churners.stop()
        driver.stop()
        status = driver.finish()
        world.note_amendments()
        report.say(f"the last run ended with status {status}")
        _check(world, report)
    except AssertionError as e:
        report.say(f"WRONG: {e}")
        report.say(driver.last_words())
        return 1
    finally:
        feed.ending.set()
        if feed.is_alive():
            feed.join()
        driver.kill()
        for process in churners.processes:
            process.kill()
    report.say(f"faults: {', '.join(f'{kind} {count}' for kind, count in sorted(happened.items()))}")
    report.say(f"{driver.starts} starts; nothing was stuck for longer than one restart")
    return 0


def _nothing() -> threading.Lock:
    return threading.Lock()


def _progress(world: World, driver: Driver, report: Report, after: int, patience: float = PATIENCE) -> None:
    """Waits for a micro-batch to end; a run that has ended, or gets nowhere, is started again once."""
    for attempt in range(2):
        if until(lambda: world.committed() > after or not driver.running, patience, 0.1) and world.committed() > after:
            return
        why = "gets nowhere" if driver.running else "has ended"
        assert attempt == 0, f"the pipeline {why} after a restart"
        report.say(f"  the run {why}: started again")
        driver.kill()
        driver.start()


def _register_permanent(world: World) -> None:
    rnd = Random("permanent")
    added = {f"permanent_{i}": (lo := rnd.gauss(0, 10), lo + abs(rnd.gauss(0, 3))) for i in range(PERMANENT)}
    pipeline_catalog = catalog_of(world.checkpoint)
    rows = {"query": list(added), "lo": [lo for lo, _ in added.values()], "hi": [hi for _, hi in added.values()]}
    pipeline_catalog.register("above", pa.table(rows))
    record(world.folder / "operations" / "permanent.jsonl", pipeline_catalog.version, added, [])


def _check(world: World, report: Report) -> None:
    sink = recount.read_sink(world.out)
    late, files = recount.late_and_reported(world.checkpoint / "eddyline" / "dead_letter")
    rows = {}
    for stream in STREAMS:
        raw = world.raw(stream)
        rows[stream] = recount.processed(raw, sink[f"all_{stream}"])
        lost = recount.missing(raw, rows[stream], late[stream])
        gone = [name for name in world.deleted if name.startswith(f"{stream}/")]
        excused = recount.ids_of(world.folder / "raw", gone)
        unread = recount.ids_of(world.folder / "raw", [f for f in files if f.startswith(f"{stream}/")])
        if len(unexplained := [i for i in lost if i not in excused]):
            raise recount.Wrong(f"{len(unexplained)} rows of {stream} are lost, for instance {unexplained[0]}")
        silent = recount.listed(world.checkpoint, gone) - files - recount.read(world.folder / "raw", gone, rows[stream])
        if silent:
            raise recount.Wrong(f"{sorted(silent)} was listed, not read, and not reported")
        if len(both := [i for i in rows[stream].id if i in unread]):
            raise recount.Wrong(f"{len(both)} rows of files reported as unread were processed")
        report.say(
            f"{stream}: {raw.num_rows} rows given, {len(rows[stream].id)} processed, {len(late[stream])} late,"
            f" {len(lost)} in deleted files, {len(unread)} of which reported"
        )
    history = operations(world)
    versions = recount.versions(world.checkpoint, world.committed(), world.amended)
    compared = recount.check_filters(rows["r"], sink, history, versions)
    queries = sum(len(o.added) for o in history)
    report.say(f"filters: {queries} queries registered and {compared} rows of theirs recounted: equal")
    report.say(f"join: {recount.check_pairs(rows['r'], rows['s'], sink)} pairs recounted: equal")
    clock = recount.clock(world.checkpoint, world.committed(), "r")
    report.say(f"aggregate: folded at {recount.check_busy(rows['r'], sink, clock)} instants: equal")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

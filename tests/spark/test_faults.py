"""Exactly once, whatever dies: drivers, residents, workers and daemons are killed, and no row is lost or doubled.

The whole process group of a driver is killed at random moments and started again from its checkpoint, while queries
come and go from outside. `EDDYLINE_NIGHTLY=1` kills many more times.
"""

from __future__ import annotations

import os
import time
from itertools import islice
from pathlib import Path
from random import Random

import pytest

from eddyline.spark.catalog.commits import CommitLog
from eddyline.spark.catalog.pipeline_catalog import PipelineCatalog
from tests.spark.disturbed import FAMILIES, ONE_AT_A_TIME, Disturbed
from tests.spark.expected import check, expected
from tests.spark.inputs import Event, World, carry_out, script
from tests.spark.micro_batches import committed, micro_batches
from tests.spark.moments import moments
from tests.spark.processes import Job, command, kill, until
from tests.spark.suite_host import put

pytestmark = pytest.mark.xdist_group("spark")
NIGHTLY = os.environ.get("EDDYLINE_NIGHTLY") == "1"
KINDS = ("filter", "join", "band", "distinct", "group by", "set operation", "table join", "count window")
AHEAD = 4  # files of each stream that wait, at least
MANY = 12  # queries, from which on more go than come


class Outside:
    """Who adds and drops queries from another process than the driver's, as `eddyline query add` does.

    Input comes from here too: there is always some more, until the kills are over.
    """

    def __init__(self, rnd: Random, folder: Path) -> None:
        self.rnd, self.folder = rnd, folder
        self.world = World(rnd, KINDS)
        self.commits: dict[int, list[Event]] = {}
        self.files = 0
        self.catalog: PipelineCatalog | None = None
        self.next = 0.0
        (folder / "pipeline.sql").write_text(script(folder, self.world.delays, FAMILIES, ONE_AT_A_TIME))

    def act(self) -> None:
        path = self.folder / "ck" / "eddyline" / "catalog"
        if time.monotonic() < self.next or not CommitLog(path).latest():
            return
        self.catalog = self.catalog or PipelineCatalog(CommitLog(path))
        if not self.commits:
            events = self.world.wide(*FAMILIES)
        elif len(self.world.standing) > MANY and self.rnd.random() < 0.6:
            events = [self.world.go()]
        else:
            events = self.world.come()
        for event in events:
            carry_out(self.catalog, event)
            self.commits[self.catalog.version] = [event]
        while self.files < committed(self.folder / "ck") + AHEAD:
            self.give()
        self.next = time.monotonic() + self.rnd.uniform(0.2, 2)

    def give(self) -> None:
        """A file of each stream, and of some table."""
        batch = self.world.full_batch(20)
        batch.rows["s"][0] += self.world.late_rows(2)
        for relation, parts in batch.tables().items():
            put(self.folder / "in" / relation, f"{self.files:05}.parquet", parts[0])
        self.files += 1


@pytest.mark.parametrize(("over", "kills"), [("driver", 25 if NIGHTLY else 5), ("connect", 10 if NIGHTLY else 3)])
def test_a_driver_killed_at_any_moment_loses_and_doubles_nothing(tmp_path: Path, over: str, kills: int) -> None:
    """Over Spark Connect, the program, the server and the process of delivery are killed together."""
    seed = f"kills {time.time_ns()}" if NIGHTLY else "kills"
    print("seed:", seed)
    outside = Outside(Random(seed), tmp_path)
    ck = tmp_path / "ck"
    for number, moment in enumerate(islice(moments(Random(f"{seed}, moments"), tmp_path), kills), 1):
        with Job(tmp_path, "--over", over, "--until", "told") as job:
            moment.wait(job, outside.act)
            job.kill()
        print(f"kill {number}: {moment}; {len(micro_batches(ck, {}))} micro-batches planned, {committed(ck)} committed")
    (tmp_path / "finish").touch()
    with Job(tmp_path, "--over", over, "--until", "told") as job:
        assert job.end() == 0, job.last_words()
    batches = micro_batches(ck, outside.commits)
    assert len(batches) == committed(ck)
    assert [sum(len(b.rows.get(s, [])) for b in batches) for s in "rs"] == [outside.files] * 2
    wanted = expected(outside.world.delays, batches)
    found = check(wanted, tmp_path)
    came = sum(len(rows) for b in batches for parts in b.rows.values() for rows in parts)
    dropped = sum(event[0] == "drop" for events in outside.commits.values() for event in events)
    print(f"{came} rows came in {len(batches)} micro-batches, {sum(map(len, wanted.late.values()))} of them late")
    print(
        f"{len(wanted.changes)} queries, of which {dropped} were dropped; {len(outside.commits)} commits from outside"
    )
    print(f"{len(found.places)} rows in the sink: as if nothing had been killed")


def test_processes_of_a_run_may_die_one_after_the_other(tmp_path: Path) -> None:
    it = Disturbed(tmp_path, "disturbed")
    options = ("--master", "local[2,4]", "--until", "told")
    with Job(tmp_path, *options) as job:
        it.declare(job)
        it.give()
        it.through(job)

        for resident in it.held(job, "process"):
            kill(resident)
        it.let_go()
        it.through(job)
        assert "miss" in it.caches()

        it.held(job, "process")
        assert job.workers()
        for worker in job.workers():
            kill(worker)
        it.let_go()
        it.through(job)

        it.held(job, "pack")
        assert job.daemons()
        for daemon in job.daemons():
            kill(daemon)
        it.let_go()
        it.through(job)

        it.held(job, "process")
        kill(job.jvm())
        assert job.end() != 0
        it.let_go()
        assert until(lambda: not job.everyone()), [command(p) for p in job.everyone()]
    it.finish()
    with Job(tmp_path, *options) as job:
        assert job.end() == 0, job.last_words()
        assert until(lambda: not job.everyone()), [command(p) for p in job.everyone()]
    print(f"{len(it.check().places)} rows in the sink: as if nothing had been killed")

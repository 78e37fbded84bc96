"""A job that is given one file of each stream after the other, and can be held in the middle of a step.

Its queries use a function that waits while a file is there (see `job.py`), so that a process can be killed while it is
known to be at work.
"""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Literal

from eddyline.spark.catalog.commits import CommitLog
from eddyline.spark.catalog.pipeline_catalog import PipelineCatalog
from tests.spark.expected import Delivered, check, check_rows, expected
from tests.spark.inputs import Event, World, carry_out, script
from tests.spark.micro_batches import committed, micro_batches
from tests.spark.processes import Job, until
from tests.spark.suite_host import put

FAMILIES = ("fa", "fb", "fd", "fg", "fj", "fn", "fu", "fw")
ONE_AT_A_TIME = ", maxFilesPerTrigger '1'"
HELD = [
    ("register", "held_bucket", "SELECT held(s.a, 'process') AS a FROM s [ROWS 2]"),
    ("register", "held_filter", "SELECT held(r.a, 'pack') AS a FROM r WHERE r.b > 1"),
]
PATIENCE = 300.0  # seconds that anything may take


class Disturbed:
    def __init__(self, folder: Path, seed: str) -> None:
        self.folder = folder
        self.world = World(Random(seed))
        self.commits: dict[int, list[Event]] = {}
        self.files = 0
        (folder / "pipeline.sql").write_text(script(folder, self.world.delays, FAMILIES, ONE_AT_A_TIME))

    def declare(self, job: Job) -> None:
        """Registers the queries, from outside."""
        path = self.folder / "ck" / "eddyline" / "catalog"
        assert until(lambda: CommitLog(path).latest() >= 2, PATIENCE), job.last_words()  # the script, and the function
        catalog = PipelineCatalog(CommitLog(path))
        for event in (*HELD, *self.world.wide(*FAMILIES)):
            carry_out(catalog, event)
            self.commits[catalog.version] = [event]

    def give(self) -> None:
        """A file of each stream, and of some table."""
        for relation, parts in self.world.full_batch(20).tables().items():
            put(self.folder / "in" / relation, f"{self.files:05}.parquet", parts[0])
        self.files += 1

    def through(self, job: Job) -> None:
        """Waits until all that was given has been processed."""
        assert until(lambda: not job.running or self._taken() == self.files, PATIENCE, 0.2), job.last_words()
        assert job.running, job.last_words()

    def held(self, job: Job, where: Literal["pack", "process"]) -> list[int]:
        """Gives rows; the residents that are held in the middle of working on them."""
        holding = self.folder / "holding"
        holding.mkdir(exist_ok=True)
        for left in holding.iterdir():
            left.unlink()
        (self.folder / f"hold {where}").touch()
        self.give()
        assert until(lambda: any(holding.iterdir()), PATIENCE), job.last_words()
        return [int(f.name) for f in holding.iterdir()]

    def let_go(self) -> None:
        for hold in self.folder.glob("hold *"):
            hold.unlink()

    def finish(self) -> None:
        """Tells the job to end when it has processed everything."""
        (self.folder / "finish").touch()

    def caches(self) -> list[str]:
        """How buckets were found, over the last micro-batches."""
        files = (self.folder / "ck" / "eddyline" / "reports").glob("[0-9]*.json")
        return [bucket["cache"] for f in files for bucket in json.loads(f.read_text())["buckets"]]

    def check(self, left: Literal["nothing", "staged files"] = "nothing") -> Delivered:
        """Files that lost tasks have staged are removed when the next run starts, and no sooner."""
        batches = micro_batches(self.folder / "ck", self.commits)
        assert [sum(len(b.rows.get(s, [])) for b in batches) for s in "rs"] == [self.files] * 2
        return (check if left == "nothing" else check_rows)(expected(self.world.delays, batches), self.folder)

    def _taken(self) -> int:
        """Files of one stream in the micro-batches that have ended."""
        batches = micro_batches(self.folder / "ck", {})[: committed(self.folder / "ck")]
        return sum(len(b.rows.get("s", [])) for b in batches)

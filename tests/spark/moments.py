"""Moments at which to kill: after a while, or as soon as some step of a micro-batch shows on disk.

A micro-batch is planned when its offsets are written; its rows are staged, the state is written, the sink is given its
files, the clocks are written, and at last Spark writes its commit.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

from tests.spark.processes import Job

SIGNS = {
    "planned": "ck/offsets/*",
    "staged": "out/_staged/*",
    "state": "ck/state/0/[0-9]*/*.changelog",
    "delivered": "out/*/part-*",
    "clocks": "ck/eddyline/clocks/*",
    "committed": "ck/commits/*",
}
TIME = "time"  # the sign of a moment that waits for none
LOOK = 0.005  # seconds
LONGEST = 15.0  # seconds that a run is left alone, if it is time alone that decides
PATIENCE = 200.0  # seconds in which a micro-batch gets anywhere


class Moment:
    def __init__(self, folder: Path, sign: str, times: int, after: float) -> None:
        """So many seconds after so many new files of a sign."""
        self.folder, self.sign, self.times, self.after = folder, sign, times, after
        self.known = self._seen()

    def wait(self, job: Job, meanwhile: Callable[[], None]) -> None:
        deadline = time.monotonic() + (self.after if self.sign == TIME else PATIENCE)
        while len(self._seen() - self.known) < self.times and time.monotonic() < deadline:
            assert job.running, "the job has ended by itself"
            meanwhile()
            time.sleep(LOOK)
        if self.sign != TIME:
            assert time.monotonic() < deadline, f"the sign {self.sign!r} was not seen {self.times} times"
            time.sleep(self.after)

    def __str__(self) -> str:
        return (
            f"{self.after:.1f} s" if self.sign == TIME else f"{self.sign} × {self.times} + {1000 * self.after:.0f} ms"
        )

    def _seen(self) -> set[Path]:
        return {f for f in self.folder.glob(SIGNS.get(self.sign, "no/such")) if not f.name.startswith(".")}


def moments(rnd: Random, folder: Path) -> Iterator[Moment]:
    """Moments of every kind before any kind comes again."""
    while True:
        for sign in rnd.sample([TIME, *SIGNS], len(SIGNS) + 1):
            after = rnd.uniform(0, LONGEST) if sign == TIME else rnd.choice([0, 0, 0.001, 0.01, 0.05, 0.2])
            yield Moment(folder, sign, rnd.choice([1, 1, 2, 3]), after)

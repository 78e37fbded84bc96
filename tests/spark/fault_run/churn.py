"""A process that registers and drops queries of the family `above`, thirty-odd a second, as `eddyline query add` does.

    python -m tests.spark.fault_run.churn CHECKPOINT RECORD SEED

It ends with SIGTERM, between two commits. What it did stands in RECORD, one line for each commit.
"""

from __future__ import annotations

import signal
import sys
import time
from pathlib import Path
from random import Random

import pyarrow as pa

from eddyline.errors import Error
from eddyline.spark.catalog.pipeline_catalog import PipelineCatalog
from eddyline.spark.run.checkpoint import catalog_of
from tests.spark.fault_run.world import record

AT_ONCE, PER_SECOND, STANDING = 5, 17, 400  # queries in a commit, registered in a second, and kept at most


class Churn:
    def __init__(self, checkpoint: Path, file: Path, seed: str) -> None:
        self.checkpoint, self.file, self.rnd = checkpoint, file, Random(seed)
        self.standing: list[str] = []
        self.made = 0
        self.catalog: PipelineCatalog | None = None
        self.ending = False
        signal.signal(signal.SIGTERM, self._end)

    def run(self) -> None:
        due = time.monotonic()
        while not self.ending:
            self.commit()
            due += AT_ONCE / PER_SECOND
            time.sleep(max(0.0, due - time.monotonic()))

    def commit(self) -> None:
        """Registers some queries and drops as many, once there are enough; all in one commit."""
        added = {}
        for _ in range(AT_ONCE):
            self.made += 1
            lo = self.rnd.gauss(0, 20)
            added[f"{self.file.stem}_{self.made}"] = (lo, lo + abs(self.rnd.gauss(0, 5)))
        dropped = self.rnd.sample(self.standing, AT_ONCE) if len(self.standing) >= STANDING else []
        rows = pa.table(
            {
                "query": list(added),
                "lo": pa.array([lo for lo, _ in added.values()]),
                "hi": pa.array([hi for _, hi in added.values()]),
            }
        )
        try:
            self.catalog = self.catalog or catalog_of(self.checkpoint)
            with self.catalog.commit():
                self.catalog.register("above", rows)
                if dropped:
                    self.catalog.drop("above", dropped)
        except (Error, OSError) as e:  # the disk is full, for instance: nothing was committed
            print(f"{type(e).__name__}: {e}", file=sys.stderr, flush=True)
            self.catalog = None
            if not self._took_effect(next(iter(added))):
                time.sleep(1)
                return
            raise
        record(self.file, self.catalog.version, added, dropped)
        self.standing = [q for q in self.standing if q not in dropped] + list(added)

    def _took_effect(self, query: str) -> bool:
        """Whether a commit that has failed was made nevertheless."""
        while not self.ending:
            try:
                return catalog_of(self.checkpoint).registry.owner(query) is not None
            except (Error, OSError):
                time.sleep(1)
        return False

    def _end(self, *_: object) -> None:
        self.ending = True


if __name__ == "__main__":
    Churn(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]).run()

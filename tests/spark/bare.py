"""The host without Spark: residents, deliveries and the catalog's log driven by hand, micro-batch by micro-batch.

What Spark promises is all there is of it here: a micro-batch that was not committed is asked for again with the same
rows, the same commit and the state of the one before. So a run can be broken off at any point, thousands of times.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa

from eddyline.spark.catalog.pipeline_catalog import PipelineCatalog
from eddyline.spark.output.delivery import Delivery
from eddyline.spark.output.outputs import Staged
from eddyline.spark.run.settings import Moment, Settings
from eddyline.spark.run.stages import REPORT
from eddyline.spark.worker.resident import Resident
from eddyline.sql.catalog import Sink

Rows = Mapping[str, Sequence[pa.Table]]  # by stream or table: its source partitions


class BrokenOff(BaseException):
    """Here the run was killed."""


@dataclass
class Store:
    """The state of one bucket, as Spark's state store holds it."""

    head: bytes | None = None
    segments: dict[str, bytes] = field(default_factory=dict)

    def changed(self, head: bytes, put: Mapping[str, bytes], removed: Sequence[str]) -> Store:
        return Store(head, {n: s for n, s in (self.segments | put).items() if n not in removed})


class Mortal(Delivery):
    """A delivery that may be broken off between its parts."""

    def __init__(self, settings: Settings, catalog: PipelineCatalog, live: Callable[[], None]) -> None:
        super().__init__(settings, catalog)
        self.live = live

    def _deliver(self, sink: Sink, staged: Sequence[Staged], batch: int) -> None:
        self.live()
        super()._deliver(sink, staged, batch)

    def _write_clocks(self, batch: int, clocks: dict[str, Any]) -> None:
        self.live()
        super()._write_clocks(batch, clocks)
        self.live()


class Bare:
    """A pipeline over a checkpoint. `lives` says how many more pieces of work are done before it is broken off."""

    def __init__(
        self, folder: Path, script: str, buckets: int, on_error: Literal["null", "quarantine"] = "null"
    ) -> None:
        self.settings = Settings(str(folder / "ck"), buckets, "min", str(folder), "set apart", on_error)
        self.stores = [Store() for _ in range(buckets)]
        self.resident = Resident()
        self.batch = 0
        self.start(script)

    def start(self, script: str, resident: Literal["new", "the same"] = "new") -> None:
        """As a run begins: in a new process, or in one where the resident still is."""
        self.lives: int | None = None
        if resident == "new":
            self.resident = Resident()
        self.catalog = PipelineCatalog(self.settings.log())
        self.catalog.run_script(script)
        self.delivery = Mortal(self.settings, self.catalog, self._live)
        self.delivery.begin()
        self.delivery.prepare()

    def take(self, rows: Rows, version: int, now: int) -> list[dict[str, Any]]:
        """One micro-batch; returns the reports of the buckets."""
        before = self.settings.clocks_file(self.batch - 1)
        clocks = json.loads(before.read_text()) if self.batch else {}
        moment = Moment(self.batch, version, now, clocks)
        offsets = Path(self.settings.checkpoint) / "offsets"
        offsets.mkdir(parents=True, exist_ok=True)
        (offsets / str(self.batch)).touch()  # planned
        given: list[list[Any]] = [[] for _ in self.stores]
        partitions = [("", [pa.table({"commit": [version]})]), *sorted(rows.items())]
        number = 0
        for source, (relation, parts) in enumerate(partitions):
            for part in parts:
                self._live()
                for bucket, block, place in self._pack(moment, relation, number, part):
                    given[bucket].append(((source, number, place), block))
                number += 1
        answers = []
        for bucket, store in enumerate(self.stores):
            self._live()
            answers.append(self._step(bucket, store, sorted(given[bucket])))
        self._live()
        self.delivery.commit(self.batch, [report for *_, report in answers])
        self._live()
        self.stores = [s.changed(*a[:3]) for s, a in zip(self.stores, answers, strict=True)]
        commits = Path(self.settings.checkpoint) / "commits"
        commits.mkdir(exist_ok=True)
        (commits / str(self.batch)).touch()
        self.batch += 1
        return [report for *_, report in answers]

    def _live(self) -> None:
        if self.lives is not None:
            if not self.lives:
                raise BrokenOff
            self.lives -= 1

    def _pack(self, moment: Moment, relation: str, number: int, part: pa.Table) -> list[tuple[int, bytes, int]]:
        with self._call() as resident:
            resident.send(("pack", self.settings, moment, relation, number))
            blocks = []
            if relation and part.num_rows:
                for beside in ("malformed", "place"):
                    part = part.append_column(beside, pa.nulls(part.num_rows, pa.string()))
                sink = pa.BufferOutputStream()
                with pa.ipc.new_stream(sink, part.schema) as writer:
                    writer.write_table(part)
                resident.send_bytes(bytes(sink.getvalue()))
                blocks += answer(resident)[1]
            resident.send_bytes(b"")
            *notes, report = answer(resident)[1]
        sent = [(b, block, i) for i, (b, block) in enumerate([*blocks, *notes])]
        return [*sent, (*report, REPORT)]

    def _step(self, bucket: int, store: Store, given: list[Any]) -> tuple[bytes, dict[str, bytes], list[str], Any]:
        with self._call() as resident:
            resident.send(("step", self.settings, bucket, self.batch, store.head, given))
            kind, *found = answer(resident)
            while kind == "need":
                resident.send_bytes(store.segments[found[0]])
                kind, *found = answer(resident)
        return tuple(found)  # type: ignore[return-value]

    def _call(self) -> Connection:
        here, there = Pipe()
        threading.Thread(target=self.resident.converse, args=(there,), daemon=True).start()
        return here


def answer(resident: Connection) -> Any:
    found = resident.recv()
    if found[0] == "error":
        raise found[1]
    return found

"""A bucket: an engine over one part of a pipeline's data; its input is blocks.

All buckets read the same notes and the same commits, so their clocks and arrival numbers agree without communication.
A step is a function of the bucket's state and of the blocks: a replay produces the same state and the same changes.
A step applies catalog commits first, then changes of tables, then the rows of all streams together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from eddyline.arrays import Ints
from eddyline.engine.actions import Action
from eddyline.engine.definitions import Definitions
from eddyline.engine.engine import Engine
from eddyline.engine.failures import FamilyFailure
from eddyline.engine.family import Family
from eddyline.engine.parts import Part
from eddyline.engine.running_family import EngineOptions
from eddyline.errors import StateError
from eddyline.spark.catalog.following import Follower
from eddyline.spark.catalog.trust import ApprovedBodies
from eddyline.spark.input.changelog import apply_changes
from eddyline.spark.run.settings import Settings
from eddyline.spark.worker import blocks
from eddyline.spark.worker.guard import FailedQueries, WorkerGuard
from eddyline.spark.worker.placement import Placement
from eddyline.spark.worker.routes import route_name
from eddyline.state.delta import MAX, MIN, Delta, concat, micros
from eddyline.state.pages import Saved
from eddyline.state.store.store import LogName

Placed = tuple[tuple[int, int, int], bytes]  # (source, partition, number), block


@dataclass
class Input:
    """The blocks of one step, in a fixed order, decoded."""

    version: int
    now: int
    amended: int  # how often the micro-batch was amended
    notes: list[dict[str, Any]] = field(default_factory=list)
    rows: dict[tuple[str, str], list[tuple[int, pa.Table]]] = field(
        default_factory=dict
    )  # stream, route → first arrival number, rows
    tables: list[tuple[str, pa.Table]] = field(default_factory=list)


class Bucket:
    def __init__(self, number: int, settings: Settings) -> None:
        self.number = number
        self.settings = settings
        self.placement = Placement(number, settings.buckets, settings.clock_policy)
        self.definitions = Definitions(self.placement, ApprovedBodies(settings.approvals()))
        self.guard = WorkerGuard(settings.on_error)
        self.engine = worker_engine(self.definitions, self.guard, self.placement)
        self.engine.since = self._since_of
        self.engine.route = self._route
        self.follower = Follower(settings.log(), self.definitions)
        self.since: dict[int, list[tuple[int, int]]] = {}  # by family: (first query id, first visible arrival number)
        self.failed_queries: list[FailedQueries] = []  # of the last step
        self.failed_families: list[int] = []  # of the last step
        self.amended = 0  # how often the micro-batch of the last step was amended
        self._start = 0  # the arrival number at which the last step began

    def step(self, placed: Sequence[Placed]) -> list[Part]:
        """Processes the blocks of one micro-batch, in the order of their places; returns the changes."""
        self._start = self.engine.arrivals
        batch = self._decode(placed)
        self.amended = batch.amended
        parts = self.follower.move_to(batch.version, self._apply, amended=batch.amended > 0)
        for table, changes in batch.tables:
            rows = self.definitions.tables[table]
            parts += self.engine.change_rows(table, partial(apply_changes, rows, changes))
        clocks = self.engine.clocks
        for note in batch.notes:
            clocks.hear(note["relation"], note["high"], note["count"], batch.now)
        idle = {s.name.lower(): s.idle for s in self.definitions.catalog.streams if s.idle is not None}
        clocks.pass_time(batch.now, idle)
        parts += self.engine.step(partial(self._rows, batch, {}))
        self.failed_queries, self.failed_families = self.guard.take()
        return parts

    def replay(self, placed: Sequence[Placed], failed: Sequence[int]) -> None:
        """Replays a step in which the families `failed` failed.

        Those families are failed again even if their error was transient, because their queries were quarantined. A
        family that fails only in the replay raises, because its failure would not be reported.
        """
        self.step(placed)
        for number in set(failed) - set(self.failed_families):
            family = self.definitions.families[number]
            self.engine.fail(family, FamilyFailure(family.name, "It failed in an earlier step."))
        new_failures = set(self.failed_families) - set(failed)
        if new_failures:
            failure = self.engine.failed[min(new_failures)]
            raise StateError(
                f"Family {failure.family!r} failed in a step that it had taken before: {failure.error}",
                hint="Start the pipeline again: nothing is lost.",
            )

    # input

    def _decode(self, placed: Sequence[Placed]) -> Input:
        """Decodes the blocks of a step and assigns arrival numbers in the order of source partitions."""
        decoded = [(place, *blocks.decode(b)) for place, b in placed]
        notes = [(place, h) for place, h, _ in decoded if h["kind"] == "note"]
        version, now = (max(h[name] for _, h in notes) for name in ("version", "now"))
        batch = Input(version, now, max(h.get("amended", 0) for _, h in notes))
        base = {}
        for (source, partition, _), h in notes:
            base[source, partition] = self.engine.arrivals
            self.engine.arrivals += h["count"]
            batch.notes.append(h)
        for (source, partition, _), h, table in decoded:
            if h["kind"] == "rows":
                batch.rows.setdefault((h["stream"], h["route"]), []).append((base[source, partition], table))
            elif h["kind"] == "table":
                batch.tables.append((h["table"], table))
        return batch

    def _rows(self, batch: Input, deltas: dict[tuple[str, str], Delta], family: Family, stream: str) -> Delta | None:
        """The rows of a stream on the family's route to this bucket; families with the same route share them."""
        key = stream, self._route(family, stream)
        if key not in deltas and key in batch.rows:
            time = self.definitions.catalog.streams[stream].time
            deltas[key] = concat(
                [_delta(t, b, time) for b, t in batch.rows[key]], _types(batch.rows[key]), attached=False
            )
        return deltas.get(key)

    def _route(self, family: Family, stream: str) -> str:
        split = self.placement.of(family, self.definitions.splits.get(family.number))
        return route_name(family, split, stream, self.settings.buckets)

    def _apply(self, action: Action) -> list[Part]:
        return [p.resolve() for p in self.engine.apply(action)]

    # state

    def save(self) -> tuple[dict[str, Any], dict[str, Saved]]:
        """The state as JSON-compatible metadata and tables; later steps do not modify either."""
        self._trim_since()
        engine = self.engine
        engine.evict()
        clocks, heard = engine.clocks.save()
        meta = {
            "version": self.follower.version,
            "arrivals": engine.arrivals,
            "clocks": clocks,
            "heard": heard,
            "since": {str(f): list(runs) for f, runs in self.since.items()},
            "broken": {str(n): failure.error for n, failure in engine.failed.items()},
            "families": {str(n): [r.clock, r.changes] for n, r in engine.running.items()},
        }
        tables: dict[str, Saved] = {f"table.{name}": rows.save() for name, rows in self.definitions.tables.items()}
        for (stream, route), log in engine.store.logs.items():
            tables |= {f"log.{stream}.{route}.{part}": state for part, state in log.save().items()}
        for number, r in engine.running.items():
            tables |= {f"{number}.{part}": state for part, state in r.save().items()}
        return meta, tables

    def load(self, meta: Mapping[str, Any], tables: Mapping[str, pa.Table]) -> None:
        """Restores the result of `save` in a new bucket."""
        engine, definitions = self.engine, self.definitions
        self.since = {int(f): [(q, a) for q, a in runs] for f, runs in meta["since"].items()}
        with engine.restoring():
            self.follower.define(meta["version"], self._saved_since)
        engine.arrivals = meta["arrivals"]
        engine.clocks.load(meta["clocks"], meta["heard"])
        for name, rows in definitions.tables.items():
            rows.load([c.combine_chunks() for c in tables[f"table.{name}"].columns])
        for number, error in meta["broken"].items():
            family = definitions.families[int(number)]
            engine.fail(family, FamilyFailure(family.name, error))
        for name in tables:
            if name.startswith("log.") and name.endswith(".rows"):
                stem = name.removesuffix("rows")
                log = engine.log(LogName(*stem.removeprefix("log.").removesuffix(".").split(".", 1)))
                log.restore({part: tables[stem + part] for part in ("rows", "state")})
        self.reload(meta, tables)

    def reload(self, meta: Mapping[str, Any], tables: Mapping[str, Saved]) -> None:
        """Reloads the state of families from the result of `save`, except of those that a restored bucket would run in
        the same way.

        Without it, a bucket would produce the same rows as a restored one but in another order, and a replay would
        assign other positions to rows. It rebuilds the indexes of a family's queries too.
        """
        for number, (clock, changes) in meta["families"].items():
            family = self.definitions.families[int(number)]
            running = self.engine.running.get(family.number)
            if family.queries.crowded:
                family.queries.compact()  # no operator may refer to the removed rows
            elif running is not None and running.restores_exactly:
                continue
            own = {k.partition(".")[2]: t for k, t in tables.items() if k.startswith(f"{number}.")}
            self.engine.restore(family, own, clock, changes)

    # the first arrival number that is visible to each query

    def _since_of(self, family: int, ids: Ints) -> int:
        """All tuples of a step are visible to the queries that the step adds."""
        runs = self.since.setdefault(family, [])
        if len(ids) and (not runs or runs[-1][1] != self._start):
            runs.append((int(ids[0]), self._start))
        return self._start

    def _saved_since(self, family: int, ids: Ints) -> Ints:
        runs = np.array([(MIN, 0), *self.since.get(family, [])], np.int64)
        since: Ints = runs[np.searchsorted(runs[:, 0], ids, side="right") - 1, 1]
        return since

    def _trim_since(self) -> None:
        """Removes the entries of dropped queries and of removed families."""
        self.since = {n: runs for n, runs in self.since.items() if n in self.definitions.families}
        for number, runs in self.since.items():
            rows = self.definitions.families[number].queries.rows()
            first = np.array([q for q, _ in runs], np.int64)
            used = np.unique(np.searchsorted(first, rows.ids_at(rows.live()), side="right") - 1)
            self.since[number] = [runs[i] for i in used if i >= 0]


def worker_engine(definitions: Definitions, guard: WorkerGuard, placement: Placement) -> Engine:
    """The engine of a bucket or a packer: it computes changes at once and keeps no answers."""
    options = EngineOptions(placement.clock_policy, answers="not kept", results="at once")
    return Engine(definitions, guard, options, lambda f: placement.runs(f, definitions.splits.get(f.number)))


def _delta(table: pa.Table, base: int, time: int) -> Delta:
    """The rows of a block as arriving tuples; the last column is the row's position in its source partition."""
    *columns, positions = (c.combine_chunks() for c in table.columns)
    numbers = base + positions.to_numpy()
    n = len(numbers)
    ends, signs = np.full(n, MAX, np.int64), np.ones(n, np.int64)
    return Delta(tuple(columns), None, micros(columns[time]), ends, signs, numbers, numbers)


def _types(rows: Sequence[tuple[int, pa.Table]]) -> list[pa.DataType]:
    return list(rows[0][1].schema.types[:-1])

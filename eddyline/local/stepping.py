"""The path of data: rows, passing time and changes of tables reach every family that reads them.

`push` checks rows, sets late ones apart, gives the rest to every family that reads the stream and collects the changes.
All that can fail before families step is computed before anything is changed; each family's part is guarded
(`failures.py`). So a push is taken in whole or not at all, and by all families but those that fail.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Literal

import pyarrow as pa

from eddyline.delivery.changes import Arrival, Changes, Lookup, Part
from eddyline.engine.clocks import StreamClock
from eddyline.engine.deferred import Found
from eddyline.engine.failures import Failures, FamilyFailure
from eddyline.engine.family import MOST_BYTES
from eddyline.engine.history import History
from eddyline.engine.memory import machine_bytes
from eddyline.engine.pooling import pooled
from eddyline.engine.running_family import RunningFamily
from eddyline.engine.table_rows import TableRows
from eddyline.errors import CatalogError, DataError, did_you_mean
from eddyline.index.upkeep import worth_clearing
from eddyline.local.arriving import Incoming, incoming, selected
from eddyline.operators.pool import Pool, PoolMatching
from eddyline.operators.user_functions import Functions
from eddyline.session import input_rows
from eddyline.session.registry import Registry
from eddyline.session.templates import Templates
from eddyline.sql.catalog import Catalog, Stream, Table
from eddyline.state.delta import MIN, Delta
from eddyline.state.query_table import QueryRows


class Stepping:
    """What a connection holds, and how its families take steps."""

    def __init__(self, clock: Literal["min", "max"] = "min", threads: int | None = None) -> None:
        """`threads`: how many work on a batch; by default one for each processor this process may use."""
        if threads is not None and (not isinstance(threads, int) or isinstance(threads, bool) or threads < 1):
            raise DataError(f"threads cannot be {threads!r}.", hint="It is a whole number above zero.")
        if clock not in ("min", "max"):
            raise DataError(f"clock cannot be {clock!r}.", hint="It is 'min' (the slowest stream leads) or 'max'.")
        self.clock_policy = clock
        self.threads = threads or len(os.sched_getaffinity(0))
        self.most_bytes = max(MOST_BYTES, machine_bytes() // 4)
        self.catalog = Catalog()
        self.registry = Registry()
        self.templates = Templates()
        self.functions = Functions({}, {})
        self.running: dict[int, RunningFamily] = {}
        self.clocks: dict[str, StreamClock] = {}
        self.histories: dict[str, History] = {}
        self.tables: dict[str, TableRows] = {}
        self.dead: dict[str, list[list[pa.Array]]] = {}
        self.pools: dict[str, Pool] = {}
        self.failures = Failures(self.running)
        self.arrivals = 0
        self.advanced = MIN
        self._nothing = Changes(lambda: (), (), Lookup(self.registry, "now"))

    def stream(self, name: str) -> Stream:
        found = self.catalog.streams.get(name) if isinstance(name, str) else None
        if found is None:
            raise CatalogError(
                f"There is no stream {name!r}.", hint=did_you_mean(str(name), self.catalog.streams.names())
            )
        return found

    def clock_of(self, running: RunningFamily) -> int:
        """The smallest watermark among its streams (or the largest, by policy); without streams, the latest known."""
        if not running.streams:
            return max([self.advanced, *(c.watermark for c in self.clocks.values())])
        choose = min if self.clock_policy == "min" else max
        return choose(self.clocks[s].watermark for s in running.streams)

    def push(self, stream: str | Mapping[str, Any], rows: Any = None) -> Changes:
        """Gives rows to a stream, or to several: `push({"r": …, "s": …})`. All are checked before any is applied."""
        if isinstance(stream, Mapping) and rows is not None:
            raise DataError("push takes a stream and its rows, or rows by stream, not both.")
        given = dict(stream) if isinstance(stream, Mapping) else {stream: rows}
        declared: list[tuple[Stream, Any]] = []
        for name, data in given.items():
            found = self.stream(name)
            if any(found is other for other, _ in declared):
                raise DataError(f"Stream {found.name!r} is named twice in one push.", hint="No row was applied.")
            declared.append((found, data))
        came = incoming(declared, self.clocks, self.arrivals)
        self.functions.take_noted()  # of what was asked since the last step
        return self._collect([p for i in came for p in self._arrive(i)], [i.arrival for i in came])

    def _arrive(self, came: Incoming) -> list[Part]:
        key, batch = came.key, came.batch
        readers = [r for r in self.running.values() if key in r.streams]
        behind = self._behind(readers, batch) if self.clock_policy == "max" else None
        self.clocks[key] = came.clock
        self.arrivals += len(batch)
        self.dead[key] += [rows for rows in (came.late, behind) if rows is not None]
        if behind is not None:
            came.clock.late += len(behind[0])
        history = self.histories[key]
        if any(r.needs_history() for r in readers):
            history.add(batch)
        together = pooled(self.pools, key, batch, readers, self.clock_of)
        parts = [self._step(r, {key: batch}, together) for r in readers]
        if worth_clearing(len(history), len(history) - history.unchecked):
            self._let_go(key)
        return parts

    def _behind(self, readers: Sequence[RunningFamily], batch: Delta) -> list[pa.Array] | None:
        """Under clock = 'max', the tuples that some query no longer sees."""
        behind = batch.ts < max((r.clock for r in readers if len(r.family.queries)), default=MIN)
        return selected(list(batch.columns), behind) if behind.any() else None

    def _step(self, running: RunningFamily, streams: Mapping[str, Delta], together: PoolMatching | None = None) -> Part:
        self._settle(running)
        queries = running.family.queries.rows()
        mine = None if together is None else together.of(running.family.number)
        return self._part(running, queries, lambda: running.arrive(self.clock_of(running), queries, streams, mine))

    def _part(self, running: RunningFamily, queries: QueryRows, run: Callable[[], Found]) -> Part:
        """One family's part of a step; if it fails, it alone does."""
        return Part(running.family, queries, self.failures.attempt(running, run))

    def advance(self, to: Any) -> Changes:
        """Time passes without tuples: every stream's watermark becomes at least `to`."""
        moment = input_rows.moment(to)
        self.advanced = max(self.advanced, moment)
        self.functions.take_noted()
        for clock in self.clocks.values():
            clock.advance(moment)
        parts = [self._step(r, {}) for r in list(self.running.values())]
        for stream in self.histories:
            self._let_go(stream)
        return self._collect(parts)

    def change_table(self, table: Table, gone: Any, new: Sequence[pa.Array]) -> Changes:
        """Deletes and adds rows of a table, and tells every family that reads it."""
        key = table.name.lower()
        readers = [r for r in self.running.values() if key in r.tables]
        for r in readers:
            self._settle(r)
        delta = self.tables[key].change(gone, new)
        parts = []
        for r in readers if len(delta) else ():
            queries = r.family.queries.rows()
            run = partial(r.run, "arrivals", self.clock_of(r), queries, tables={key: delta})
            parts.append(self._part(r, queries, run))
        return self._collect(parts)

    def _let_go(self, stream: str) -> None:
        """Drops the tuples of a stream that no snapshot needs any more."""
        readers = [r for r in self.running.values() if stream in r.streams and r.needs_history()]
        bounds = [self.failures.attempt(r, partial(r.needs_from, stream)) for r in readers]
        known = [b for b in bounds if not isinstance(b, FamilyFailure)]
        with suppress(MemoryError):  # then it is done later
            before = min((b for b, _ in known), default=MIN)
            self.histories[stream].let_go(before, min((since for _, since in known), default=self.arrivals))

    def _collect(self, parts: Sequence[Part], arrivals: Sequence[Arrival] = ()) -> Changes:
        failed = [] if not self.failures else [Part(f, f.queries.rows(), failure) for f, failure in self.failures]
        warnings = self.functions.take_noted()
        found = Changes(lambda: [*parts, *failed], arrivals, Lookup(self.registry), lambda: warnings)
        self.failures.tell()
        return found

    # new queries

    def settle(self) -> None:
        """All who came see how things stand, so that counters and state are as if they had been asked."""
        for running in list(self.running.values()):
            self._settle(running)
            self.failures.attempt(running, running.count_changes)
        self.failures.tell()

    def _settle(self, running: RunningFamily) -> None:
        """Before a family moves on, those who came to it see how it stands."""
        if running.newcomers is not None:
            self.failures.attempt(running, lambda: running.settle(lambda: self._contents(running)))

    def _contents(self, running: RunningFamily) -> dict[str, Delta]:
        return {name: self.content(name) for name in running.tables}

    def content(self, table: str) -> Delta:
        """The rows of a table as they stand."""
        return self.tables[table].content()

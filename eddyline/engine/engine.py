"""The engine: runs families over some part of the data. It applies actions and takes steps.

A host decides where actions and rows come from, and how failures are contained (`Guard`). In-process, one engine runs
all families over all rows. In a pipeline, every bucket is an engine over its part of the rows, and every packer is an
engine that runs the stateless families.

If the work of one family raises, the others still take the whole step. The failed family is moved to `failed` until
queries are added to it again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Set
from contextlib import contextmanager, suppress
from functools import partial
from typing import Protocol, TypeVar

import numpy as np
import pyarrow as pa

from eddyline.engine.actions import Action, Relation
from eddyline.engine.clocks import Clocks
from eddyline.engine.definitions import Definitions, Ids, Runner, Since
from eddyline.engine.failures import FamilyFailure
from eddyline.engine.family import Family
from eddyline.engine.join_orders import JoinOrders
from eddyline.engine.parts import InitialPart, Part
from eddyline.engine.pooling import pooled
from eddyline.engine.running_family import NO_ROUTES, EngineOptions, Routes, RunningFamily
from eddyline.engine.shared_joins import SharedJoins, take_shared_routes
from eddyline.index.runtime.garbage import worth_compacting
from eddyline.operators.deferred import Outcome, delta_of
from eddyline.operators.pool import FamilyMatching, Pool
from eddyline.sql.catalog import RelationKind, Stream
from eddyline.state.delta import MIN, Delta
from eddyline.state.pages import Saved
from eddyline.state.query_table import QueryRows
from eddyline.state.store.store import LogName, Store
from eddyline.state.store.stored_table import StoredTable
from eddyline.state.store.stream_log import StreamLog

Result = TypeVar("Result")
Rows = Callable[[Family, str], Delta | None]  # the rows of a stream as a family sees them; None if there are none


class Guard(Protocol):
    """Contains the failures of families as its host requires; it raises those that it does not contain."""

    def start(self, family: Family, build: Callable[[], RunningFamily]) -> RunningFamily | FamilyFailure: ...

    def attempt(self, running: RunningFamily, work: Callable[[], Result]) -> Result | FamilyFailure: ...


class Engine(Runner):
    def __init__(
        self,
        definitions: Definitions,
        guard: Guard,
        options: EngineOptions,
        runs: Callable[[Family], bool] = lambda family: True,
    ) -> None:
        """`runs` says which families run here."""
        self.definitions = definitions
        self.guard = guard
        self.options = options
        self.runs = runs
        self.running: dict[int, RunningFamily] = {}
        self.failed: dict[int, FamilyFailure] = {}
        self.clocks = Clocks(options.clock)
        self.store = Store()
        self.route: Callable[[Family, str], str] = lambda family, stream: ""  # by which its tuples reach this engine
        self.pools: dict[str, Pool] = {}
        self.shared_joins: dict[LogName, SharedJoins] = {}
        self._revision = 0  # of families and their queries
        self._readers_of: dict[str, list[RunningFamily]] = {}  # by stream, at this revision
        self.join_orders = JoinOrders()
        self.arrivals = 0  # the number of the next tuple
        self.since: Since = lambda family, ids: self.arrivals
        self._parts: list[Part | InitialPart] = []
        definitions.runner = self

    # saved state

    @contextmanager
    def restoring(self) -> Iterator[None]:
        """Within this context, actions whose effects are in the saved state are applied: no family starts or steps."""
        self.definitions.runner = Runner()
        try:
            yield
        finally:
            self.definitions.runner = self

    def restore(self, family: Family, saved: Mapping[str, Saved], clock: int, changes: int | None) -> None:
        """Recovers a family from its saved state; replaces its operators."""
        running = self.running_family(family)
        running.load(saved, clock, changes, self.clocks.of(running.streams))
        self.running[family.number] = running
        self._revise()

    # actions

    def apply(self, action: Action) -> list[Part | InitialPart]:
        """Applies an action; returns the changes of answers that it causes."""
        self._parts = []
        self._revise()
        try:
            self.definitions.apply(action, self.since)
        finally:
            self._revise()
        return self._parts

    def _revise(self) -> None:
        """Families or queries have changed."""
        self._revision += 1
        self._readers_of = {}

    def change_rows(self, table: str, change: Callable[[], Delta]) -> list[Part]:
        """Applies a change that comes from the source of a table; `change` carries it out."""
        self._parts = []
        self.definitions.change_rows(table, change)
        return [p.resolve() for p in self._parts]

    def relation_defined(self, relation: Relation) -> None:
        if isinstance(relation, Stream):
            self.clocks.define(relation)

    def relation_removed(self, kind: RelationKind, name: str) -> None:
        if kind == "stream":
            self.clocks.remove(name.lower())
            self.store.remove(name.lower())
            self.shared_joins = {n: joins for n, joins in self.shared_joins.items() if n.stream != name.lower()}

    def family_created(self, family: Family) -> None:
        if self.runs(family):
            self._start(family)

    def family_split(self, family: Family) -> None:
        """It has no queries yet, and so no state. Its tuples may take another route from now on, to another log."""
        if family.number not in self.failed or not self.runs(family):
            self._stop(family)
        if self.runs(family) and family.number not in self.failed:
            self._start(family)

    def family_removed(self, family: Family) -> None:
        self._stop(family)

    def queries_adding(self, family: Family) -> None:
        running = self.running.get(family.number)
        if running is not None and running.has_initial_answer:
            self.catch_up(running)

    def function_changing(self) -> None:
        for running in list(self.running.values()):
            self.catch_up(running)

    def queries_added(self, family: Family, ids: Ids) -> None:
        """New queries get an initial answer from tables and from groups that always exist. A failed family is
        restarted."""
        if family.number in self.failed:
            self._restart(family)
        running = self.running.get(family.number)
        if running is None or not running.has_initial_answer:
            return
        if running.initial is not None and running.initial.clock != self.clocks.of(running.streams):
            self.flush(running)
        pending = running.expect(ids, self.clocks.of(running.streams))
        part = InitialPart(family, pending, ids, partial(self._initial_changes, running))
        self._parts.append(part if self.options.results == "deferred" else part.resolve())

    def queries_dropping(self, family: Family) -> None:
        running = self.running.get(family.number)
        if running is not None and running.initial is not None:
            self.flush(running)

    def queries_dropped(self, family: Family, ids: Ids) -> None:
        running = self.running.get(family.number)
        if running is not None and (running.forget(ids) or family.queries.crowded):
            self.attempt(running, running.compact)

    def table_changing(self, table: str) -> None:
        """Initial answers and collected tuples meet the table as it was."""
        for running in self._readers(table):
            self.flush(running)
            self.catch_up(running)

    def table_changed(self, table: str, delta: Delta) -> None:
        for running in self._readers(table):
            queries = running.family.queries.rows()
            clock = self.clocks.of(running.streams)
            self._parts.append(
                self._part(running, queries, partial(running.change_tables, clock, queries, {table: delta}))
            )

    def _readers(self, table: str) -> list[RunningFamily]:
        return [r for r in self.running.values() if table in r.tables]

    # families

    def _start(self, family: Family) -> None:
        """Builds the operators of a family and feeds them the tables that they read."""

        def build() -> RunningFamily:
            running = self.running_family(family)
            running.clock = self.clocks.of(running.streams)
            if running.tables:
                nobody = family.queries.rows().only(np.empty(0, np.int64))
                running.run(running.step(running.clock, nobody, tables=self._contents(running)))
            return running

        started = self.guard.start(family, build)
        if isinstance(started, FamilyFailure):
            self.failed[family.number] = started
        else:
            self.running[family.number] = started

    def _restart(self, family: Family) -> None:
        failure = self.failed.pop(family.number)
        try:
            self._start(family)
        except BaseException:
            self.failed[family.number] = failure
            raise

    def _stop(self, family: Family) -> None:
        self.failed.pop(family.number, None)
        running = self.running.pop(family.number, None)
        for stream in running.streams if running is not None else ():
            self._evict(LogName(stream, self.route(family, stream)))

    def running_family(self, family: Family) -> RunningFamily:
        """A family with new operators and empty state."""
        self.join_orders.families_changed()
        logs = partial(self._log_of, family)
        return RunningFamily(family, self.definitions.functions, self.options, logs, self._stored_table, self.clocks.of)

    def _stored_table(self, name: str) -> StoredTable:
        return self.definitions.tables[name].stored

    def _log_of(self, family: Family, stream: str) -> StreamLog:
        """The log of a stream as a family sees it."""
        return self.log(LogName(stream, self.route(family, stream)))

    def log(self, name: LogName) -> StreamLog:
        """A log of a stream, made on first use."""
        stream = self.definitions.catalog.streams[name.stream]
        return self.store.log(name, [f.type for f in stream.fields], stream.time)

    def attempt(self, running: RunningFamily, work: Callable[[], Result]) -> Result | FamilyFailure:
        """Does the work of one family; if that fails, so does the family."""
        if running.failure is not None:
            return running.failure
        result = self.guard.attempt(running, work)
        if isinstance(result, FamilyFailure):
            self.fail(running.family, result)
        return result

    def fail(self, family: Family, failure: FamilyFailure) -> None:
        """Stops a family: the state of its operators may be inconsistent."""
        running = self.running.pop(family.number, None)
        self._revise()
        if running is not None:
            running.failure = failure
        self.failed[family.number] = failure

    def flush(self, running: RunningFamily) -> None:
        """Computes the pending initial answers of a family, before its next step."""
        if running.initial is not None:
            self.attempt(running, lambda: running.flush(self._contents(running)))

    def catch_up(self, running: RunningFamily) -> None:
        """Evaluates what a family has collected, before it is due; its next step returns the changes."""
        if running.behind:
            changes = self.attempt(running, running.evaluate)
            if isinstance(changes, Delta):
                running.hold(changes)

    def flush_all(self) -> None:
        """Computes everything that is pending, so that counters and state do not depend on what was read."""
        for running in list(self.running.values()):
            self.flush(running)
            self.attempt(running, running.count_changes)

    def _initial_changes(self, running: RunningFamily) -> FamilyFailure | None:
        """Computes the pending initial answers; returns the failure of the family, if any."""
        self.flush(running)
        return running.failure

    def _contents(self, running: RunningFamily) -> dict[str, Delta]:
        return {name: self.definitions.tables[name].content() for name in running.tables}

    # steps

    def arrive(self, stream: str, batch: Delta) -> list[Part]:
        """Tuples of a stream arrive, the same for every family that reads it. The caller has advanced its clock."""
        readers = self._reading(stream)
        for running in readers:
            if running.initial is not None:  # tuples that arrive now are not part of an initial answer
                self.flush(running)
        self.arrivals += len(batch)
        needing = next((r for r in readers if r.needs_log(stream)), None)
        appended = {}
        if needing is not None:
            name = LogName(stream, self.route(needing.family, stream))
            self.log(name).append(batch)
            appended[name] = batch
        small = readers if self.options.results == "deferred" else [r for r in readers if r.cannot_fail]
        pool = pooled(self.pools, stream, batch, small, lambda r: self.clocks.of(r.streams))
        routed, idle = self._route(appended)
        parts = []
        for running in readers:
            number = running.family.number
            if number in idle and running.initial is None:
                running.skipped = True
                continue
            if self._only_collects(running, {stream: batch}):
                continue
            mine = None if pool is None else pool.of(number)
            if mine is None or self.options.results == "deferred" or mine.has_matches():
                parts.append(self._step(running, {stream: batch}, mine, routed))
        self._revise_orders()
        self._evict_some()
        return parts

    def _reading(self, stream: str) -> list[RunningFamily]:
        """The families that read a stream."""
        if stream not in self._readers_of:
            self._readers_of[stream] = [r for r in self.running.values() if stream in r.streams]
        return self._readers_of[stream]

    def step(self, rows: Rows) -> list[Part]:
        """Every family that has rows, or whose clock has advanced, takes a step."""
        routed, idle = self._route(self._append(rows))
        parts = []
        for running in list(self.running.values()):
            streams = {s: batch for s in running.streams if (batch := rows(running.family, s)) is not None}
            moves = streams or self.clocks.of(running.streams) > running.clock
            if moves and running.family.number in idle and running.initial is None:
                running.skipped = True
            elif moves and not self._only_collects(running, streams):
                parts.append(self._step(running, streams, routed=routed))
        self._revise_orders()
        self._evict_some()
        return parts

    def _route(self, appended: Mapping[LogName, Delta]) -> tuple[Routes, Set[int]]:
        """Lets the tuples that were appended to logs take shared routes."""
        arrived = {name: (self.store.logs[name], batch) for name, batch in appended.items()}
        functions, threads = self.definitions.functions, self.options.threads
        return take_shared_routes(self.shared_joins, arrived, self._sharing, functions, self._revision, threads)

    def _sharing(self, name: LogName) -> list[RunningFamily]:
        """The families that read a log."""
        return [r for r in self._reading(name.stream) if self.route(r.family, name.stream) == name.route]

    def _append(self, rows: Rows) -> dict[LogName, Delta]:
        """Adds the rows of a step to the logs, before any family probes them."""
        appended: dict[LogName, Delta] = {}
        for running in self.running.values():
            for stream in running.logs:
                name = LogName(stream, self.route(running.family, stream))
                batch = rows(running.family, stream) if name not in appended and running.needs_log(stream) else None
                if batch is not None:
                    self.store.logs[name].append(batch)
                    appended[name] = batch
        return appended

    def advance(self, to: int) -> list[Part]:
        """Time passes without tuples: every watermark becomes at least `to`."""
        self.clocks.advance(to)
        parts = self.step(lambda family, stream: None)
        self.evict()
        return parts

    def _only_collects(self, running: RunningFamily, streams: Mapping[str, Delta]) -> bool:
        """Whether a family collects these tuples, and need not take a step yet."""
        if running.collecting is None:
            return False
        self.flush(running)
        return running.collect(streams, self.clocks.of(running.streams))

    def _step(
        self,
        running: RunningFamily,
        streams: Mapping[str, Delta],
        pooled: FamilyMatching | None = None,
        routed: Routes = NO_ROUTES,
    ) -> Part:
        self.flush(running)
        queries = running.family.queries.rows()
        step = partial(running.arrive, self.clocks.of(running.streams), queries, streams, pooled, routed)
        return self._part(running, queries, step)

    def _part(self, running: RunningFamily, queries: QueryRows, step: Callable[[], Outcome]) -> Part:
        if self.options.results == "at once":
            return Part(running.family, queries, self.attempt(running, lambda: delta_of(step())))
        return Part(running.family, queries, self.attempt(running, step))

    def _revise_orders(self) -> None:
        members = (m for joins in self.shared_joins.values() for m in joins.members)
        if self.join_orders.revise(self.running, self.arrivals, members):
            self._revise()

    # answers

    def snapshot(self, running: RunningFamily, query: int) -> pa.Table:
        """The answer of a query at its clock."""
        clock = max(running.clock, self.clocks.of(running.streams))
        return running.snapshot(query, clock, lambda s: self._log_of(running.family, s).all(), self._contents(running))

    # logs

    def shared_rows(self) -> int:
        """The number of rows in logs and tables, each of which is stored once for all families."""
        return sum(map(len, self.store.logs.values())) + sum(map(len, self.definitions.tables.values()))

    def shared_bytes(self) -> int:
        """The bytes of logs and tables, with their indexes."""
        tables = (t.stored.nbytes for t in self.definitions.tables.values())
        return sum(log.nbytes for log in self.store.logs.values()) + sum(tables)

    def _evict_some(self) -> None:
        """Drops rows of logs that have grown a lot since they were last checked."""
        for name, log in list(self.store.logs.items()):
            if log.eviction_due or worth_compacting(len(log), len(log) - log.unchecked):
                self._evict(name)

    def evict(self) -> None:
        """Drops the rows of logs that no family needs, where that frees much memory."""
        for name in list(self.store.logs):
            self._evict(name)

    def _evict(self, name: LogName) -> None:
        """Drops the rows of a log that no family needs."""
        log = self.store.logs.get(name)
        if log is None:
            return
        stream = name.stream
        needing = (r for r in self.running.values() if r.needs_log(stream))
        readers = [r for r in needing if self.route(r.family, stream) == name.route]
        bounds = [self.attempt(r, partial(r.needs_from, stream)) for r in readers]
        known = [b for b in bounds if not isinstance(b, FamilyFailure)]
        with suppress(MemoryError):  # a later call drops them
            before = min((b for b, _ in known), default=MIN)
            log.evict(before, min((since for _, since in known), default=self.arrivals))

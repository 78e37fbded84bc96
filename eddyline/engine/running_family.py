"""A running family: its operators, its clock, and its answers.

`run` is the whole path of a step: operators turn arrivals into changes, which update the stored answers, if any.
`clock` is how far the family has been evaluated. With `evaluate = …`, arriving tuples are collected, and the clock of
its streams (`reached`) is ahead of it (`collecting.py`).
Answers are stored where they cannot be recomputed from the streams (grouping, distinct, negation, non-retroactive
tables, several clocks); a snapshot of selections, count windows and joins is recomputed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Literal

import numpy as np
import pyarrow as pa

from eddyline.arrays import Ints
from eddyline.engine.answers import Answers
from eddyline.engine.collecting import Collecting
from eddyline.engine.failures import FamilyFailure
from eddyline.engine.family import MOST_BYTES, Family
from eddyline.engine.operator_state import load_operators, save_operators
from eddyline.engine.retention import Retention
from eddyline.index.runtime import garbage
from eddyline.operators.attach import Attach
from eddyline.operators.base import Step
from eddyline.operators.build import build
from eddyline.operators.deferred import Deferred, Outcome, delta_of
from eddyline.operators.evaluate import Functions
from eddyline.operators.filter import Filter
from eddyline.operators.joins.candidates import Candidates
from eddyline.operators.joins.deferred_candidates import DeferredCandidates
from eddyline.operators.joins.stem_join import StemJoin
from eddyline.operators.joins.stems import Logs, Tables, own_log
from eddyline.operators.pool import FamilyMatching
from eddyline.operators.project import Project
from eddyline.operators.room import Room
from eddyline.operators.scan import StreamScan
from eddyline.plan.physical_planner import physical_plan
from eddyline.routing.filter_eddy import Lookups
from eddyline.sql.bound import StreamSource, TableSource, sources
from eddyline.state.delta import MAX, MIN, Delta, empty, query_of
from eddyline.state.pages import Saved, as_table
from eddyline.state.query_table import QueryRows
from eddyline.state.store.stored_table import StoredTable
from eddyline.state.store.stream_log import StreamLog

# Joins over ranges: in a family of more queries, counting changes may cost more than computing whose answers change.
MOST_COUNTED = 64
_NOTHING: Mapping[str, Delta] = MappingProxyType({})
Routes = Mapping[tuple[int, int], Candidates | None]  # by join (its identity) and input: the rows that it may emit
NO_ROUTES: Routes = MappingProxyType({})


@dataclass(frozen=True)
class EngineOptions:
    clock: Literal["min", "max"] = "min"
    answers: Literal["kept", "not kept"] = "kept"  # whether snapshots are available, if a family's options allow them
    results: Literal["deferred", "at once"] = "deferred"  # whether changes are computed when they are read
    threads: int = 1
    most_bytes: int = MOST_BYTES  # that a family may build in one step, unless its options set a limit


@dataclass
class InitialAnswers:
    """New queries, registered at the same clock, and their initial answers as changes, once computed."""

    clock: int
    queries: list[int] = field(default_factory=list)
    changes: Delta | None = None


class RunningFamily:
    def __init__(
        self,
        family: Family,
        functions: Functions,
        options: EngineOptions,
        logs: Logs,
        tables: Tables,
        clock_of: Callable[[Collection[str]], int] = lambda streams: MIN,
    ) -> None:
        """`logs` and `tables` have the logs of streams and the rows of tables that families share, `clock_of` the clock
        of some streams."""
        self.family = family
        self.functions = functions
        self.threads = options.threads
        self.most_bytes = family.most_bytes or options.most_bytes
        self.skipped = False  # whether tuples have arrived since its last step, and changed nothing
        self._clock_of = clock_of
        self._clock = MIN  # of its last step
        self.failure: FamilyFailure | None = None  # of its operators, after which it takes no step
        self._changes: int | None = 0
        self.earlier_lookups = Lookups()  # before it was restored
        self._uncounted: Deferred | None = None
        self._forgotten: list[int] = []
        self.streams = {s.stream.lower() for s in sources(family.bound.query) if isinstance(s, StreamSource)}
        self.tables = {s.table.lower() for s in sources(family.bound.query) if isinstance(s, TableSource)}
        # With policy 'max', a log may hold tuples that a family of several streams has not seen.
        several_clocks = options.clock == "max" and len(self.streams) > 1
        self.logs: dict[str, StreamLog] = {}  # by stream, those that its operators read
        self.root = build(family.physical, own_log if several_clocks else partial(self._open, logs), tables)
        self._retention = Retention(family, self.root, functions)
        self.initial: InitialAnswers | None = None
        self.answer: Answers | None = None
        self.recomputable = family.physical.recomputable and not several_clocks
        if not self.recomputable and family.has_snapshot and options.answers == "kept":
            self.answer = Answers(self.root.types)
        self.has_initial_answer = family.physical.initial_answer
        self.collecting: Collecting | None = None
        if family.evaluate:
            self.collecting = Collecting(
                family.evaluate, self.streams, self.most_bytes, self.logs, several_clocks=several_clocks
            )
        self._expire_every = family.expire
        self._expired = MIN  # the clock of the last expiration that the option `expire` asked for
        self._only_filters = self.root.pool_filter() is not None
        self.pool_filter = self.root.pool_filter() if self.collecting is None else None
        self.snapshots = options.answers == "kept"
        self.order_version = 0  # of the probes of its joins (`join_orders.py`)

    def _open(self, logs: Logs, stream: str) -> StreamLog | None:
        log = logs(stream)
        if log is not None:
            self.logs[stream] = log
        return log

    @property
    def clock(self) -> int:
        """How far it has come: to its last step, or to the clock of its streams if the steps since were skipped."""
        return max(self._clock, self._clock_of(self.streams)) if self.skipped else self._clock

    @clock.setter
    def clock(self, clock: int) -> None:
        self._clock, self.skipped = clock, False

    @property
    def reached(self) -> int:
        """The clock of its streams: tuples up to it have arrived, and may be collected."""
        return self.clock if self.collecting is None else max(self.clock, self.collecting.reached)

    @property
    def behind(self) -> bool:
        """Whether tuples or time have not been evaluated yet."""
        return self.collecting is not None and (bool(self.collecting) or self.collecting.reached > self.clock)

    @property
    def collected(self) -> int:
        """The number of tuples that wait for the next evaluation."""
        return 0 if self.collecting is None else len(self.collecting)

    @property
    def cannot_fail(self) -> bool:
        """Whether it only filters, and no arithmetic of its condition can overflow."""
        return self.pool_filter is not None and self.pool_filter.cannot_fail

    @property
    def changes(self) -> int | None:
        """The number of changes so far; None if counting them costs too much."""
        self.count_changes()
        return self._changes

    def count_changes(self) -> None:
        """Counts the deferred changes of the last step."""
        if self._uncounted is not None:
            uncounted, self._uncounted = self._uncounted, None
            self._count(uncounted.count())

    def _count(self, changes: int) -> None:
        if self._changes is not None:
            self._changes += changes

    def collect(self, streams: Mapping[str, Delta], clock: int) -> bool:
        """Collects arriving tuples; returns whether the family has nothing to do or to return yet."""
        assert self.collecting is not None
        self.collecting.add(streams if len(self.family.queries) else _NOTHING, max(self.clock, clock))
        return not self.collecting.held and not self.collecting.due(self.clock)

    def arrive(
        self,
        clock: int,
        queries: QueryRows,
        streams: Mapping[str, Delta],
        pooled: FamilyMatching | None = None,
        routed: Routes = NO_ROUTES,
    ) -> Outcome:
        """A step in which tuples arrive or time passes; its changes may be deferred. If the family is evaluated lazily,
        `collect` has taken the tuples."""
        if self.collecting is not None:
            if not self.collecting.due(self.clock):
                return self._released(empty(self.root.types, attached=True), queries)
            streams = self.collecting.take()
        self.count_changes()  # of the last step, before the state changes
        step = self.step(clock, queries, streams, pooled=pooled, routed=routed)
        if self.answer is not None:
            return self._released(self.run(step), queries)
        outcome = self.root.defer(step)
        self.clock = step.now
        self._expire(step)
        if isinstance(outcome, Delta):
            return self._released(self._record(outcome, queries), queries)
        routed_join = isinstance(outcome, DeferredCandidates)
        if isinstance(outcome, DeferredCandidates) and outcome.counted:
            self._count(outcome.count())
        elif not self._only_filters and not routed_join and len(self.family.queries) > MOST_COUNTED:
            self._changes = None
        else:
            self._uncounted = outcome
        return self._released(outcome, queries)

    def _released(self, outcome: Outcome, queries: QueryRows) -> Outcome:
        """The changes of a step, after those that were held."""
        if self.collecting is None or not self.collecting.held:
            return outcome
        return self.collecting.release(self.root.types, queries, delta_of(outcome))

    def evaluate(self) -> Delta:
        """Evaluates what has been collected, before it is due; the caller returns the changes or holds them."""
        self.count_changes()
        streams = {} if self.collecting is None else self.collecting.take()
        return self.run(self.step(self.reached, self.family.queries.rows(), streams))

    def hold(self, changes: Delta) -> None:
        """Keeps changes for the next step to return."""
        assert self.collecting is not None
        self.collecting.held.append(changes)

    def change_tables(self, clock: int, queries: QueryRows, tables: Mapping[str, Delta]) -> Outcome:
        """A step in which tables change; tuples that were collected have met the tables as they were."""
        return self._released(self.run(self.step(clock, queries, tables=tables)), queries)

    def only_routes(self, stream: str, shared: Container[tuple[int, int]]) -> bool:
        """Whether tuples of a stream have no effects but through these routes (joins and their inputs)."""
        stateless = (StemJoin, StreamScan, Filter, Attach, Project)
        walked = self.root.walk()
        if self.answer is not None or self.collecting is not None or not all(isinstance(o, stateless) for o in walked):
            return False
        joins = [o for o in walked if isinstance(o, StemJoin)]
        return bool(joins) and all((id(j), i) in shared for j in joins for i in j.reading(stream))

    def step(
        self,
        clock: int,
        queries: QueryRows,
        streams: Mapping[str, Delta] = _NOTHING,
        tables: Mapping[str, Delta] = _NOTHING,
        kind: Literal["arrivals", "replay"] = "arrivals",
        pooled: FamilyMatching | None = None,
        routed: Routes = NO_ROUTES,
    ) -> Step:
        """A step to a clock; the clock of a family never decreases."""
        now = max(self._clock, clock)
        room = Room(self.most_bytes)
        return Step(
            kind, self._clock, now, queries, self.functions, streams, tables, self.threads, room, pooled, routed
        )

    def run(self, step: Step) -> Delta:
        """Takes one step; returns its changes."""
        changes = self.root.pull(step)
        self.clock = step.now
        self._expire(step)
        return self._record(changes, step.queries)

    def _expire(self, step: Step) -> None:
        """Drops expired rows, if the option `expire` asks for it now."""
        every = self._expire_every
        if every is None or step.kind == "replay" or self.clock - self._expired < every:
            return
        self._expired = self.clock
        self.root.expire(step)
        if self.answer is not None:
            self.answer.expire(self.clock)

    def _record(self, changes: Delta, queries: QueryRows) -> Delta:
        """Drops changes of dropped queries, counts the others, and stores them where answers are stored."""
        if len(changes) and not queries.alive.all():
            changes = changes.take(queries.alive[queries.positions(query_of(changes))])
        if self.answer is not None and len(changes):
            self.answer.take(changes, self.clock)
        self._count(len(changes))
        return changes

    def expect(self, queries: Sequence[int] | Ints, clock: int) -> InitialAnswers:
        """Schedules the initial answers of new queries. They are computed together, when one is read or before the next
        step."""
        if self.initial is None:
            self.initial = InitialAnswers(clock)
        self.initial.queries.extend(int(q) for q in queries)
        return self.initial

    def flush(self, tables: Mapping[str, Delta]) -> None:
        """Computes the pending initial answers."""
        if self.initial is not None:
            pending, self.initial = self.initial, None
            queries = self.family.queries.rows().only(np.array(pending.queries, np.int64))
            pending.changes = self.run(self.step(pending.clock, queries, tables=tables, kind="replay"))

    def snapshot(
        self, query: int, clock: int, history: Callable[[str], Delta], tables: Mapping[str, Delta]
    ) -> pa.Table:
        """The answer of one query at the clock."""
        if self.answer is not None:
            rows = self.answer.of(query)
        else:
            queries = self.family.queries.rows().only(np.array([query]))
            streams = {s: history(s) for s in self.streams}
            functions = Functions(self.functions.bodies, {})  # errors were counted when the tuples arrived
            room = Room(self.most_bytes)
            step = Step("arrivals", MIN, clock, queries, functions, streams, tables, room=room)
            rows = build(physical_plan(self.family.plan, strategy=self.family.strategy)).pull(step)
        rows = rows.take((rows.ts <= clock) & (clock <= rows.exp)).spread()
        return pa.table(list(rows.columns), names=[f.name for f in self.family.fields])

    def reach(self, stream: str) -> int:
        """The length of its widest time window on a stream, in microseconds."""
        return self._retention.reach(stream)

    def needs_from(self, stream: str) -> tuple[int, int]:
        """The least event time and the least arrival number of the tuples that it needs of a stream's log."""
        return self._retention.needed_from(stream, self.clock), self.oldest()

    def oldest(self) -> int:
        """The arrival number from which tuples are visible to its oldest query."""
        oldest = self.family.queries.rows().oldest
        return MAX if oldest is None else oldest

    def needs_log(self, stream: str) -> bool:
        """Whether it reads the log of a stream: its joins do, or snapshots are recomputed from it."""
        if not len(self.family.queries) or stream not in self.streams:
            return False
        return stream in self.logs or (self.snapshots and self.recomputable and self.family.has_snapshot)

    def forget(self, queries: Iterable[int]) -> bool:
        """Notes dropped queries, which get no more changes. Returns whether compaction is worth its cost."""
        self._forgotten.extend(queries)
        return 4 * len(self._forgotten) > self.family.queries.live + garbage.SPARE

    def compact(self) -> None:
        """Removes the state that operators keep for dropped queries."""
        if not self._forgotten:
            return
        gone = np.array(self._forgotten, np.int64)
        self._forgotten = []
        self.root.forget(gone)
        if self.answer is not None:
            self.answer.forget(gone)
        if self.collecting is not None:
            self.collecting.forget(gone)

    def lookups(self) -> list[Lookups]:
        """The attribute lookups of its own indexes of queries."""
        return [self.earlier_lookups, *(index.lookups for o in self.root.walk() for index in o.indexes())]

    def state_rows(self) -> int:
        """The number of rows that only this family has."""
        return sum(o.size() for o in self.root.walk()) + (len(self.answer) if self.answer is not None else 0)

    def state_bytes(self) -> int:
        """The bytes of the state that only this family has."""
        return sum(o.nbytes() for o in self.root.walk()) + (self.answer.nbytes if self.answer is not None else 0)

    def shared_rows(self) -> int:
        """The number of rows in the logs and tables that its operators read and that other families may read too."""
        return sum(len(store) for store in self._shared_stores())

    def shared_bytes(self) -> int:
        """The bytes of these logs and tables, with their indexes."""
        return sum(store.nbytes for store in self._shared_stores())

    def _shared_stores(self) -> list[StreamLog | StoredTable]:
        return list({id(store): store for o in self.root.walk() for store in o.shared_stores()}.values())

    # saving

    def save(self) -> dict[str, Saved]:
        self.compact()
        saved = save_operators(self.root)
        if self.answer is not None:
            saved["answer"] = self.answer.save()
        if self.collecting is not None:
            saved |= self.collecting.save()
        if self._expire_every is not None:
            saved["expired"] = pa.table({"clock": [self._expired]})
        return saved

    @property
    def restores_exactly(self) -> bool:
        """Whether it goes on, after `save`, like a family that has loaded what it saved."""
        return self.answer is None and all(o.restores_exactly for o in self.root.walk())

    def load(self, saved: Mapping[str, Saved], clock: int, changes: int | None, reached: int) -> None:
        """Restores what `save` returned; `reached` is the clock of its streams at that time."""
        load_operators(self.root, saved, self.functions, self.family.name)
        if self.answer is not None:
            self.answer.load(saved["answer"])
        if self.collecting is not None:
            self.collecting.load(saved, reached)
        if self._expire_every is not None:
            self._expired = as_table(saved["expired"]).column("clock")[0].as_py()
        self.clock, self._changes = clock, changes


def arrived(columns: list[pa.Array], ts: Ints, start: int) -> Delta:
    """Tuples of a stream as insertions, with arrival numbers from `start` on."""
    n = len(ts)
    numbers = np.arange(start, start + n)
    return Delta(tuple(columns), None, ts, np.full(n, MAX, np.int64), np.ones(n, np.int64), numbers, numbers)

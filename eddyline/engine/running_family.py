"""A family at work: its operators, its clock, and what is needed to tell its answers.

`run` is the whole path of a step: operators turn arrivals into changes, and changes keep the answer where one is kept.
An answer is kept where it cannot be computed again from the streams (grouping, distinct, negation, count windows,
non-retroactive tables, several clocks); selections and joins are computed again when a snapshot is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import pyarrow as pa

from eddyline.engine.answers import Answers
from eddyline.engine.family import MOST_BYTES, Family
from eddyline.errors import StateError
from eddyline.index import upkeep
from eddyline.operators.base import Operator, Step
from eddyline.operators.build import build
from eddyline.operators.deferred import Deferred, Outcome
from eddyline.operators.evaluate import Functions, evaluate
from eddyline.operators.pool import FamilyMatching
from eddyline.operators.room import Room
from eddyline.plan.expressions import params_of
from eddyline.plan.nodes import Node, Stream
from eddyline.plan.physical_planner import physical_plan
from eddyline.sql.bound import StreamSource, TableSource, sources
from eddyline.state.delta import MAX, MIN, Delta, Ints, query_of
from eddyline.state.query_table import QueryRows

# Of joins over ranges: for a family of more queries, counting the changes can cost more than finding whom they affect.
MOST_COUNTED = 64


@dataclass
class InitialAnswers:
    """New queries, registered at the same clock, whose initial answers are due; then, the answers as changes."""

    clock: int
    queries: list[int] = field(default_factory=list)
    changes: Delta | None = None


class RunningFamily:
    def __init__(
        self,
        family: Family,
        functions: Functions,
        clock_policy: Literal["min", "max"],
        answers: Literal["kept", "not kept"] = "kept",
        threads: int = 1,
        most_bytes: int = MOST_BYTES,
    ) -> None:
        """`answers`: whether snapshots may be asked for, as far as the family's own options allow them.

        `most_bytes`: how much it may build in one step, unless its own options say.
        """
        self.family = family
        self.functions = functions
        self.threads = threads
        self.most_bytes = family.most_bytes or most_bytes
        self.clock = MIN
        self.failure: str | None = None  # what its operators raised, after which it takes no further step
        self._changes: int | None = 0
        self._uncounted: Deferred | None = None
        self._forgotten: list[int] = []
        self._reach: dict[str, tuple[int, int]] = {}  # by stream: of which version of the query table, and how far
        self.streams = {s.stream.lower() for s in sources(family.bound.query) if isinstance(s, StreamSource)}
        self.tables = {s.table.lower() for s in sources(family.bound.query) if isinstance(s, TableSource)}
        self.root = build(family.physical)
        self.initial: InitialAnswers | None = None
        self.answer: Answers | None = None
        # Under 'max' a family of several streams may not have seen all that a stream's history holds.
        several_clocks = clock_policy == "max" and len(self.streams) > 1
        self.waits = several_clocks or not family.physical.recomputable
        if self.waits and family.has_snapshot and answers == "kept":
            self.answer = Answers(self.root.types)
        self.shows_itself = family.physical.initial_answer
        self.pool_filter = self.root.pool_filter()

    @property
    def cannot_fail(self) -> bool:
        """Whether it only filters, and no arithmetic of its condition can overflow."""
        return self.pool_filter is not None and self.pool_filter.cannot_fail

    @property
    def changes(self) -> int | None:
        """How many changes there have been; None if they are too many to count where nobody asks for them."""
        if self._uncounted is not None:
            uncounted, self._uncounted = self._uncounted, None
            self._count(uncounted.count())
        return self._changes

    def _count(self, changes: int) -> None:
        if self._changes is not None:
            self._changes += changes

    def count_changes(self) -> None:
        """Counts what nobody has asked for yet."""
        _ = self.changes

    def arrive(
        self, clock: int, queries: QueryRows, streams: Mapping[str, Delta], pooled: FamilyMatching | None = None
    ) -> Outcome:
        """A step in which tuples arrive, or time passes; what it does may be found out later."""
        self.count_changes()  # of the batch before
        if self.answer is not None:
            return self.run("arrivals", clock, queries, streams)
        step = self.step(clock, queries, streams, pooled=pooled)
        found = self.root.defer(step)
        self.clock = step.now
        if isinstance(found, Delta):
            return self._done(found, queries)
        if self.pool_filter is None and len(self.family.queries) > MOST_COUNTED:
            self._changes = None
        else:
            self._uncounted = found
        return found

    def step(
        self,
        clock: int,
        queries: QueryRows,
        streams: Mapping[str, Delta],
        tables: Mapping[str, Delta] | None = None,
        kind: Literal["arrivals", "replay"] = "arrivals",
        pooled: FamilyMatching | None = None,
    ) -> Step:
        """A step to a clock, which never goes back."""
        now = max(self.clock, clock)
        room = Room(self.most_bytes)
        return Step(kind, self.clock, now, queries, self.functions, streams, tables or {}, self.threads, room, pooled)

    def run(
        self,
        kind: Literal["arrivals", "replay"],
        clock: int,
        queries: QueryRows,
        streams: Mapping[str, Delta] | None = None,
        tables: Mapping[str, Delta] | None = None,
    ) -> Delta:
        """One step, carried out."""
        step = self.step(clock, queries, streams or {}, tables, kind)
        found = self.root.pull(step)
        self.clock = step.now
        return self._done(found, queries)

    def _done(self, found: Delta, queries: QueryRows) -> Delta:
        """Changes of queries that still stand, counted, and kept where answers are."""
        if len(found) and not queries.alive.all():
            found = found.take(queries.alive[queries.positions(query_of(found))])
        if self.answer is not None and len(found):
            self.answer.take(found, self.clock)
        self._count(len(found))
        return found

    def expect(self, queries: Sequence[int] | Ints, clock: int) -> InitialAnswers:
        """New queries are due an initial answer. It is computed for all of them together, when somebody asks for one or
        before the family moves on."""
        if self.initial is None:
            self.initial = InitialAnswers(clock)
        self.initial.queries.extend(int(q) for q in queries)
        return self.initial

    def flush(self, tables: Mapping[str, Delta]) -> None:
        """Computes the initial answers that are due."""
        if self.initial is not None:
            pending, self.initial = self.initial, None
            queries = self.family.queries.rows().only(np.array(pending.queries, np.int64))
            pending.changes = self.run("replay", pending.clock, queries, tables=tables)

    def snapshot(
        self, query: int, clock: int, history: Callable[[str], Delta], tables: Mapping[str, Delta]
    ) -> pa.Table:
        """The answer of one query at the clock."""
        if self.answer is not None:
            found = self.answer.of(query)
        else:
            queries = self.family.queries.rows().only(np.array([query]))
            streams = {s: history(s) for s in self.streams}
            functions = Functions(self.functions.bodies, {})  # what goes wrong here was counted when it came
            room = Room(self.most_bytes)
            step = Step("arrivals", MIN, clock, queries, functions, streams, tables, room=room)
            found = build(physical_plan(self.family.plan, strategy=self.family.strategy)).pull(step)
        found = found.take((found.ts <= clock) & (clock <= found.exp)).spread()
        return pa.table(list(found.columns), names=[f.name for f in self.family.fields])

    def needs_history(self) -> bool:
        return not self.waits and self.family.has_snapshot and len(self.family.queries) > 0

    def reach(self, stream: str) -> int:
        """How far back, in microseconds, its widest window on a stream goes."""
        queries = self.family.queries.rows()
        known = self._reach.get(stream)
        if known is not None and known[0] == queries.version:
            return known[1]
        widest = self._widest(stream, queries)
        self._reach[stream] = queries.version, widest
        return widest

    def _widest(self, stream: str, queries: QueryRows) -> int:
        widest = 0
        for node in _stream_nodes(self.family.plan, stream):
            if node.window.size is None or node.window.kind == "rows":
                return MAX
            live = queries.live()
            size = node.window.size
            sizes = evaluate(size, (), queries.params_at(params_of(size), live), len(live), self.functions)
            widths = sizes.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
            widest = max(widest, int(widths.max(initial=0)))
        return widest

    def needs_from(self, stream: str) -> tuple[int, int]:
        """From which event time, and from which arrival number on, its snapshots need the tuples of a stream."""
        return max(MIN, self.clock - self.reach(stream)) if self.clock > MIN else MIN, self.oldest()

    def oldest(self) -> int:
        """The arrival number from which its oldest query sees tuples."""
        queries = self.family.queries.rows()
        return int(queries.since_at(queries.live()).min(initial=MAX))

    def forget(self, queries: Iterable[int]) -> bool:
        """Dropped queries get no more changes. Tells whether removing what operators keep for them is worth a pass."""
        self._forgotten.extend(queries)
        return 4 * len(self._forgotten) > self.family.queries.live + upkeep.SPARE

    def compact(self) -> None:
        """Removes what operators keep for dropped queries."""
        if not self._forgotten:
            return
        gone = np.array(self._forgotten, np.int64)
        self._forgotten = []
        self.root.forget(gone)
        if self.answer is not None:
            self.answer.forget(gone)

    def state_rows(self) -> int:
        return sum(o.size() for o in self.root.walk()) + (len(self.answer) if self.answer is not None else 0)

    # saving

    def save(self) -> dict[str, pa.Table]:
        self.compact()
        saved = {f"{i}.{name}": t for i, o in enumerate(self.root.walk()) for name, t in o.save().items()}
        if self.answer is not None:
            saved["answer"] = self.answer.save()
        return saved

    def load(self, saved: Mapping[str, pa.Table], clock: int, changes: int | None) -> None:
        for operator, own in self._matched(saved):
            operator.load(own, self.functions)
        if self.answer is not None:
            self.answer.load(saved["answer"])
        self.clock, self._changes = clock, changes

    def _matched(self, saved: Mapping[str, pa.Table]) -> list[tuple[Operator, dict[str, pa.Table]]]:
        """What was saved, by operator: those that keep something are in the same order, whatever others there are."""
        tables: dict[int, dict[str, pa.Table]] = {}
        for key, table in saved.items():
            number, _, name = key.partition(".")
            if name:
                tables.setdefault(int(number), {})[name] = table
        walked = self.root.walk()
        keeping = [i for i, o in enumerate(walked) if type(o).save is not Operator.save]
        where = (
            dict(zip(sorted(tables), keeping, strict=True)) if len(tables) == len(keeping) else {n: n for n in tables}
        )
        if not set(where.values()) <= set(keeping):
            raise StateError(
                f"The state of family {self.family.name!r} was saved by a version that runs it in another way.",
                hint="Go on with the version that saved it, or begin anew.",
            )
        return [(walked[where[n]], t) for n, t in sorted(tables.items())]


def _stream_nodes(node: Node, stream: str) -> list[Stream]:
    own = [node] if isinstance(node, Stream) and node.source.stream.lower() == stream else []
    return own + [n for i in node.inputs for n in _stream_nodes(i, stream)]


def arrived(columns: list[pa.Array], ts: Ints, start: int) -> Delta:
    """Tuples of a stream as changes, with arrival numbers from `start` on."""
    n = len(ts)
    numbers = np.arange(start, start + n)
    return Delta(tuple(columns), None, ts, np.full(n, MAX, np.int64), np.ones(n, np.int64), numbers, numbers)

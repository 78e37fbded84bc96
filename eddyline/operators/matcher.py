"""Matching: joins an arriving batch with the table of queries.

Changes shared by a family are joined with its query table under the conditions with parameters; the results are changes
per query. Grouped filters (`query_index.py`) compute candidate pairs. Where a filter is unsure, or no index can answer
a clause, the condition is evaluated clause by clause, in the eddy's order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar

import numpy as np
import pyarrow as pa

from eddyline.arrays import Ints, Mask
from eddyline.index.filters.domains import ValueColumn
from eddyline.index.filters.filter_search import Matches, What
from eddyline.index.keys.sorted_runs import PAIRS_AT_ONCE
from eddyline.index.runtime.parallel import in_portions
from eddyline.index.runtime.row_sets import Containers, Lists, lists, merged
from eddyline.operators.attribute_column import AttributeColumn, attribute_column
from eddyline.operators.base import Step
from eddyline.operators.checks import Pairs, Tuples
from eddyline.operators.condition import Condition
from eddyline.operators.evaluate import evaluate
from eddyline.operators.query_index import QueryIndex, RoutedFilter, rows_to_list
from eddyline.operators.query_runs import Run
from eddyline.operators.room import CHANGE, Room
from eddyline.plan.expressions import columns_of, may_overflow, params_of
from eddyline.plan.range_probes import PendingWindow
from eddyline.sql.bound import Expr
from eddyline.state.delta import MAX, Delta, concat, micros, query_of, take

Result = TypeVar("Result")


class Matcher:
    """Finds the queries that changes belong to, under a condition with parameters and pending windows."""

    def __init__(self, condition: Expr | None, pending: Sequence[PendingWindow], types: Sequence[pa.DataType]) -> None:
        self.types = tuple(types)
        self.pending = tuple(pending)
        self.condition = Condition(condition)
        self.index = QueryIndex(self.condition)

    @cached_property
    def columns(self) -> frozenset[int]:
        """The columns that it reads."""
        times = {w.time for w in self.pending}
        return frozenset(times.union(*(columns_of(c) for c in self.condition.checks)))

    def match(self, step: Step, delta: Delta, tuples: Tuples | None = None) -> Delta:
        """Changes shared by the family, as changes of the queries they match."""
        if not len(delta) or not step.queries.alive.any():
            return concat([], self.types, attached=True)
        live = step.queries.live()
        if len(live) == 1 and self._plain:  # for one query, evaluation is cheaper than an index
            return self._match_one(step, delta, live)
        return self.attached(step, delta, *paired(self.prepare(step, delta, tuples).sets(), step.room))

    def _match_one(self, step: Step, delta: Delta, live: Ints) -> Delta:
        delta = delta.take(delta.first >= step.queries.since_at(live))
        change = np.arange(len(delta))
        change, position = self.holding(step, delta, change, np.full(len(delta), live[0]))
        step.room.take(len(change), CHANGE)
        matches = delta if len(change) == len(delta) else delta.take(change)
        return self._ended(step, replace(matches, query=step.queries.ids_at(position)), position)

    @cached_property
    def _plain(self) -> bool:
        """Whether evaluating the condition has no side effects: no clause calls a function or can overflow."""
        return not (self.condition.calls_functions or any(may_overflow(c) for c in self.condition.checks))

    def prepare(self, step: Step, delta: Delta, tuples: Tuples | None = None) -> Matching:
        """A deferred matching of these changes with the queries as they are now."""
        return Matching(self, step, delta, self.index.runs(step.queries, step.functions), tuples)

    def filter(self, step: Step, delta: Delta, tuples: Tuples | None = None) -> Delta:
        """The attached changes that satisfy the condition."""
        position = step.queries.positions(query_of(delta))
        kept = step.queries.alive[position] & (delta.first >= step.queries.since_at(position))
        change, position = np.nonzero(kept)[0], position[kept]
        if self.condition.checks:
            change, position = self.holding(step, delta, change, position, tuples)
        delta = delta if len(change) == len(delta) else delta.take(change)
        step.room.take(len(delta), CHANGE)
        return self._ended(step, delta, position)

    def holding(
        self, step: Step, delta: Delta, change: Ints, position: Ints, tuples: Tuples | None = None
    ) -> tuple[Ints, Ints]:
        """The pairs that satisfy the whole condition. Clauses that call functions are evaluated once for changes that
        were joined from the same `tuples`."""
        in_window = self._in_window(step) if self.pending else None
        pairs = self.index.checks.holding(step, Pairs(delta, change, position, tuples), in_window)
        assert pairs.position is not None
        return pairs.change, pairs.position

    def _in_window(self, step: Step) -> Callable[[Pairs], Mask]:
        """Which pairs have an instant in the window of their query."""

        def of(pairs: Pairs) -> Mask:
            assert pairs.position is not None
            numbered = replace(pairs.delta.take(pairs.change), last=np.arange(len(pairs)))
            kept = self._ended(step, replace(numbered, query=step.queries.ids_at(pairs.position)), pairs.position)
            mask = np.zeros(len(pairs), np.bool_)
            mask[kept.last] = True
            return mask

        return of

    def attached(self, step: Step, delta: Delta, change: Ints, position: Ints) -> Delta:
        """Pairs as changes of queries, with the ends that the queries' windows give them."""
        step.room.take(len(change), CHANGE)
        return self._ended(step, replace(delta.take(change), query=step.queries.ids_at(position)), position)

    def _ended(self, step: Step, changes: Delta, position: Ints) -> Delta:
        """Changes of queries at these positions, with the ends that the queries' windows give them."""
        for window in self.pending:
            if not len(changes):
                break
            needed = position[:1] if (position == position[0]).all() else position
            params = step.queries.params_at(params_of(window.size), needed)
            size = evaluate(window.size, (), params, len(needed), step.functions, step.queries.ids_at(needed))
            width = size.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
            width = np.broadcast_to(width, len(changes))
            at = changes.columns[window.time]
            begin = micros(at if changes.rows is None else take(at, changes.rows))
            end = np.where(begin > MAX - np.maximum(width, 0), MAX, begin + width)
            changes = replace(changes, exp=np.minimum(changes.exp, end)).take(width >= 0)
            position = position[width >= 0]
        return changes.take(changes.ts <= changes.exp)


@dataclass(frozen=True)
class Matching:
    """A deferred matching of changes with an immutable view of the queries."""

    matcher: Matcher
    step: Step
    delta: Delta
    runs: tuple[Run[RoutedFilter], ...]
    tuples: Tuples | None = None

    @cached_property
    def _columns(self) -> list[AttributeColumn | ValueColumn]:
        return [attribute_column(a, self.delta, self.step.functions) for a in self.matcher.condition.attributes]

    @cached_property
    def _all_visible(self) -> bool:
        """Whether all changes are visible to every query: none was registered after one of them arrived."""
        return not len(self.delta) or int(self.delta.first.min()) >= self.step.queries.latest

    def count(self) -> int:
        """The number of pairs (change, query)."""
        return int(self.counts().sum())

    def counts(self) -> Ints:
        """The number of queries that each change matches."""
        none = np.empty(0, np.int64)
        if not self._all_visible:
            return np.concatenate([none, *(p.counts for p in self.sets())])
        return np.concatenate([none, *self._in_portions(self._counts)])

    def _counts(self, start: int, rows: int, by_run: Sequence[tuple[Run[RoutedFilter], Matches]]) -> Ints:
        total: Ints = sum((m.counts for _, m in by_run), np.zeros(rows, np.int64))
        for run, matches in by_run:
            change, _ = self._decided(run, start, matches)
            total += np.bincount(change - start, minlength=len(total))
        return total

    def sets(self) -> list[Portion]:
        """For each change, the set of queries it matches, in portions of changes."""
        sets = self._in_portions(self._sets, "lists")
        return sets if self._all_visible else [self._visible(p) for p in sets]

    def _visible(self, portion: Portion) -> Portion:
        """The portion without the queries that were registered after the change arrived."""
        queries = portion.listed()
        row = np.repeat(np.arange(portion.rows), queries.counts)
        first = self.delta.first[portion.start + row]
        kept = first >= self.step.queries.since_at(queries.members.astype(np.int64))
        parts = (lists(portion.rows, row[kept].astype(np.int32), queries.members[kept]),)
        return Portion(portion.start, portion.rows, parts)

    def _sets(self, start: int, rows: int, by_run: Sequence[tuple[Run[RoutedFilter], Matches]]) -> Portion:
        parts: list[Lists | Containers] = []
        listed_rows, listed = [np.empty(0, np.int32)], [np.empty(0, np.int32)]
        for run, matches in by_run:
            row, slot = matches.pairs.rows, matches.pairs.slots
            if matches.unsure:
                sure = slot >= 0
                change, position = self._decided(run, start, matches)
                listed_rows.append((change - start).astype(np.int32))
                listed.append(position.astype(np.int32))
                row, slot = row[sure], slot[sure]
            listed_rows.append(row)
            listed.append(run.position_of(slot))
            parts += [replace(c, slots=run.position_of(c.slots)) for c in matches.sets]
        parts.append(lists(rows, np.concatenate(listed_rows), np.concatenate(listed)))
        return Portion(start, rows, tuple(parts))

    def _in_portions(
        self, work: Callable[[int, int, Sequence[tuple[Run[RoutedFilter], Matches]]], Result], what: What = "counts"
    ) -> list[Result]:
        """Calls `work` for portions of the changes, with the start, the length and the matches of each run."""
        columns = self._columns
        flags = [r.alive(self.step.queries) for r in self.runs]

        def search(start: int, stop: int) -> Result:
            part = [c.slice(start, stop) for c in columns]
            runs = zip(self.runs, flags, strict=True)
            return work(
                start, stop - start, [(run, run.index.search(part, stop - start, alive, what)) for run, alive in runs]
            )

        # one thread calls the user's functions
        threads = 1 if self.matcher.condition.calls_functions else self.step.threads
        largest = rows_to_list(r.index for r in self.runs) if what == "lists" else None
        return in_portions(len(self.delta), threads, search, largest)

    def _decided(self, run: Run[RoutedFilter], start: int, matches: Matches) -> tuple[Ints, Ints]:
        """The pairs of which a filter was unsure and which satisfy the condition, each once."""
        none = np.empty(0, np.int64)
        if not matches.unsure:
            return none, none
        unsure = np.nonzero(matches.pairs.slots < 0)[0]
        change = matches.pairs.rows[unsure].astype(np.int64) + start
        position = run.position_of(~matches.pairs.slots[unsure]).astype(np.int64)
        change, position = once(change, position, len(self.step.queries))
        visible = self.delta.first[change] >= self.step.queries.since_at(position)
        change, position = change[visible], position[visible]
        parts = [(none, none)]
        for begin in range(0, len(change), PAIRS_AT_ONCE):
            end = begin + PAIRS_AT_ONCE
            part = change[begin:end], position[begin:end]
            parts.append(self.matcher.holding(self.step, self.delta, *part, self.tuples))
        return np.concatenate([c for c, _ in parts]), np.concatenate([p for _, p in parts])


@dataclass(frozen=True)
class Portion:
    """The sets of queries of `rows` consecutive changes from `start` on: query positions, in disjoint parts."""

    start: int
    rows: int
    parts: tuple[Lists | Containers, ...]

    @property
    def counts(self) -> Ints:
        counts: Ints = sum((p.counts for p in self.parts), np.zeros(self.rows, np.int64))
        return counts

    def listed(self) -> Lists:
        return merged(self.rows, self.parts)


def paired(sets: Sequence[Portion], room: Room) -> tuple[Ints, Ints]:
    """Pairs (change, query position) of portions, sorted, so that the order does not depend on the index.

    They are counted before they are listed."""
    room.require(sum(int(p.counts.sum()) for p in sets), CHANGE)
    listed = [(p.start, p.listed()) for p in sets]
    changes = [np.repeat(np.arange(start, start + len(x)), x.counts) for start, x in listed]
    position = np.concatenate([np.empty(0, np.int32), *(x.members for _, x in listed)]).astype(np.int64)
    return np.concatenate([np.empty(0, np.int64), *changes]), position


def joined_lists(sets: Sequence[Portion]) -> Lists:
    """The sets of all changes as one."""
    listed = [p.listed() for p in sets]
    counts = np.concatenate([np.zeros(1, np.int64), *(x.counts for x in listed)])
    members = np.concatenate([np.empty(0, np.int32), *(x.members for x in listed)])
    return Lists(np.cumsum(counts), members)


def once(change: Ints, position: Ints, queries: int) -> tuple[Ints, Ints]:
    """The distinct pairs, sorted by change, then by query position; positions are below `queries`."""
    pairs = np.sort(change * queries + position)
    pairs = pairs[np.append(True, pairs[1:] != pairs[:-1])[: len(pairs)]]
    return pairs // queries, pairs % queries

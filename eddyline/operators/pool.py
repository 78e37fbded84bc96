"""A pool: the conditions of many small families over one stream, indexed together.

Texts that differ in more than constants belong to different families; matched separately, a thousand families would
cost a batch a thousand searches. In a pool, the queries of all families share grouped filters, one slot each.
Attributes are equal if their expressions are.

The queries are indexed in runs as in `query_index.py`; a run covers stretches of the query tables of its families. A
large family has an index of its own, which counts matches without listing them. (Document 1, section 3.2.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar

import numpy as np

from eddyline.arrays import Ints, Ints32, Mask
from eddyline.index.filters.clauses import Conditions, ValueRanges
from eddyline.index.filters.domains import ValueColumn
from eddyline.index.filters.filter_search import Matches
from eddyline.index.filters.grouped_filter import grouped_filter
from eddyline.index.runtime.parallel import in_portions
from eddyline.index.runtime.row_sets import Lists, lists, merged, tally
from eddyline.operators.attribute_column import AttributeColumn, attribute_column
from eddyline.operators.base import Step
from eddyline.operators.condition import merged_ranges
from eddyline.operators.matcher import Matcher, Matching, Portion, once
from eddyline.operators.query_index import RoutedFilter, rows_to_list
from eddyline.operators.query_runs import ALL_ALIVE, GROWTH
from eddyline.routing.filter_eddy import Lookups
from eddyline.sql.bound import Expr
from eddyline.state.delta import Delta

MOST_QUERIES = 4096  # of a family in a pool
FEWEST_FAMILIES = 4  # that justify a pool
SMALLEST_RUN = 64  # queries; two smaller runs cost a row more than building one of both
NEVER = -1  # no view of a query table has removed so many rows

Result = TypeVar("Result")


@dataclass(frozen=True)
class Stretch:
    """Positions start … stop of a family's query table; valid while the table has removed this many rows."""

    family: int
    start: int
    stop: int
    removed: int

    def __len__(self) -> int:
        return self.stop - self.start


@dataclass(frozen=True)
class PoolRun:
    """Stretches that share one grouped filter, slot after slot. `attributes` are indexes of the pool's attributes."""

    stretches: tuple[Stretch, ...]
    begins: Ints  # the first slot of each stretch
    attributes: tuple[int, ...]
    routed: RoutedFilter
    live: int  # how many of its queries were not dropped when it was built

    def __len__(self) -> int:
        return sum(len(s) for s in self.stretches)

    def without(self, families: Set[int]) -> PoolRun:
        """The same run with the stretches of some families made invalid."""
        if families.isdisjoint(s.family for s in self.stretches):
            return self
        stretches = tuple(replace(s, removed=NEVER) if s.family in families else s for s in self.stretches)
        return replace(self, stretches=stretches)

    @cached_property
    def stretch_of(self) -> Ints32:
        return np.repeat(np.arange(len(self.stretches), dtype=np.int32), [len(s) for s in self.stretches])

    @cached_property
    def position_of(self) -> Ints32:
        return np.concatenate([np.arange(s.start, s.stop, dtype=np.int32) for s in self.stretches])

    def alive(self, steps: Mapping[int, Step]) -> Mask:
        """By slot, whether the query is registered; empty if all are."""
        flags = np.ones(len(self), np.bool_)
        for begin, s in zip(self.begins.tolist(), self.stretches, strict=True):
            step = steps.get(s.family)
            current = step is not None and step.queries.removed == s.removed
            flags[begin : begin + len(s)] = step.queries.alive[s.start : s.stop] if step and current else False
        return ALL_ALIVE if flags.all() else flags


class Pool:
    def __init__(self, lookups: Lookups | None = None) -> None:
        """`lookups` counts on what an earlier pool of the stream has counted."""
        self.attributes: list[Expr] = []
        self._indexes: dict[Expr, int] = {}
        self.runs: tuple[PoolRun, ...] = ()
        self.lookups = lookups or Lookups()
        self._known: dict[int, Stretch] = {}  # by family: the part of its table that is indexed

    def prepare(self, delta: Delta, matchers: Mapping[int, Matcher], steps: Mapping[int, Step]) -> PoolMatching:
        """A deferred matching of these changes with the queries of some families as they are now."""
        self._evict(steps)
        new, alive = list(self._new(steps)), [r.alive(steps) for r in self.runs]
        rebuild = self._mostly_dropped(alive)
        if new or rebuild:
            self._index(new, matchers, steps, rebuild=rebuild)
            alive = [r.alive(steps) for r in self.runs]
        return PoolMatching(self, delta, self.runs, alive, matchers, steps)

    def _new(self, steps: Mapping[int, Step]) -> Iterator[Stretch]:
        for family, step in steps.items():
            queries, known = step.queries, self._known.get(family)
            start = known.stop if known is not None and known.removed == queries.removed else 0
            if start < len(queries):
                yield Stretch(family, start, len(queries), queries.removed)

    def _evict(self, steps: Mapping[int, Step]) -> None:
        """Evicts families that are no longer in the pool; one that returns is indexed again."""
        evicted = self._known.keys() - steps.keys()
        if not evicted:
            return
        for family in evicted:
            del self._known[family]
        self.runs = tuple(r.without(evicted) for r in self.runs)

    def _mostly_dropped(self, alive: Sequence[Mask]) -> bool:
        live = sum(int(f.sum()) if len(f) else len(r) for r, f in zip(self.runs, alive, strict=True))
        return 2 * live < sum(r.live for r in self.runs)

    def _index(
        self, new: Sequence[Stretch], matchers: Mapping[int, Matcher], steps: Mapping[int, Step], *, rebuild: bool
    ) -> None:
        """Indexes new stretches, merged with the runs that are not much longer, or with all runs if `rebuild`."""
        runs, taken = list(self.runs), list(new)
        if rebuild:
            taken += [s for r in runs for s in r.stretches]
            runs = []
        size = sum(len(s) for s in taken)
        while runs and (len(runs[-1]) < GROWTH * size or len(runs[-1]) + size <= SMALLEST_RUN):
            taken += runs.pop().stretches
            size = sum(len(s) for s in taken)
        valid = [s for s in taken if s.family in steps and steps[s.family].queries.removed == s.removed]
        if valid:
            runs.append(self._run(_joined(valid), matchers, steps))
        self.runs = tuple(runs)
        for s in new:
            self._known[s.family] = Stretch(s.family, 0, s.stop, s.removed)

    def _run(self, stretches: Sequence[Stretch], matchers: Mapping[int, Matcher], steps: Mapping[int, Step]) -> PoolRun:
        begins = np.cumsum([0, *(len(s) for s in stretches)])
        n = int(begins[-1])
        single: dict[int, list[list[ValueRanges]]] = {}  # by attribute: every family's first, second, …
        alternatives: dict[int, list[ValueRanges]] = {}
        required, partial = np.zeros(n, np.int64), np.zeros(n, np.bool_)
        for begin, s in zip(begins.tolist(), stretches, strict=False):
            condition, step = matchers[s.family].condition, steps[s.family]
            own = condition.of_queries(step.queries, np.arange(s.start, s.stop), step.functions)
            required[begin : begin + len(s)], partial[begin : begin + len(s)] = own.required, own.partial
            for i, attribute in enumerate(condition.attributes):
                a = self._attribute(attribute)
                levels = single.setdefault(a, [])
                for level, r in enumerate(own.single[i]):
                    levels.extend([] for _ in range(level + 1 - len(levels)))
                    levels[level].append(r._replace(owner=r.owner + begin))
                more = own.alternatives[i]
                if more is not None:
                    alternatives.setdefault(a, []).append(more._replace(owner=more.owner + begin))
        used = tuple(sorted(single.keys() | alternatives.keys()))
        conditions = Conditions(
            n,
            tuple(tuple(merged_ranges(level) for level in single.get(a, [])) for a in used),
            tuple(merged_ranges(alternatives[a]) if a in alternatives else None for a in used),
            required,
            partial,
        )
        live = sum(int(steps[s.family].queries.alive[s.start : s.stop].sum()) for s in stretches)
        return PoolRun(
            tuple(stretches), begins[:-1], used, RoutedFilter(grouped_filter(conditions), self.lookups), live
        )

    def _attribute(self, expr: Expr) -> int:
        if expr not in self._indexes:
            self._indexes[expr] = len(self.attributes)
            self.attributes.append(expr)
        return self._indexes[expr]


def _joined(stretches: Sequence[Stretch]) -> list[Stretch]:
    """The stretches, adjacent ones of one family merged."""
    joined: list[Stretch] = []
    for s in sorted(stretches, key=lambda s: (s.family, s.start)):
        if joined and joined[-1].family == s.family and joined[-1].stop == s.start:
            joined[-1] = replace(joined[-1], stop=s.stop)
        else:
            joined.append(s)
    return joined


@dataclass(frozen=True)
class PoolMatching:
    """A deferred matching of changes with immutable views of the queries of many families."""

    pool: Pool
    delta: Delta
    runs: tuple[PoolRun, ...]
    alive: Sequence[Mask]  # by run
    matchers: Mapping[int, Matcher]
    steps: Mapping[int, Step]

    def of(self, family: int) -> FamilyMatching | None:
        """The matching of one family; None if it is not in the pool."""
        return FamilyMatching(self, family) if family in self.steps else None

    @cached_property
    def _columns(self) -> dict[int, AttributeColumn | ValueColumn]:
        functions = next(iter(self.steps.values())).functions
        used = sorted({a for r in self.runs for a in r.attributes})
        return {a: attribute_column(self.pool.attributes[a], self.delta, functions) for a in used}

    @cached_property
    def tally(self) -> dict[int, int] | None:
        """The number of pairs (change, query) by family; None if matching some family fails.

        O(pairs) time; memory for one portion."""
        total: dict[int, int] = dict.fromkeys(self.steps, 0)
        with suppress(Exception):
            for portion in self._in_portions(self._tally):
                for family, n in portion.items():
                    total[family] += n
            return total
        return None

    def _tally(self, start: int, rows: int, by_run: Sequence[tuple[PoolRun, Matches]]) -> dict[int, int]:
        total: dict[int, int] = {}
        for run, matches in by_run:
            counts = np.zeros(len(run.stretches), np.int64)
            for sets in matches.sets:
                counts += tally(sets, run.stretch_of, len(counts))
            _, slot = self._sure(run, start, matches)
            counts += np.bincount(run.stretch_of[slot], minlength=len(counts))
            for i in np.nonzero(counts)[0].tolist():
                family = run.stretches[i].family
                total[family] = total.get(family, 0) + int(counts[i])
        return total

    @cached_property
    def by_family(self) -> dict[int, list[Portion]] | None:
        """For each family and each change, the set of the family's queries that match; None if matching some fails."""
        sets: dict[int, list[Portion]] = {}
        with suppress(Exception):
            for start, rows, parts in self._in_portions(self._lists):
                for family in self.steps:
                    mine = (parts[family],) if family in parts else ()
                    sets.setdefault(family, []).append(Portion(start, rows, mine))
            return sets
        return None

    def _lists(
        self, start: int, rows: int, by_run: Sequence[tuple[PoolRun, Matches]]
    ) -> tuple[int, int, dict[int, Lists]]:
        pairs: dict[int, list[tuple[Ints32, Ints32]]] = {}
        for run, matches in by_run:
            row, slot = self._sure(run, start, matches)
            more = merged(rows, matches.sets)
            row = np.concatenate([row, np.repeat(np.arange(rows, dtype=np.int32), more.counts)])
            slot = np.concatenate([slot, more.members])
            stretch = run.stretch_of[slot]
            order = np.argsort(stretch, kind="stable")
            ends = np.searchsorted(stretch[order], np.arange(len(run.stretches) + 1))
            for i in np.nonzero(np.diff(ends))[0].tolist():
                mine = order[ends[i] : ends[i + 1]]
                pairs.setdefault(run.stretches[i].family, []).append((row[mine], run.position_of[slot[mine]]))
        listed = {}
        for family, parts in pairs.items():
            row, position = (np.concatenate(side) for side in zip(*parts, strict=True))
            listed[family] = lists(rows, row, position)
        return start, rows, listed

    def _sure(self, run: PoolRun, start: int, matches: Matches) -> tuple[Ints32, Ints32]:
        """The listed pairs (row of the portion, slot), with the unsure ones that satisfy the condition."""
        row, slot = matches.pairs.rows, matches.pairs.slots
        if not matches.unsure:
            return row, slot
        open_ = np.nonzero(slot < 0)[0]
        changes, unsure = once(row[open_].astype(np.int64) + start, ~slot[open_].astype(np.int64), len(run))
        rows, slots = [row[slot >= 0]], [slot[slot >= 0]]
        stretch = run.stretch_of[unsure]
        for i in np.unique(stretch).tolist():
            mine = stretch == i
            family, begin = run.stretches[i].family, int(run.begins[i]) - run.stretches[i].start
            change, position = self.matchers[family].holding(
                self.steps[family], self.delta, changes[mine], unsure[mine] - begin
            )
            rows.append((change - start).astype(np.int32))
            slots.append((position + begin).astype(np.int32))
        return np.concatenate(rows), np.concatenate(slots)

    def _in_portions(self, work: Callable[[int, int, Sequence[tuple[PoolRun, Matches]]], Result]) -> list[Result]:
        columns = self._columns

        def search(start: int, stop: int) -> Result:
            by_run = []
            for run, alive in zip(self.runs, self.alive, strict=True):
                part = [columns[a].slice(start, stop) for a in run.attributes]
                by_run.append((run, run.routed.search(part, stop - start, alive, "lists")))
            return work(start, stop - start, by_run)

        largest = rows_to_list(r.routed for r in self.runs)
        return in_portions(len(self.delta), next(iter(self.steps.values())).threads, search, largest)


@dataclass(frozen=True)
class FamilyMatching:
    """The matching of one family in a pool, with the interface of `Matching`."""

    pool: PoolMatching
    family: int

    def count(self) -> int:
        tally = self.pool.tally
        return self._alone.count() if tally is None else tally[self.family]

    def has_matches(self) -> bool:
        """Whether there are matches; True also if only matching the family alone could tell."""
        sets = self.pool.by_family
        return sets is None or any(p.counts.any() for p in sets.get(self.family, []))

    def sets(self) -> list[Portion]:
        sets = self.pool.by_family
        return self._alone.sets() if sets is None else sets.get(self.family, [])

    @property
    def _alone(self) -> Matching:
        """The matching of this family alone, so that one family that fails does not make the others fail."""
        step = self.pool.steps[self.family]
        then = step.queries.only(step.queries.ids_at(step.queries.live()))
        return self.pool.matchers[self.family].prepare(replace(step, queries=then), self.pool.delta)

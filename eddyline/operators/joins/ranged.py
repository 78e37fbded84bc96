"""Joins of two inputs whose queries differ in ranges: select joins, band joins, window joins.

When tuples of one input arrive, the rows of the other with the same key are placed along axes (`placed_axes.py`). A
search by groups of ranges (`index/ranges/range_search.py`) computes the queries that a tuple affects, without visiting
rows or queries one by one. The joined rows are computed later, if they are read. (Document 4, section 3.)
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar

import numpy as np

from eddyline.arrays import Ints
from eddyline.index.filters.domains import as_integers
from eddyline.index.keys.sorted_runs import equal_ranges, portions
from eddyline.index.ranges.probes import Arrivals, AxisRanges, Partners, Probes, Visibility, join_headers
from eddyline.index.ranges.range_groups import RangeGroups, as_words, range_groups
from eddyline.index.ranges.range_rows import JoinedRows, SegmentJoin, count_rows, list_rows
from eddyline.index.ranges.range_search import STRATEGIES, affected
from eddyline.index.runtime.parallel import LARGEST, in_portions
from eddyline.index.runtime.row_sets import Containers, Lists
from eddyline.operators.base import Step
from eddyline.operators.evaluate import Functions, evaluate
from eddyline.operators.joins.bound_spans import BoundSpans
from eddyline.operators.joins.placed_axes import Direction, PlacedTime, span
from eddyline.operators.joins.range_choice import Decisions, Estimates, most_selective, selectivity, some
from eddyline.operators.joins.sorted_rows import SortedRows, sorted_rows
from eddyline.operators.joins.stem import StemSegment
from eddyline.operators.matcher import Portion
from eddyline.operators.query_runs import QueryRuns, Run
from eddyline.operators.room import PAIR
from eddyline.plan.range_probes import RangeProbe
from eddyline.state.delta import Delta
from eddyline.state.query_table import QueryRows

NO_MATCH = -2  # the slot of a tuple that joins with nothing
_ALL = np.empty(0, np.uint64)

Result = TypeVar("Result")


@dataclass(frozen=True)
class Indexed:
    """The index of a run of queries; their slots are positions in the query table."""

    groups: RangeGroups
    since: Ints  # by bit, the arrival number from which rows are visible to the query

    @cached_property
    def estimates(self) -> Estimates:
        return Estimates(self.groups)


class RangedSide:
    """The indexed queries of a family that tuples of one input probe. `strategy` is one of STRATEGIES, or None."""

    def __init__(self, plan: RangeProbe, strategy: str | None) -> None:
        self.direction = Direction.of(plan)
        self.strategy = strategy
        self.decisions = Decisions()
        self.runs = QueryRuns(self._indexed)
        self.bounds = BoundSpans(plan.bounds)
        self._chosen_for = 0  # the number of queries when the axis was last chosen

    def _indexed(self, queries: QueryRows, positions: Ints, functions: Functions) -> Indexed:
        kept, low, high, own_low, own_high = self.direction.ranges(queries, positions, functions)
        groups = range_groups(positions[kept], low, high, list(zip(own_low, own_high, strict=True)))
        since = np.zeros(len(groups.slots), np.int64)
        since[groups.bits] = queries.since_at(groups.slots[groups.bits].astype(np.int64))
        return Indexed(groups, since)

    def probing(self, step: Step, delta: Delta, slots: Ints, segments: Sequence[StemSegment]) -> Probing | None:
        """A deferred probe of tuples, by the slots of their keys, in the segments of a SteM; None if this tactic cannot
        process them."""
        functions = step.functions
        self._choose_axis(step, delta, segments)
        direction = self.direction
        rows = [sorted_rows(s, direction.axes, functions) for s in segments]
        nothing = np.zeros(len(delta), np.bool_)
        own = np.empty((2 * len(direction.plan.own), len(delta)), np.int64)
        for i, expr in enumerate(direction.plan.own_exprs):
            own[2 * i], missing = as_integers(evaluate(expr, delta.columns, (), len(delta), functions))
            own[2 * i + 1] = ~own[2 * i]
            nothing |= missing
        shift = np.empty((len(direction.axes), len(delta)), np.int64)
        bounds = self.bounds(step.queries, functions)
        for i, axis in enumerate(direction.axes):
            shift[i], missing = axis.shifts(delta, functions)
            nothing |= missing
            shifts = span(axis.kind, shift[i])
            if not all(axis.is_exact(r.sorted.spans[i], shifts, bounds) for r in rows):
                return None
        slots = np.where(nothing, NO_MATCH, slots)
        where = [equal_ranges(r.sorted.slots, slots) for r in rows]
        begin, end = (np.array([w[i] for w in where], np.int64).reshape(-1, len(delta)) for i in (0, 1))
        probes = Probes(
            direction.places,
            Arrivals(shift, delta.ts, delta.exp, delta.first, own),
            Partners(join_headers([r.sorted.header for r in rows]), begin, end),
        )
        runs = self.runs(step.queries, functions)
        time_axis = next((i for i, a in enumerate(direction.axes) if isinstance(a, PlacedTime)), -1)
        return Probing(self, step, delta, tuple(rows), probes, runs, time_axis)

    def _choose_axis(self, step: Step, delta: Delta, segments: Sequence[StemSegment]) -> None:
        """Puts the axis first along which ranges hold the fewest rows of a sample; again when there are four times as
        many queries."""
        axes, queries, functions = self.direction.axes, step.queries, replace(step.functions, failures=None)
        if len(axes) < 2 or len(queries) < 4 * self._chosen_for or not segments or not len(delta):
            return
        self._chosen_for = len(queries)
        _, low, high, _, _ = self.direction.ranges(queries, some(queries.live()), functions)
        tuples = delta.take(some(np.arange(len(delta)))).spread()
        largest = max(segments, key=len)
        rows = largest.take(some(np.arange(len(largest))))
        shares = []
        for i, axis in enumerate(axes):
            values, shifts = axis.values(rows, functions)[0], axis.shifts(tuples, functions)[0]
            shares.append(selectivity(axis.kind, axis.direction, values, shifts, low[i], high[i]))
        order = most_selective(shares)
        if order != tuple(range(len(axes))):
            self.direction = replace(self.direction, axes=tuple(axes[i] for i in order))
            self.runs = QueryRuns(self._indexed)


@dataclass(frozen=True)
class Probing:
    """A deferred probe of tuples of one input, over immutable views of rows and queries."""

    side: RangedSide
    step: Step
    delta: Delta
    rows: tuple[SortedRows, ...]
    probes: Probes
    runs: tuple[Run[Indexed], ...]
    time_axis: int  # the axis of the queries' own windows, -1 if they have none

    def count(self) -> int:
        """The number of pairs (tuple, query)."""
        return int(self.counts().sum())

    def counts(self) -> Ints:
        """The number of queries that each tuple affects."""
        return self._totals(lambda start, stop: [c for c, _ in self._affected(start, stop, listing=False)])

    def sets(self) -> list[Portion]:
        """For each tuple, the set of queries it affects."""
        return self._portions

    @cached_property
    def _portions(self) -> list[Portion]:
        return self._in_portions(self._sets)

    @cached_property
    def listed(self) -> list[tuple[int, Lists]]:
        """The same sets as lists of query positions, each with the position of its first tuple."""
        return [(p.start, p.listed()) for p in self._portions]

    def row_counts(self) -> Ints:
        """The number of joined rows of each tuple, over all queries it affects."""
        return self._totals(lambda start, stop: self._rows_of(self._sets(start, stop).listed(), start))

    def pairs(self) -> list[list[JoinedRows]]:
        """The joined rows by segment, in portions."""
        by_segment: list[list[JoinedRows]] = [[] for _ in self.rows]
        for first, queries in self.listed:
            for s, (parts, count) in enumerate(zip(by_segment, self._rows_of(queries, first), strict=True)):
                for a, b in portions(count):
                    total = int(count[a:b].sum())
                    self.step.room.take(total, PAIR)
                    join = self.segment_join(s, Lists(queries.starts[a : b + 1], queries.members), first + a)
                    joined = list_rows(join, self.rows[s].sorted.place, total)
                    parts.append(joined._replace(tuples=joined.tuples + first + a))
        return by_segment

    def segment_join(self, segment: int, queries: Lists, start: int) -> SegmentJoin:
        """The tuples from `start` on, one for each list of affected queries, with their partners in a segment."""
        axes, arrivals, partners = self.probes.slice(start, start + len(queries))
        begin, end, table = partners.begin[segment], partners.end[segment], self.rows[segment].sorted.table
        return SegmentJoin(queries.starts, queries.members, *self._query_ranges, axes, arrivals, table, begin, end)

    def _totals(self, counts: Callable[[int, int], Sequence[Ints]]) -> Ints:
        """The sum of several counts, by tuple."""
        totals = self._in_portions(lambda start, stop: sum(counts(start, stop), np.zeros(stop - start, np.int64)))
        return np.concatenate([np.empty(0, np.int64), *totals])

    def _rows_of(self, queries: Lists, start: int) -> list[Ints]:
        """By segment, the number of joined rows of the tuples from `start` on."""
        return [count_rows(self.segment_join(s, queries, start)) for s in range(len(self.rows))]

    @cached_property
    def _query_ranges(self) -> tuple[AxisRanges, Ints]:
        """By position: the ranges of queries along each axis, and the arrival numbers from which rows are visible."""
        low, high = np.zeros((2, len(self.probes.axes.kinds), len(self.step.queries)), np.int64)
        since = np.zeros(len(self.step.queries), np.int64)
        for run in self.runs:
            groups, bits = run.index.groups, run.index.groups.bits
            positions, ranges = groups.slots[bits], groups.columns.ranges
            low[:, positions], high[:, positions] = ranges.low[:, bits], ranges.high[:, bits]
            since[positions] = run.index.since[bits]
        return AxisRanges(low, high), since

    def _sets(self, start: int, stop: int) -> Portion:
        by_run = self._affected(start, stop, listing=True)
        return Portion(start, stop - start, tuple(sets for _, sets in by_run if sets is not None))

    def _affected(self, start: int, stop: int, *, listing: bool) -> list[tuple[Ints, Containers | None]]:
        """By run: how many of its queries tuples start … stop affect, and which."""
        if not self.rows:
            return []
        probes = self.probes.slice(start, stop)
        by_run = []
        for run, visibility in zip(self.runs, self._visibilities, strict=True):
            begun = time.perf_counter()
            if self.side.strategy is None:
                strategies, expected = run.index.estimates.choose(probes)
            else:
                strategies = np.full(stop - start, STRATEGIES.index(self.side.strategy), np.uint8)
                expected = np.zeros(1)
            by_run.append(affected(run.index.groups, probes, visibility, strategies, listing=listing))
            self.side.decisions.add(strategies, float(expected.sum()) / 1e9, time.perf_counter() - begun)
        return by_run

    @cached_property
    def _visibilities(self) -> list[Visibility]:
        oldest = min([int(self.delta.first.min()), *(r.sorted.oldest for r in self.rows)]) if len(self.delta) else 0
        return [_visibility(r, self.step.queries, oldest) for r in self.runs]

    def _in_portions(self, work: Callable[[int, int], Result]) -> list[Result]:
        if self.side.strategy is None:  # built here, not by several threads at once
            for run in self.runs:
                _ = run.index.estimates
        blocks = max((r.index.groups.words // 64 for r in self.runs), default=1)
        return in_portions(len(self.delta), self.step.threads, work, max(1, LARGEST // (1 + blocks // 4)))


def _visibility(run: Run[Indexed], queries: QueryRows, oldest: int) -> Visibility:
    """Which queries of a run are registered, and which rows they see; `oldest` is the least arrival number of a row."""
    slots, since = run.index.groups.slots, run.index.since
    all_alive = queries.alive[run.start : run.stop].all()
    registered = _ALL if all_alive else as_words((slots >= 0) & queries.alive[slots])
    some_hidden = queries.latest > oldest and (since > oldest).any()
    return Visibility(registered, as_words(since > oldest) if some_hidden else _ALL, since)

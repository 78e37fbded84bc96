"""Joins of two inputs whose queries differ in ranges: select joins, band joins, window joins (document 4, section 3).

When tuples of one input arrive, the rows of the other that have their key lie along axes (`ranges.py`). Which queries a
tuple affects is found by group of ranges (`index/range_search.py`), without looking at rows or queries one by one;
which rows it gives them is found afterwards, for those who want to know.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from eddyline.families.queries import QueryRows
from eddyline.index.domains import as_integers
from eddyline.index.parallel import LARGEST, in_portions
from eddyline.index.range_groups import RangeGroups, as_words, range_groups
from eddyline.index.range_rows import Asked, count_rows, list_rows
from eddyline.index.range_search import AXES, FIRST, HOTSPOT, STRATEGIES, Arrivals, Axes, Doubts, Partners, affected
from eddyline.index.ranges import equal_ranges, portions
from eddyline.index.sets import Containers, Lists
from eddyline.operators.base import Step
from eddyline.operators.evaluate import Functions, evaluate
from eddyline.operators.matcher import Portion
from eddyline.operators.query_runs import QueryRuns, Run
from eddyline.operators.ranges import Direction
from eddyline.state.delta import MAX, Delta, Ints
from eddyline.state.stem import Ranked, Segment, Stem, ranked

Words = npt.NDArray[np.uint64]
NOT_WANTED = -2  # the slot of a tuple that joins with nothing
_ALL = np.empty(0, np.uint64)

Result = TypeVar("Result")


@dataclass(frozen=True)
class Indexed:
    """Queries in groups; by bit, the arrival number from which a query sees rows."""

    groups: RangeGroups
    since: Ints


class RangedSide:
    """The queries of a family as seen by the tuples of one input. `strategy` is one of STRATEGIES, or None."""

    def __init__(self, direction: Direction, strategy: str | None = None) -> None:
        self.direction = direction
        self.strategy = strategy
        self.order = tuple(range(len(direction.axes)))  # of the axes; groups are made along the first
        self.runs = QueryRuns(self._indexed)

    def _indexed(self, queries: QueryRows, positions: Ints, functions: Functions) -> Indexed:
        numbers, low, high, own_low, own_high = self.direction.asked(queries, positions, functions)
        order = list(self.order)
        groups = range_groups(numbers, low[order], high[order], list(zip(own_low, own_high, strict=True)))
        since = np.zeros(len(groups.numbers), np.int64)
        since[groups.bits] = queries.since_at(positions[groups.numbers[groups.bits]])
        return Indexed(groups, since)

    def probing(self, step: Step, delta: Delta, slots: Ints, key: int, stem: Stem) -> Probing | None:
        """What the tuples find, by the slots of their keys; None if they cannot be processed in this way."""
        functions = step.functions
        axes = [self.direction.axes[i] for i in self.order]
        segments = [self._ranked(s, key, functions) for s in stem.segments]
        nothing = np.zeros(len(delta), np.bool_)
        own = np.empty((2 * len(self.direction.own), len(delta)), np.int64)
        for i, expr in enumerate(self.direction.own_exprs):
            own[2 * i], missing = as_integers(evaluate(expr, delta.columns, (), len(delta), functions))
            own[2 * i + 1] = ~own[2 * i]
            nothing |= missing
        shift = np.empty((len(axes), len(delta)), np.int64)
        for i, axis in enumerate(axes):
            shift[i], missing = axis.shifts(delta, functions)
            nothing |= missing
            if not all(axis.tells(s.table[AXES + i], shift[i]) for s in segments):
                return None
        slots = np.where(nothing, NOT_WANTED, slots)
        where = [equal_ranges(s.slots, slots) for s in segments]
        begin, end = (np.array([w[i] for w in where], np.int64).reshape(-1, len(delta)) for i in (0, 1))
        return Probing(
            step,
            delta,
            Arrivals(shift, delta.ts, delta.exp, delta.first, own),
            tuple(segments),
            Partners([s.table for s in segments], begin, end),
            self.direction.places(self.order),
            self.runs(step.queries, functions),
            self.strategy,
        )

    def _ranked(self, segment: Segment, key: int, functions: Functions) -> Ranked:
        tag = key, (self.direction.axes, self.order)
        found = segment.ranked.get(tag)
        if found is None:
            axes = [self.direction.axes[i] for i in self.order]
            values, missing = zip(*(a.values(segment.rows, functions) for a in axes), strict=True)
            along = values[0].view(np.float64) if axes[0].kind else values[0]
            if axes[0].direction < 0:
                along = -along if axes[0].kind else ~along
            order = np.lexsort((along, segment.slots[key]))
            some = np.logical_or.reduce(missing)
            if some.any():
                order = order[~some[order]]
            found = segment.ranked[tag] = ranked(segment, key, order, values)
        return found


@dataclass(frozen=True)
class Pairs:
    """Tuples, the places of rows in their segment, and positions of queries, in that order."""

    tuples: Ints
    places: Ints
    queries: Ints


@dataclass(frozen=True)
class Probing:
    """Tuples of one input about to meet rows and queries of one moment."""

    step: Step
    delta: Delta
    arrivals: Arrivals
    segments: tuple[Ranked, ...]
    partners: Partners
    axes: Axes
    runs: tuple[Run[Indexed], ...]
    strategy: str | None

    def count(self) -> int:
        """How many pairs (tuple, query) there are."""
        return int(self.counts().sum())

    def counts(self) -> Ints:
        """How many queries each tuple affects."""
        return self._totals(lambda start, stop: [c for c, _ in self._affected(start, stop, listing=False)])

    def sets(self) -> list[Portion]:
        """For every tuple the set of queries it affects."""
        return self._in_portions(self._sets)

    def rows_given(self) -> Ints:
        """How many rows each tuple gives to the queries it affects, all together."""
        return self._totals(lambda start, stop: self._rows_of(self._sets(start, stop).listed(), start, stop))

    def _totals(self, counts: Callable[[int, int], list[Ints]]) -> Ints:
        """By tuple, the sum of several counts of some tuples."""
        found = self._in_portions(lambda start, stop: sum(counts(start, stop), np.zeros(stop - start, np.int64)))
        return np.concatenate([np.empty(0, np.int64), *found])

    def pairs(self) -> list[list[Pairs]]:
        """By segment: the rows that tuples give to queries, some at a time."""
        found: list[list[Pairs]] = [[] for _ in self.segments]
        for portion in self.sets():
            queries = portion.listed()
            counts = self._rows_of(queries, portion.start, portion.start + portion.rows)
            for s, (mine, segment, count) in enumerate(zip(found, self.segments, counts, strict=True)):
                for a, b in portions(count):
                    start, stop = portion.start + a, portion.start + b
                    lists = Lists(queries.starts[a : b + 1], queries.members)
                    begin, end = self.partners.begin[s, start:stop], self.partners.end[s, start:stop]
                    some, total = self.arrivals.slice(start, stop), int(count[a:b].sum())
                    tuples, place, query = list_rows(
                        lists, self._asked, self.axes, some, segment.table, begin, end, segment.place, total
                    )
                    mine.append(Pairs(tuples + start, place, query))
        return found

    def _rows_of(self, queries: Lists, start: int, stop: int) -> list[Ints]:
        """By segment, how many rows each of some tuples gives."""
        some, partners = self.arrivals.slice(start, stop), self.partners.slice(start, stop)
        where = zip(self.segments, partners.begin, partners.end, strict=True)
        return [count_rows(queries, self._asked, self.axes, some, s.table, b, e) for s, b, e in where]

    @cached_property
    def _asked(self) -> Asked:
        """By position of a query."""
        size = len(self.step.queries)
        shape = (len(self.axes.kinds), size)
        low, high, since = np.zeros(shape, np.int64), np.zeros(shape, np.int64), np.zeros(size, np.int64)
        for run in self.runs:
            groups = run.index.groups
            bits = groups.bits
            positions = run.position_of(groups.numbers[bits])
            low[:, positions], high[:, positions] = groups.low[:, bits], groups.high[:, bits]
            since[positions] = run.index.since[bits]
        return Asked(low, high, since)

    def _sets(self, start: int, stop: int) -> Portion:
        parts = []
        for run, (_, sets) in zip(self.runs, self._affected(start, stop, listing=True), strict=True):
            assert sets is not None
            positions = np.where(sets.numbers < 0, -1, run.position_of(sets.numbers)).astype(np.int32)
            parts.append(replace(sets, numbers=positions))
        return Portion(start, stop - start, tuple(parts))

    def _affected(self, start: int, stop: int, *, listing: bool) -> list[tuple[Ints, Containers | None]]:
        """By run: how many of its queries each of some tuples affects, and which."""
        arrivals, partners = self.arrivals.slice(start, stop), self.partners.slice(start, stop)
        how = np.full(stop - start, HOTSPOT if self.strategy is None else STRATEGIES.index(self.strategy), np.uint8)
        return [
            affected(run.index.groups, self.axes, arrivals, partners, doubts, how, listing=listing)
            for run, doubts in zip(self.runs, self._doubts, strict=True)
        ]

    @cached_property
    def _doubts(self) -> list[Doubts]:
        came = [self.delta.first, *(s.table[FIRST] for s in self.segments)]
        oldest = min(int(x.min(initial=MAX)) for x in came)
        return [_doubts(r, self.step.queries, oldest, further=len(self.axes.kinds) > 1) for r in self.runs]

    def _in_portions(self, work: Callable[[int, int], Result]) -> list[Result]:
        blocks = max((r.index.groups.words // 64 for r in self.runs), default=1)
        return in_portions(len(self.delta), self.step.threads, work, max(1, LARGEST // (1 + blocks // 4)))


def _doubts(run: Run[Indexed], queries: QueryRows, oldest: int, *, further: bool) -> Doubts:
    """`oldest` is the least arrival number of a row or tuple; `further`: whether there is more than one axis."""
    groups, since = run.index.groups, run.index.since
    alive = run.alive(queries)
    living = as_words((groups.numbers >= 0) & alive[groups.numbers]) if len(alive) else _ALL
    if further:
        return Doubts(living, groups.present, since)
    young = since > oldest
    return Doubts(living, as_words(young) if young.any() else _ALL, since)

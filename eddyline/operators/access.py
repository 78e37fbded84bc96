"""Access paths into the table of queries: which queries can a change belong to, by one comparison or one range.

A comparison of a column expression with a parameter is a sorted array of the parameter's values, in which each change
finds its range; a pair of comparisons that bound one expression from both sides is an index of intervals. Whichever
leaves the fewest candidates for the batch is taken.

The table is indexed in runs of positions, each at least twice as long as the next. New queries make a run of their
own, and runs are joined where they have become too alike: n queries that come one by one cost O(n log² n), and a change
looks into O(log n) runs. A dropped query may still be among the candidates.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline import types as t
from eddyline.families.queries import QueryRows
from eddyline.index.intervals import Intervals, intervals, sortable
from eddyline.index.ranges import spread
from eddyline.index.strings import StringTable
from eddyline.operators.base import Step
from eddyline.operators.evaluate import evaluate
from eddyline.plan.expressions import columns_of, params_of
from eddyline.sql.bound import Call, Expr
from eddyline.sql.functions import MIRRORED
from eddyline.state.delta import Ints

PAIRS_AT_ONCE = 1 << 20
_INT64 = np.iinfo(np.int64)


@dataclass(frozen=True)
class Comparison:
    """`row op param`: the left side sees columns only, the right side parameters only."""

    op: str
    row: Expr
    param: Expr


def comparison(part: Expr) -> Comparison | None:
    if not isinstance(part, Call) or part.function not in MIRRORED:
        return None
    a, b = part.args
    if columns_of(a) and not params_of(a) and params_of(b) and not columns_of(b):
        return Comparison(part.function, a, b)
    if columns_of(b) and not params_of(b) and params_of(a) and not columns_of(a):
        return Comparison(MIRRORED[part.function], b, a)
    return None


def params_at(queries: QueryRows, used: set[int], position: Ints) -> list[pa.Array | None]:
    """The parameters an expression needs, for queries at these positions."""
    where = pa.array(position)
    return [p.take(where) if i in used else None for i, p in enumerate(queries.params)]


def param_values(c: Comparison, step: Step, position: Ints) -> pa.Array:
    params = params_at(step.queries, params_of(c.param), position)
    return evaluate(c.param, (), params, len(position), step.functions, step.queries.ids[position])


@dataclass(frozen=True)
class _Sorted:
    """Parameter values in ascending order without NULLs, and the query positions they belong to."""

    queries: Ints
    values: Ints
    strings: StringTable | None


@dataclass(frozen=True)
class _Between:
    """Queries with both ends of a range, as intervals; interval i belongs to the i-th query position."""

    queries: Ints
    intervals: Intervals


class _Run:
    """The indexes of the queries at some positions, made when they are first asked for."""

    def __init__(self, start: int, stop: int, live: Ints) -> None:
        self.start, self.stop = start, stop
        self.live = live
        self.sorted: dict[int, _Sorted] = {}
        self.between: dict[tuple[int, int], _Between] = {}

    def __len__(self) -> int:
        return self.stop - self.start


@dataclass(frozen=True)
class _Found:
    """What one run has for each change: a range of its order, or the intervals that hold a value."""

    count: Ints
    order: Ints
    low: Ints
    high: Ints
    between: _Between | None = None
    values: Ints | None = None

    def pairs(self, begin: int, end: int) -> tuple[Ints, Ints]:
        """(change, query position) of the changes from `begin` on, before `end`."""
        if self.between is None or self.values is None:
            change, place = spread(self.low[begin:end], self.high[begin:end])
            return change + begin, self.order[place]
        some = np.nonzero(self.count[begin:end])[0]
        which, held = self.between.intervals.holding(self.values[begin:end][some])
        return some[which] + begin, self.between.queries[held]


class AccessPaths:
    def __init__(self, comparisons: Sequence[Comparison]) -> None:
        self.comparisons = comparisons
        self.ranges = [
            (i, j)
            for i, a in enumerate(comparisons)
            for j, b in enumerate(comparisons)
            if a.op in ("ge", "gt") and b.op in ("le", "lt") and a.row == b.row and a.row.type not in _UNORDERED
        ]
        in_a_range = {i for pair in self.ranges for i in pair}  # both ends together never leave more candidates
        self.single = [i for i, c in enumerate(comparisons) if _can_search(c) and i not in in_a_range]
        self._runs: list[_Run] = []
        self._cleared = -1

    def candidates(self, step: Step, rows: Sequence[pa.Array], n: int) -> Iterator[tuple[Ints, Ints]]:
        """Pairs (change, query position) that include all matches, some at a time; `rows` as in `comparisons`.

        Changes ascend from one portion to the next; within a portion the order depends on how the table is indexed.
        """
        found = [self._search(run, step, rows, n) for run in self._runs_of(step.queries)]
        for begin, end in portions(sum((f.count for f in found), np.zeros(n, np.int64))):
            pairs = [f.pairs(begin, end) for f in found]
            change, position = (np.concatenate(side) for side in zip(*pairs, strict=True))
            if len(change):
                yield change, position

    def _runs_of(self, queries: QueryRows) -> list[_Run]:
        """Runs that cover the table, made longer by what is new in it."""
        size = len(queries.ids)
        if queries.version < 0:
            return [_Run(0, size, queries.live())]  # some queries only, this once
        if queries.cleared != self._cleared:  # positions have moved
            self._runs, self._cleared = [], queries.cleared
        runs = self._runs
        start = runs[-1].stop if runs else 0
        while runs and start < size and len(runs[-1]) < 2 * (size - start):
            start = runs.pop().start
        if start < size:
            runs.append(_Run(start, size, start + np.nonzero(queries.alive[start:])[0]))
        return runs

    def _search(self, run: _Run, step: Step, rows: Sequence[pa.Array], n: int) -> _Found:
        all_ = np.full(n, len(run.live), np.int64)
        best = _Found(all_, run.live, np.zeros(n, np.int64), all_)
        for i in self.single:
            index = self._sorted_by(i, step, run)
            low, high = _searched(self.comparisons[i].op, index, rows[i])
            if (high - low).sum() < best.count.sum():
                best = _Found(high - low, index.queries, low, high)
        for i, j in self.ranges:
            between = self._between(i, j, step, run)
            values, missing = _numbers(rows[i])
            count = np.where(missing, 0, between.intervals.count(values))
            if count.sum() < best.count.sum():
                best = _Found(count, run.live, count, count, between, values)
        return best

    def _sorted_by(self, i: int, step: Step, run: _Run) -> _Sorted:
        if i not in run.sorted:
            values = param_values(self.comparisons[i], step, run.live)
            strings = StringTable() if values.type == t.STRING else None
            if strings is not None:
                numbers = strings.intern(values)
                missing = numbers < 0
            else:
                numbers, missing = _numbers(values)
            kept = np.nonzero(~missing)[0]
            order = kept[np.argsort(numbers[kept], kind="stable")]
            run.sorted[i] = _Sorted(run.live[order], numbers[order], strings)
        return run.sorted[i]

    def _between(self, i: int, j: int, step: Step, run: _Run) -> _Between:
        """The intervals [parameter of i, parameter of j]; an open end is closed one step further in."""
        if (i, j) not in run.between:
            low, no_low = _numbers(param_values(self.comparisons[i], step, run.live))
            high, no_high = _numbers(param_values(self.comparisons[j], step, run.live))
            kept = ~(no_low | no_high)
            if self.comparisons[i].op == "gt":
                kept &= low < _INT64.max
                low = np.where(kept, low, 0) + 1
            if self.comparisons[j].op == "lt":
                kept &= high > _INT64.min
                high = np.where(kept, high, 0) - 1
            run.between[i, j] = _Between(run.live[kept], intervals(low[kept], high[kept]))
        return run.between[i, j]


_UNORDERED = (t.STRING, t.BOOLEAN)


def _can_search(c: Comparison) -> bool:
    return c.op == "eq" if c.row.type == t.STRING else c.op != "ne" and c.row.type != t.BOOLEAN


def _searched(op: str, index: _Sorted, rows: pa.Array) -> tuple[Ints, Ints]:
    """For each change the range of the sorted values that satisfies the comparison."""
    if index.strings is not None:
        wanted = index.strings.find(rows)
        missing = wanted < 0
    else:
        wanted, missing = _numbers(rows)
    left = np.searchsorted(index.values, wanted, side="left")
    right = np.searchsorted(index.values, wanted, side="right")
    first, last = np.zeros_like(left), np.full_like(left, len(index.values))
    low, high = {
        "eq": (left, right),
        "gt": (first, left),
        "ge": (first, right),
        "lt": (right, last),
        "le": (left, last),
    }[op]
    return low, np.where(missing, low, high)


def _numbers(values: pa.Array) -> tuple[Ints, npt.NDArray[np.bool_]]:
    """Values as integers of the same order, and which are NULL."""
    missing = values.is_null().to_numpy(zero_copy_only=False)
    if t.is_float(values.type):
        return sortable(values.cast(t.DOUBLE).fill_null(0.0).to_numpy(zero_copy_only=False)), missing
    whole = values.cast(pa.int32()) if values.type == t.DATE else values
    return whole.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False), missing


def portions(count: Ints) -> Iterator[tuple[int, int]]:
    """Ranges of changes with about PAIRS_AT_ONCE candidates each."""
    total = np.cumsum(count)
    start = 0
    while start < len(count):
        done = total[start - 1] if start else 0
        stop = max(start + 1, int(np.searchsorted(total, done + PAIRS_AT_ONCE)))
        yield start, stop
        start = stop

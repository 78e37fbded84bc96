"""Access paths into the table of queries: which queries can a change belong to, by one comparison or one range.

A comparison of a column expression with a parameter is a sorted array of the parameter's values, in which each change
finds its range; a pair of comparisons that bound one expression from both sides is an index of intervals. Whichever
leaves the fewest candidates for the batch is taken. Indexes are kept as long as the query table does not change; a
dropped query may still be among the candidates.
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
        self._sorted: dict[int, _Sorted] = {}
        self._betweens: dict[tuple[int, int], _Between] = {}
        self._version = -1

    def candidates(self, step: Step, rows: Sequence[pa.Array], n: int) -> Iterator[tuple[Ints, Ints]]:
        """Pairs (change, query position) that include all matches, some at a time; `rows` as in `comparisons`."""
        if step.queries.version != self._version or step.queries.version < 0:
            self._sorted.clear()
            self._betweens.clear()
            self._version = step.queries.version
        live = step.queries.live()
        order, low, high = live, np.zeros(n, np.int64), np.full(n, len(live), np.int64)
        for i in self.single:
            index = self._sorted_by(i, step, live)
            start, stop = _searched(self.comparisons[i].op, index, rows[i])
            if (stop - start).sum() < (high - low).sum():
                order, low, high = index.queries, start, stop
        count = high - low
        best: tuple[_Between, Ints] | None = None
        for i, j in self.ranges:
            between = self._between(i, j, step, live)
            values, missing = _numbers(rows[i])
            holding = np.where(missing, 0, between.intervals.count(values))
            if holding.sum() < count.sum():
                count, best = holding, (between, values)
        for begin, end in portions(count):
            if best is None:
                change, place = spread(low[begin:end], high[begin:end])
                position = order[place]
            else:
                between, values = best
                some = np.nonzero(count[begin:end])[0]
                which, found = between.intervals.holding(values[begin:end][some])
                change, position = some[which], between.queries[found]
            if len(change):
                yield change + begin, position

    def _sorted_by(self, i: int, step: Step, live: Ints) -> _Sorted:
        if i not in self._sorted:
            values = param_values(self.comparisons[i], step, live)
            strings = StringTable() if values.type == t.STRING else None
            if strings is not None:
                numbers = strings.intern(values)
                missing = numbers < 0
            else:
                numbers, missing = _numbers(values)
            kept = np.nonzero(~missing)[0]
            order = kept[np.argsort(numbers[kept], kind="stable")]
            self._sorted[i] = _Sorted(live[order], numbers[order], strings)
        return self._sorted[i]

    def _between(self, i: int, j: int, step: Step, live: Ints) -> _Between:
        """The intervals [parameter of i, parameter of j]; an open end is closed one step further in."""
        if (i, j) not in self._betweens:
            low, no_low = _numbers(param_values(self.comparisons[i], step, live))
            high, no_high = _numbers(param_values(self.comparisons[j], step, live))
            kept = ~(no_low | no_high)
            if self.comparisons[i].op == "gt":
                kept &= low < _INT64.max
                low = np.where(kept, low, 0) + 1
            if self.comparisons[j].op == "lt":
                kept &= high > _INT64.min
                high = np.where(kept, high, 0) - 1
            self._betweens[i, j] = _Between(live[kept], intervals(low[kept], high[kept]))
        return self._betweens[i, j]


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

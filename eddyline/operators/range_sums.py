"""Aggregates over a range join, without building joined rows: the events of counters that arriving tuples cause.

The amount that a joined row adds to a counter (form `Counted`) is the product of a factor of the tuple and one of its
partner. One of them is 1, because an aggregate reads one input only. A sum of doubles has one counter per limb, so that
it is exact (`index/sums/limbs.py`). For extremes (form `Extreme`), only the joined rows that may be extreme are listed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from eddyline.aggregates.description import Extreme
from eddyline.arrays import Doubles, Ints
from eddyline.index.ranges.contributions import EventTable, Factors, Sums, contenders
from eddyline.index.sums.limbs import decompose, expand, limb_range
from eddyline.operators.base import Operator
from eddyline.operators.counter_layout import Layout, contributions
from eddyline.operators.evaluate import Functions, evaluate
from eddyline.operators.extremes import ranks
from eddyline.operators.joins.ranged import Probing
from eddyline.operators.joins.stem_join import StemJoin
from eddyline.plan.physical import GroupBy, RangeArgument
from eddyline.state.delta import MAX, Delta, concat


@dataclass(frozen=True)
class Folded:
    """Events of counters; `last` is the latest arrival that made each, -1 where rows only end."""

    query: Ints  # position in the table of queries
    time: Ints
    last: Ints
    ints: Ints
    floats: Doubles


class RangeSums:
    """The aggregates of a grouping without keys over a range join."""

    def __init__(self, join: StemJoin, plan: Layout, arguments: Sequence[RangeArgument | None]) -> None:
        self.join = join
        self.plan = plan
        self.arguments = tuple(arguments)

    @classmethod
    def of(cls, node: GroupBy, child: Operator, plan: Layout) -> RangeSums | None:
        """The range sums of a grouping; None if the joined rows are needed."""
        if node.range_arguments is None:
            return None
        assert isinstance(child, StemJoin)
        return cls(child, plan, node.range_arguments)

    def fold(self, arriving: int, probing: Probing) -> Folded:
        """The events of the counters that the tuples of an input cause with their partners."""
        functions, plan = probing.step.functions, self.plan
        of_tuples = self._contributions(arriving, probing.delta, functions)
        of_rows = [self._contributions(1 - arriving, r.rows, functions) for r in probing.rows]
        base, size = _window([floats for _, floats in (of_tuples, *of_rows)])
        own = self._factors(arriving, *of_tuples, base, size) * probing.delta.sign[:, None]
        factors = [self._factors(1 - arriving, *amounts, base, size) for amounts in of_rows]
        limbs = [plan.ints + f * size + j for f in range(plan.floats) for j in range(size - 1)]
        low_halves = [*(plan.upper_halves + 1).tolist(), *limbs]
        high_halves = [*plan.upper_halves.tolist(), *(j + 1 for j in limbs)]
        sums = Sums(EventTable.empty(plan.ints + plan.floats * size), low_halves, high_halves)
        for start, queries in probing.listed:
            stop = start + len(queries)
            for s, rows in enumerate(probing.rows):
                of_pairs = Factors(probing.delta.last[start:stop], own[start:stop], factors[s][rows.sorted.place])
                sums.add(probing.segment_join(s, queries, start), of_pairs, probing.time_axis)
        return self._folded(sums, base, size)

    def _contributions(self, of: int, rows: Delta, functions: Functions) -> tuple[Ints, Doubles]:
        """The amounts that rows of an input add to the counters that read this input."""
        values = [
            evaluate(a.expr, rows.columns, (), len(rows), functions) if a is not None and a.input == of else None
            for a in self.arguments
        ]
        return contributions(self.plan, values, len(rows))

    def _factors(self, of: int, ints: Ints, floats: Doubles, base: int, size: int) -> Ints:
        """By row of an input, its factor for every integer counter and every limb of double counters: the amount for
        the counters of aggregates that read this input, 1 for the others."""
        limbs = decompose(floats, base, size)
        for i, f, argument in zip(self.plan.int_slices, self.plan.float_slices, self.arguments, strict=True):
            if argument is None or argument.input != of:
                ints[:, i], limbs[:, f] = 1, 1
        return np.concatenate([ints, limbs.reshape(len(ints), -1)], axis=1)

    def _folded(self, sums: Sums, base: int, size: int) -> Folded:
        """The events; a sum of doubles becomes doubles that add up to it, each after the first as a separate event."""
        query, time, last, counters = sums.events()
        ints, limbs = counters[:, : self.plan.ints], counters[:, self.plan.ints :]
        if not self.plan.floats:
            return Folded(query, time, last, ints, np.empty((len(query), 0)))
        row, floats = expand(np.ascontiguousarray(limbs).reshape(len(query), self.plan.floats, size), base)
        first = np.append(True, row[1:] != row[:-1])[: len(row)]
        return Folded(query[row], time[row], last[row], ints[row] * first[:, None], floats)

    def extremes(self, arriving: int, probing: Probing, aggregate: int) -> tuple[Delta, Ints, pa.Array]:
        """For one aggregate, an extreme: changes of joined rows that may be it, the positions of their queries, their
        values."""
        argument, form, step = self.arguments[aggregate], self.plan.forms[aggregate], probing.step
        assert argument is not None and isinstance(form, Extreme)
        parts: list[tuple[Delta, Ints, pa.Array]] = []
        for start, queries in probing.listed:
            for s, rows in enumerate(probing.rows):
                column = None
                rank = np.zeros(len(rows.rows), np.int64)
                if argument.input != arriving:
                    column = evaluate(argument.expr, rows.rows.columns, (), len(rows.rows), step.functions)
                    rank = ranks(column, form.which)
                    rank[column.is_null().to_numpy(zero_copy_only=False)] = MAX  # NULL is never an extreme
                join = probing.segment_join(s, queries, start)
                tuples, row, query, ends = contenders(join, rank[rows.sorted.place], probing.time_axis)
                places = rows.sorted.place[row]
                if column is None:
                    column = evaluate(argument.expr, probing.delta.columns, (), len(probing.delta), step.functions)
                    values = column.take(pa.array(tuples + start))
                else:
                    values = column.take(pa.array(places))
                parts.append((_joined(probing.delta, tuples + start, rows.rows, places, ends), query, values))
        return _together(parts, self.plan.aggregates[aggregate].type)


def _window(floats: Sequence[Doubles]) -> tuple[int, int]:
    """The base and size of a window of limbs for sums of these doubles."""
    ranges = [limb_range(f) for f in floats]
    low, high = min(r[0] for r in ranges), max(r[1] for r in ranges)
    return (low, high - low + 2) if low <= high else (0, 0)


def _joined(tuples: Delta, left: Ints, rows: Delta, right: Ints, ends: Ints) -> Delta:
    """The changes of joined rows, without their columns."""
    return Delta(
        (),
        None,
        np.maximum(tuples.ts[left], rows.ts[right]),
        ends,
        tuples.sign[left],
        np.minimum(tuples.first[left], rows.first[right]),
        np.maximum(tuples.last[left], rows.last[right]),
    )


def _together(parts: Sequence[tuple[Delta, Ints, pa.Array]], type_: pa.DataType) -> tuple[Delta, Ints, pa.Array]:
    query = np.concatenate([np.empty(0, np.int64), *(q for _, q, _ in parts)])
    values = pa.concat_arrays([pa.array([], type_), *(v.cast(type_) for _, _, v in parts)])
    return concat([d for d, _, _ in parts], (), attached=False), query, values

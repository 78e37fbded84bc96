"""The layout of the counters of a grouping: which counters belong to which aggregate.

The first integer counter is the number of rows of the group. The counters of the aggregates in the form `Counted`
(`eddyline/aggregates`) follow in the order of the aggregates; those in the form `Extreme` have none. Saved state
depends on this order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from eddyline.aggregates import AGGREGATES
from eddyline.aggregates.description import Counted, Extreme
from eddyline.arrays import Doubles, Ints
from eddyline.sql.bound import Aggregate


@dataclass(frozen=True)
class Layout:
    aggregates: tuple[Aggregate, ...]
    forms: tuple[Counted | Extreme, ...]
    int_slices: tuple[slice, ...]  # the integer counters of each aggregate
    float_slices: tuple[slice, ...]  # its double counters
    ints: int
    floats: int
    upper_halves: Ints  # the integer counters of upper halves of sums; each lower half is the next counter
    divisors: Ints  # by double counter, the integer counter that divides it, -1 for none


def layout(aggregates: Sequence[Aggregate]) -> Layout:
    forms = tuple(AGGREGATES[a.function].form(None if a.argument is None else a.argument.type) for a in aggregates)
    ints, floats = 1, 0
    int_slices, float_slices = [], []
    upper_halves, divisors = list[int](), list[int]()
    for form in forms:
        n, m = (form.ints, len(form.divisors)) if isinstance(form, Counted) else (0, 0)
        if isinstance(form, Counted):
            upper_halves += [ints + i for i in form.upper_halves]
            divisors += [-1 if i is None else ints + i for i in form.divisors]
        int_slices.append(slice(ints, ints + n))
        float_slices.append(slice(floats, floats + m))
        ints, floats = ints + n, floats + m
    special = np.array(upper_halves, np.int64), np.array(divisors, np.int64)
    return Layout(tuple(aggregates), forms, tuple(int_slices), tuple(float_slices), ints, floats, *special)


def contributions(plan: Layout, arguments: Sequence[pa.Array | None], n: int) -> tuple[Ints, Doubles]:
    """The amounts that n rows add to the counters, one line per row; 0 where the argument is None."""
    ints, floats = np.zeros((n, plan.ints), np.int64), np.zeros((n, plan.floats), np.float64)
    ints[:, 0] = 1
    for form, i, f, column in zip(plan.forms, plan.int_slices, plan.float_slices, arguments, strict=True):
        if isinstance(form, Counted) and column is not None:
            form.add(column, ints[:, i], floats[:, f])
    return ints, floats


def results(plan: Layout, ints: Ints, floats: Doubles, extremes: Sequence[pa.Array]) -> list[pa.Array]:
    """The columns of the aggregates from counters, one line per group; `extremes` are the columns of those in the form
    `Extreme`, in order."""
    rest = iter(extremes)
    return [
        form.result(ints[:, 0], ints[:, i], floats[:, f]) if isinstance(form, Counted) else next(rest)
        for form, i, f in zip(plan.forms, plan.int_slices, plan.float_slices, strict=True)
    ]

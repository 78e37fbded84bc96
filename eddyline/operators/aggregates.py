"""The aggregates of a grouping, as counters: what an input row adds to them, and the values they give.

COUNT, SUM and AVG are sums of integers and doubles that a row adds when it begins and takes away when it ends.
Integers are summed in two halves, so that a sum beyond BIGINT is noticed (its value is NULL). Doubles are summed
exactly (`index/exact_sums.py`): SUM is the double nearest to the sum of the group's values, AVG the one nearest to this
sum divided by their number. A SUM beyond all doubles is infinite, as in Spark; an AVG of finite values is finite. The
sum of zeros is 0.0, also if all are -0.0, as in Spark. Values that are not finite are counted, so that they can leave a
sum again. The first counter is the number of rows of the group.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline import types as t
from eddyline.sql.bound import Aggregate
from eddyline.state.delta import Ints
from eddyline.state.timeline import Floats


@dataclass(frozen=True)
class Layout:
    """Where the counters of each summing aggregate stand."""

    aggregates: tuple[Aggregate, ...]
    at: tuple[tuple[int, int], ...]  # first integer counter, first double counter, of each aggregate
    ints: int
    floats: int
    halves: Ints  # the integer counters of the upper halves of sums; those of the lower halves are next to them
    divisors: Ints  # by double counter, the integer counter it is divided by, -1 for none


def layout(aggregates: Sequence[Aggregate]) -> Layout:
    at, ints, floats = [], 1, 0
    halves, divisors = list[int](), list[int]()
    for a in aggregates:
        at.append((ints, floats))
        if a.function in ("min", "max") or a.argument is None:
            continue
        if a.function == "count":
            ints += 1
        elif a.type == t.DOUBLE or a.type == t.FLOAT:
            divisors.append(ints if a.function == "avg" else -1)
            ints += 4  # values, NaN, +infinity, -infinity
            floats += 1
        else:
            halves.append(ints + 1)
            ints += 3  # values, upper half, lower half
    where = np.array(halves, np.int64), np.array(divisors, np.int64)
    return Layout(tuple(aggregates), tuple(at), ints, floats, *where)


def contributions(plan: Layout, arguments: Sequence[pa.Array | None], n: int) -> tuple[Ints, Floats]:
    """What each of n rows adds to the counters."""
    ints, floats = np.zeros((n, plan.ints), np.int64), np.zeros((n, plan.floats), np.float64)
    ints[:, 0] = 1
    for a, (i, f), column in zip(plan.aggregates, plan.at, arguments, strict=True):
        if a.function in ("min", "max") or column is None:
            continue
        present = column.is_valid().to_numpy(zero_copy_only=False)
        ints[:, i] = present
        if a.function == "count":
            continue
        if a.type in (t.DOUBLE, t.FLOAT):
            values = column.cast(t.DOUBLE).fill_null(0.0).to_numpy(zero_copy_only=False)
            finite = np.isfinite(values)
            ints[:, i + 1] = np.isnan(values)
            ints[:, i + 2] = values == np.inf
            ints[:, i + 3] = values == -np.inf
            floats[:, f] = np.where(finite, values, 0.0)
        else:
            whole = column.fill_null(0).to_numpy(zero_copy_only=False)
            ints[:, i + 1] = whole >> 32
            ints[:, i + 2] = whole & 0xFFFFFFFF
    return ints, floats


def values(plan: Layout, ints: Ints, floats: Floats, extremes: Sequence[pa.Array]) -> list[pa.Array]:
    """The aggregates from their counters; `extremes` are the columns of MIN and MAX, in order."""
    found: list[pa.Array] = []
    rest = iter(extremes)
    for a, (i, f) in zip(plan.aggregates, plan.at, strict=True):
        if a.function in ("min", "max"):
            found.append(next(rest))
        elif a.function == "count":
            found.append(pa.array(ints[:, 0 if a.argument is None else i]))
        elif a.type in (t.DOUBLE, t.FLOAT):
            found.append(_double(ints[:, i : i + 4], floats[:, f]).cast(a.type))
        else:
            found.append(_integer(ints[:, i : i + 3]))
    return found


def _double(ints: Ints, total: npt.NDArray[np.float64]) -> pa.Array:
    count, nan, up, down = ints.T
    result = total.copy()
    result[up > 0] = np.inf
    result[down > 0] = -np.inf
    result[(nan > 0) | ((up > 0) & (down > 0))] = np.nan
    return pa.array(result, mask=count == 0)


def _integer(ints: Ints) -> pa.Array:
    count, upper, lower = ints.T
    high = upper + (lower >> 32)
    fits = (high >= -(2**31)) & (high < 2**31)
    total = (np.where(fits, high, 0) << 32) + (lower & 0xFFFFFFFF)
    return pa.array(total, mask=(count == 0) | ~fits)

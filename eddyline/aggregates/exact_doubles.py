"""Exact sums of doubles, and their quotients by the number of values, for SUM and AVG.

The result is the double nearest to the exact sum or quotient (`index/sums/exact_sums.py`). Values that are not finite
are counted, so that they can be retracted: the result is NaN if there is a NaN or both infinities, else the infinity. A
sum beyond the range of DOUBLE is infinite, as in Spark; a mean of finite values is finite. The sum of zeros is 0.0,
even if all are -0.0, as in Spark.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pyarrow as pa

from eddyline.aggregates.description import Counted
from eddyline.arrays import Doubles, Ints


def _add(column: pa.Array, ints: Ints, floats: Doubles) -> None:
    values = column.fill_null(0.0).to_numpy(zero_copy_only=False)
    ints[:, 0] = column.is_valid().to_numpy(zero_copy_only=False)
    ints[:, 1] = np.isnan(values)
    ints[:, 2] = values == np.inf
    ints[:, 3] = values == -np.inf
    floats[:, 0] = np.where(np.isfinite(values), values, 0.0)


def _result(rows: Ints, ints: Ints, floats: Doubles) -> pa.Array:
    count, nan, up, down = ints.T
    result = floats[:, 0].copy()
    result[up > 0] = np.inf
    result[down > 0] = -np.inf
    result[(nan > 0) | ((up > 0) & (down > 0))] = np.nan
    return pa.array(result, mask=count == 0)


# Counters: values, NaNs, +infinities, -infinities; and the sum of the finite values.
DOUBLE_SUM = Counted(4, _add, _result, divisors=(None,))
DOUBLE_MEAN = Counted(4, _add, _result, divisors=(0,))


def nearest(values: Sequence[float], divisor: int) -> float:
    """The double nearest to the sum of the values divided by `divisor`, for the reference evaluator."""
    special = [v for v in values if not math.isfinite(v)]
    if special:
        return sum(special)  # the infinity, or NaN
    exact = sum(map(Fraction, values), start=Fraction(0)) / divisor
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf

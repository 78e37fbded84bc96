"""Running counters of many slots through events in time order: the kernel behind COUNT, SUM and AVG.

Integers are summed as they are, doubles exactly (`exact_sums.py`): a value that is added and later subtracted leaves no
trace, and neither the order of events nor their batches show in a sum.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

from eddyline.index.exact_sums import SumArrays
from eddyline.index.limbs import CARRY_AT, LOW_BITS, add_double, fits, quotient, to_magnitude

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@njit(cache=True, nogil=True)
def accumulate(
    slot: Ints, time: Ints, ints: Ints, floats: Floats, totals: Ints, halves: Ints, sums: SumArrays, divisors: Ints
) -> tuple[Ints, Ints, Floats]:
    """Applies events sorted by (slot, time) to the totals and the exact sums, in place.

    Each of `halves` is the counter of the upper 32 bits of a sum of integers; the next counter has the lower ones, and
    passes on what exceeds them before it can overflow (an instant has less than 2**30 events of a slot). `divisors`
    says for each sum of doubles which counter it is divided by, -1 for none.

    Returns, for each distinct (slot, time): the position of its last event, and the counters and the doubles nearest to
    the sums, or to the quotients, just after it. O(events + instants * limbs).
    """
    n = len(slot)
    instants = 0
    for i in range(n):
        if i + 1 == n or slot[i + 1] != slot[i] or time[i + 1] != time[i]:
            instants += 1
    at = np.empty(instants, np.int64)
    after_ints = np.empty((instants, ints.shape[1]), np.int64)
    after_floats = np.empty((instants, floats.shape[1]), np.float64)
    digits = np.empty(_digits(sums), np.int64)
    g = 0
    for i in range(n):
        s = slot[i]
        for j in range(ints.shape[1]):
            totals[s, j] += ints[i, j]
        for j in range(floats.shape[1]):
            _add(sums, s, j, floats[i, j])
        if i + 1 == n or slot[i + 1] != slot[i] or time[i + 1] != time[i]:
            for upper in halves:
                lower = totals[s, upper + 1]
                if lower >= CARRY_AT or lower <= -CARRY_AT:
                    totals[s, upper] += lower >> 32
                    totals[s, upper + 1] = lower & LOW_BITS
            # An empty slot has no carries left over. Within an instant a count of 0 may be passing.
            if totals[s, 0] == 0:
                sums.narrow[s] = 0
                if sums.wide_row[s] >= 0:
                    sums.wide[sums.wide_row[s]] = 0
            at[g] = i
            for j in range(ints.shape[1]):
                after_ints[g, j] = totals[s, j]
            for j in range(floats.shape[1]):
                divisor = 1 if divisors[j] < 0 else max(totals[s, divisors[j]], 1)
                after_floats[g, j] = _rounded(sums, s, j, divisor, digits)
            g += 1
    return at, after_ints, after_floats


@njit(cache=True, nogil=True)
def _digits(sums: SumArrays) -> int:
    """How many digits a sum of both arrays may have."""
    low = min(sums.narrow_base, sums.wide_base)
    end: int = max(sums.narrow_base + sums.narrow.shape[2], sums.wide_base + sums.wide.shape[2])
    return end - low + 2


@njit(cache=True, nogil=True)
def _add(sums: SumArrays, s: int, column: int, x: float) -> None:
    if x == 0.0:
        return
    row = sums.wide_row[s]
    if row < 0 or fits(x, sums.narrow_base, sums.narrow.shape[2]):
        add_double(sums.narrow, s, column, sums.narrow_base, x)
    else:
        add_double(sums.wide, row, column, sums.wide_base, x)


@njit(cache=True, nogil=True)
def _rounded(sums: SumArrays, s: int, column: int, divisor: int, digits: Ints) -> float:
    row, base, n = sums.wide_row[s], sums.narrow_base, sums.narrow.shape[2]
    if row < 0:
        for j in range(n):
            digits[j] = sums.narrow[s, column, j]
    else:
        base = min(base, sums.wide_base)
        n = len(digits) - 2
        digits[:] = 0
        for j in range(sums.narrow.shape[2]):
            digits[sums.narrow_base - base + j] = sums.narrow[s, column, j]
        for j in range(sums.wide.shape[2]):
            digits[sums.wide_base - base + j] += sums.wide[row, column, j]
    negative = to_magnitude(digits, n)
    x = quotient(digits, n + 2, base, divisor)
    return -x if negative else x

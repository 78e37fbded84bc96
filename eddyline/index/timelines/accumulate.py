"""Running counters of many slots through events in time order: the kernel behind COUNT, SUM and AVG.

Integers are summed in two halves, doubles exactly (`exact_sums.py`): a value that is added and later subtracted leaves
no trace, and a sum depends neither on the order of events nor on how they are cut into batches.
"""

from __future__ import annotations

import numpy as np

from eddyline.arrays import Doubles, Ints
from eddyline.index.runtime.kernel_cache import kernel
from eddyline.index.sums.exact_sums import SumArrays
from eddyline.index.sums.limbs import CARRY_AT, LOW_BITS, add_double, fits, quotient, to_magnitude


@kernel
def _carry(totals: Ints, s: int, halves: Ints) -> None:
    for k in range(len(halves)):
        upper = halves[k]
        lower = totals[s, upper + 1]
        if lower >= CARRY_AT or lower <= -CARRY_AT:
            totals[s, upper] += lower >> 32
            totals[s, upper + 1] = lower & LOW_BITS


@kernel
def accumulate(
    slot: Ints, time: Ints, ints: Ints, floats: Doubles, totals: Ints, halves: Ints, sums: SumArrays, divisors: Ints
) -> tuple[Ints, Ints, Doubles]:
    """Applies events sorted by (slot, time) to the totals and the exact sums, in place.

    Each of `halves` is the counter of the upper 32 bits of a sum of integers; the next counter has the lower ones, and
    carries over before it can overflow (an instant has less than 2**30 events of a slot). `divisors` says for each sum
    of doubles which counter it is divided by, -1 for none.

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
    narrow_base, narrow, wide_base, wide, wide_row = sums  # calls with the whole tuple would cost more than their work
    base, end = min(narrow_base, wide_base), max(narrow_base + narrow.shape[2], wide_base + wide.shape[2])
    digits = np.empty(end - base + 2, np.int64)
    g = 0
    for i in range(n):
        s = slot[i]
        for j in range(ints.shape[1]):
            totals[s, j] += ints[i, j]
        for j in range(floats.shape[1]):
            x = floats[i, j]
            if wide_row[s] < 0 or fits(x, narrow_base, narrow.shape[2]):
                add_double(narrow, s, j, narrow_base, x)
            else:
                add_double(wide, wide_row[s], j, wide_base, x)
        if i + 1 == n or slot[i + 1] != slot[i] or time[i + 1] != time[i]:
            _carry(totals, s, halves)
            # An empty slot has no carries left over. A count of 0 within an instant does not mean that it is empty.
            if totals[s, 0] == 0:
                narrow[s] = 0
                if wide_row[s] >= 0:
                    wide[wide_row[s]] = 0
            at[g] = i
            for j in range(ints.shape[1]):
                after_ints[g, j] = totals[s, j]
            for j in range(floats.shape[1]):
                divisor = 1 if divisors[j] < 0 else max(totals[s, divisors[j]], 1)
                if wide_row[s] < 0:
                    size, start = narrow.shape[2], narrow_base
                    for k in range(size):
                        digits[k] = narrow[s, j, k]
                else:
                    size, start = end - base, base
                    digits[:] = 0
                    for k in range(narrow.shape[2]):
                        digits[narrow_base - base + k] = narrow[s, j, k]
                    for k in range(wide.shape[2]):
                        digits[wide_base - base + k] += wide[wide_row[s], j, k]
                negative = to_magnitude(digits, size)
                x = quotient(digits, size + 2, start, divisor)
                after_floats[g, j] = -x if negative else x
            g += 1
    return at, after_ints, after_floats

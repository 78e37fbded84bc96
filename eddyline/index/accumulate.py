"""Running counters of many slots through events in time order: the kernel behind COUNT, SUM and AVG.

Sums of doubles are kept as an unevaluated pair (high, low), so that a value that is added and later subtracted leaves
no trace in the digits a double can show; and scaled down, so that one beyond all doubles can come back from there.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

SCALE = 2.0**-32  # exact; room for as many of the greatest doubles


@njit(cache=True, nogil=True)
def accumulate(
    slot: Ints, time: Ints, ints: Ints, floats: Floats, totals: Ints, high: Floats, low: Floats
) -> tuple[Ints, Ints, Floats]:
    """Applies events sorted by (slot, time) to the totals, in place.

    Returns, for each distinct (slot, time): the position of its last event, and the counters just after it. O(events).
    """
    n = len(slot)
    groups = 0
    for i in range(n):
        if i + 1 == n or slot[i + 1] != slot[i] or time[i + 1] != time[i]:
            groups += 1
    at = np.empty(groups, np.int64)
    after_ints = np.empty((groups, ints.shape[1]), np.int64)
    after_floats = np.empty((groups, floats.shape[1]), np.float64)
    g = 0
    for i in range(n):
        s = slot[i]
        for j in range(ints.shape[1]):
            totals[s, j] += ints[i, j]
        for j in range(floats.shape[1]):
            x, y = high[s, j], floats[i, j] * SCALE
            total = x + y
            b = total - x
            error = (x - (total - b)) + (y - b)
            rest = low[s, j] + error
            high[s, j] = total + rest
            low[s, j] = rest - (high[s, j] - total)
        if i + 1 == n or slot[i + 1] != slot[i] or time[i + 1] != time[i]:
            # An empty slot begins again from nothing. Within an instant a count of 0 may be passing.
            if totals[s, 0] == 0:
                high[s, :] = 0.0
                low[s, :] = 0.0
            at[g] = i
            for j in range(ints.shape[1]):
                after_ints[g, j] = totals[s, j]
            for j in range(floats.shape[1]):
                after_floats[g, j] = (high[s, j] + low[s, j]) / SCALE
            g += 1
    return at, after_ints, after_floats

"""Which of many closed intervals hold a value: sorted by low end, with the largest high end per block and superblock.

For a value x the candidates are the prefix with low <= x; blocks whose largest high end is below x are passed over,
64 by 64. Invariant: `block[i]` is the largest high end of intervals 64i … 64i+63, `superblock[i]` of blocks 64i …
Cost of a value: O(n / 4096 + 64 · entered + matches), where few blocks are entered when intervals are short.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from numba import njit

Ints = npt.NDArray[np.int64]

WIDTH = 64
_LOWEST = np.iinfo(np.int64).min


@dataclass(frozen=True)
class Intervals:
    order: Ints  # which interval stands at each place
    low: Ints
    high: Ints
    block: Ints
    superblock: Ints

    def holding(self, values: Ints) -> tuple[Ints, Ints]:
        """All (position of the value, interval) pairs, by value."""
        owner, place = np.empty((2, int(self.count(values).sum())), np.int64)
        _walk(self.low, self.high, self.block, self.superblock, values, owner, place)
        return owner, self.order[place]

    def count(self, values: Ints) -> Ints:
        nowhere = np.empty(0, np.int64)
        return _walk(self.low, self.high, self.block, self.superblock, values, nowhere, nowhere)


def intervals(low: Ints, high: Ints) -> Intervals:
    """The index over [low, high]; empty intervals are never found. O(n log n)."""
    order = np.argsort(low, kind="stable")
    high = high[order]
    block = _largest(high)
    return Intervals(order, low[order], high, block, _largest(block))


def _largest(values: Ints) -> Ints:
    padded = np.full(-(-len(values) // WIDTH) * WIDTH, _LOWEST, np.int64)
    padded[: len(values)] = values
    largest: Ints = padded.reshape(-1, WIDTH).max(axis=1)
    return largest


def sortable(values: npt.NDArray[np.float64]) -> Ints:
    """Doubles as integers of the same order: -0.0 is 0.0, NaN is above all."""
    bits = (values + 0.0).view(np.int64)
    ordered = np.where(bits < 0, bits ^ np.int64(0x7FFFFFFFFFFFFFFF), bits)
    return np.where(np.isnan(values), np.iinfo(np.int64).max, ordered)


@njit(cache=True, nogil=True)
def _walk(low: Ints, high: Ints, block: Ints, superblock: Ints, values: Ints, owner: Ints, place: Ints) -> Ints:
    """How many intervals hold each value; who and where is written too if there is room for it."""
    counts = np.zeros(len(values), np.int64)
    n = 0
    for i in range(len(values)):
        x = values[i]
        stop = np.searchsorted(low, x, side="right")
        for s in range((stop + 4095) // 4096):
            if superblock[s] >= x:
                for b in range(s * 64, min(s * 64 + 64, (stop + 63) // 64)):
                    if block[b] >= x:
                        for p in range(b * 64, min(b * 64 + 64, stop)):
                            if high[p] >= x:
                                counts[i] += 1
                                if n < len(owner):
                                    owner[n] = i
                                    place[n] = p
                                    n += 1
    return counts

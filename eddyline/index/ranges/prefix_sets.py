"""Prefix sets: for numbers in an order, the set of the first so many of them, as bits.

The numbers that accept x at one end of their ranges are the first ones in the order of those ends. Every so often the
set is kept; the numbers between it and the place asked for are added one by one. There may be several orders, each over
bits of its own. Cost of a set: a search, its words, and up to `spacing` bits; kept are about 256 sets of an order, so
that n numbers take 32 n bytes, and no more than one for 16 numbers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from eddyline.arrays import Ints, Ints32, Words
from eddyline.index.runtime.kernel_cache import kernel
from eddyline.index.runtime.vectors import on_lines

MOST_KEPT = 256
LEAST_SPACING = 16


@dataclass(frozen=True)
class PrefixSets:
    """Order g has the keys at starts[g] … starts[g + 1], ascending; each has a bit, among widths[g] words."""

    keys: Ints
    bits: Ints32
    starts: Ints
    widths: Ints
    spacing: Ints
    set_starts: Ints
    sets: Words

    @property
    def nbytes(self) -> int:
        return self.keys.nbytes + self.bits.nbytes + self.sets.nbytes


NO_SETS = PrefixSets(
    *(np.empty(0, t) for t in (np.int64, np.int32, np.int64, np.int64, np.int64, np.int64, np.uint64))  # type: ignore[arg-type]
)


def prefix_sets(keys: Ints, bits: Ints32, starts: Ints, widths: Ints) -> PrefixSets:
    sizes = np.diff(starts)
    spacing = np.maximum(LEAST_SPACING, -(-sizes // MOST_KEPT))
    set_starts = np.append(0, np.cumsum((sizes // spacing + 1) * widths))
    sets = on_lines((int(set_starts[-1]),), np.uint64)
    _fill(bits, starts, widths, spacing, set_starts, sets)
    return PrefixSets(keys, bits, starts, widths, spacing, set_starts, sets)


# --- kernels ---------------------------------------------------------------------------------------------------------


@kernel
def _fill(bits: Ints32, starts: Ints, widths: Ints, spacing: Ints, set_starts: Ints, sets: Words) -> None:
    for g in range(len(widths)):
        width = widths[g]
        now = np.zeros(width, np.uint64)
        at = set_starts[g]
        for rank in range(starts[g + 1] - starts[g] + 1):
            if rank % spacing[g] == 0:
                sets[at : at + width] = now
                at += width
            if rank < starts[g + 1] - starts[g]:
                bit = bits[starts[g] + rank]
                now[bit >> 6] |= np.uint64(1) << np.uint64(bit & 63)


@kernel
def rank(keys: Ints, start: int, stop: int, x: int) -> int:
    """How many of keys[start:stop], ascending, are at most x."""
    at = start
    n = stop - start
    while n > 1:
        half = n >> 1
        at += half * (keys[at + half - 1] <= x)  # no branch: which way to go cannot be foreseen
        n -= half
    if n == 1 and keys[at] <= x:
        at += 1
    return at - start

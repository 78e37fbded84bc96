"""Partitions of the future that double in width: which one an instant belongs to, as seen from a clock.

Partition p > 0 holds the instants after the clock that differ from it in bit p - 1 and agree with it in all higher
bits; partition 0 holds what is not after the clock. If the clock advances to an instant of partition p, all instants of
the partitions below p are due, those of partition p must be compared, and those of the partitions above stay in them.
(The buckets of a radix heap: R. Ahuja, K. Mehlhorn, J. Orlin, R. Tarjan, JACM 1990.)
"""

from __future__ import annotations

import numpy as np

from eddyline.arrays import Ints
from eddyline.index.runtime.kernel_cache import kernel

PARTITIONS = 65


@kernel
def partitions_of(times: Ints, clock: int) -> Ints:
    """The partition of each instant. O(instants)."""
    partition = np.zeros(len(times), np.int64)
    for i in range(len(times)):
        if times[i] <= clock:
            continue
        differing = np.uint64(times[i] ^ clock)
        width = 32
        while width > 0:  # binary search for the highest bit
            if differing >> np.uint64(width):
                differing >>= np.uint64(width)
                partition[i] += width
            width //= 2
        partition[i] += 1
    return partition


def partition_of(time: int, clock: int) -> int:
    """The partition of one instant."""
    return 0 if time <= clock else ((time ^ clock) & (2**64 - 1)).bit_length()

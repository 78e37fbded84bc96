"""Eviction policies: which rows of a state buffer may be dropped.

Contract: a policy gets segments (all of a buffer at `expire`, or one that was just merged and is not yet sorted) and
the clock. It returns a mask for each segment: true for the rows that may be dropped at this clock. It reads the rows
and their slots under each key, and changes nothing. The buffer decides when it asks. Answers stay exact only if a
policy drops no row whose interval holds an instant from the clock on.

A new policy is a function in this file or one of its own, and an entry in `EVICTION_POLICIES`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from eddyline.arrays import Mask
from eddyline.state.buffers.segment import Segment

EvictionPolicy = Callable[[Sequence[Segment], int], list[Mask]]


def expired(segments: Sequence[Segment], clock: int) -> list[Mask]:
    """Rows whose interval ended before the clock."""
    return [s.rows.exp < clock for s in segments]


EVICTION_POLICIES: Mapping[str, EvictionPolicy] = {"expired": expired}

"""State buffers by the names under which physical plans ask for them.

A new buffer is a subclass of `StateBuffer` (`buffer.py`) in a file of its own and an entry in `BUFFERS`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from eddyline.plan.physical import Buffer
from eddyline.state.buffers.buffer import StateBuffer
from eddyline.state.buffers.eviction import EVICTION_POLICIES
from eddyline.state.buffers.sorted_segments import SortedSegments

BUFFERS: Mapping[str, type[StateBuffer]] = {"sorted segments": SortedSegments}


def build_buffer(
    plan: Buffer, types: Sequence[pa.DataType], keys: int, *, attached: bool, retracts: bool
) -> StateBuffer:
    """The buffer that a physical plan names."""
    policy = EVICTION_POLICIES[plan.eviction]
    return BUFFERS[plan.kind](types, keys, attached=attached, retracts=retracts, policy=policy)

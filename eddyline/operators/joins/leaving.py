"""Retractions of several inputs of a join in one step: a joined row is retracted once, when its first part leaves.

The retractions of all inputs are first applied to their SteMs, then each probes the SteMs of the others. A joined row
whose parts leave in one step is retracted by the part that leaves first (the first input's, if several leave at once),
and the `-` carries the end of the `+` that it retracts, although parts that leave later have shortened their intervals.

Rows that were retracted in earlier steps need no special case. Their intervals ended before the clock of this step, so
they do not overlap with any retraction of this step.
"""

from __future__ import annotations

import numpy as np

from eddyline.arrays import Ints
from eddyline.operators.joins.stem import Retracting
from eddyline.state.buffers.segment import Segment


def first_to_leave(segment: Segment, probing: Ints, row: Ints, retracting: Retracting) -> tuple[Ints, Ints, Ints]:
    """The pairs in which the retraction is not later than that of the row, if the row leaves in this step too; with the
    ends of the rows as they were sent.

    O(pairs log(rows of the segment that leave in this step)).
    """
    end = segment.rows.exp[row]
    if segment.leaving is None:
        return probing, row, end
    also_leaves = np.isin(row, segment.leaving)
    at = retracting.leaves[probing]
    kept = ~also_leaves | (at <= end)
    if retracting.precedes:
        kept |= at - 1 == end  # a row retracted at t has its end just before t
    probing, row = probing[kept], row[kept]
    return probing, row, np.where(also_leaves[kept], segment.born[row], end[kept])

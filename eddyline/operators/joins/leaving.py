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
from eddyline.operators.joins.combining import Pairs
from eddyline.state.buffers.segment import Segment


def first_to_leave(segment: Segment, pairs: Pairs, leaves: Ints, *, precedes: bool) -> Pairs:
    """The pairs in which the retraction is not later than that of the row, if the row leaves in this step too; with the
    ends of the rows as they were sent.

    `leaves` is when each retraction's own row leaves; `precedes` says whether its input is before that of the SteM.
    O(pairs log(rows of the segment that leave in this step)).
    """
    retraction, row, _ = pairs
    end = segment.rows.exp[row]
    if segment.leaving is None:
        return Pairs(retraction, row, end)
    also_leaves = np.isin(row, segment.leaving)
    at = leaves[retraction]
    kept = ~also_leaves | (at <= end) | (precedes & (at - 1 == end))  # a row retracted at t has its end just before t
    retraction, row = retraction[kept], row[kept]
    return Pairs(retraction, row, np.where(also_leaves[kept], segment.born[row], end[kept]))

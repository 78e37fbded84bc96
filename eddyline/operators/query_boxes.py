"""The conditions of queries as boxes: by attribute, the first and the last integer that each query accepts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from eddyline.arrays import Ints
from eddyline.index.filters.clauses import Conditions
from eddyline.index.filters.slot_boxes import LEAST, MOST
from eddyline.sql.bound import Expr


def box_ranges(attributes: Sequence[Expr], conditions: Conditions) -> dict[Expr, tuple[Ints, Ints]]:
    """By attribute, the first and last integer that each query accepts; clauses that are no ranges are left out."""
    ranges = {}
    for attribute, clauses in zip(attributes, conditions.single, strict=True):
        if not clauses or any(isinstance(r.start, pa.Array) or r.null.any() for r in clauses):
            continue
        low, high = np.full(conditions.size, LEAST), np.full(conditions.size, MOST)
        for r in clauses:
            first = np.where(r.no_start, LEAST, r.start)
            last = np.where(r.no_stop, MOST, np.where(r.stop == LEAST, LEAST, r.stop - (r.stop > LEAST)))
            low[r.owner] = np.maximum(low[r.owner], first)
            high[r.owner] = np.minimum(high[r.owner], last)
        ranges[attribute] = low, high
    return ranges


def are_boxes(conditions: Conditions) -> bool:
    """Whether every condition is a range of numbers along each attribute."""
    ranges = [r for clauses in conditions.single for r in clauses]
    numbers = not any(isinstance(r.start, pa.Array) or r.null.any() or (r.no_start & r.no_stop).any() for r in ranges)
    given = sum((np.bincount(r.owner, minlength=conditions.size) for r in ranges), np.zeros(conditions.size, np.int64))
    plain = not conditions.partial.any() and all(a is None for a in conditions.alternatives)
    return bool(numbers and plain and (given == conditions.required).all())

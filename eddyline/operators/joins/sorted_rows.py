"""Sorted rows: the rows of a segment by key slot, then along the first axis of a range join, as a table for kernels.

A table is built once per segment, key and axes, in O(rows * log rows), and never changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from eddyline.arrays import Ints
from eddyline.index.ranges.probes import DOUBLES, FIRST, INTEGERS, segment_header
from eddyline.index.ranges.skylines import linked
from eddyline.operators.evaluate import Functions
from eddyline.operators.joins.placed_axes import PlacedAxis, PlacedTime, span
from eddyline.operators.joins.stem import StemSegment
from eddyline.plan.differences import Span
from eddyline.state.delta import MAX, Delta


@dataclass(frozen=True)
class SortedTable:
    """The rows of a segment that have an instant, and a value on all axes."""

    place: Ints  # of each row in the segment
    slots: Ints  # of each row's key
    table: Ints  # ts, exp, first, the values along each axis, and links along skylines
    spans: tuple[Span, ...]  # by axis, the smallest and largest value
    oldest: int  # the smallest arrival number
    header: Ints  # of the table, for kernels


@dataclass(frozen=True)
class SortedRows:
    """A segment and its rows in order. A later retraction does not change it."""

    segment: StemSegment
    sorted: SortedTable

    @property
    def rows(self) -> Delta:
        """All rows of the segment."""
        return self.segment.rows


def sorted_rows(segment: StemSegment, axes: Sequence[PlacedAxis | PlacedTime], functions: Functions) -> SortedRows:
    """The rows of a segment in order; built on first use and cached in the segment."""
    tag = "sorted rows", segment.key, segment.ends, tuple(axes)
    cached: SortedTable | None = segment.derived.get(tag)
    if cached is None:
        cached = segment.derived[tag] = _sorted(segment, axes, functions)
    return SortedRows(segment, cached)


def _sorted(segment: StemSegment, axes: Sequence[PlacedAxis | PlacedTime], functions: Functions) -> SortedTable:
    rows, slots = segment.rows, segment.slots
    values, missing = zip(*(a.values(rows, functions) for a in axes), strict=True)
    along = values[0].view(np.float64) if axes[0].kind == DOUBLES else values[0]
    if axes[0].direction < 0:  # NaN stays last
        along = -along if axes[0].kind == DOUBLES else ~along
    order = np.lexsort((along, slots))
    unusable = np.logical_or.reduce([*missing, rows.ts > rows.exp])
    if unusable.any():
        order = order[~unusable[order]]
    table = np.stack([x[order] for x in (rows.ts, rows.exp, rows.first, *values)])
    if len(axes) == 2 and axes[1].kind == INTEGERS:
        table = linked(table)
    spans = tuple(span(a.kind, v[order]) for a, v in zip(axes, values, strict=True))
    oldest = int(table[FIRST].min(initial=MAX))
    return SortedTable(order, slots[order], table, spans, oldest, segment_header(table, len(axes)))

"""Sorted rows: the rows of a segment by key slot, then along the first axis of a range join, as a table for kernels.

A table is built once per segment, key and axes, in O(rows * log rows), and never changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from eddyline.arrays import Ints
from eddyline.index.ranges.probes import DOUBLES, FIRST, INTEGERS, segment_header
from eddyline.index.ranges.skylines import linked
from eddyline.operators.evaluate import Functions
from eddyline.operators.joins.placed_axes import PlacedAxis, PlacedTime, span
from eddyline.plan.differences import Span
from eddyline.state.buffers.segment import Segment
from eddyline.state.delta import MAX, Delta


@dataclass(frozen=True)
class SortedRows:
    """The rows of a segment that have a value on all axes. It is a copy: a later retraction does not change it."""

    place: Ints  # of each row in the segment
    slots: Ints  # of each row's key
    table: Ints  # ts, exp, first, the values along each axis, and links along skylines
    rows: Delta  # of the whole segment
    spans: tuple[Span, ...]  # by axis, the smallest and largest value
    oldest: int  # the smallest arrival number
    header: Ints  # of the table, for kernels


def sorted_rows(
    segment: Segment, key: int, axes: Sequence[PlacedAxis | PlacedTime], functions: Functions
) -> SortedRows:
    """The sorted rows of a segment under a key; built on first use and cached in the segment."""
    tag = "sorted rows", key, tuple(axes)
    cached: SortedRows | None = segment.derived.get(tag)
    if cached is None:
        cached = segment.derived[tag] = _sorted(segment, key, axes, functions)
    return cached


def _sorted(segment: Segment, key: int, axes: Sequence[PlacedAxis | PlacedTime], functions: Functions) -> SortedRows:
    rows = segment.rows
    values, missing = zip(*(a.values(rows, functions) for a in axes), strict=True)
    along = values[0].view(np.float64) if axes[0].kind == DOUBLES else values[0]
    if axes[0].direction < 0:  # NaN stays last
        along = -along if axes[0].kind == DOUBLES else ~along
    order = np.lexsort((along, segment.slots[key]))
    unusable = np.logical_or.reduce([*missing, rows.ts > rows.exp])
    if unusable.any():
        order = order[~unusable[order]]
    table = np.stack([x[order] for x in (rows.ts, rows.exp, rows.first, *values)])
    if len(axes) == 2 and axes[1].kind == INTEGERS:
        table = linked(table)
    spans = tuple(span(a.kind, v[order]) for a, v in zip(axes, values, strict=True))
    kept = rows if rows.exp is segment.born else replace(rows, exp=rows.exp.copy())
    oldest = int(table[FIRST].min(initial=MAX))
    return SortedRows(order, segment.slots[key][order], table, kept, spans, oldest, segment_header(table, len(axes)))

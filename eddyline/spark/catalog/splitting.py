"""Decides how a family is split over buckets. The decision is committed with the first queries and never changes.

With the option `auto`, joins over ranges are split by queries if there are many queries and a split by data would leave
most buckets without work: the plan runs in one place, many bands are unbounded, or bands are so wide relative to the
values seen so far that there would be fewer cells than buckets. All other plans are split by data.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow.compute as pc

from eddyline.engine.actions import FixCells, Split, SplitQueries
from eddyline.engine.family import Family
from eddyline.operators.evaluate import Functions
from eddyline.plan.partitioning import Partitioning, joins_over_ranges, partitioning
from eddyline.plan.routings import Home, Reach
from eddyline.spark.input.seen import Seen
from eddyline.spark.worker.routes import band_ends, cell_width
from eddyline.sql.bound import Column

MANY = 64  # the least number of queries for which all rows are sent to all buckets
MANY_UNBOUNDED = 0.1  # the least share of queries with unbounded bands that counts as many


def decide(family: Family, functions: Functions, seen: Callable[[], Seen | None], *, is_new: bool) -> Split | None:
    """The action to commit before a family's first queries; None if its plan determines the split. A family that had
    queries before is split by data."""
    split = partitioning(family.plan, keeps_tuples=family.keeps_tuples)
    if is_new and _by_queries(family, split, functions, seen):
        return SplitQueries(family.number)
    return FixCells(family.number, cell_width(family, split, functions)) if split.kind == "by range" else None


def _by_queries(family: Family, split: Partitioning, functions: Functions, seen: Callable[[], Seen | None]) -> bool:
    if not family.bound.params:
        return False
    if family.split != "auto":
        return family.split == "queries"
    if len(family.queries) < MANY:
        return False
    if split.kind == "one place":
        return joins_over_ranges(family.plan)
    if split.kind != "by range":
        return False
    return _many_are_unbounded(family, split, functions) or _few_cells(family, split, functions, seen())


def _many_are_unbounded(family: Family, split: Partitioning, functions: Functions) -> bool:
    (band,) = (r for _, r in split.routings if isinstance(r, Reach))
    width = pc.subtract(*reversed(band_ends(family, band, functions))).drop_null().to_numpy(zero_copy_only=False)
    return len(width) > 0 and bool(np.mean(~np.isfinite(width)) >= MANY_UNBOUNDED)


def _few_cells(family: Family, split: Partitioning, functions: Functions, seen: Seen | None) -> bool:
    """Whether the values seen of the home stream span fewer cells than there are buckets."""
    ((stream, home),) = ((s, r.value) for s, r in split.routings if isinstance(r, Home))
    if seen is None or not isinstance(home, Column):
        return False
    span = seen.streams.get(stream, {}).get(home.name.lower())
    return span is not None and span[1] - span[0] < seen.buckets * cell_width(family, split, functions)

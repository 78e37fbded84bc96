"""How a family is split over the buckets of a pipeline: decided when its first queries come, for good, and committed.

Where the family's option leaves it open, joins over ranges are split by queries if there are many and the data would
give few buckets something to do: no way but one place, bands without end, or bands so wide against the values seen so
far that there would be fewer cells than buckets. All other plans are split by data.
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

MANY = 64  # queries that make it worth while to send all rows to all buckets
ENDLESS = 0.1  # the share of queries without end that makes bands wide


def decide(family: Family, functions: Functions, seen: Callable[[], Seen | None], *, is_new: bool) -> Split | None:
    """What is to be committed before a family's queries are; None if its plan says it all. One that has had queries
    before is split by data."""
    split = partitioning(family.plan, family.emit)
    if is_new and _wants_queries(family, split, functions, seen):
        return SplitQueries(family.number)
    return FixCells(family.number, cell_width(family, split, functions)) if split.kind == "by range" else None


def _wants_queries(family: Family, split: Partitioning, functions: Functions, seen: Callable[[], Seen | None]) -> bool:
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
    return _many_have_no_end(family, split, functions) or _few_cells(family, split, functions, seen())


def _many_have_no_end(family: Family, split: Partitioning, functions: Functions) -> bool:
    (band,) = (r for _, r in split.routings if isinstance(r, Reach))
    width = pc.subtract(*reversed(band_ends(family, band, functions))).drop_null().to_numpy(zero_copy_only=False)
    return len(width) > 0 and bool(np.mean(~np.isfinite(width)) >= ENDLESS)


def _few_cells(family: Family, split: Partitioning, functions: Functions, seen: Seen | None) -> bool:
    """Whether the values seen of the stream that is at home lie in fewer cells than there are buckets."""
    ((stream, home),) = ((s, r.value) for s, r in split.routings if isinstance(r, Home))
    if seen is None or not isinstance(home, Column):
        return False
    span = seen.streams.get(stream, {}).get(home.name.lower())
    return span is not None and span[1] - span[0] < seen.buckets * cell_width(family, split, functions)

"""The order of attributes in which a sample of rows enters the fewest filters of a grouped filter's bitmaps.

After a row has visited the attributes of a set S, in whatever order, the same queries are left for it: those that all
of S accept. So the cost of an order is a sum over its places: what the attribute at a place costs, times the rows that
still need it, because a query left by the attributes before has a clause over it. Counting rejected predicates, as
tickets do, misjudges an attribute that every row must enter anyway (put first it costs nothing more), or whose
predicates are implied by others.

An order is improved by moving one attribute at a time to its best place. Whether a row needs another attribute b does
not depend on where before b the attribute is moved to, so one pass over the sample tells the cost of all its places:
five operations on sets for each row and attribute. Sweeps over all attributes end when none moves. For 300 random sets
of queries over 3 to 6 attributes, an order learnt from 256 rows and a random start cost 1.001 times the best of all
orders in the mean and 1.05 times at most, on other rows (`benchmarks/filter_orders.py`). This is the problem of
pipelined set cover, extended to many queries.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from eddyline.arrays import Codes, Doubles, Ints, Ints32, Words
from eddyline.index.filters.bitmaps import Bitmaps
from eddyline.index.filters.steps import Steps
from eddyline.index.runtime.kernel_cache import kernel
from eddyline.index.runtime.set_values import intersected, load_set, overlaps
from eddyline.index.runtime.vectors import copy_set, unite

MOST_CASES = 256  # rows times blocks of a sample
MOST_BLOCKS = 4  # of a sample
MOST_SWEEPS = 4


class _Sample(NamedTuple):
    """Rows and blocks that stand for a batch and all blocks."""

    bins: Ints32  # by group and row
    blocks: Ints
    order: Ints
    needing: Words  # by group and block: the living queries with a clause there
    living: Words  # by block
    cost: Doubles  # of a visit, by group


class Ordered(NamedTuple):
    """An order, what a row of the sample costs in it, and before; by place, the share of rows that get there."""

    order: Ints
    cost: float
    cost_before: float
    reaching: Doubles


def sampled_blocks(maps: Bitmaps) -> Ints:
    """The blocks of a sample: all, if there are few."""
    count = min(maps.blocks, MOST_BLOCKS)
    blocks: Ints = np.arange(count) * maps.blocks // count
    return blocks


def sampled_rows(maps: Bitmaps) -> int:
    """The number of rows of a full sample."""
    return MOST_CASES // min(maps.blocks, MOST_BLOCKS)


def better_order(maps: Bitmaps, codes: Codes, steps: Steps, cost: Doubles) -> Ordered:
    """Improves the order of `steps` for a sample of rows. `cost` is that of a visit, by group of layer 0."""
    width = len(steps.order)
    bins = np.empty((width, codes.shape[1]), np.int32)
    for g in range(width):
        bins[g] = maps.bins(g, codes)
    needing = maps.with_clause & steps.living
    blocks = sampled_blocks(maps)
    sample = _Sample(bins, blocks, steps.order.copy(), needing, steps.living, cost)
    totals, reaching = np.zeros(2), np.zeros(width)
    _improve(maps, sample, totals, reaching)
    rows = max(codes.shape[1], 1)
    return Ordered(sample.order, totals[1] / rows, totals[0] / rows, reaching / rows)


# --- kernels ---------------------------------------------------------------------------------------------------------


@kernel
def _improve(maps: Bitmaps, sample: _Sample, totals: Doubles, reaching: Doubles) -> None:
    """Moves attributes in the order of the sample until none improves it. O(attributes²) per row, block and sweep."""
    order = sample.order
    width = len(order)
    others, by_place = np.empty(width - 1, np.int64), np.empty(width)
    for sweep in range(MOST_SWEEPS):
        moved = False
        for group in range(width):
            place = 0
            while order[place] != group:
                place += 1
            for i in range(width - 1):
                others[i] = order[i] if i < place else order[i + 1]
            _cost_by_place(maps, sample, group, others, by_place)
            if sweep == 0 and group == 0:
                totals[0] = by_place[place]
            best = place
            for i in range(width):
                if by_place[i] < by_place[best] * (1.0 - 1e-9):
                    best = i
            totals[1] = by_place[best]
            if best != place:
                moved = True
                for i in range(width):
                    order[i] = group if i == best else others[i - (1 if i > best else 0)]
        if not moved:
            break
    _reached(maps, sample, reaching)


@kernel
def _cost_by_place(maps: Bitmaps, sample: _Sample, group: int, others: Ints, by_place: Doubles) -> None:
    """What the sample costs with a group at each place among the others."""
    possible, blocks, cost = maps.possible, len(maps.possible), sample.cost
    width = len(by_place)
    awaiting = np.empty((width, 64), np.uint64)
    with_group = np.empty(width)  # by place: what comes at or after it costs, if the group is before
    by_place[:] = 0.0
    for block in sample.blocks:
        base = block * possible.shape[1]
        clauses_of_group = (group * blocks + block) * 64
        copy_set(awaiting, (width - 1) * 64, sample.needing, clauses_of_group)
        _unite_later(sample, others, block, awaiting)
        for row in range(sample.bins.shape[1]):
            left = load_set(sample.living, block * 64)
            left_after = intersected(left, possible, (base + sample.bins[group, row]) * 64)  # with the group
            before = 0.0
            places = 0
            while places < width and overlaps(left, awaiting, places * 64) != 0:
                needed = overlaps(left, sample.needing, clauses_of_group) != 0
                by_place[places] += before + (cost[group] if needed else 0.0)
                with_group[places] = 0.0
                if places < width - 1:
                    other = others[places]
                    clauses = (other * blocks + block) * 64
                    x = (base + sample.bins[other, row]) * 64
                    if overlaps(left_after, sample.needing, clauses) != 0:
                        with_group[places] = cost[other]
                    if overlaps(left, sample.needing, clauses) != 0:
                        before += cost[other]
                    left = intersected(left, possible, x)
                    left_after = intersected(left_after, possible, x)
                places += 1
            for i in range(places, width):
                by_place[i] += before
            after = 0.0
            for i in range(places - 1, -1, -1):
                after += with_group[i]
                by_place[i] += after


@kernel
def _unite_later(sample: _Sample, groups: Ints, block: int, awaiting: Words) -> None:
    """From the last set down: adds to the queries that await a later place those that need the group at this one."""
    for i in range(len(awaiting) - 2, -1, -1):
        copy_set(awaiting, i * 64, awaiting, (i + 1) * 64)
        unite(awaiting, i * 64, sample.needing, (groups[i] * sample.needing.shape[1] + block) * 64)


@kernel
def _reached(maps: Bitmaps, sample: _Sample, reaching: Doubles) -> None:
    """By place, how many rows need something at it or after it in some block."""
    possible, order = maps.possible, sample.order
    width = len(order)
    awaiting = np.zeros((width + 1, 64), np.uint64)
    furthest = np.zeros(sample.bins.shape[1], np.int64)
    for block in sample.blocks:
        base = block * possible.shape[1]
        _unite_later(sample, order, block, awaiting)
        for row in range(len(furthest)):
            left = load_set(sample.living, block * 64)
            place = 0
            while place < width and overlaps(left, awaiting, place * 64) != 0:
                left = intersected(left, possible, (base + sample.bins[order[place], row]) * 64)
                place += 1
            furthest[row] = max(furthest[row], place)
    for row in range(len(furthest)):
        reaching[: furthest[row]] += 1.0

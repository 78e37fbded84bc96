"""The steps of a search of bitmaps: which living queries need each attribute, and which await a later one.

A block of queries has steps only for the attributes over which one of its living queries has a clause. A step is
*certain* if all queries that await anything have one; otherwise the search asks whether a query that is left for the
row has one, right after it intersects the sets before (`expected`). O(attributes · queries / 64).

The search reads one of these sets at every step of a row, so they begin with a cache line: with vectors that span two
lines it took 1.14 times as long.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from eddyline.arrays import Ints, Mask, Words
from eddyline.index.filters.bitmaps import BLOCK, Bitmaps
from eddyline.index.runtime.vectors import SET_WORDS, on_lines


class Steps(NamedTuple):
    """A route through the groups of layer 0. Each block has the steps of the groups that its living queries need."""

    order: Ints  # the groups
    lengths: Ints  # by block: the number of its steps
    groups: Ints  # by block and step
    places: Ints  # by block and step: the place of the group in the order
    certain: Mask  # by block and step: whether all queries that await anything after the step before need it
    needing: Words  # by block and step: the queries with a clause there
    awaiting: Words  # by block and step: the queries that a later step or a layer above 0 could reject
    expected: Words  # by block and step: if the next step is not certain the queries that need it, else `awaiting`
    needing_layer: Words  # by layer above 0 and block: the queries with a clause there
    living: Words  # by block: the queries that count
    some_dropped: bool


def steps_in(maps: Bitmaps, order: Ints, alive: Mask) -> Steps:
    """What a search in this order does, if these query slots are `alive` (all, if that is empty)."""
    living, width = _living(maps, alive), len(order)
    needing_layer = on_lines(maps.without_clause.shape, np.uint64)
    needing_layer[...] = ~maps.without_clause & living
    by_place = (maps.with_clause[order] & living).transpose(1, 0, 2)
    needed = by_place.any(axis=2)
    places = np.argsort(~needed, axis=1, kind="stable")
    needing = on_lines(by_place.shape, np.uint64)
    needing[...] = np.take_along_axis(by_place, places[:, :, None], axis=1)
    awaiting, expected = on_lines(needing.shape, np.uint64), on_lines(needing.shape, np.uint64)
    certain = np.ones(needing.shape[:2], np.bool_)
    if width:
        awaiting[:, -1] = np.bitwise_or.reduce(needing_layer, axis=0)
        for step in range(width - 1, 0, -1):
            awaiting[:, step - 1] = awaiting[:, step] | needing[:, step]
        certain[:, 1:] = ~(awaiting[:, :-1] & ~needing[:, 1:]).any(axis=2)
    lengths = needed.sum(axis=1)
    asked = ~certain & (np.arange(width) < lengths[:, None])
    expected[...] = awaiting
    expected[:, :-1][asked[:, 1:]] = needing[:, 1:][asked[:, 1:]]
    return Steps(
        order,
        lengths,
        order[places],
        places,
        certain,
        needing,
        awaiting,
        expected,
        needing_layer,
        living,
        len(alive) > 0,
    )


def _living(maps: Bitmaps, alive: Mask) -> Words:
    if not len(alive):
        return maps.queries
    bits = np.zeros(maps.blocks * BLOCK, np.bool_)
    bits[: len(maps.slots)] = alive[maps.slots]
    living = on_lines((maps.blocks, SET_WORDS), np.uint64)
    living[...] = np.packbits(bits, bitorder="little").view(np.uint64).reshape(living.shape)
    return living

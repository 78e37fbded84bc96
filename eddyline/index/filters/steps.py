"""The steps of a search of bitmaps: which living queries need each attribute, and which await a later one.

For every block of queries it is known beforehand whether a step can be skipped, because no living query has a clause
there; or entered without a test, because all queries that await anything have one. O(attributes · queries / 64).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from eddyline.arrays import Bytes, Ints, Mask, Words
from eddyline.index.filters.bitmaps import BLOCK, Bitmaps
from eddyline.index.runtime.vectors import SET_WORDS

SKIP, ENTER, ASK = 0, 1, 2  # how a step treats a block


class Steps(NamedTuple):
    """The groups of layer 0 in the order in which rows visit them, and which living queries need them."""

    order: Ints
    how: Bytes  # by step and block: SKIP if no query needs it, ENTER if all that are left need it, else ASK
    needing: Words  # by step and block: the queries with a clause there
    awaiting: Words  # by step and block: the queries that a later step or a layer above 0 could reject
    needing_layer: Words  # by layer above 0 and block: the queries with a clause there
    living: Words  # by block: the queries that count
    some_dropped: bool


def steps_in(maps: Bitmaps, order: Ints, alive: Mask) -> Steps:
    """What a search in this order does, if these query slots are `alive` (all, if that is empty)."""
    living = _living(maps, alive)
    needing = maps.with_clause[order] & living
    needing_layer = ~maps.without_clause & living
    awaiting = np.zeros_like(needing)
    if len(order):
        for layer in needing_layer:
            awaiting[-1] |= layer
        for step in range(len(order) - 1, 0, -1):
            awaiting[step - 1] = awaiting[step] | needing[step]
    how = np.full(needing.shape[:2], ASK, np.uint8)
    if len(order):
        how[0] = ENTER
        how[1:][~(awaiting[:-1] & ~needing[1:]).any(axis=2)] = ENTER
        how[~needing.any(axis=2)] = SKIP
    return Steps(order, how, needing, awaiting, needing_layer, living, len(alive) > 0)


def _living(maps: Bitmaps, alive: Mask) -> Words:
    if not len(alive):
        return maps.queries
    bits = np.zeros(maps.blocks * BLOCK, np.bool_)
    bits[: len(maps.slots)] = alive[maps.slots]
    return np.packbits(bits, bitorder="little").view(np.uint64).reshape(maps.blocks, SET_WORDS)

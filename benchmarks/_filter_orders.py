"""Orders of a grouped filter's attributes on given tuples: every order, the best one, a random one for each tuple."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pyarrow as pa

from eddyline.arrays import Codes, Ints
from eddyline.index.filters.bitmap_search import search_bitmaps
from eddyline.index.filters.bitmaps import Bitmaps
from eddyline.index.filters.boxes import MatchPairs
from eddyline.index.filters.domains import value_column
from eddyline.index.filters.row_codes import RowCodes
from eddyline.index.filters.steps import steps_in
from eddyline.operators.pool import PoolRun

ALL_ALIVE = np.empty(0, np.bool_)


def codes_of(run: PoolRun, names: str, given: pa.Table) -> Codes:
    """The codes of tuples in a filter; `names` has a column for each attribute of its pool."""
    columns = [value_column(given.column(names[a]).combine_chunks()) for a in run.attributes]
    codes = RowCodes(run.routed.filter.domains, columns, len(given))
    codes.make(range(len(columns)))
    return codes.table


def entered_by(maps: Bitmaps, codes: Codes, order: Ints) -> int:
    """The filters that tuples enter together in an order."""
    counts = np.zeros(codes.shape[1], np.int64)
    steps = steps_in(maps, order, ALL_ALIVE)
    return int(search_bitmaps(maps, codes, steps, counts, MatchPairs(), listing=False)[0].sum())


def by_order(maps: Bitmaps, codes: Codes) -> dict[tuple[int, ...], int]:
    """For every order, the filters that tuples enter together."""
    return {p: entered_by(maps, codes, np.array(p)) for p in permutations(range(len(maps.attributes)))}


def at_random(maps: Bitmaps, codes: Codes, rng: np.random.Generator) -> int:
    """The filters that tuples enter together, each in a random order of its own."""
    orders = list(permutations(range(len(maps.attributes))))
    chosen = rng.integers(0, len(orders), codes.shape[1])
    return sum(entered_by(maps, codes[:, chosen == i], np.array(p)) for i, p in enumerate(orders))

"""The search of a grouped filter: the conditions that the rows of a batch satisfy, as counts, or as lists and bitmaps.

Trees need the codes of all rows. In bitmaps a row needs the codes of the attributes that it enters; if most rows enter
only the first attributes of a route, the other attributes are coded for the rest of the rows alone. That takes a second
pass over the first attributes, so the router (`routing/filter_eddy.py`) chooses it only where it pays.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np

from eddyline.arrays import Ints, Mask
from eddyline.index.filters.bitmap_search import open_rows, search_bitmaps
from eddyline.index.filters.bitmaps import Bitmaps
from eddyline.index.filters.boxes import MatchPairs, search_tree
from eddyline.index.filters.grouped_filter import GroupedFilter
from eddyline.index.filters.row_codes import RowCodes
from eddyline.index.filters.steps import Steps
from eddyline.index.runtime.row_sets import Containers, merged

What = Literal["counts", "lists"]


class Route(NamedTuple):
    """The steps of rows through the attributes of bitmaps; of the first ones, all rows get codes at once."""

    steps: Steps
    at_once: int


Router = Callable[[Bitmaps, RowCodes, Mask], Route]


class Visits(NamedTuple):
    """By group of layer 0, how many (row, block) of a search entered it; and the time they took together."""

    entered: Ints
    seconds: float


@dataclass
class Matches:
    """The conditions that the rows of a batch satisfy: `counts` of certain matches by row, or listed pairs and sets."""

    counts: Ints
    pairs: MatchPairs = field(default_factory=MatchPairs)
    sets: list[Containers] = field(default_factory=list)  # by map, if they were asked for
    visits: list[Visits] = field(default_factory=list)  # by map

    @property
    def unsure(self) -> bool:
        """Whether some pairs are unsure."""
        return bool((self.pairs.slots < 0).any())


def search(filter_: GroupedFilter, codes: RowCodes, alive: Mask, router: Router, what: What) -> Matches:
    """The conditions that the rows of a batch satisfy, among those that are `alive` (all, if that is empty).

    `router` chooses how rows visit the attributes of bitmaps.
    """
    matches = Matches(np.zeros(codes.rows, np.int64))
    for tree in filter_.trees:
        codes.make(tree.attributes.tolist())
        codes.make(tree.shared[:, 0].tolist())
        search_tree(tree, codes.table, alive, matches.counts, matches.pairs, list_all=what == "lists")
    for maps, partial in zip(filter_.maps, filter_.partial, strict=True):
        counts = np.zeros(codes.rows, np.int64) if partial else matches.counts
        route = router(maps, codes, alive)
        _make_codes(maps, codes, route)
        begun = time.perf_counter()
        entered, sets = search_bitmaps(
            maps, codes.table, route.steps, counts, matches.pairs, listing=partial or what == "lists"
        )
        matches.visits.append(Visits(entered, time.perf_counter() - begun))
        if sets is not None and partial:  # the rest of these conditions has to be evaluated
            listed = merged(codes.rows, [sets])
            matches.pairs.add(np.repeat(np.arange(codes.rows), listed.counts), ~listed.members)
        elif sets is not None:
            matches.sets.append(sets)
    return matches


def _make_codes(maps: Bitmaps, codes: RowCodes, route: Route) -> None:
    """Makes the codes that rows need on a route."""
    order = route.steps.order
    if route.at_once == len(order):
        codes.make(maps.group_attribute.tolist())
        return
    codes.make(maps.attributes[order[: route.at_once]].tolist())
    open_ = open_rows(maps, codes.table, route.steps, route.at_once)
    codes.make(dict.fromkeys(maps.group_attribute.tolist()), open_)

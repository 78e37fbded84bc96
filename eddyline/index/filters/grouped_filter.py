"""A grouped filter: which of many conditions does a row satisfy (document 1, section 3.2.6).

Conditions are in conjunctive normal form over attributes: `Terms`. Their ranges become ranges of codes (`domains.py`),
and every condition goes to the structure that is estimated to find it cheapest:

    boxes.py    one tree per set of attributes restricted: for conditions that accept few rows
    bitmaps.py  a bit per condition in every attribute and code: for those that accept many, and while they are few

Both tell matches that are certain from those that are unsure, which the caller decides by evaluating the condition:
codes that do not tell all, conditions with a part that is no range, alternatives over several attributes in a tree
(there a condition has a box per alternative, and may be found more than once).

A filter never changes once it is made. `search` gives the matches of a batch as counts, or as lists and bitmaps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

from eddyline.arrays import Codes, Ints, Ints32, Mask
from eddyline.index.filters import bitmap_search as dense
from eddyline.index.filters import boxes as sparse
from eddyline.index.filters.bitmaps import BLOCK, MOST_BINS, Bitmaps, bitmaps
from eddyline.index.filters.boxes import BoxTree, Found, box_tree
from eddyline.index.filters.domains import NULL, Domain, ValueColumn
from eddyline.index.filters.terms import Coded, Pieces, Terms, changing, coded, domain_of, pieces_of
from eddyline.index.runtime.row_sets import Containers, merged
from eddyline.index.runtime.vectors import LANES

Route = Callable[[Bitmaps, Codes], Ints]

MOST_BOXES = 16  # of one condition
SMALLEST_TREE = 64
MOST_TREES = 128
MOST_TOLD_APART = 60  # attributes
NARROW = 0.8  # an attribute of which a condition accepts more is not worth telling trees apart by

# Nanoseconds of a row, measured: what a node of a tree costs it, a match there, and a block of bitmaps per attribute.
NODE, MATCH, BLOCK_STEP = 11.0, 2.0, 9.0
# Bitmaps that are larger are only made while the conditions are few.
BYTES_PER_CONDITION, FEW = 160, 4 * BLOCK


@dataclass(frozen=True)
class GroupedFilter:
    size: int
    domains: tuple[Domain, ...]
    trees: tuple[BoxTree, ...]
    maps: tuple[Bitmaps, ...]  # certain ones, then those of partial conditions, if any
    partial: tuple[bool, ...]  # by map

    @property
    def nbytes(self) -> int:
        return sum(x.nbytes for x in (*self.domains, *self.trees, *self.maps))


@dataclass
class Matches:
    """The conditions that the rows of a batch satisfy.

    `counts` of certain matches by row; `pairs` found, unsure ones turned (~number); `sets` by bitmap, if asked for;
    `entered` by bitmap: how many (row, block) entered each of its attributes.
    """

    counts: Ints
    pairs: Found
    sets: list[Containers] = field(default_factory=list)
    entered: list[Ints] = field(default_factory=list)

    @property
    def unsure(self) -> bool:
        """Whether some pairs are unsure."""
        return bool((self.pairs.numbers[: self.pairs.used] < 0).any())


def grouped_filter(terms: Terms) -> GroupedFilter:
    """Indexes conditions. O(n log n)."""
    domains = tuple(domain_of(rs, r) for rs, r in zip(terms.single, terms.choices, strict=True))
    given = coded(terms, domains)
    exact = np.array([d.exact for d in domains], np.bool_)
    sizes = np.array([d.size for d in domains], np.int64)
    trees, in_maps = _trees(given, sizes, exact, terms.partial)
    maps, partial = [], []
    for kind in (False, True):
        numbers = np.nonzero(in_maps & (terms.partial == kind))[0]
        if len(numbers):
            maps.append(bitmaps(numbers.astype(np.int32), pieces_of(given, numbers, sizes), sizes.tolist(), exact))
            partial.append(kind)
    return GroupedFilter(terms.size, domains, tuple(trees), tuple(maps), tuple(partial))


def search(
    filter_: GroupedFilter, columns: Sequence[ValueColumn], rows: int, alive: Mask, route: Route, what: str
) -> Matches:
    """What the rows of a batch satisfy, among the conditions that are `alive` (all, if that is empty).

    `route` says for bitmaps and codes in which order attributes are entered. `what` is "counts" or "lists".
    """
    codes = np.empty((len(filter_.domains), rows), np.uint16)
    for domain, column, found in zip(filter_.domains, columns, codes, strict=True):
        domain.codes(column, found)
    matches = Matches(np.zeros(rows, np.int64), Found.with_room(1024))
    for tree in filter_.trees:
        sparse.search(tree, codes, alive, matches.counts, matches.pairs, list_all=what == "lists")
    for maps, partial in zip(filter_.maps, filter_.partial, strict=True):
        counts = np.zeros(rows, np.int64) if partial else matches.counts
        listing = partial or what == "lists"
        entered, sets = dense.search(maps, codes, alive, route(maps, codes), counts, matches.pairs, listing=listing)
        matches.entered.append(entered)
        if sets is not None and partial:  # what is left of these conditions has to be evaluated
            listed = merged(rows, [sets])
            matches.pairs.add(np.repeat(np.arange(rows), listed.counts), ~listed.members)
        elif sets is not None:
            matches.sets.append(sets)
    return matches


@dataclass(frozen=True)
class _Boxes:
    """Conditions as boxes: whose, low and high ends by attribute, and what follows from these."""

    owner: Ints
    low: Codes
    high: Codes
    several: Mask  # by condition: whether a row may be in several of its boxes
    sizes: Ints

    @cached_property
    def restricted(self) -> Mask:
        """By attribute, whether a box accepts less than all codes."""
        return np.asarray((self.low > NULL) | (self.high < self.sizes[:, None] - 1))

    @cached_property
    def share(self) -> npt.NDArray[np.float64]:
        """By attribute, the share of codes that a box accepts."""
        return np.asarray((self.high.astype(np.float64) - self.low + 1) / self.sizes[:, None])


def _trees(coded: Coded, sizes: Ints, exact: Mask, partial: Mask) -> tuple[list[BoxTree], Mask]:
    """One tree per set of attributes restricted, where that pays; and which conditions are left for bitmaps."""
    chosen = coded.standing & _few_boxes(coded)
    if not chosen.any() or not len(sizes):
        return [], coded.standing
    boxes = _boxes(coded, chosen, sizes)
    unsure = boxes.several[boxes.owner] | partial[boxes.owner]
    affordable = _bytes_in_maps(sizes, exact) <= BYTES_PER_CONDITION or int(coded.standing.sum()) <= FEW
    groups, in_trees = _groups(boxes, unsure, affordable=affordable)
    sharp_ends = coded.sharp.copy()  # by condition, those of its choices too
    sharp_ends[coded.choices.attribute, coded.choices.owner] &= exact[coded.choices.attribute]
    trees = []
    for group in groups:
        mine = group[in_trees[boxes.owner[group]]]
        if len(mine):
            sharp = np.asarray(sharp_ends[:, boxes.owner[mine]].all(axis=1))
            trees.append(_tree(boxes, mine, sharp, exact, unsure=bool(unsure[mine[0]])))
    return trees, coded.standing & ~in_trees


def _groups(boxes: _Boxes, unsure: Mask, *, affordable: bool) -> tuple[list[Ints], Mask]:
    """Boxes that are to share a tree, and by condition whether it is in trees, with all its boxes.

    Where bitmaps are `affordable`, a tree must be estimated to cost a row less than they would.
    """
    kind = _kinds(boxes.share, boxes.restricted) * 2 + unsure
    _, which, count = np.unique(kind, return_inverse=True, return_counts=True)
    order = np.argsort(which, kind="stable")
    members = np.split(order, np.cumsum(count)[:-1])
    in_trees = np.zeros(len(boxes.several), np.bool_)
    in_trees[boxes.owner] = True
    groups = []
    for rank, k in enumerate(np.argsort(-count)):
        mine = members[k]
        in_blocks = len(mine) / BLOCK * BLOCK_STEP * len(boxes.sizes)
        dear = affordable and _tree_cost(boxes.share[:, mine].mean(axis=1), len(mine)) > in_blocks
        if dear or rank >= MOST_TREES or len(mine) < SMALLEST_TREE:
            in_trees[boxes.owner[mine]] = False
        else:
            groups.append(mine)
    return groups, in_trees


def _kinds(share: npt.NDArray[np.float64], restricted: Mask) -> Ints:
    """A number for each box, the same for those that are to stand in one tree: the set of attributes it is narrow in.

    If there are too many sets, only the narrowest attributes of each box count: three of them, two, or one.
    """
    narrow = (restricted & (share < NARROW))[:MOST_TOLD_APART]
    weight = 1 << np.arange(len(narrow), dtype=np.int64)
    kind: Ints = (narrow * weight[:, None]).sum(axis=0)
    order = None
    for most in (3, 2, 1):
        if len(np.unique(kind)) <= MOST_TREES // 2:
            break
        if order is None:
            order = np.argsort(np.where(narrow, share[:MOST_TOLD_APART], np.inf), axis=0, kind="stable")
        kind = np.zeros_like(kind)
        for i in range(min(most, len(narrow))):
            kind += weight[order[i]] * narrow[order[i], np.arange(narrow.shape[1])]
    return kind


def _few_boxes(coded: Coded) -> Mask:
    """Conditions with few alternatives."""
    alternatives = np.ones(coded.low.shape[1])
    choices = coded.choices
    if len(choices):
        begin = np.nonzero(changing(choices.owner, choices.clause))[0]
        np.multiply.at(alternatives, choices.owner[begin], np.diff(np.append(begin, len(choices))))
    return alternatives <= MOST_BOXES


def _bytes_in_maps(sizes: Ints, exact: Mask) -> float:
    """What a condition takes in bitmaps."""
    coarse = bool((sizes > MOST_BINS).any()) or not exact.all()
    return float(np.minimum(sizes, MOST_BINS).sum()) / 8 * (2 if coarse else 1)


def _tree_cost(share: npt.NDArray[np.float64], boxes: int) -> float:
    """What a row costs in a tree, for nodes visited and matches, if values are spread over all codes.

    `share` has, by attribute, the mean share of codes that its boxes accept.
    """
    leaves = max(1.0, boxes / LANES)
    visited = leaves * sparse.tiled(np.sort(share), leaves)[1]
    return NODE * (1 + 1.3 * visited) + MATCH * boxes * float(np.prod(share))


def _tree(boxes: _Boxes, mine: Ints, sharp: Mask, exact: Mask, *, unsure: bool) -> BoxTree:
    """The tree of some boxes; ranges that all have in common, with sharp ends, are no part of it."""
    low, high = boxes.low[:, mine], boxes.high[:, mine]
    restricted = boxes.restricted[:, mine].any(axis=1)
    alike = (low == low[:, :1]).all(axis=1) & (high == high[:, :1]).all(axis=1)
    looked_at = np.nonzero(restricted & ~(alike & sharp))[0]
    if not len(looked_at):
        looked_at = np.array([0])
    shared = np.setdiff1d(np.nonzero(restricted)[0], looked_at)
    common = np.stack([shared, low[shared, 0], high[shared, 0]], axis=1).astype(np.int64)
    owner = boxes.owner[mine].astype(np.int32)
    return box_tree(looked_at, common, exact[looked_at], owner, low[looked_at], high[looked_at], unsure=unsure)


def _boxes(coded: Coded, chosen: Mask, sizes: Ints) -> _Boxes:
    """Conditions as boxes, one for each choice of a piece from every clause."""
    n = len(chosen)
    owner = np.nonzero(chosen)[0]
    low, high = coded.low[:, owner], coded.high[:, owner]
    rest = coded.choices.take(chosen[coded.choices.owner])
    several = np.zeros(n, np.bool_)
    several[rest.owner[rest.layer > 0]] = True
    several[_overlapping(rest)] = True
    while len(rest):  # the next clause of every condition that has one left
        begin = np.nonzero(changing(rest.owner, rest.clause))[0]
        is_first = changing(rest.owner)[begin]
        length = np.diff(np.append(begin, len(rest)))
        start_of, size_of = np.zeros(n, np.int64), np.zeros(n, np.int64)
        start_of[rest.owner[begin[is_first]]] = begin[is_first]
        size_of[rest.owner[begin[is_first]]] = length[is_first]
        copies = np.maximum(size_of[owner], 1)
        source = np.repeat(np.arange(len(owner)), copies)
        nth = np.arange(len(source)) - np.repeat(np.cumsum(copies) - copies, copies)
        owner, low, high = owner[source], low[:, source], high[:, source]
        concerned = np.nonzero(size_of[owner])[0]
        piece = start_of[owner[concerned]] + nth[concerned]
        a = rest.attribute[piece]
        low[a, concerned] = np.maximum(low[a, concerned], rest.low[piece])
        high[a, concerned] = np.minimum(high[a, concerned], rest.high[piece])
        rest = rest.take(~np.repeat(is_first, length))
    possible = (low <= high).all(axis=0)
    return _Boxes(owner[possible], low[:, possible], high[:, possible], several, sizes)


def _overlapping(pieces: Pieces) -> Ints32:
    """Owners of clauses over one attribute whose pieces have codes in common."""
    p = pieces.take(np.lexsort((pieces.low, pieces.attribute, pieces.clause, pieces.owner)))
    same = ~changing(p.owner, p.clause, p.attribute)[1:]
    # of pieces sorted by their low ends, two neighbours have codes in common if any two have
    return p.owner[1:][same & (p.low[1:] <= p.high[:-1])]

"""A grouped filter: which of many conditions does a row satisfy (document 1, section 3.2.6).

Conditions are in conjunctive normal form over attributes (`clauses.py`). Their ranges become ranges of codes
(`domains.py`), and every condition goes to the structure that is estimated to be searched at the least cost:

    boxes.py    one tree per set of restricted attributes: for conditions that accept few rows
    bitmaps.py  a bit per condition in every attribute and code: for conditions that accept many rows, or few conditions

Both distinguish certain matches from unsure ones, which the caller decides by evaluating the condition. A match is
unsure if codes do not decide, if the condition has a part that is no range, or if it has alternatives over several
attributes and is in a tree (there it has a box per alternative, and may match more than once).

A filter is immutable; `filter_search.py` searches it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from eddyline.arrays import Codes, Doubles, Ints, Ints32, Mask
from eddyline.index.filters.bitmaps import BLOCK, MOST_BINS, Bitmaps, bitmaps
from eddyline.index.filters.boxes import BoxTree, box_tree, tiled
from eddyline.index.filters.clauses import (
    CodedConditions,
    CodeRanges,
    Conditions,
    changing,
    code_ranges,
    coded,
    domain_of,
)
from eddyline.index.filters.domains import NULL, Domain
from eddyline.index.runtime.vectors import LANES

MOST_BOXES = 16  # of one condition
SMALLEST_TREE = 64
MOST_TREES = 128
MOST_TOLD_APART = 60  # attributes by which trees are told apart
NARROW = 0.8  # a box that accepts a larger share of an attribute's codes is not narrow in it

# Measured nanoseconds of a row: for a node of a tree, a match in a tree, and a block of bitmaps per attribute.
NODE, MATCH, BLOCK_STEP = 11.0, 2.0, 9.0
# Larger bitmaps are built only for few conditions.
BYTES_PER_CONDITION, FEW = 160, 4 * BLOCK


@dataclass(frozen=True)
class GroupedFilter:
    domains: tuple[Domain, ...]
    trees: tuple[BoxTree, ...]
    maps: tuple[Bitmaps, ...]  # of the conditions that are ranges alone, then of partial conditions, if there are any
    partial: tuple[bool, ...]  # by map


def grouped_filter(conditions: Conditions) -> GroupedFilter:
    """Indexes conditions. O(n log n)."""
    domains = tuple(domain_of(s, a) for s, a in zip(conditions.single, conditions.alternatives, strict=True))
    given = coded(conditions, domains)
    exact = np.array([d.exact for d in domains], np.bool_)
    sizes = np.array([d.size for d in domains], np.int64)
    trees, in_maps = _trees(given, sizes, exact, conditions.partial)
    maps, partial = [], []
    for kind in (False, True):
        slots = np.nonzero(in_maps & (conditions.partial == kind))[0]
        if len(slots):
            maps.append(bitmaps(slots.astype(np.int32), code_ranges(given, slots, sizes), sizes.tolist(), exact))
            partial.append(kind)
    return GroupedFilter(domains, tuple(trees), tuple(maps), tuple(partial))


@dataclass(frozen=True)
class _Boxes:
    """Conditions as boxes: the owner of each, and the low and high ends by attribute."""

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
    def share(self) -> Doubles:
        """By attribute, the share of codes that a box accepts."""
        return np.asarray((self.high.astype(np.float64) - self.low + 1) / self.sizes[:, None])


def _trees(coded: CodedConditions, sizes: Ints, exact: Mask, partial: Mask) -> tuple[list[BoxTree], Mask]:
    """One tree per set of restricted attributes, where that pays; and which conditions are left for bitmaps."""
    chosen = coded.satisfiable & _few_boxes(coded)
    if not chosen.any() or not len(sizes):
        return [], coded.satisfiable
    boxes = _boxes(coded, chosen, sizes)
    unsure = boxes.several[boxes.owner] | partial[boxes.owner]
    affordable = _bytes_in_maps(sizes, exact) <= BYTES_PER_CONDITION or int(coded.satisfiable.sum()) <= FEW
    groups, in_trees = _groups(boxes, unsure, affordable=affordable)
    exact_ends = coded.exact_ends.copy()  # by condition, those of its alternatives too
    exact_ends[coded.alternatives.attribute, coded.alternatives.owner] &= exact[coded.alternatives.attribute]
    trees = []
    for group in groups:
        mine = group[in_trees[boxes.owner[group]]]
        if len(mine):
            ends = np.asarray(exact_ends[:, boxes.owner[mine]].all(axis=1))
            trees.append(_tree(boxes, mine, ends, exact, unsure=bool(unsure[mine[0]])))
    return trees, coded.satisfiable & ~in_trees


def _groups(boxes: _Boxes, unsure: Mask, *, affordable: bool) -> tuple[list[Ints], Mask]:
    """The boxes of each tree, and by condition whether it is in trees, with all its boxes.

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


def _kinds(share: Doubles, restricted: Mask) -> Ints:
    """For each box, the set of attributes in which it is narrow, as a bit mask: boxes with equal sets share a tree.

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


def _few_boxes(coded: CodedConditions) -> Mask:
    """The conditions that are few enough boxes."""
    boxes = np.ones(coded.low.shape[1])
    ranges = coded.alternatives
    begin = np.nonzero(changing(ranges.owner, ranges.clause))[0]
    np.multiply.at(boxes, ranges.owner[begin], np.diff(np.append(begin, len(ranges.owner))))
    return boxes <= MOST_BOXES


def _bytes_in_maps(sizes: Ints, exact: Mask) -> float:
    """Bytes that a condition takes in bitmaps."""
    coarse = bool((sizes > MOST_BINS).any()) or not exact.all()
    return float(np.minimum(sizes, MOST_BINS).sum()) / 8 * (2 if coarse else 1)


def _tree_cost(share: Doubles, boxes: int) -> float:
    """Nanoseconds of a row in a tree, for nodes visited and matches, if values are spread over all codes.

    `share` has, by attribute, the mean share of codes that its boxes accept.
    """
    leaves = max(1.0, boxes / LANES)
    visited = leaves * tiled(np.sort(share), leaves)[1]
    return NODE * (1 + 1.3 * visited) + MATCH * boxes * float(np.prod(share))


def _tree(boxes: _Boxes, mine: Ints, exact_ends: Mask, exact: Mask, *, unsure: bool) -> BoxTree:
    """The tree of some boxes. Ranges with exact ends that all boxes share are tested once per row, before the tree."""
    low, high = boxes.low[:, mine], boxes.high[:, mine]
    restricted = boxes.restricted[:, mine].any(axis=1)
    alike = (low == low[:, :1]).all(axis=1) & (high == high[:, :1]).all(axis=1)
    looked_at = np.nonzero(restricted & ~(alike & exact_ends))[0]
    if not len(looked_at):
        looked_at = np.array([0])
    alone = np.setdiff1d(np.nonzero(restricted)[0], looked_at)
    shared = np.stack([alone, low[alone, 0], high[alone, 0]], axis=1).astype(np.int64)
    owner = boxes.owner[mine].astype(np.int32)
    return box_tree(looked_at, shared, exact[looked_at], owner, low[looked_at], high[looked_at], unsure=unsure)


def _boxes(coded: CodedConditions, chosen: Mask, sizes: Ints) -> _Boxes:
    """Conditions as boxes, one for each choice of one range from every clause."""
    n = len(chosen)
    owner = np.nonzero(chosen)[0]
    low, high = coded.low[:, owner], coded.high[:, owner]
    rest = coded.alternatives.take(chosen[coded.alternatives.owner])
    several = np.zeros(n, np.bool_)
    several[rest.owner[rest.layer > 0]] = True
    several[_overlapping(rest)] = True
    while len(rest.owner):  # the next clause of every condition that has one left
        begin = np.nonzero(changing(rest.owner, rest.clause))[0]
        is_first = changing(rest.owner)[begin]
        length = np.diff(np.append(begin, len(rest.owner)))
        start_of, size_of = np.zeros(n, np.int64), np.zeros(n, np.int64)
        start_of[rest.owner[begin[is_first]]] = begin[is_first]
        size_of[rest.owner[begin[is_first]]] = length[is_first]
        copies = np.maximum(size_of[owner], 1)
        source = np.repeat(np.arange(len(owner)), copies)
        nth = np.arange(len(source)) - np.repeat(np.cumsum(copies) - copies, copies)
        owner, low, high = owner[source], low[:, source], high[:, source]
        narrowed = np.nonzero(size_of[owner])[0]
        by = start_of[owner[narrowed]] + nth[narrowed]
        a = rest.attribute[by]
        low[a, narrowed] = np.maximum(low[a, narrowed], rest.low[by])
        high[a, narrowed] = np.minimum(high[a, narrowed], rest.high[by])
        rest = rest.take(~np.repeat(is_first, length))
    possible = (low <= high).all(axis=0)
    return _Boxes(owner[possible], low[:, possible], high[:, possible], several, sizes)


def _overlapping(ranges: CodeRanges) -> Ints32:
    """Owners of clauses with overlapping ranges over one attribute."""
    r = ranges.take(np.lexsort((ranges.low, ranges.attribute, ranges.clause, ranges.owner)))
    same = ~changing(r.owner, r.clause, r.attribute)[1:]
    # of ranges sorted by their low ends, two neighbours overlap if any two do
    return r.owner[1:][same & (r.low[1:] <= r.high[:-1])]

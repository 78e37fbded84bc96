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
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline.index import bitmaps as dense
from eddyline.index import boxes as sparse
from eddyline.index.bitmaps import Bitmaps, Pieces, bitmaps
from eddyline.index.boxes import BoxTree, Found, box_tree
from eddyline.index.domains import NULL, Domain, ValueColumn, numbers_domain, texts_domain
from eddyline.index.sets import Containers, merged
from eddyline.index.vectors import LANES

Ints = npt.NDArray[np.int64]
Numbers32 = npt.NDArray[np.int32]
Codes = npt.NDArray[np.uint16]
Flags = npt.NDArray[np.bool_]
Route = Callable[[Bitmaps, Codes], Ints]

MOST_BOXES = 16  # of one condition
SMALLEST_TREE = 64
MOST_TREES = 128
MOST_TOLD_APART = 60  # attributes
NARROW = 0.8  # an attribute of which a condition accepts more is not worth telling trees apart by

# Nanoseconds of a row, measured: what a node of a tree costs it, a match there, and a block of bitmaps per attribute.
NODE, MATCH, BLOCK_STEP = 11.0, 2.0, 9.0
# Bitmaps that are larger are only made while the conditions are few.
BYTES_PER_CONDITION, FEW = 160, 4 * dense.BLOCK


@dataclass(frozen=True)
class Ranges:
    """Ranges over one attribute: piece i of clause `clause[i]` of condition `owner[i]` accepts start <= x < stop.

    Unbounded ends are flagged. A piece with `null` accepts NULL and nothing else. Starts and stops are integers, or
    binary arrays for texts.
    """

    owner: Ints
    clause: Ints
    start: Ints | pa.Array
    stop: Ints | pa.Array
    no_start: Flags
    no_stop: Flags
    null: Flags


@dataclass(frozen=True)
class Terms:
    """Conditions 0 … size - 1, by attribute: clauses of a single piece, each with its own owners, and the pieces of
    clauses that have several. Also how many clauses a condition must satisfy, and which have
    a part that is no range."""

    size: int
    single: tuple[tuple[Ranges, ...], ...]
    choices: tuple[Ranges | None, ...]
    required: Ints
    partial: Flags


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
    domains = tuple(_domain(rs, r) for rs, r in zip(terms.single, terms.choices, strict=True))
    coded = _coded(terms, domains)
    exact = np.array([d.exact for d in domains], np.bool_)
    sizes = np.array([d.size for d in domains], np.int64)
    trees, in_maps = _trees(coded, sizes, exact, terms.partial)
    maps, partial = [], []
    for kind in (False, True):
        numbers = np.nonzero(in_maps & (terms.partial == kind))[0]
        if len(numbers):
            maps.append(bitmaps(numbers.astype(np.int32), _pieces(coded, numbers, sizes), sizes.tolist(), exact))
            partial.append(kind)
    return GroupedFilter(terms.size, domains, tuple(trees), tuple(maps), tuple(partial))


def search(
    filter_: GroupedFilter, columns: Sequence[ValueColumn], rows: int, alive: Flags, route: Route, what: str
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


# --- building --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Coded:
    """Conditions in codes: the box in which all clauses of a single piece hold, by attribute and condition, and whether
    its ends are at cuts, so that codes tell all about it; the pieces of the other clauses, sorted by owner, layer and
    clause; and which conditions can hold at all."""

    low: Codes
    high: Codes
    sharp: Flags
    choices: Pieces
    standing: Flags


def _domain(single: Sequence[Ranges], choices: Ranges | None) -> Domain:
    parts = [*single, *([] if choices is None else [choices])]
    ends = []
    for r in parts:
        ends.append(_some(r.start, ~(r.no_start | r.null)))
        ends.append(_some(r.stop, ~(r.no_stop | r.null)))
    if isinstance(ends[0], pa.Array):
        return texts_domain(pa.concat_arrays(ends))
    return numbers_domain(np.concatenate(ends))


def _some(values: Ints | pa.Array, which: Flags) -> Ints | pa.Array:
    return values.filter(pa.array(which)) if isinstance(values, pa.Array) else values[which]


def _ends(ranges: Ranges, domain: Domain) -> tuple[Codes, Codes]:
    low = np.where(ranges.no_start, NULL + 1, domain.first_codes(ranges.start)).astype(np.uint16)
    high = np.where(ranges.no_stop, domain.size - 1, domain.last_codes(ranges.stop)).astype(np.uint16)
    low[ranges.null], high[ranges.null] = NULL, NULL
    return low, high


def _coded(terms: Terms, domains: Sequence[Domain]) -> _Coded:
    n = terms.size
    low = np.zeros((len(domains), n), np.uint16)
    high = np.empty((len(domains), n), np.uint16)
    sharp = np.ones((len(domains), n), np.bool_)
    met = np.zeros(n, np.int64)  # clauses that can hold
    for a, domain in enumerate(domains):
        high[a] = domain.size - 1
        for ranges in terms.single[a]:
            first, last = _ends(ranges, domain)
            low[a, ranges.owner] = np.maximum(low[a, ranges.owner], first)
            high[a, ranges.owner] = np.minimum(high[a, ranges.owner], last)
            met[ranges.owner] += 1
            if not domain.exact:
                sharp[a, ranges.owner] &= ranges.no_start | ranges.null | (first != domain.last_codes(ranges.start))
                sharp[a, ranges.owner] &= ranges.no_stop | ranges.null | (last != domain.first_codes(ranges.stop))
    choices = _layered(
        [_choice_pieces(r, d, a) for a, (r, d) in enumerate(zip(terms.choices, domains, strict=True)) if r]
    )
    if len(choices):
        np.add.at(met, choices.owner[_changing(choices.owner, choices.clause)], 1)
    standing = (met == terms.required) & (low <= high).all(axis=0)
    return _Coded(low, high, sharp, choices, standing)


def _choice_pieces(ranges: Ranges, domain: Domain, attribute: int) -> Pieces:
    low, high = _ends(ranges, domain)
    kept = low <= high
    owner, clause = ranges.owner[kept].astype(np.int32), ranges.clause[kept].astype(np.int32)
    return Pieces(owner, np.zeros_like(owner), clause, np.full(len(owner), attribute, np.int32), low[kept], high[kept])


def _layered(parts: Sequence[Pieces]) -> Pieces:
    """All pieces together, sorted; a clause over several attributes gets a layer, counted within its condition."""
    none = np.empty(0, np.int32)
    empty = Pieces(none, none, none, none, none.astype(np.uint16), none.astype(np.uint16))
    pieces = _joined([empty, *parts])
    pieces = pieces.take(np.lexsort((pieces.clause, pieces.owner)))
    if not len(pieces):
        return pieces
    begin = np.nonzero(_changing(pieces.owner, pieces.clause))[0]
    mixed = np.maximum.reduceat(pieces.attribute, begin) != np.minimum.reduceat(pieces.attribute, begin)
    numbered = np.cumsum(mixed)
    before = np.maximum.accumulate(np.where(_changing(pieces.owner[begin]), numbered - mixed, 0))
    layer = np.where(mixed, numbered - before, 0).astype(np.int32)
    layer = np.repeat(layer, np.diff(np.append(begin, len(pieces))))
    pieces = Pieces(pieces.owner, layer, pieces.clause, pieces.attribute, pieces.low, pieces.high)
    return pieces.take(np.lexsort((pieces.clause, pieces.layer, pieces.owner)))


def _joined(parts: Sequence[Pieces]) -> Pieces:
    return Pieces(*(np.concatenate([getattr(p, n) for p in parts]) for n in Pieces.__dataclass_fields__))


def _changing(*columns: npt.NDArray[Any]) -> Flags:
    """Where a row differs from the one before; the first does."""
    found = np.zeros(len(columns[0]), np.bool_)
    found[:1] = True
    for c in columns:
        found[1:] |= c[1:] != c[:-1]
    return found


def _pieces(coded: _Coded, numbers: Ints, sizes: Ints) -> Pieces:
    """The conditions of some numbers as pieces, numbered anew; their boxes come as one clause per attribute."""
    low, high = coded.low[:, numbers], coded.high[:, numbers]
    restricted = np.nonzero((low > NULL) | (high < sizes[:, None] - 1))
    attribute, owner = (x.astype(np.int32) for x in restricted)
    nothing = np.zeros(len(owner), np.int32)
    own = Pieces(owner, nothing, attribute, attribute, low[attribute, owner], high[attribute, owner])
    place = np.full(coded.low.shape[1], -1, np.int32)
    place[numbers] = np.arange(len(numbers), dtype=np.int32)
    rest = coded.choices.take(place[coded.choices.owner] >= 0)
    clause = rest.clause + np.int32(len(sizes))
    found = _joined([own, Pieces(place[rest.owner], rest.layer, clause, rest.attribute, rest.low, rest.high)])
    return found.take(np.lexsort((found.clause, found.layer, found.owner)))


def _trees(coded: _Coded, sizes: Ints, exact: Flags, partial: Flags) -> tuple[list[BoxTree], Flags]:
    """One tree per set of attributes restricted, where that pays; and which conditions are left for bitmaps."""
    in_maps = coded.standing.copy()
    chosen = coded.standing & _few_boxes(coded)
    if not chosen.any() or not len(sizes):
        return [], in_maps
    owner, low, high, several = _boxes(coded, chosen)
    top = sizes[:, None] - 1
    restricted = (low > NULL) | (high < top)
    share = (high.astype(np.float64) - low + 1) / (top + 1)
    unsure = several[owner] | partial[owner]
    kinds, which, count = np.unique(_kinds(share, restricted) * 2 + unsure, return_inverse=True, return_counts=True)
    by_size = np.argsort(-count)
    order = np.argsort(which, kind="stable")
    begin = np.append(0, np.cumsum(count))
    per_condition = _bytes_in_maps(sizes, exact)
    in_trees = np.zeros(len(in_maps), np.bool_)
    groups = []
    for k in by_size[:MOST_TREES]:
        mine = order[begin[k] : begin[k + 1]]
        affordable = per_condition <= BYTES_PER_CONDITION or int(coded.standing.sum()) <= FEW
        in_blocks = len(mine) / dense.BLOCK * BLOCK_STEP * len(sizes)
        if affordable and _tree_cost(share[:, mine].mean(axis=1), len(mine)) > in_blocks:
            continue
        if count[k] >= SMALLEST_TREE:
            groups.append(mine)
            in_trees[owner[mine]] = True
    for k in np.setdiff1d(np.arange(len(kinds)), [which[g[0]] for g in groups]):
        in_trees[owner[order[begin[k] : begin[k + 1]]]] = False  # with all its boxes, wherever the others are
    sharp_ends = coded.sharp.copy()  # by condition, those of its choices too
    sharp_ends[coded.choices.attribute, coded.choices.owner] &= exact[coded.choices.attribute]
    trees = []
    for mine in groups:
        mine = mine[in_trees[owner[mine]]]
        if len(mine):
            sure = not unsure[mine[0]]
            sharp = np.asarray(sharp_ends[:, owner[mine]].all(axis=1))
            trees.append(
                _tree(low[:, mine], high[:, mine], restricted[:, mine], sharp, exact, owner[mine], unsure=not sure)
            )
    return trees, in_maps & ~in_trees


def _kinds(share: npt.NDArray[np.float64], restricted: Flags) -> Ints:
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


def _few_boxes(coded: _Coded) -> Flags:
    """Conditions with few alternatives."""
    alternatives = np.ones(coded.low.shape[1])
    choices = coded.choices
    if len(choices):
        begin = np.nonzero(_changing(choices.owner, choices.clause))[0]
        np.multiply.at(alternatives, choices.owner[begin], np.diff(np.append(begin, len(choices))))
    return alternatives <= MOST_BOXES


def _bytes_in_maps(sizes: Ints, exact: Flags) -> float:
    """What a condition takes in bitmaps."""
    coarse = bool((sizes > dense.MOST_BINS).any()) or not exact.all()
    return float(np.minimum(sizes, dense.MOST_BINS).sum()) / 8 * (2 if coarse else 1)


def _tree_cost(share: npt.NDArray[np.float64], boxes: int) -> float:
    """What a row costs in a tree, for nodes visited and matches, if values are spread over all codes.

    `share` has, by attribute, the mean share of codes that its boxes accept.
    """
    leaves = max(1.0, boxes / LANES)
    visited = leaves * sparse.tiled(np.sort(share), leaves)[1]
    return NODE * (1 + 1.3 * visited) + MATCH * boxes * float(np.prod(share))


def _tree(
    low: Codes, high: Codes, restricted: Flags, sharp: Flags, exact: Flags, owner: Ints, *, unsure: bool
) -> BoxTree:
    """The tree of some boxes; ranges that all have in common, with sharp ends, are no part of it."""
    alike = (low == low[:, :1]).all(axis=1) & (high == high[:, :1]).all(axis=1)
    looked_at = np.nonzero(restricted.any(axis=1) & ~(alike & sharp))[0]
    if not len(looked_at):
        looked_at = np.array([0])
    shared = np.setdiff1d(np.nonzero(restricted.any(axis=1))[0], looked_at)
    common = np.stack([shared, low[shared, 0], high[shared, 0]], axis=1).astype(np.int64)
    numbers = owner.astype(np.int32)
    return box_tree(looked_at, common, exact[looked_at], numbers, low[looked_at], high[looked_at], unsure=unsure)


def _boxes(coded: _Coded, chosen: Flags) -> tuple[Ints, Codes, Codes, Flags]:
    """Conditions as boxes, one for each choice of a piece from every clause: whose, low and high ends by attribute.

    Also by condition, whether a row may be in several of its boxes.
    """
    n = len(chosen)
    owner = np.nonzero(chosen)[0]
    low, high = coded.low[:, owner], coded.high[:, owner]
    rest = coded.choices.take(chosen[coded.choices.owner])
    several = np.zeros(n, np.bool_)
    several[rest.owner[rest.layer > 0]] = True
    several[_overlapping(rest)] = True
    while len(rest):  # the next clause of every condition that has one left
        begin = np.nonzero(_changing(rest.owner, rest.clause))[0]
        is_first = _changing(rest.owner)[begin]
        length = np.diff(np.append(begin, len(rest)))
        start_of, size_of = np.zeros(n, np.int64), np.ones(n, np.int64)
        start_of[rest.owner[begin[is_first]]] = begin[is_first]
        size_of[rest.owner[begin[is_first]]] = length[is_first]
        has = np.zeros(n, np.bool_)
        has[rest.owner] = True
        copies = size_of[owner]
        source = np.repeat(np.arange(len(owner)), copies)
        nth = np.arange(len(source)) - np.repeat(np.cumsum(copies) - copies, copies)
        owner, low, high = owner[source], low[:, source], high[:, source]
        concerned = np.nonzero(has[owner])[0]
        piece = start_of[owner[concerned]] + nth[concerned]
        a = rest.attribute[piece]
        low[a, concerned] = np.maximum(low[a, concerned], rest.low[piece])
        high[a, concerned] = np.minimum(high[a, concerned], rest.high[piece])
        rest = rest.take(~np.repeat(is_first, length))
    possible = (low <= high).all(axis=0)
    return owner[possible], low[:, possible], high[:, possible], several


def _overlapping(pieces: Pieces) -> Numbers32:
    """Owners of clauses over one attribute whose pieces have codes in common."""
    p = pieces.take(np.lexsort((pieces.low, pieces.attribute, pieces.clause, pieces.owner)))
    same = ~_changing(p.owner, p.clause, p.attribute)[1:]
    # of pieces sorted by their low ends, two neighbours have codes in common if any two have
    return p.owner[1:][same & (p.low[1:] <= p.high[:-1])]

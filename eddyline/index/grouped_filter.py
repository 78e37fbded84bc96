"""A grouped filter: which of many conditions does a row satisfy (document 1, section 3.2.6).

Conditions are in conjunctive normal form over attributes: `Terms`. Their ranges become ranges of codes (`domains.py`),
and every condition goes to the structure that finds it cheapest:

    bitmaps.py  conditions that accept one row in a hundred or more, and all of them while they are few
    boxes.py    the others, in one tree per set of attributes they restrict

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

Ints = npt.NDArray[np.int64]
Numbers32 = npt.NDArray[np.int32]
Codes = npt.NDArray[np.uint16]
Flags = npt.NDArray[np.bool_]
Words = npt.NDArray[np.uint64]
Route = Callable[[Bitmaps, Codes], Ints]

FEW = dense.BLOCK  # so many conditions are always worth one block of bitmaps
ACCEPTS_MANY = 0.01
MOST_BOXES = 16  # of one condition
SMALLEST_TREE = 64
MOST_TREES = 64
MOST_TOLD_APART = 60  # attributes
NARROW = 0.8  # an attribute of which a condition accepts more is not worth telling trees apart by


@dataclass(frozen=True)
class Ranges:
    """Ranges over one attribute: piece i of clause `clause[i]` of condition `owner[i]` accepts start <= x < stop.

    Unbounded ends are flagged. A piece with `null` accepts NULL and nothing else. Starts and stops are integers, or
    binary arrays for texts.
    """

    owner: Numbers32
    clause: Numbers32
    start: Ints | pa.Array
    stop: Ints | pa.Array
    no_start: Flags
    no_stop: Flags
    null: Flags


@dataclass(frozen=True)
class Terms:
    """Conditions 0 … size - 1: the ranges of every attribute, how many clauses each must satisfy, and which have a part
    beside that is no range."""

    size: int
    ranges: tuple[Ranges, ...]
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
    sets: list[Words] = field(default_factory=list)
    entered: list[Ints] = field(default_factory=list)


def grouped_filter(terms: Terms) -> GroupedFilter:
    """Indexes conditions. O(n log n)."""
    domains = tuple(_domain(r) for r in terms.ranges)
    pieces, standing = _pieces(terms, domains)
    exact = np.array([d.exact for d in domains], np.bool_)
    sizes = [d.size for d in domains]
    chosen = _for_trees(terms.size, pieces, sizes) & standing if int(standing.sum()) > FEW else np.zeros(terms.size, np.bool_)
    trees, left_over = _trees(chosen, pieces, sizes, exact, terms.partial)
    in_maps = standing & (~chosen | left_over)
    maps, partial = [], []
    for kind in (False, True):
        numbers = np.nonzero(in_maps & (terms.partial == kind))[0].astype(np.int32)
        if len(numbers):
            maps.append(bitmaps(numbers, _of(pieces, numbers, terms.size), sizes, exact))
            partial.append(kind)
    return GroupedFilter(terms.size, domains, tuple(trees), tuple(maps), tuple(partial))


def search(
    filter_: GroupedFilter, columns: Sequence[ValueColumn], rows: int, alive: Flags, route: Route, what: str
) -> Matches:
    """What the rows of a batch satisfy, among the conditions that are `alive` (all, if that is empty).

    `route` says for bitmaps and the codes of a batch in which order attributes are entered. `what` is "counts" or "lists".
    """
    codes = np.empty((len(filter_.domains), rows), np.uint16)
    for domain, column, found in zip(filter_.domains, columns, codes, strict=True):
        domain.codes(column, found)
    matches = Matches(np.zeros(rows, np.int64), Found.with_room(1024))
    for tree in filter_.trees:
        sparse.search(tree, codes, alive, matches.counts, matches.pairs, list_all=what == "lists")
    for maps, partial in zip(filter_.maps, filter_.partial, strict=True):
        room = (maps.blocks, rows, dense.WORDS) if what == "lists" or partial else (0, 0, dense.WORDS)
        sets = np.empty(room, np.uint64)
        counts = np.zeros(rows, np.int64) if partial else matches.counts
        order = route(maps, codes)
        matches.entered.append(dense.search(maps, codes, alive, order, counts, sets, matches.pairs))
        if partial:
            _turn(maps, sets, matches.pairs)
        elif what == "lists":
            matches.sets.append(sets)
    return matches


def _turn(maps: Bitmaps, sets: Words, pairs: Found) -> None:
    """Matches of partial conditions become unsure pairs."""
    rows, bits = dense.listed(sets)
    pairs.add(rows, ~maps.numbers[bits])


# --- building --------------------------------------------------------------------------------------------------------


def _domain(ranges: Ranges) -> Domain:
    starts, stops = ~(ranges.no_start | ranges.null), ~(ranges.no_stop | ranges.null)
    if isinstance(ranges.start, pa.Array):
        return texts_domain(pa.concat_arrays([ranges.start.filter(pa.array(starts)), ranges.stop.filter(pa.array(stops))]))
    return numbers_domain(np.concatenate([ranges.start[starts], ranges.stop[stops]]))


def _pieces(terms: Terms, domains: Sequence[Domain]) -> tuple[Pieces, Flags]:
    """The conditions in codes, clauses over one attribute merged where they can be; and which can hold at all."""
    parts = []
    for attribute, (ranges, domain) in enumerate(zip(terms.ranges, domains, strict=True)):
        low = np.where(ranges.no_start, NULL + 1, domain.first_codes(ranges.start)).astype(np.uint16)
        high = np.where(ranges.no_stop, domain.size - 1, domain.last_codes(ranges.stop)).astype(np.uint16)
        low[ranges.null], high[ranges.null] = NULL, NULL
        kept = low <= high
        parts.append((ranges.owner[kept], ranges.clause[kept], np.full(int(kept.sum()), attribute, np.int32), low[kept], high[kept]))
    if not any(len(p[0]) for p in parts):
        none = np.empty(0, np.int32)
        return Pieces(none, none, none, none, none.astype(np.uint16), none.astype(np.uint16)), terms.required == 0
    owner, clause, attribute, low, high = (np.concatenate(c) for c in zip(*parts, strict=True))
    order = np.lexsort((attribute, clause, owner))
    owner, clause, attribute, low, high = (c[order] for c in (owner, clause, attribute, low, high))
    new_clause = _changing(owner, clause)
    standing = np.bincount(owner[new_clause], minlength=terms.size) == terms.required
    # A clause whose pieces are of several attributes gets a layer above 0, numbered within its condition.
    begin = np.nonzero(new_clause)[0]
    mixed = np.maximum.reduceat(attribute, begin) != np.minimum.reduceat(attribute, begin)
    numbered = np.cumsum(mixed)
    first_of_owner = _changing(owner[begin])
    before = np.maximum.accumulate(np.where(first_of_owner, numbered - mixed, 0))
    layer = np.where(mixed, numbered - before, 0).astype(np.int32)
    lengths = np.diff(np.append(begin, len(owner)))
    pieces = Pieces(owner, np.repeat(layer, lengths), clause, attribute, low, high)
    pieces, possible = _met(pieces, np.repeat(lengths == 1, lengths), terms.size)
    order = np.lexsort((pieces.clause, pieces.layer, pieces.owner))
    return pieces.take(order), standing & possible


def _met(pieces: Pieces, single: Flags, size: int) -> tuple[Pieces, Flags]:
    """Clauses of one piece over the same attribute become one clause; a condition of which nothing is left cannot hold."""
    possible = np.ones(size, np.bool_)
    own, rest = pieces.take(single), pieces.take(~single)
    order = np.lexsort((own.attribute, own.owner))
    own = own.take(order)
    if not len(own):
        return pieces, possible
    begin = np.nonzero(_changing(own.owner, own.attribute))[0]
    low, high = np.maximum.reduceat(own.low, begin), np.minimum.reduceat(own.high, begin)
    possible[own.owner[begin][low > high]] = False
    own = own.take(begin)
    met = Pieces(own.owner, own.layer, own.clause, own.attribute, low, np.maximum(low, high))
    joined = (np.concatenate([getattr(met, n), getattr(rest, n)]) for n in Pieces.__dataclass_fields__)
    return Pieces(*joined), possible


def _changing(*columns: npt.NDArray[Any]) -> Flags:
    """Where a row differs from the one before; the first does."""
    found = np.zeros(len(columns[0]), np.bool_)
    found[:1] = True
    for c in columns:
        found[1:] |= c[1:] != c[:-1]
    return found


def _of(pieces: Pieces, numbers: Numbers32, size: int) -> Pieces:
    """The pieces of some conditions, numbered anew."""
    place = np.full(size, -1, np.int32)
    place[numbers] = np.arange(len(numbers), dtype=np.int32)
    mine = pieces.take(place[pieces.owner] >= 0)
    return Pieces(place[mine.owner], mine.layer, mine.clause, mine.attribute, mine.low, mine.high)


def _for_trees(size: int, pieces: Pieces, sizes: Sequence[int]) -> Flags:
    """Conditions that accept few rows, and have few alternatives."""
    share = np.asarray(sizes)[pieces.attribute]
    share = (pieces.high.astype(np.int64) - pieces.low + 1) / share
    begin = np.nonzero(_changing(pieces.owner, pieces.clause))[0]
    accepted = np.ones(size)
    alternatives = np.ones(size)
    if len(pieces):
        owner = pieces.owner[begin]
        np.multiply.at(accepted, owner, np.minimum(1.0, np.add.reduceat(share, begin)))
        np.multiply.at(alternatives, owner, np.diff(np.append(begin, len(pieces))))
    return (accepted < ACCEPTS_MANY) & (alternatives <= MOST_BOXES)


def _trees(chosen: Flags, pieces: Pieces, sizes: Sequence[int], exact: Flags, partial: Flags) -> tuple[list[BoxTree], Flags]:
    """One tree per set of attributes restricted; and which conditions are left over, for their set is too small."""
    left_over = np.zeros(len(chosen), np.bool_)
    if not chosen.any():
        return [], left_over
    owner, low, high, several = _boxes(pieces.take(chosen[pieces.owner]), sizes)
    top = np.array(sizes, np.uint16)[:, None] - np.uint16(1)
    needs_value = (low >= 1) & (high == top) & (low == 1)
    restricted = (low > 1) | (high < top)
    restricted_much = restricted & ((high.astype(np.int64) - low + 1) < NARROW * (top.astype(np.int64) + 1))
    narrow = restricted_much[:MOST_TOLD_APART]
    unsure = several[owner] | partial[owner]
    weight = 1 << np.arange(len(narrow), dtype=np.int64)
    kind = (narrow * weight[:, None]).sum(axis=0) * 2 + unsure
    kinds, which, count = np.unique(kind, return_inverse=True, return_counts=True)
    large = np.zeros(len(kinds), np.bool_)
    large[np.argsort(-count)[:MOST_TREES]] = True
    large &= count >= SMALLEST_TREE
    small = owner[~large[which]]
    left_over[small] = True
    whole = ~left_over[owner]  # a condition with one box in a small set leaves with all its boxes
    trees = []
    for k in np.nonzero(large)[0]:
        mine = np.nonzero((which == k) & whole)[0]
        if len(mine):
            looked_at = np.nonzero(restricted[:, mine].any(axis=1))[0]
            required = np.nonzero(needs_value[:, mine].all(axis=1))[0]
            looked_at = np.union1d(looked_at, np.setdiff1d(np.nonzero(needs_value[:, mine].any(axis=1))[0], required))
            if not len(looked_at):
                looked_at = np.array([0])
            trees.append(
                box_tree(
                    looked_at,
                    np.setdiff1d(required, looked_at),
                    exact[looked_at],
                    owner[mine].astype(np.int32),
                    low[np.ix_(looked_at, mine)],
                    high[np.ix_(looked_at, mine)],
                    unsure=bool(unsure[mine[0]]),
                )
            )
    return trees, left_over


def _boxes(pieces: Pieces, sizes: Sequence[int]) -> tuple[Numbers32, Codes, Codes, Flags]:
    """Conditions as boxes, one for each choice of a piece from every clause: whose, low and high ends by attribute.

    Also by condition, whether a row may be in several of its boxes.
    """
    n = int(pieces.owner.max(initial=-1)) + 1
    several = np.zeros(n, np.bool_)
    several[pieces.owner[pieces.layer > 0]] = True
    clause_number = np.cumsum(_changing(pieces.owner, pieces.clause)) - 1
    length = np.bincount(clause_number)
    owner = np.unique(pieces.owner)
    low = np.zeros((len(sizes), len(owner)), np.uint16)
    high = np.broadcast_to(np.array(sizes, np.uint16)[:, None] - np.uint16(1), low.shape).copy()
    place = np.full(n, -1, np.int64)
    place[owner] = np.arange(len(owner))
    alone = length[clause_number] == 1
    low[pieces.attribute[alone], place[pieces.owner[alone]]] = pieces.low[alone]
    high[pieces.attribute[alone], place[pieces.owner[alone]]] = pieces.high[alone]
    rest = pieces.take(~alone)
    several[_overlapping(rest)] = True
    while len(rest):  # the next clause of every condition that has one left
        begin = np.nonzero(_changing(rest.owner, rest.clause))[0]
        is_first = _changing(rest.owner)[begin]
        stop = np.append(begin[1:], len(rest))
        start_of, size_of = np.zeros(n, np.int64), np.ones(n, np.int64)
        start_of[rest.owner[begin[is_first]]] = begin[is_first]
        size_of[rest.owner[begin[is_first]]] = (stop - begin)[is_first]
        copies = size_of[owner]
        source = np.repeat(np.arange(len(owner)), copies)
        nth = np.arange(len(source)) - np.repeat(np.cumsum(copies) - copies, copies)
        owner, low, high = owner[source], low[:, source], high[:, source]
        grown = np.nonzero(copies[source] > 1)[0]
        piece = start_of[owner[grown]] + nth[grown]
        a = rest.attribute[piece]
        low[a, grown] = np.maximum(low[a, grown], rest.low[piece])
        high[a, grown] = np.minimum(high[a, grown], rest.high[piece])
        used = np.repeat(is_first, stop - begin)
        rest = rest.take(~used)
    possible = (low <= high).all(axis=0)
    return owner[possible].astype(np.int32), low[:, possible], high[:, possible], several


def _overlapping(pieces: Pieces) -> Numbers32:
    """Owners of clauses over one attribute whose pieces have codes in common."""
    order = np.lexsort((pieces.low, pieces.attribute, pieces.clause, pieces.owner))
    p = pieces.take(order)
    same = (p.owner[1:] == p.owner[:-1]) & (p.clause[1:] == p.clause[:-1]) & (p.attribute[1:] == p.attribute[:-1])
    # of pieces sorted by their low ends, two neighbours have codes in common if any two have
    return p.owner[1:][same & (p.low[1:] <= p.high[:-1])]

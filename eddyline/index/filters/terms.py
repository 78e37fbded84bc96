"""Conditions in columns: as ranges of values (`Terms`), and as ranges of codes (`Coded`).

Conditions are in conjunctive normal form over attributes: clauses that must all hold, each of one or several pieces of
which one must. Most clauses have a single piece; together they are a box, with one range of codes for each attribute.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline.arrays import Codes, Ints, Ints32, Mask
from eddyline.index.filters.domains import NULL, Domain, numbers_domain, texts_domain


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
    no_start: Mask
    no_stop: Mask
    null: Mask


@dataclass(frozen=True)
class Terms:
    """Conditions 0 … size - 1, by attribute: clauses of a single piece, each with its own owners, and the pieces of
    clauses that have several. Also how many clauses a condition must satisfy, and which have
    a part that is no range."""

    size: int
    single: tuple[tuple[Ranges, ...], ...]
    choices: tuple[Ranges | None, ...]
    required: Ints
    partial: Mask


@dataclass(frozen=True)
class Pieces:
    """Conditions in conjunctive normal form: a clause holds if one of its pieces does, a piece if low <= code <= high.

    Sorted by owner, then layer, then clause. `layer` is 0 for a clause over one attribute; a clause over several has a
    layer above 0, of which its owner has no other clause.
    """

    owner: Ints32
    layer: Ints32
    clause: Ints32
    attribute: Ints32
    low: Codes
    high: Codes

    def __len__(self) -> int:
        return len(self.owner)

    def take(self, which: npt.NDArray[np.bool_] | Ints) -> Pieces:
        return Pieces(*(getattr(self, n)[which] for n in self.__dataclass_fields__))

    @property
    def nbytes(self) -> int:
        return sum(getattr(self, n).nbytes for n in self.__dataclass_fields__)


@dataclass(frozen=True)
class Coded:
    """Conditions in codes: the box in which all clauses of a single piece hold, by attribute and condition, and whether
    its ends are at cuts, so that codes tell all about it; the pieces of the other clauses, sorted by owner, layer and
    clause; and which conditions can hold at all."""

    low: Codes
    high: Codes
    sharp: Mask
    choices: Pieces
    standing: Mask


def domain_of(single: Sequence[Ranges], choices: Ranges | None) -> Domain:
    parts = [*single, *([] if choices is None else [choices])]
    ends = []
    for r in parts:
        ends.append(_some(r.start, ~(r.no_start | r.null)))
        ends.append(_some(r.stop, ~(r.no_stop | r.null)))
    if isinstance(ends[0], pa.Array):
        return texts_domain(pa.concat_arrays(ends))
    return numbers_domain(np.concatenate(ends))


def _some(values: Ints | pa.Array, which: Mask) -> Ints | pa.Array:
    return values.filter(pa.array(which)) if isinstance(values, pa.Array) else values[which]


def _ends(ranges: Ranges, domain: Domain) -> tuple[Codes, Codes]:
    low = np.where(ranges.no_start, NULL + 1, domain.first_codes(ranges.start)).astype(np.uint16)
    high = np.where(ranges.no_stop, domain.size - 1, domain.last_codes(ranges.stop)).astype(np.uint16)
    low[ranges.null], high[ranges.null] = NULL, NULL
    return low, high


def coded(terms: Terms, domains: Sequence[Domain]) -> Coded:
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
        np.add.at(met, choices.owner[changing(choices.owner, choices.clause)], 1)
    standing = (met == terms.required) & (low <= high).all(axis=0)
    return Coded(low, high, sharp, choices, standing)


def number_ranges(terms: Terms) -> tuple[Ints, Ints, Mask]:
    """Conditions whose clauses have a single piece each, over numbers: the first and last integer that they accept, by
    attribute and condition, and which conditions can hold at all."""
    limits = np.iinfo(np.int64)
    shape = (len(terms.single), terms.size)
    low, high = np.full(shape, limits.min, np.int64), np.full(shape, limits.max, np.int64)
    met = np.zeros(terms.size, np.int64)
    for a, clauses in enumerate(terms.single):
        for r in clauses:
            first = np.where(r.no_start, limits.min, r.start)
            nothing = ~r.no_stop & (r.stop == limits.min)
            last = np.where(r.no_stop, limits.max, r.stop - ~nothing)
            low[a, r.owner] = np.maximum(low[a, r.owner], first)
            high[a, r.owner] = np.minimum(high[a, r.owner], last)
            met[r.owner[~nothing]] += 1
    return low, high, (met == terms.required) & (low <= high).all(axis=0)


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
    begin = np.nonzero(changing(pieces.owner, pieces.clause))[0]
    mixed = np.maximum.reduceat(pieces.attribute, begin) != np.minimum.reduceat(pieces.attribute, begin)
    numbered = np.cumsum(mixed)
    before = np.maximum.accumulate(np.where(changing(pieces.owner[begin]), numbered - mixed, 0))
    layer = np.where(mixed, numbered - before, 0).astype(np.int32)
    layer = np.repeat(layer, np.diff(np.append(begin, len(pieces))))
    pieces = Pieces(pieces.owner, layer, pieces.clause, pieces.attribute, pieces.low, pieces.high)
    return pieces.take(np.lexsort((pieces.clause, pieces.layer, pieces.owner)))


def _joined(parts: Sequence[Pieces]) -> Pieces:
    return Pieces(*(np.concatenate([getattr(p, n) for p in parts]) for n in Pieces.__dataclass_fields__))


def changing(*columns: npt.NDArray[Any]) -> Mask:
    """Where a row differs from the one before; the first does."""
    found = np.zeros(len(columns[0]), np.bool_)
    found[:1] = True
    for c in columns:
        found[1:] |= c[1:] != c[:-1]
    return found


def pieces_of(coded: Coded, numbers: Ints, sizes: Ints) -> Pieces:
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

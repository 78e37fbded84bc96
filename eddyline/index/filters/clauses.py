"""Conditions of many queries in conjunctive normal form, in columns: as ranges of values, then as ranges of codes.

A *condition* is the filter of one query; it is identified by its query slot, 0 … size - 1. It holds if all of its
*clauses* hold. A clause is one *range* over an attribute, or several *alternatives*, ranges over the same or different
attributes, of which one must accept the row. Most clauses are single ranges; together they are a box, with one range of
codes (`domains.py`) for each attribute.

A clause with alternatives over several attributes stands in a *layer* above 0, of which its condition has no other
clause; clauses over one attribute are in layer 0. (Document 1, section 3.2.7.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline.arrays import Codes, Ints, Ints32, Mask
from eddyline.index.filters.domains import NULL, Domain, numbers_domain, texts_domain


class ValueRanges(NamedTuple):
    """Ranges over one attribute: range i belongs to a clause of the condition owner[i] and accepts start <= x < stop.

    Unbounded ends are flagged. A range with `null` accepts NULL and nothing else. Starts and stops are integers, or
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
class Conditions:
    """Conditions as ranges of values.

    By attribute, `single` has the clauses that are one range, at most one range of a condition in each element, and
    `alternatives` the ranges of all other clauses. `required` is the number of clauses of each condition. A `partial`
    condition also has a part that is no range, so a row that its ranges accept is only a candidate.
    """

    size: int
    single: tuple[tuple[ValueRanges, ...], ...]
    alternatives: tuple[ValueRanges | None, ...]
    required: Ints
    partial: Mask


class CodeRanges(NamedTuple):
    """Ranges of codes: range i accepts low <= code <= high. Sorted by owner, then layer, then clause."""

    owner: Ints32
    layer: Ints32
    clause: Ints32
    attribute: Ints32
    low: Codes
    high: Codes

    def take(self, which: Mask | Ints) -> CodeRanges:
        return CodeRanges._make(column[which] for column in self)


@dataclass(frozen=True)
class CodedConditions:
    """Conditions as ranges of codes.

    `low` and `high` are, by attribute and condition, the box in which all single ranges hold. `exact_ends` says whether
    codes at the ends of a box decide, because the ends are kept cuts. `satisfiable` flags the conditions that can hold.
    """

    low: Codes
    high: Codes
    exact_ends: Mask
    alternatives: CodeRanges
    satisfiable: Mask


def domain_of(single: Sequence[ValueRanges], alternatives: ValueRanges | None) -> Domain:
    """The domain that the ends of all ranges over an attribute define."""
    ends = []
    for r in [*single, *([] if alternatives is None else [alternatives])]:
        ends.append(_selected(r.start, ~(r.no_start | r.null)))
        ends.append(_selected(r.stop, ~(r.no_stop | r.null)))
    if isinstance(ends[0], pa.Array):
        return texts_domain(pa.concat_arrays(ends))
    return numbers_domain(np.concatenate(ends))


def _selected(values: Ints | pa.Array, which: Mask) -> Ints | pa.Array:
    return values.filter(pa.array(which)) if isinstance(values, pa.Array) else values[which]


def _coded_ends(ranges: ValueRanges, domain: Domain) -> tuple[Codes, Codes]:
    low = np.where(ranges.no_start, NULL + 1, domain.first_codes(ranges.start)).astype(np.uint16)
    high = np.where(ranges.no_stop, domain.size - 1, domain.last_codes(ranges.stop)).astype(np.uint16)
    low[ranges.null], high[ranges.null] = NULL, NULL
    return low, high


def coded(conditions: Conditions, domains: Sequence[Domain]) -> CodedConditions:
    """Conditions in the codes of these domains, one for each attribute. O(ranges)."""
    shape = (len(domains), conditions.size)
    low, high, exact_ends = np.zeros(shape, np.uint16), np.empty(shape, np.uint16), np.ones(shape, np.bool_)
    met = np.zeros(conditions.size, np.int64)  # by condition: the clauses that can hold
    for a, domain in enumerate(domains):
        high[a] = domain.size - 1
        for r in conditions.single[a]:
            first, last = _coded_ends(r, domain)
            low[a, r.owner] = np.maximum(low[a, r.owner], first)
            high[a, r.owner] = np.minimum(high[a, r.owner], last)
            met[r.owner] += 1
            if not domain.exact:
                exact_ends[a, r.owner] &= r.no_start | r.null | (first != domain.last_codes(r.start))
                exact_ends[a, r.owner] &= r.no_stop | r.null | (last != domain.first_codes(r.stop))
    by_attribute = enumerate(zip(conditions.alternatives, domains, strict=True))
    alternatives = _layered([_coded_alternatives(r, d, a) for a, (r, d) in by_attribute if r is not None])
    np.add.at(met, alternatives.owner[changing(alternatives.owner, alternatives.clause)], 1)
    satisfiable = (met == conditions.required) & (low <= high).all(axis=0)
    return CodedConditions(low, high, exact_ends, alternatives, satisfiable)


def number_ranges(conditions: Conditions) -> tuple[Ints, Ints, Mask]:
    """Conditions of single ranges over numbers only: the first and last integer that they accept, by attribute and
    condition, and which conditions can hold."""
    limits = np.iinfo(np.int64)
    shape = (len(conditions.single), conditions.size)
    low, high = np.full(shape, limits.min, np.int64), np.full(shape, limits.max, np.int64)
    met = np.zeros(conditions.size, np.int64)
    for a, clauses in enumerate(conditions.single):
        for r in clauses:
            first = np.where(r.no_start, limits.min, r.start)
            nothing = ~r.no_stop & (r.stop == limits.min)
            last = np.where(r.no_stop, limits.max, r.stop - ~nothing)
            low[a, r.owner] = np.maximum(low[a, r.owner], first)
            high[a, r.owner] = np.minimum(high[a, r.owner], last)
            met[r.owner[~nothing]] += 1
    return low, high, (met == conditions.required) & (low <= high).all(axis=0)


def _coded_alternatives(ranges: ValueRanges, domain: Domain, attribute: int) -> CodeRanges:
    low, high = _coded_ends(ranges, domain)
    owner, clause = ranges.owner.astype(np.int32), ranges.clause.astype(np.int32)
    everywhere = np.full(len(owner), attribute, np.int32)
    return CodeRanges(owner, np.zeros_like(owner), clause, everywhere, low, high).take(low <= high)


def _layered(parts: Sequence[CodeRanges]) -> CodeRanges:
    """All ranges, sorted; the clauses of a condition over several attributes get the layers 1, 2, …"""
    none = np.empty(0, np.int32)
    empty = CodeRanges(none, none, none, none, none.astype(np.uint16), none.astype(np.uint16))
    ranges = _joined([empty, *parts])
    ranges = ranges.take(np.lexsort((ranges.clause, ranges.owner)))
    if not len(ranges.owner):
        return ranges
    begin = np.nonzero(changing(ranges.owner, ranges.clause))[0]
    mixed = np.maximum.reduceat(ranges.attribute, begin) != np.minimum.reduceat(ranges.attribute, begin)
    running = np.cumsum(mixed)
    before = np.maximum.accumulate(np.where(changing(ranges.owner[begin]), running - mixed, 0))
    layer = np.where(mixed, running - before, 0).astype(np.int32)
    ranges = ranges._replace(layer=np.repeat(layer, np.diff(np.append(begin, len(ranges.owner)))))
    return _sorted(ranges)


def _joined(parts: Sequence[CodeRanges]) -> CodeRanges:
    return CodeRanges._make(np.concatenate(columns) for columns in zip(*parts, strict=True))


def _sorted(ranges: CodeRanges) -> CodeRanges:
    return ranges.take(np.lexsort((ranges.clause, ranges.layer, ranges.owner)))


def changing(*columns: npt.NDArray[Any]) -> Mask:
    """Flags the first row, and every row that differs from the one before."""
    changes = np.zeros(len(columns[0]), np.bool_)
    changes[:1] = True
    for c in columns:
        changes[1:] |= c[1:] != c[:-1]
    return changes


def code_ranges(coded: CodedConditions, slots: Ints, sizes: Ints) -> CodeRanges:
    """The conditions of these slots as ranges; owner i is slots[i]. Their boxes become one clause per attribute."""
    low, high = coded.low[:, slots], coded.high[:, slots]
    restricted = np.nonzero((low > NULL) | (high < sizes[:, None] - 1))
    attribute, owner = (x.astype(np.int32) for x in restricted)
    boxes = CodeRanges(owner, np.zeros_like(owner), attribute, attribute, low[attribute, owner], high[attribute, owner])
    new_owner = np.full(coded.low.shape[1], -1, np.int32)
    new_owner[slots] = np.arange(len(slots), dtype=np.int32)
    rest = coded.alternatives.take(new_owner[coded.alternatives.owner] >= 0)
    rest = rest._replace(owner=new_owner[rest.owner], clause=rest.clause + np.int32(len(sizes)))
    return _sorted(_joined([boxes, rest]))

"""Random conditions in conjunctive normal form, as `Conditions` and as plain lists, and their truth by plain Python."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa

from eddyline.arrays import Ints, Mask
from eddyline.index.filters.clauses import Conditions, ValueRanges
from eddyline.index.filters.domains import ValueColumn, value_column


@dataclass(frozen=True)
class Range:
    """start <= x < stop, None for no end; or NULL and nothing else."""

    attribute: int
    start: Any = None
    stop: Any = None
    null: bool = False

    def accepts(self, value: Any) -> bool:
        if value is None or self.null:
            return value is None and self.null
        return (self.start is None or self.start <= value) and (self.stop is None or value < self.stop)


Condition = list[list[Range]]  # clauses that must all hold, of each of which one range must accept


@dataclass(frozen=True)
class Kind:
    """What random conditions look like: a letter per attribute, "n" for numbers and "t" for texts."""

    attributes: str = "nnt"
    spread: int = 30  # values are 0 … spread
    width: int = 8  # ranges are about so wide
    clauses: int = 3
    alternatives: int = 3
    mixed: float = 0.3  # alternatives over several attributes
    odd: float = 0.1  # unbounded ends, NULL, empty ranges, and each as often


def holds(condition: Condition, row: list[Any]) -> bool:
    return all(any(p.accepts(row[p.attribute]) for p in clause) for clause in condition)


def a_value(rnd: Random, kind: Kind, attribute: int, number: int) -> Any:
    """The number itself, or a text in the same order."""
    return number if kind.attributes[attribute] == "n" else b"%05d" % max(number, 0)


def a_range(rnd: Random, kind: Kind, attribute: int) -> Range:
    if rnd.random() < kind.odd:
        return Range(attribute, null=True)
    start = rnd.randint(0, kind.spread)
    stop = start if rnd.random() < kind.odd else start + rnd.randint(1, kind.width)
    if rnd.random() < kind.odd:
        stop = start - rnd.randint(1, 3)
    low, high = a_value(rnd, kind, attribute, start), a_value(rnd, kind, attribute, stop)
    return Range(attribute, None if rnd.random() < kind.odd else low, None if rnd.random() < kind.odd else high)


def a_condition(rnd: Random, kind: Kind) -> Condition:
    clauses: Condition = []
    for _ in range(rnd.randint(0, kind.clauses)):
        own = rnd.randrange(len(kind.attributes))
        mixed = rnd.random() < kind.mixed
        many = rnd.choice([1, 1, 1, rnd.randint(1, kind.alternatives)])
        several = [rnd.randrange(len(kind.attributes)) if mixed else own for _ in range(many)]
        clauses.append([a_range(rnd, kind, a) for a in several])
    if rnd.random() < 0.02:
        clauses.append([])
    return clauses


def a_row(rnd: Random, kind: Kind) -> list[Any]:
    return [
        None if rnd.random() < 0.1 else a_value(rnd, kind, a, rnd.randint(-2, kind.spread + kind.width))
        for a in range(len(kind.attributes))
    ]


def _texts(values: list[Any]) -> Any:
    return pa.array(values, pa.large_binary())


def _numbers(values: list[Any]) -> Any:
    return np.array(values, np.int64)


def _ranges(letter: str, mine: list[tuple[int, int, Range]]) -> ValueRanges:
    """Ranges over one attribute, each with its condition and clause, in columns."""
    starts, stops = [p.start for *_, p in mine], [p.stop for *_, p in mine]
    filler, as_column = (b"", _texts) if letter == "t" else (0, _numbers)
    ends = [as_column([filler if e is None else e for e in side]) for side in (starts, stops)]
    null = np.array([p.null for *_, p in mine], np.bool_)
    return ValueRanges(
        np.array([i for i, *_ in mine], np.int64),
        np.array([j for _, j, _ in mine], np.int64),
        ends[0],
        ends[1],
        np.array([s is None for s in starts], np.bool_) | null,
        np.array([s is None for s in stops], np.bool_) | null,
        null,
    )


def as_conditions(kind: Kind, conditions: list[Condition], partial: Mask) -> Conditions:
    """Clauses of one range stand by themselves, some among the alternatives, where a single one is allowed too."""
    single: list[tuple[ValueRanges, ...]] = []
    alternatives: list[ValueRanges | None] = []
    for a, letter in enumerate(kind.attributes):
        levels: list[list[tuple[int, int, Range]]] = [[]]
        chosen = []
        for i, c in enumerate(conditions):
            level = 0
            for j, clause in enumerate(c):
                mine = [(i, j, p) for p in clause if p.attribute == a]
                if len(clause) > 1 or (i + j) % 5 == 4:
                    chosen += mine
                elif mine:
                    levels.extend([] for _ in range(level + 1 - len(levels)))
                    levels[level] += mine
                    level += 1
        single.append(tuple(_ranges(letter, x) for x in levels))
        alternatives.append(_ranges(letter, chosen) if chosen else None)
    required = np.array([len(c) for c in conditions], np.int64)
    return Conditions(len(conditions), tuple(single), tuple(alternatives), required, partial)


def as_columns(kind: Kind, rows: list[list[Any]]) -> list[ValueColumn]:
    found = []
    for a, letter in enumerate(kind.attributes):
        values = [r[a] for r in rows]
        texts = pa.array(values, pa.binary()).cast(pa.string()) if letter == "t" else pa.array(values, pa.int64())
        found.append(value_column(texts))
    return found


def truth(conditions: list[Condition], rows: list[list[Any]], alive: Mask, beside: Ints) -> set[tuple[int, int]]:
    """(row, slot) of what holds; `beside` has for partial conditions the remainder of rows that pass, else -1."""
    return {
        (r, i)
        for i, c in enumerate(conditions)
        if not len(alive) or alive[i]
        for r, row in enumerate(rows)
        if (beside[i] < 0 or r % 3 == beside[i]) and holds(c, row)
    }

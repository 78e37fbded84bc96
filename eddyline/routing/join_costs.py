"""Cost model of joins over ranges: the expected cost of each strategy per tuple, and the choice of the cheapest.

The cost of a strategy is a weighted sum of terms: the groups, the queries that accept the tuple, its partners, all
queries; a search among m partners takes log m. The document searches trees of rectangles (the square root of a group);
this implementation scans bitmaps (the words of a group). With several axes, the bitmap of a group is scanned once per
row that the group reaches, about twice the rows in a range; with windows, once per row of a skyline, about the
logarithm of those. The other strategies compare queries with these rows one by one.
The weights are measured on this machine (`calibration.py`) for each of the three kinds, and for few and for many
queries, because the data of few queries fits into the CPU caches. (Document 4, section 4.)
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from eddyline.arrays import Bytes, Doubles
from eddyline.index.ranges.range_groups import RangeGroups
from eddyline.index.ranges.range_search import STRATEGIES

Kind = Literal["ranges", "windows", "boxes"]


@dataclass(frozen=True)
class Shape:
    """What the costs depend on, of the queries: their count, words of bitmaps, groups, own attributes, the share of the
    axis that an average range covers, and the kind: ranges on one axis, on one axis with windows, or on several."""

    queries: int
    words: int
    groups: int
    hot_groups: int
    hot_words: int
    attributes: int
    covered: float
    kind: Kind

    @classmethod
    def of(cls, groups: RangeGroups) -> Shape:
        columns = groups.columns
        kind: Kind = "windows" if columns.around_zero else "ranges" if len(columns.ranges.low) == 1 else "boxes"
        return cls(
            queries=len(groups),
            words=groups.words,
            groups=len(columns.stabbing.points),
            hot_groups=columns.hot,
            hot_words=int(columns.stabbing.word_starts[columns.hot]),
            attributes=len(columns.own.widths) // 2,
            covered=_covered(groups),
            kind=kind,
        )


def _covered(groups: RangeGroups) -> float:
    """The share of the axis, between the first and the last point of a group, that an average range covers."""
    points = groups.columns.stabbing.points
    low, high = groups.columns.ends[groups.bits].T.astype(np.float64)
    first, last = float(points.min(initial=0)), float(points.max(initial=0))
    widths = np.clip(high, first, last) - np.clip(low, first, last)
    return float(widths.mean() / (last - first)) if last > first else 1.0


@dataclass(frozen=True)
class Expected:
    """What the costs depend on, per tuple: its partners (m'), the queries that accept it (n'), and those of them that
    are in no hotspot (n'')."""

    partners: Doubles
    accepting: Doubles
    scattered: Doubles


def terms(strategy: str, shape: Shape, expected: Expected) -> dict[str, Doubles | float]:
    """The multiplicity of each term for each tuple."""
    search = np.log2(expected.partners + 2.0)
    held = expected.partners * shape.covered  # rows in an average range
    passes = float(shape.words * (1 + 2 * shape.attributes))
    counts: dict[str, Doubles | float] = {"tuple": 1.0, "pass": passes}
    if strategy in ("ssi", "hotspot"):
        all_of_them = shape.groups, shape.words
        groups, words = all_of_them if strategy == "ssi" else (shape.hot_groups, shape.hot_words)
        counts |= {"group": float(groups), "group search": groups * search}
        if shape.kind != "ranges":
            rows = np.log2(held + 2.0) if shape.kind == "windows" else 2.0 * held + 1.0
            counts |= {"row": groups * rows, "row pass": words * rows}
    checks: Doubles | None = None  # queries that are compared with rows one by one
    if strategy == "hotspot":
        checks = expected.scattered
    elif strategy in ("select_first", "vanilla"):
        checks = expected.accepting
    elif strategy != "ssi" and shape.kind != "ranges":
        checks = expected.accepting * (1.0 - np.exp(-held))
    if checks is not None:
        counts |= {"check": checks, "check search": checks * search}
        if shape.kind == "boxes":
            counts["check row"] = checks * held
    if strategy in ("join_first", "merge"):
        counts["partner"] = expected.partners
    if strategy == "join_first":
        counts["partner pass"] = expected.partners * shape.words
    if strategy in ("merge", "vanilla"):
        counts["number"] = float(shape.queries)
    return counts


FEW, MANY = 20_000, 300_000  # queries
COLD = 1_000.0  # nanoseconds per group that is not in the CPU caches: its data lies in several places

Weights = dict[str, dict[str, float]]  # nanoseconds for each term of each strategy


@dataclass(frozen=True)
class JoinCosts:
    """Weights for few and for many queries; interpolated between them by the logarithm of their number."""

    few: Weights
    many: Weights

    def of(self, strategy: str, shape: Shape, expected: Expected) -> Doubles:
        """Expected nanoseconds per tuple."""
        few, many = self.few[strategy], self.many[strategy]
        share = float(np.clip(np.log(max(shape.queries, 1) / FEW) / np.log(MANY / FEW), 0.0, 1.0))
        total: Any = np.zeros(len(expected.partners))
        for term, times in terms(strategy, shape, expected).items():
            total = total + ((1.0 - share) * few[term] + share * many[term]) * times
        return np.asarray(total, np.float64)

    def choose(self, shape: Shape, expected: Expected) -> tuple[Bytes, Doubles]:
        """The strategy of each tuple, and its expected cost.

        It is the strategy that is cheapest for all tuples together, or another one where that saves more than loading
        its data into the CPU caches costs."""
        costs = np.stack([self.of(s, shape, expected) for s in STRATEGIES])
        cold = np.array([COLD * {"ssi": shape.groups, "hotspot": shape.hot_groups}.get(s, 0) for s in STRATEGIES])
        best = np.full(costs.shape[1], costs.sum(axis=1).argmin())
        while True:
            current = costs[best, np.arange(costs.shape[1])]
            gains = np.maximum(current - costs, 0.0).sum(axis=1) - cold
            if not len(current) or gains.max() <= 0.0:
                return best.astype(np.uint8), current
            better = gains.argmax()
            best = np.where(costs[better] < current, better, best)


@cache
def default_costs() -> dict[Kind, JoinCosts]:
    """The costs of a machine with two cores (x86-64), in a file as `calibration.py` writes it."""
    return read_costs(Path(__file__).with_name("default_costs.json").read_text())


def read_costs(text: str) -> dict[Kind, JoinCosts]:
    """Parses costs; raises if a term of `terms` has no weight."""
    sizes, costs = json.loads(text), dict[Kind, JoinCosts]()
    for kind in get_args(Kind):
        costs[kind] = JoinCosts(sizes[kind]["few"], sizes[kind]["many"])
        shape, expected = Shape(1, 1, 1, 1, 1, 1, 1.0, kind), Expected(*np.ones((3, 1)))
        if not all(np.isfinite(costs[kind].of(s, shape, expected)).all() for s in STRATEGIES):
            raise ValueError(f"the costs of {kind} are no numbers")
    return costs

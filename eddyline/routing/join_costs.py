"""What each strategy costs a tuple of a join over ranges, and which is the cheapest (document 4, section 4).

The formulas have the document's shape: a strategy costs so much for every group, for every number that accepts the
tuple, for every partner, for every number at all; searches among m partners take log m. Where the document searches
trees of rectangles (the square root of a group), sets of bits are passed over here (its words). The weights of these
terms are fitted to this machine (`calibration.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from eddyline.index.range_groups import RangeGroups
from eddyline.index.range_search import STRATEGIES

Doubles = npt.NDArray[np.float64]
Codes8 = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Shape:
    """What the costs depend on, of the queries: their number, words of bits, groups, and own attributes."""

    numbers: int
    words: int
    groups: int
    hot_groups: int
    attributes: int

    @classmethod
    def of(cls, groups: RangeGroups) -> Shape:
        return cls(len(groups), groups.words, len(groups.points), groups.hot, len(groups.own.widths) // 2)


@dataclass(frozen=True)
class Expected:
    """What the costs depend on, by tuple: its partners (m'), the numbers that accept it (n'), and those among them that
    are in no hotspot (n'')."""

    partners: Doubles
    accepting: Doubles
    scattered: Doubles


def terms(strategy: str, shape: Shape, expected: Expected) -> dict[str, Doubles | float]:
    """How often each term counts for a tuple."""
    search = np.log2(expected.partners + 2.0)
    passes = float(shape.words * (1 + 2 * shape.attributes))
    found: dict[str, Doubles | float] = {"tuple": 1.0, "pass": passes}
    if strategy in ("ssi", "hotspot"):
        groups = shape.groups if strategy == "ssi" else shape.hot_groups
        found |= {"group": float(groups), "group search": groups * search}
    if strategy == "hotspot":
        found["check"] = expected.scattered * search
    if strategy in ("select_first", "vanilla"):
        found["check"] = expected.accepting * search
    if strategy in ("join_first", "merge"):
        found["partner"] = expected.partners
    if strategy == "join_first":
        found["partner pass"] = expected.partners * shape.words
    if strategy in ("merge", "vanilla"):
        found["number"] = float(shape.numbers)
    return found


@dataclass(frozen=True)
class JoinCosts:
    """Nanoseconds for each term of each strategy."""

    weights: dict[str, dict[str, float]]

    def of(self, strategy: str, shape: Shape, expected: Expected) -> Doubles:
        """Expected nanoseconds, by tuple."""
        own = self.weights[strategy]
        total: Any = np.zeros(len(expected.partners))
        for term, times in terms(strategy, shape, expected).items():
            total = total + own.get(term, 0.0) * times
        return np.asarray(total, np.float64)

    def choose(self, shape: Shape, expected: Expected) -> tuple[Codes8, Doubles]:
        """The cheapest strategy of each tuple, and what it is expected to cost."""
        costs = np.stack([self.of(s, shape, expected) for s in STRATEGIES])
        best = costs.argmin(axis=0)
        return best.astype(np.uint8), costs[best, np.arange(costs.shape[1])]


DEFAULT = JoinCosts(
    {
        "ssi": {"tuple": 300.0, "pass": 0.4, "group": 30.0, "group search": 4.0},
        "hotspot": {"tuple": 300.0, "pass": 0.4, "group": 30.0, "group search": 4.0, "check": 8.0},
        "select_first": {"tuple": 300.0, "pass": 0.4, "check": 8.0},
        "join_first": {"tuple": 300.0, "pass": 0.4, "partner": 200.0, "partner pass": 0.6},
        "merge": {"tuple": 300.0, "pass": 0.4, "partner": 2.0, "number": 4.0},
        "vanilla": {"tuple": 300.0, "pass": 0.4, "number": 3.0, "check": 8.0},
    }
)

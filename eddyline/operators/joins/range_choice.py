"""Choices of a join over ranges by statistics: the axis by which queries are grouped, and the strategy of each tuple.

The number of partners of a tuple is known (m'). Histograms estimate the number of queries that accept its own
attributes (n'), and how many of those are in no hotspot (n''). Attributes are assumed to be independent.
`routing/join_costs.py` has the costs of the strategies. (Document 4, section 4.1.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from threading import Lock

import numpy as np

from eddyline.arrays import Bytes, Doubles, Ints
from eddyline.index.filters.domains import sortable
from eddyline.index.ranges.histograms import BUCKETS, Histogram, near_optimal
from eddyline.index.ranges.probes import DOUBLES, Probes
from eddyline.index.ranges.range_groups import RangeGroups
from eddyline.index.ranges.range_search import STRATEGIES
from eddyline.routing.calibration import WORTH_MEASURING, join_costs
from eddyline.routing.join_costs import Expected, Shape, default_costs

SAMPLE = 32  # values


class Acceptance:
    """Estimates how many queries accept a tuple's own attributes: of all, or of those in no hotspot."""

    def __init__(self, groups: RangeGroups, which: Ints) -> None:
        """`which` are the bits of the queries that are counted."""
        low, high = groups.own_ranges
        self.size = len(which)
        buckets = max(1, min(BUCKETS, round(2.2 * len(which) ** (1 / 3))))  # building one costs O(queries + buckets³)
        self.histograms: list[Histogram] = [
            near_optimal(a[which], b[which], buckets) for a, b in zip(low, high, strict=True)
        ]

    def estimate(self, own: Ints) -> Doubles:
        """The estimate for each tuple; `own` has each attribute followed by its complement."""
        accepting = np.full(own.shape[1], float(self.size))
        for histogram, values in zip(self.histograms, own[::2], strict=True):
            accepting *= np.clip(histogram.estimate(values) / max(self.size, 1), 0.0, 1.0)
        return accepting


class Estimates:
    """Estimates for the tuples that probe a run of queries."""

    def __init__(self, groups: RangeGroups) -> None:
        self.shape = Shape.of(groups)
        bits = groups.bits
        self.all = Acceptance(groups, bits)
        self.scattered = Acceptance(groups, bits[bits >= 64 * groups.columns.stabbing.word_starts[groups.columns.hot]])

    def choose(self, probes: Probes) -> tuple[Bytes, Doubles]:
        """The strategy of each tuple and its expected nanoseconds."""
        partners, own = probes.partners, probes.arrivals.own
        m = (partners.end - partners.begin).sum(axis=0).astype(np.float64)
        expected = Expected(m, self.all.estimate(own), self.scattered.estimate(own))
        kind = self.shape.kind
        costs = join_costs(kind) if self.shape.queries >= WORTH_MEASURING else default_costs()[kind]
        return costs.choose(self.shape, expected)


@dataclass
class Decisions:
    """The strategies chosen so far, their expected and their measured time; several threads add to it."""

    tuples: dict[str, int] = field(default_factory=dict)
    expected: float = 0.0  # seconds
    measured: float = 0.0
    _lock: Lock = field(default_factory=Lock)

    def add(self, strategies: Bytes, expected: float, measured: float) -> None:
        counts = np.bincount(strategies, minlength=len(STRATEGIES)).tolist()
        with self._lock:
            for strategy, n in zip(STRATEGIES, counts, strict=True):
                if n:
                    self.tuples[strategy] = self.tuples.get(strategy, 0) + n
            self.expected += expected
            self.measured += measured


def selectivity(kind: int, direction: int, values: Ints, shifts: Ints, low: Ints, high: Ints) -> float:
    """The share of triples (row, tuple, range) along an axis in which the row is in the range."""
    if not len(values) or not len(shifts) or not len(low):
        return 1.0
    if kind == DOUBLES:
        with np.errstate(invalid="ignore", over="ignore"):
            far = direction * (values.view(np.float64)[:, None] - shifts.view(np.float64))
        places = sortable(far.reshape(-1))
    else:
        places = (direction * (values[:, None] - shifts)).reshape(-1)
    return float(((low[:, None] <= places) & (places <= high[:, None])).mean())


def some(values: Ints) -> Ints:
    """A sample of the values, evenly spaced."""
    return values[:: max(1, len(values) // SAMPLE)]


def most_selective(shares: Sequence[float]) -> tuple[int, ...]:
    """The axes, most selective first."""
    return tuple(int(i) for i in np.argsort(shares, kind="stable"))

"""A join of several windows as a graph, and the statistics from which probe orders are chosen.

The graph is fixed by the query: classes of equal keys (closed transitively) and other predicates over two or more
inputs. The statistics are measured while the join runs. Inputs, classes and predicates are numbered from 0.
Any unit of time will do, as long as rates and intervals use the same one. (Document 2, sections 4 and 5.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple

Inputs = frozenset[int]


@dataclass(frozen=True)
class JoinGraph:
    """`equalities`: for each class of equal keys, the inputs that have a key in it.
    `thetas`: for each other predicate, the inputs that it reads."""

    inputs: int
    equalities: tuple[Inputs, ...] = ()
    thetas: tuple[Inputs, ...] = ()

    def __post_init__(self) -> None:
        for members in (*self.equalities, *self.thetas):
            if not members or not members <= self.everything:
                raise ValueError(f"{sorted(members)} are not inputs of a join of {self.inputs}")

    @classmethod
    def on_common_key(cls, inputs: int) -> JoinGraph:
        return cls(inputs, (frozenset(range(inputs)),))

    @property
    def everything(self) -> Inputs:
        return frozenset(range(self.inputs))

    def usable(self, bound: Inputs, new: int) -> tuple[int, ...]:
        """The classes by which rows of `new` can be looked up from partial results over the bound inputs."""
        return tuple(c for c, members in enumerate(self.equalities) if new in members and members & bound)

    def extensions(self, bound: Inputs) -> tuple[int, ...]:
        """The inputs that may be probed next: those a predicate connects, or all if that leaves only cross products."""
        waiting = sorted(self.everything - bound)
        connected = tuple(i for i in waiting if not bound or self._connects(bound, i))
        return connected or tuple(waiting)

    def _connects(self, bound: Inputs, new: int) -> bool:
        after = bound | {new}
        return bool(self.usable(bound, new)) or any(new in t and len(t) > 1 and t <= after for t in self.thetas)


@dataclass(frozen=True)
class InputStatistics:
    """An input of a join: arrivals per unit of time, stored rows, and for each class of its keys the distinct values.

    `buckets` is the number of hash buckets: 1 if the window is scanned, infinity if an index finds exactly the rows of
    a key. `lookup` is what a search in the index costs by itself, in comparisons; the document counts it as 0.
    """

    rate: float
    rows: float
    distinct: Mapping[int, float]
    buckets: float = inf
    lookup: float = 0.0


@dataclass(frozen=True)
class ThetaStatistics:
    """The share of rows that satisfy a predicate, and its cost in comparisons, beyond reading the row itself.
    A predicate that costs nothing is applied as soon as its inputs are bound."""

    selectivity: float
    cost: float = 0.0

    @property
    def rank(self) -> float:
        """Rows removed per cost, negated: predicates that are evaluated at the same point go by ascending rank."""
        return (self.selectivity - 1.0) / self.cost if self.cost else -inf


@dataclass(frozen=True)
class JoinStatistics:
    """`domains`: by class and two of its inputs in ascending order, the number of values among which their keys are
    equal as often as measured. Without a measurement it is the larger number of distinct values, as if the values of
    one key contained those of the other."""

    inputs: tuple[InputStatistics, ...]
    thetas: tuple[ThetaStatistics, ...] = ()
    domains: Mapping[tuple[int, int, int], float] = field(default_factory=dict)

    def domain(self, c: int, i: int, j: int) -> float:
        measured = self.domains.get((c, min(i, j), max(i, j)))
        if measured is not None:
            return max(measured, 1.0)
        return max(self.inputs[i].distinct[c], self.inputs[j].distinct[c], 1.0)


@dataclass(frozen=True)
class Schedule:
    """How often a join is evaluated and rows are expired; 0 means on every arrival. Rows that wait for evaluation must
    still find their partners, so that rows never expire more often than the join is evaluated."""

    evaluate: float = 0.0
    expire: float = 0.0

    def __post_init__(self) -> None:
        if not 0.0 <= self.evaluate <= self.expire:
            raise ValueError(
                f"rows cannot expire every {self.expire:g} if the join is evaluated every {self.evaluate:g}"
            )

    @classmethod
    def every(cls, interval: float) -> Schedule:
        return cls(interval, interval)


EAGER = Schedule()


class Drift(NamedTuple):
    """The measure that has changed by the largest factor."""

    factor: float
    what: str
    old: float
    new: float


def drift(old: JoinStatistics, new: JoinStatistics) -> Drift:
    """How far statistics have moved: orders should be chosen anew if a rate, a number of rows or distinct values, or a
    selectivity has grown or shrunk by much."""
    pairs = zip(_measures(old), _measures(new), strict=True)
    return max((Drift(_ratio(a, b), what, a, b) for (what, a), (_, b) in pairs), key=lambda d: d.factor)


def _measures(statistics: JoinStatistics) -> Sequence[tuple[str, float]]:
    measures = list[tuple[str, float]]()
    for n, i in enumerate(statistics.inputs, 1):
        measures += [(f"rate of input {n}", i.rate), (f"rows of input {n}", i.rows)]
        if not statistics.domains:  # which say more
            measures += [(f"distinct keys of input {n}", i.distinct[c]) for c in sorted(i.distinct)]
    if statistics.domains:
        shared = sorted(statistics.domains)
        measures += [(f"common keys of inputs {i + 1} and {j + 1}", statistics.domains[c, i, j]) for c, i, j in shared]
    for t, theta in enumerate(statistics.thetas, 1):
        measures += [(f"selectivity of condition {t}", theta.selectivity), (f"cost of condition {t}", theta.cost)]
    return measures


def _ratio(a: float, b: float) -> float:
    low, high = min(a, b), max(a, b)
    return high / low if low > 0.0 else inf if high > 0.0 else 1.0

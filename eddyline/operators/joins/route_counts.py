"""What the routes of a join have done so far: counters by step, and the measured selectivity of every condition.

A step is named by the inputs joined up to it, the origin first. The counters do not depend on who reads them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from eddyline.plan.expressions import conjuncts
from eddyline.plan.join_shape import Theta
from eddyline.plan.physical import ProbeStep
from eddyline.routing.predicate_statistics import PredicateStatistics
from eddyline.sql.bound import Expr

HALF_LIFE = 1 << 14  # partial results after which what a condition did counts half

Seen = Sequence[float]  # of a condition: rows seen and kept, and what they cost
Path = tuple[int, ...]  # the origin, and the inputs probed so far


@dataclass
class StepCounts:
    """Partial results that probed, rows in their windows that they were compared with, and results that are left."""

    probing: int = 0
    compared: int = 0
    left: int = 0


@dataclass
class RouteCounts:
    steps: dict[Path, StepCounts] = field(default_factory=dict)
    conditions: dict[Expr, PredicateStatistics] = field(default_factory=dict)
    changes: dict[int, int] = field(default_factory=dict)  # by input, those that arrived

    @property
    def comparisons(self) -> int:
        return sum(s.compared for s in self.steps.values())

    @property
    def work(self) -> int:
        """Partial results that probed, and rows that they were joined or compared with."""
        return sum(s.probing + s.compared for s in self.steps.values())

    def arrived(self, i: int, changes: int) -> None:
        self.changes[i] = self.changes.get(i, 0) + changes

    def probed(self, route: Path, probing: int) -> None:
        self._step(route).probing += probing

    def joined(self, route: Path, probe: ProbeStep, compared: int, left: int) -> None:
        """Partial results were joined with rows of an input, and the conditions of the step were checked."""
        step = self._step(route)
        step.compared += compared
        step.left += left
        # The equalities of a scan are not told apart from other conditions; those of the model come from its keys.
        if probe.conditions is None or probe.scans or not compared:
            return
        parts = conjuncts(probe.conditions)
        kept = compared * (left / compared) ** (1 / len(parts))  # checked together: each is taken to do its part
        for part in parts:
            self.conditions.setdefault(part, PredicateStatistics(HALF_LIFE)).evaluate(compared, kept, 0.0)

    def save(self, inputs: int, thetas: Sequence[Theta]) -> tuple[list[int], list[Seen | None]]:
        """What orders are chosen by: the changes of each input, and what each condition did."""
        known = [self.conditions.get(t.condition) for t in thetas]
        changes = [self.changes.get(i, 0) for i in range(inputs)]
        return changes, [None if m is None else (m.seen, m.kept, m.cost) for m in known]

    def restore(self, changes: Sequence[int], thetas: Sequence[Theta], known: Sequence[Seen | None]) -> None:
        self.changes = dict(enumerate(changes))
        for theta, measured in zip(thetas, known, strict=True):
            if measured is not None:
                self.conditions[theta.condition] = PredicateStatistics(HALF_LIFE, *measured)

    def _step(self, route: Path) -> StepCounts:
        if route not in self.steps:
            self.steps[route] = StepCounts()
        return self.steps[route]

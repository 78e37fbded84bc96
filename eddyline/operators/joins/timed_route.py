"""A route of which every probe is timed, so that an operator can be placed between any two of them.

Each probe has an account: the seconds and results of a tuple of the origin that enters it, and the share of those
tuples that leave it with a result. A tuple counts once, whatever the number of its partial results. So the accounts do
not depend on which tuples an operator rejected before the probe. Probes are told apart by the inputs joined so far:
when the order changes, those of the new order are unknown.

Cost: two readings of the clock a portion, and O(partial results) to mark their tuples. (Document 1, section 4.)
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from eddyline.arrays import Mask
from eddyline.operators.base import Step
from eddyline.operators.joins.route_counts import Path, RouteCounts
from eddyline.operators.joins.routes import Partial, follow
from eddyline.operators.joins.stems import Stems
from eddyline.plan.physical import ProbeStep
from eddyline.routing.eddy import Account, Eddy
from eddyline.state.delta import Delta


@dataclass
class ProbeTime:
    """What one probe did with the tuples of a batch: which of them entered it, and which left it with a result."""

    entered: Mask
    left: Mask
    results: int = 0
    seconds: float = 0.0


class TimedRoute:
    def __init__(self, stems: Stems, origin: int, eddy: Eddy) -> None:
        self.stems, self.origin, self.eddy = stems, origin, eddy

    @property
    def probes(self) -> Sequence[ProbeStep]:
        return self.stems.node.probes[self.origin]

    def start(self, delta: Delta) -> Partial:
        """Changes of the origin before their first probe."""
        return Partial.of(self.stems.layout, self.origin, delta)

    def run(self, step: Step, tuples: int, counts: RouteCounts) -> TimedRun:
        return TimedRun(self, step, tuples, counts)

    def account(self, probe: int) -> Account:
        """Of one probe: its selectivity is the share of tuples that leave it with a result."""
        return self.eddy.account(self._path(probe))

    def fanout(self, probe: int) -> float:
        """Results of a tuple that enters a probe."""
        return self.eddy.account((*self._path(probe), "results")).selectivity or 0.0

    def known(self, probe: int) -> bool:
        return self.account(probe).rows > 0

    def expected(self) -> tuple[list[float], list[float]]:
        """By number of probes, from none to all: the share of tuples that still have partners, and the seconds of a
        tuple so far. A probe that no tuple has entered costs nothing and loses none."""
        shares, seconds = [1.0], [0.0]
        for probe in range(len(self.probes)):
            account = self.account(probe)
            known = account.rows > 0
            seconds.append(seconds[-1] + (shares[-1] * account.cost if known else 0.0))
            shares.append(shares[-1] * ((account.selectivity or 0.0) if known else 1.0))
        return shares, seconds

    def learn(self, probe: int, entered: int, left: int, results: int, seconds: float) -> None:
        if not entered:
            return
        path = self._path(probe)
        self.eddy.learn(path, entered, entered, left)
        self.eddy.learn_cost(path, seconds / entered)
        self.eddy.entered(path, entered)
        self.eddy.learn((*path, "results"), entered, entered, results)

    def _path(self, probe: int) -> Path:
        return (self.origin, *(p.input for p in self.probes[: probe + 1]))


class TimedRun:
    """One batch on a route. What its probes took is learnt when it is told to."""

    def __init__(self, route: TimedRoute, step: Step, tuples: int, counts: RouteCounts) -> None:
        self.route, self.step, self.counts = route, step, counts
        self.times = [ProbeTime(np.zeros(tuples, np.bool_), np.zeros(tuples, np.bool_)) for _ in route.probes]

    def results(self, partial: Partial, start: int, stop: int) -> Iterator[Partial]:
        """Partial results after the probes from `start` on and before `stop`, in the order and portions of `follow`."""
        if start == stop or not len(partial):
            yield from [partial] if len(partial) else []
            return
        took = self.times[start]
        took.entered[partial.rows[partial.origin]] = True
        begun = time.perf_counter()
        for joined in follow(self.step, partial, self.route.probes[start : start + 1], self.counts):
            took.left[joined.rows[joined.origin]] = True
            took.results += len(joined)
            took.seconds += time.perf_counter() - begun
            yield from self.results(joined, start + 1, stop)
            begun = time.perf_counter()
        took.seconds += time.perf_counter() - begun

    def learn(self) -> None:
        for probe, took in enumerate(self.times):
            entered, left = (int(np.count_nonzero(mask)) for mask in (took.entered, took.left))
            self.route.learn(probe, entered, left, took.results, took.seconds)

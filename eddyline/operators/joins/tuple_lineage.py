"""The lineage of the tuples of a batch: the queries whose conditions on one input each of them satisfies.

A tuple meets the conditions once, in whatever portions its partial results come. (Document 1, section 2.1.)
"""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from eddyline.arrays import Ints, Ints32, Mask
from eddyline.operators.base import Step
from eddyline.operators.evaluate import Functions
from eddyline.operators.joins.routes import Partial
from eddyline.operators.matcher import Matcher, joined_lists
from eddyline.state.delta import Delta


class TupleLineage:
    """By tuple, a range of `members`, which are positions of queries."""

    def __init__(self, matcher: Matcher, delta: Delta) -> None:
        self.matcher, self.delta = matcher, delta
        self.low, self.high = np.zeros((2, len(delta)), np.int64)
        self.members: Ints32 = np.empty(0, np.int32)
        self.met, self.undecided = np.zeros((2, len(delta)), np.bool_)
        self.seconds = 0.0

    @property
    def passed(self) -> Mask:
        passed: Mask = self.high > self.low
        return passed

    def decides(self, step: Step, tuples: Ints) -> bool:
        """Lets those tuples that have not met the conditions meet them. False if calls failed for some of them, and
        failures are attributed to queries: only joined rows tell which of them count."""
        new = tuples[~self.met[tuples]]
        if len(new):
            begun = time.perf_counter()
            self._meet(step, new)
            self.seconds += time.perf_counter() - begun
        return not self.undecided[tuples].any()

    def passing(self, partial: Partial) -> Partial:
        """The partial results of tuples that some query accepts."""
        kept = self.passed[partial.rows[partial.origin]]
        return partial if kept.all() else partial.take(kept)

    def ranges(self, partial: Partial) -> tuple[Ints, Ints]:
        """By partial result, the range of members of its tuple."""
        origin = partial.rows[partial.origin]
        return self.low[origin], self.high[origin]

    def _meet(self, step: Step, new: Ints) -> None:
        tuples = self.delta if len(new) == len(self.delta) else self.delta.take(new).spread()
        attributed = step.functions.failures is not None
        functions = Functions(step.functions.bodies, {}, []) if attributed else step.functions
        lineage = joined_lists(self.matcher.prepare(replace(step, functions=functions), tuples).sets())
        self.met[new] = True
        self.undecided[new] = attributed and bool(functions.failures)
        self.low[new], self.high[new] = len(self.members) + lineage.starts[:-1], len(self.members) + lineage.starts[1:]
        self.members = np.concatenate([self.members, lineage.members])

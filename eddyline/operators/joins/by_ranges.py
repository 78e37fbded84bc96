"""The tactic for joins over ranges: arriving tuples probe an index of query ranges (`ranged.py`).

The queries that a tuple affects and the joined rows are computed when they are read, from views that never change.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

import numpy as np

from eddyline.operators.base import Step
from eddyline.operators.deferred import Deferred
from eddyline.operators.describe import describe_ranges
from eddyline.operators.joins.combining import Pairs, combined
from eddyline.operators.joins.probe import Probe, kept
from eddyline.operators.joins.ranged import Probing, RangedSide
from eddyline.operators.joins.stems import Stems
from eddyline.operators.joins.tactic import Piece
from eddyline.operators.matcher import Matcher
from eddyline.plan.range_probes import RangeProbe
from eddyline.state.delta import Delta, concat


class ByRanges:
    def __init__(self, plan: RangeProbe, probe: Probe) -> None:
        self.stems, self.input = probe.stems, probe.input
        self.side = RangedSide(plan, self.stems.node.strategy)

    @classmethod
    def of(cls, probe: Probe) -> ByRanges | None:
        plan = probe.stems.node.ranges[probe.input]
        return None if plan is None else cls(plan, probe)

    def results(self, step: Step, delta: Delta) -> list[Piece] | None:
        """None if the places of some rows along an axis are undefined: a sum may overflow, or infinities cancel."""
        if step.kind == "replay":
            return None
        (probe,) = self.stems.node.probes[self.input]
        slots = self.stems.wanted(step, probe, replace(delta, columns=self.stems.wide(self.input, delta)))
        probing = self.side.probing(step, delta, slots, probe.key, self.stems.stems[probe.input])
        return None if probing is None else [(self.input, probing)]

    def details(self) -> list[str]:
        return describe_ranges(self.side, f"input {self.input + 1}")


def built(stems: Stems, matcher: Matcher, step: Step, i: int, probing: Probing) -> list[Delta]:
    """The joined rows of the tuples of an input, as changes of queries."""
    (probe,) = stems.node.probes[i]
    probe = replace(probe, conditions=None)  # the ranges have been checked
    tuples = replace(probing.delta, columns=stems.wide(i, probing.delta))
    changes: list[Delta] = []
    for rows, parts in zip(probing.rows, probing.pairs(), strict=True):
        for p in parts:
            if len(p.tuples):
                new = np.append(True, (np.diff(p.tuples) != 0) | (np.diff(p.places) != 0))
                pairs = Pairs(p.tuples[new], p.places[new])
                joined = combined(step, tuples, rows.rows, pairs, probe, stems.starts[probe.input])
                changes += kept(step, [matcher.attached(step, joined, np.cumsum(new) - 1, p.queries)])
    return changes


class DeferredProbe(Deferred):
    """An arriving row makes a change for each query it affects and each partner within that query's range."""

    def __init__(self, stems: Stems, matcher: Matcher, step: Step, i: int, probing: Probing) -> None:
        super().__init__(step, probing.delta, probing)
        self._stems, self._matcher = stems, matcher
        self._input, self._probing = i, probing

    def count(self) -> int:
        return len(self._rows) if "_rows" in self.__dict__ else self._count

    @cached_property
    def _count(self) -> int:
        return int(self._probing.row_counts().sum())

    @cached_property
    def _rows(self) -> Delta:
        parts = built(self._stems, self._matcher, self.step, self._input, self._probing)
        return concat(parts, self._stems.node.types, attached=True)

    def rows(self) -> Delta:
        return self._rows

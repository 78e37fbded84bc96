"""The tactic for joins over ranges: arriving tuples probe an index of query ranges (`ranged.py`).

The queries that a tuple affects and the joined rows are computed when they are read, from views that never change.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from eddyline.operators.base import Step
from eddyline.operators.deferred import Deferred
from eddyline.operators.describe import describe_ranges
from eddyline.operators.joins.probe import Probe
from eddyline.operators.joins.ranged import Probing, RangedSide
from eddyline.operators.joins.stems import Stems
from eddyline.operators.joins.tactic import Piece
from eddyline.operators.matcher import Matcher
from eddyline.operators.query_index import QueryIndex
from eddyline.operators.room import row_bytes
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
        slots = self.stems.wanted(step, self.input, probe, delta)
        probing = self.side.probing(step, delta, slots, self.stems.stems[probe.input].segments(step, probe.key))
        return None if probing is None else [(self.input, probing)]

    def indexes(self) -> Sequence[QueryIndex]:
        return ()

    def details(self) -> list[str]:
        return describe_ranges(self.side, f"input {self.input + 1}")


def built(stems: Stems, matcher: Matcher, step: Step, i: int, probing: Probing) -> list[Delta]:
    """The joined rows of the tuples of an input, as changes of queries."""
    changes: list[Delta] = []
    for rows, parts in zip(probing.rows, probing.pairs(), strict=True):
        for p in parts:
            if len(p.tuples):
                new = np.append(True, (np.diff(p.tuples) != 0) | (np.diff(p.places) != 0))
                joined = _joined(i, probing.delta.take(p.tuples[new]).spread(), rows.segment.take(p.places[new]))
                step.room.take(len(joined), row_bytes(joined))
                changes.append(matcher.attached(step, joined, np.cumsum(new) - 1, p.queries))
    return changes


def _joined(i: int, tuples: Delta, rows: Delta) -> Delta:
    """Tuples of input i, each joined with a row of the other input. Their ranges, and so their ends, were checked."""
    return Delta(
        (*tuples.columns, *rows.columns) if i == 0 else (*rows.columns, *tuples.columns),
        None,
        np.maximum(tuples.ts, rows.ts),
        np.minimum(tuples.exp, rows.exp),
        tuples.sign,
        np.minimum(tuples.first, rows.first),
        np.maximum(tuples.last, rows.last),
    )


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

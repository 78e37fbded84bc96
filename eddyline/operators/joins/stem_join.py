"""Joins of any arity over SteMs (document 1, section 3.3): one state module per input, no intermediate results kept.

The changes of each input in turn find their results among the rows of the others (`tactic.py`) and are then built into
their own SteM: build after probe, input after input, so that every combination is found exactly once. Signs multiply
and intervals intersect, so expirations need no code of their own here.

Retractions come before insertions, so that a joined row is never sent with an end that the same step makes earlier; if
several inputs retract in one step, all their retractions are applied before any of them probes (`leaving.py`). So each
`-` of a join names one earlier `+` of the same row and end.

A non-retroactive table (document 3, section 4) is probed but never probes: its changes only reach its SteM, and the
flowing side is not kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from eddyline.operators.base import Operator, Step
from eddyline.operators.deferred import Deferred
from eddyline.operators.evaluate import Functions
from eddyline.operators.joins.by_ranges import ByRanges, DeferredProbe, built
from eddyline.operators.joins.filter_first import FilterFirst
from eddyline.operators.joins.probe import Probe, kept
from eddyline.operators.joins.stems import Stems
from eddyline.operators.joins.tactic import Piece, Tactic
from eddyline.operators.matcher import Matcher
from eddyline.plan import physical
from eddyline.state.delta import Delta, Ints, concat

# In the order in which they are asked; each says whether it is planned for an input. What none of them takes is probed.
TACTICS: tuple[Callable[[Probe], Tactic | None], ...] = (ByRanges.of, FilterFirst.of)


class StemJoin(Operator):
    """The driver: it moves changes and state; the tactics of each input find the results of its changes."""

    def __init__(self, node: physical.StemJoin, children: Sequence[Operator]) -> None:
        super().__init__(node, children)
        self.frozen_table = node.frozen_table
        self.some_attached = any(c.attached for c in children)
        self.reads_streams = node.reads_streams
        self.matcher = Matcher(node.condition, node.windows, self.types)
        self.stems = Stems(node)
        self.probes = [Probe(self.stems, i, self.matcher) for i in range(len(children))]
        self.tactics: list[list[Tactic]] = []
        for probe in self.probes:
            planned = [tactic for of in TACTICS if (tactic := of(probe)) is not None]
            self.tactics.append([*planned, probe])

    def pull(self, step: Step) -> Delta:
        deltas = [c.pull(step) for c in self.children]
        if step.kind == "arrivals":
            return self.together(step, self._moved(step, deltas))
        if self.some_attached:
            # What is not attached stands in its SteM already; only what is new for the new queries moves.
            moving = [d if c.attached else c.none() for c, d in zip(self.children, deltas, strict=True)]
            return self.together(step, self._moved(step, moving))
        if self.reads_streams:
            return self.none()
        standing, self.stems.stems = self.stems.stems, self.stems.empty()
        initial = self.together(step, self._moved(step, deltas))
        self.stems.stems = standing
        return initial

    def defer(self, step: Step) -> Delta | Deferred:
        """Changes that are found by groups of ranges are deferred, if there are no others in the step."""
        pieces = self.pieces(step)
        if len(pieces) == 1 and not isinstance(pieces[0], Delta):
            return DeferredProbe(self.stems, self.matcher, step, *pieces[0])
        return self.together(step, pieces)

    def pieces(self, step: Step) -> list[Piece]:
        """A step in which tuples arrive: its changes as far as they are built, and tuples about to find theirs."""
        return self._moved(step, [c.pull(step) for c in self.children])

    def together(self, step: Step, pieces: Sequence[Piece]) -> Delta:
        """All changes of a step."""
        parts: list[Delta] = []
        for piece in pieces:
            parts += [piece] if isinstance(piece, Delta) else built(self.stems, self.matcher, step, *piece)
        return concat(parts, self.types, attached=self.attached)

    def _moved(self, step: Step, deltas: Sequence[Delta]) -> list[Piece]:
        pieces: list[Piece] = []
        deltas = [d.spread() for d in deltas]
        retracting = [i for i, d in enumerate(deltas) if i != self.frozen_table and (d.sign < 0).any()]
        if len(retracting) > 1:
            pieces += self._retracted(step, {i: deltas[i].take(deltas[i].sign < 0).spread() for i in retracting})
            deltas = [d.take(d.sign > 0).spread() for d in deltas]
        for i in sorted(range(len(deltas)), key=lambda i: i not in retracting):
            delta = deltas[i]
            if not len(delta):
                continue
            if i != self.frozen_table:
                pieces += self._results(step, i, delta)
            if self.frozen_table is None or i == self.frozen_table:
                self.stems.build(step, i, delta)
        return pieces

    def _results(self, step: Step, i: int, delta: Delta) -> list[Piece]:
        for tactic in self.tactics[i]:
            results = tactic.results(step, delta)
            if results is not None:
                return results
        raise AssertionError("probing is always possible")

    def _retracted(self, step: Step, retractions: Mapping[int, Delta]) -> list[Delta]:
        """The retractions of several inputs: each joined row is retracted by the part of it that leaves first."""
        for i, delta in retractions.items():
            self.stems.stems[i].retract(delta)
        changes: list[Delta] = []
        for i, delta in retractions.items():
            leaves = pa.array(delta.ts)
            for joined in self.stems.partners(step, i, delta, leaves, leaving=i):
                alone = replace(joined, columns=joined.columns[:-1])
                changes += kept(step, self.probes[i].finished(step, [alone]))
        for i in retractions:
            self.stems.stems[i].forget_leaving()
        return changes

    def details(self) -> list[str]:
        choices = [tactic for tactics in self.tactics for tactic in tactics[:-1]]
        return [line for tactic in (*choices, self.probes[0]) for line in tactic.details()]

    # state

    def forget(self, queries: Ints) -> None:
        super().forget(queries)
        self.stems.forget(queries)

    def size(self) -> int:
        return len(self.stems)

    def save(self) -> dict[str, pa.Table]:
        return self.stems.save()

    def load(self, saved: dict[str, pa.Table], functions: Functions) -> None:
        self.stems.load(saved, functions)

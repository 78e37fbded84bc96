"""Joins of any number of inputs over SteMs: one SteM per input; intermediate results are not stored.

The changes of each input in turn probe the rows of the others (`tactic.py`) and are then built into their own SteM:
build after probe, input after input, so that every combination is produced exactly once. Signs multiply and intervals
intersect, so expirations need no code here.

Retractions come before insertions, so that a joined row is never sent with an end that the same step makes earlier; if
several inputs retract in one step, all their retractions are applied before any of them probes (`leaving.py`). So each
`-` of a join names one earlier `+` of the same row and end.

A non-retroactive table (document 3, section 4) is probed but never probes: its changes are only built into its SteM,
and the other side is not stored. (Document 1, section 3.3.)
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

import pyarrow as pa

from eddyline.arrays import Ints
from eddyline.operators.base import Operator, Step
from eddyline.operators.deferred import Deferred
from eddyline.operators.evaluate import Functions
from eddyline.operators.joins.by_ranges import ByRanges, DeferredProbe, built
from eddyline.operators.joins.candidates import Candidates, checked
from eddyline.operators.joins.deferred_candidates import DeferredCandidates
from eddyline.operators.joins.describe_routes import describe_routes
from eddyline.operators.joins.filter_first import FilterFirst
from eddyline.operators.joins.order_state import OrderState, SavedPlan
from eddyline.operators.joins.probe import Probe
from eddyline.operators.joins.routed_functions import RoutedFunctions
from eddyline.operators.joins.stems import Logs, Stems, Tables, own_log, own_table
from eddyline.operators.joins.tactic import Piece, Tactic
from eddyline.operators.matcher import Matcher
from eddyline.operators.query_index import QueryIndex
from eddyline.operators.scan import StreamScan
from eddyline.plan import physical
from eddyline.plan.join_shape import JoinShape
from eddyline.plan.stem_joins import replanned
from eddyline.state.delta import Delta, concat
from eddyline.state.pages import Saved
from eddyline.state.store.stored_table import StoredTable
from eddyline.state.store.stream_log import StreamLog

ABSENT = object()  # an input without shared routes
# In the order in which they are tried; each returns None if it is not planned for an input. The last resort is `Probe`.
TACTICS: tuple[Callable[[Probe], Tactic | None], ...] = (ByRanges.of, RoutedFunctions.of, FilterFirst.of)


class StemJoin(Operator):
    """The driver: it orders changes and updates SteMs; the tactics of each input compute the results of its changes."""

    def __init__(
        self,
        node: physical.StemJoin,
        children: Sequence[Operator],
        logs: Logs = own_log,
        tables: Tables = own_table,
    ) -> None:
        super().__init__(node, children)
        self.frozen_table = node.frozen_table
        self.some_attached = any(c.attached for c in children)
        self.reads_streams = node.reads_streams
        self.matcher = Matcher(node.condition, node.windows, self.types)
        self.stems = Stems(node, children, logs, tables)
        self.probes = [Probe(self.stems, i, self.matcher) for i in range(len(children))]
        self._inputs: dict[str, list[int]] = {}  # by stream, those that read it
        self.shape = JoinShape(node.predicate, node.starts[:-1])
        self.orders = OrderState()
        self.tactics: list[list[Tactic]] = []
        for probe in self.probes:
            planned = [tactic for of in TACTICS if (tactic := of(probe)) is not None]
            self.tactics.append([*planned, probe])

    def pull(self, step: Step) -> Delta:
        deltas = [c.pull(step) for c in self.children]
        if step.kind == "arrivals":
            return self.concatenated(step, self._process(step, deltas))
        if self.some_attached:
            # Rows that are not attached are in their SteM already; only per-query rows of the new queries are new.
            own = [d if c.attached else c.none() for c, d in zip(self.children, deltas, strict=True)]
            return self.concatenated(step, self._process(step, own))
        if self.reads_streams:
            return self.none()
        stems, self.stems.stems = self.stems.stems, self.stems.empty()  # tables only
        initial = self.concatenated(step, self._process(step, deltas))
        self.stems.stems = stems
        return initial

    def defer(self, step: Step) -> Delta | Deferred:
        """Changes of the tactic by ranges, and candidates of shared routes, are deferred if there are no others in the
        step."""
        if (routed := self._routed(step)) is not None:
            i, candidates = routed
            (arrived,) = step.streams.values()
            stems = self.stems.as_planned()
            return DeferredCandidates(step, arrived, candidates, lambda: self._checked(step, stems, i, candidates))
        pieces = self.pieces(step)
        if len(pieces) == 1 and not isinstance(pieces[0], Delta):
            return DeferredProbe(self.stems, self.matcher, step, *pieces[0])
        return self.concatenated(step, pieces)

    def _routed(self, step: Step) -> tuple[int, Candidates] | None:
        """The input whose candidates are all that the step may emit, if there is one such input."""
        if not step.routed or not self.attached or len(step.streams) != 1:
            return None
        mine = [(i, step.routed.get((id(self), i), ABSENT)) for i in self.reading(*step.streams)]
        some = [(i, c) for i, c in mine if c is not None]
        if len(some) != 1 or not isinstance(some[0][1], Candidates):
            return None
        return some[0][0], some[0][1]

    def reading(self, stream: str) -> list[int]:
        """The inputs that read a stream."""
        if stream not in self._inputs:
            scans = [(i, o) for i, c in enumerate(self.children) for o in c.walk() if isinstance(o, StreamScan)]
            self._inputs[stream] = [i for i, scan in scans if scan.stream == stream]
        return self._inputs[stream]

    def _checked(self, step: Step, stems: Stems, i: int, candidates: Candidates) -> Delta:
        delta = self.children[i].pull(step).spread()
        if not len(delta):
            return self.none()
        results = [checked(step, stems, i, delta, candidates)]
        return concat(list(self.probes[i].finished(step, results)), self.types, attached=self.attached)

    def pieces(self, step: Step) -> list[Piece]:
        """The results of a step in which tuples arrive: changes, and deferred probes."""
        return self._process(step, [c.pull(step) for c in self.children])

    def concatenated(self, step: Step, pieces: Sequence[Piece]) -> Delta:
        """All changes of a step as one delta."""
        parts: list[Delta] = []
        for piece in pieces:
            parts += [piece] if isinstance(piece, Delta) else built(self.stems, self.matcher, step, *piece)
        return concat(parts, self.types, attached=self.attached)

    def _process(self, step: Step, deltas: Sequence[Delta]) -> list[Piece]:
        pieces: list[Piece] = []
        deltas = [d.spread() for d in deltas]
        stored = {i: self.stems.stems[i] for i in self.stems.node.stored}
        for i, stem in stored.items():
            stem.prepare(step, deltas[i])
            self.stems.counts.arrived(i, len(deltas[i]))
        retracting = [i for i, d in enumerate(deltas) if i != self.frozen_table and (d.sign < 0).any()]
        if len(retracting) > 1:
            pieces += self._retracted(step, {i: deltas[i].take(deltas[i].sign < 0).spread() for i in retracting})
            deltas = [d.take(d.sign > 0).spread() for d in deltas]
        for i in sorted(range(len(deltas)), key=lambda i: i not in retracting):
            if len(deltas[i]) and i != self.frozen_table:
                pieces += self._results(step, i, deltas[i])
            if i in stored:
                stored[i].show(step, deltas[i])
        return pieces

    def _results(self, step: Step, i: int, delta: Delta) -> list[Piece]:
        if (id(self), i) in step.routed:
            candidates = step.routed[id(self), i]
            if candidates is None:
                return []
            return list(self.probes[i].finished(step, [checked(step, self.stems, i, delta, candidates)]))
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
            changes += self.probes[i].finished(step, self.stems.results(step, i, delta, retracting=True))
        for i in retractions:
            self.stems.stems[i].forget_leaving()
        return changes

    def reorder(self, orders: Sequence[Sequence[int]], scanned: Collection[int]) -> None:
        """From now on, changes of input i probe the inputs `orders[i]` in turn; those in `scanned` without a key. Rows
        and results do not change. It must not be called between the probing of a step and its end."""
        self.stems.replan(replanned(self.stems.node, orders, scanned))

    def details(self) -> list[str]:
        choices = [tactic for tactics in self.tactics for tactic in tactics[:-1]]
        routes = describe_routes(self.stems.node, self.stems.counts, self.orders)
        return [*self.stems.details(), *routes, *(line for t in (*choices, self.probes[0]) for line in t.details())]

    def indexes(self) -> Sequence[QueryIndex]:
        """Those of its tactics, and the one of joined rows."""
        own = {id(x): x for tactics in self.tactics for t in tactics for x in t.indexes()}
        return list(own.values())

    # state

    def forget(self, queries: Ints) -> None:
        super().forget(queries)
        self.stems.forget(queries)

    def expire(self, step: Step) -> None:
        super().expire(step)
        for stem in self.stems.stems:
            stem.expire(step)

    def size(self) -> int:
        return len(self.stems)

    def shared_stores(self) -> Sequence[StreamLog | StoredTable]:
        return self.stems.shared_stores()

    def nbytes(self) -> int:
        return sum(s.nbytes for s in self.stems.stems if s.shared_store is None)

    def save(self) -> dict[str, Saved]:
        if self.orders.checked is None:
            return self.stems.save()
        node, counts = self.stems.node, self.stems.counts
        orders = [[p.input for p in probes] for probes in node.probes]
        plan = SavedPlan(orders, sorted(node.scanned), *counts.save(len(self.children), self.shape.thetas()))
        return {**self.stems.save(), "orders": self.orders.save(plan)}

    @property
    def restores_exactly(self) -> bool:
        """Joined rows are ordered by segment, tuple, row and query, whatever tactic and index computes them."""
        return all(stem.restores_exactly for stem in self.stems.stems)

    def load(self, saved: dict[str, pa.Table], functions: Functions) -> None:
        self.stems.load(saved, functions)
        if "orders" in saved:
            self.orders, plan = OrderState.load(saved["orders"])
            self.stems.counts.restore(plan.counted, self.shape.thetas(), plan.conditions)
            self.reorder(plan.orders, plan.scanned)

"""A running join as the cost model of orders sees it: its graph, and the statistics of its inputs at one moment.

A join that probes alone applies conditions without parameters as soon as their inputs are bound. On shared routes, the
selections of its queries on single streams prune partial results, and other conditions are checked at the end.
(Document 2, sections 4 and 5.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import combinations
from math import inf

from eddyline.operators.joins.log_stem import LogStem
from eddyline.operators.joins.order_state import Orders
from eddyline.operators.joins.stem_join import StemJoin
from eddyline.operators.joins.stream_measures import KeySample, Selections, StreamMeasures, stored_rows
from eddyline.plan.expressions import anonymous
from eddyline.plan.physical import Key
from eddyline.routing.join_graph import Inputs, InputStatistics, JoinGraph, JoinStatistics, ThetaStatistics

LOOKUP = 1.0  # what looking up a key costs, in rows that are joined

LEAST_RATE = 1e-9  # per microsecond, of an input without arrivals

WindowOf = Callable[[str], tuple[int, int]]  # of a stream: the widest window, and the first arrival number that counts
StepName = tuple[int, tuple[object, ...], tuple[object, ...], bool]


class MeasuredJoin:
    def __init__(self, join: StemJoin) -> None:
        self.join, self.shape = join, join.shape
        self.inputs = len(join.children)
        self._classes = self.shape.equalities()
        self._thetas = self.shape.thetas()
        self._allowed: dict[tuple[Inputs, int], bool] = {}
        self._names: dict[tuple[int, Inputs, int], StepName] = {}

    @property
    def orders(self) -> Orders:
        return tuple(tuple(p.input for p in probes) for probes in self.join.stems.node.probes)

    @cached_property
    def adapts(self) -> bool:
        """Whether its order may follow the data: it has several, and its conditions may be evaluated in any of them."""
        node = self.join.stems.node
        free = node.forced is None and self.inputs > 2
        return node.frozen_table is None and self.shape.movable and (free or node.method == "hybrid")

    def graph(self, *, shared: bool) -> JoinGraph:
        """`shared`: on shared routes."""
        single = tuple(frozenset((i,)) for i in range(self.inputs))
        thetas = () if shared else tuple(t.inputs for t in self._thetas)
        return JoinGraph(self.inputs, tuple(frozenset(keys) for keys in self._classes), (*single, *thetas))

    def statistics(
        self, measures: StreamMeasures, windows: WindowOf, arrivals: int, boxes: Sequence[Selections] | None
    ) -> JoinStatistics:
        """The statistics at this moment; `boxes`: by input, the selections of queries, if it is on shared routes.

        Only rows count that the join still needs: others may be in the log or not. Streams are measured at the latest
        event time that all of them have reached, because some may be a batch ahead. The rate of a stream is that of the
        last quarter of its window; for tables and subqueries, that since the last check."""
        node, stems, state = self.join.stems.node, self.join.stems.stems, self.join.orders
        now = min((int(s.log.ts[-1]) for s in stems if isinstance(s, LogStem) and len(s.log)), default=state.time)
        counted = [self.join.stems.counts.changes.get(i, 0) for i in range(self.inputs)]
        before, elapsed = state.changes_seen or [0] * self.inputs, max(now - state.time, 1)
        inputs, kept, samples = list[InputStatistics](), list[float](), dict[tuple[int, int], KeySample]()
        for i, stem in enumerate(stems):
            low, rows, share, rate = 0, float(stored_rows(stem)), 1.0, (counted[i] - before[i]) / elapsed
            if isinstance(stem, LogStem):
                low = measures.low(stem, now, *windows(stem.scan.stream))
                rows, rate = measures.rows(stem, now, low), measures.rate(stem, now, low)
                share = measures.satisfied(stem, low) if boxes is None else measures.accepted(stem, boxes[i], low)
            for c, keys in enumerate(self._classes):
                if i in keys:
                    samples[c, i] = measures.keys(stem, anonymous(keys[i]), low)
            distinct = {c: samples[c, i].distinct for c, keys in enumerate(self._classes) if i in keys}
            scans = i in node.scanned
            rate = max(rate, LEAST_RATE)
            inputs.append(InputStatistics(rate, rows, distinct, 1.0 if scans else inf, 0.0 if scans else LOOKUP))
            kept.append(share)
        state.checked, state.time, state.changes_seen = arrivals, now, counted
        conditions = self.join.stems.counts.conditions
        measured = (conditions[t.condition].statistics() if t.condition in conditions else None for t in self._thetas)
        thetas = () if boxes is not None else tuple(m or ThetaStatistics(1.0) for m in measured)
        domains = {
            (c, i, j): measures.domain(samples[c, i], samples[c, j])
            for c, keys in enumerate(self._classes)
            for i, j in combinations(sorted(keys), 2)
        }
        return JoinStatistics(tuple(inputs), (*(ThetaStatistics(s) for s in kept), *thetas), domains)

    def allowed(self, bound: Inputs, new: int) -> bool:
        """Whether an input may be probed from the bound ones: a log by any key, a buffer by those its rows have."""
        if (bound, new) not in self._allowed:
            self._allowed[bound, new] = self._has_key(bound, new)
        return self._allowed[bound, new]

    def _has_key(self, bound: Inputs, new: int) -> bool:
        node, inputs = self.join.stems.node, self.join.children
        if isinstance(self.join.stems.stems[new], LogStem):
            return True
        pairs = [] if new in node.scanned else self.shape.pairs(min(bound), bound, new)
        with_query = inputs[new].attached and any(inputs[b].attached for b in bound)
        return Key(tuple(self.shape.own(k, new) for _, k in pairs), with_query) in node.keys[new]

    def name_of(self, start: int) -> Callable[[Inputs, int], StepName]:
        """Names of the steps from an origin, equal for steps that shared routes take together."""

        def name(bound: Inputs, new: int) -> StepName:
            if (start, bound, new) not in self._names:
                self._names[start, bound, new] = self._name(start, bound, new)
            return self._names[start, bound, new]

        return name

    def _name(self, start: int, bound: Inputs, new: int) -> StepName:
        sources, keys = list[object](), list[object]()
        for source, key in self.shape.pairs(start, bound, new):
            (i,) = self.shape.inputs_of(source)
            sources.append((self._log(i), anonymous(self.shape.own(source, i))))
            keys.append(anonymous(self.shape.own(key, new)))
        return self._log(new), tuple(keys), tuple(sources), new < start

    def _log(self, i: int) -> int:
        stem = self.join.stems.stems[i]
        assert isinstance(stem, LogStem), "only joins of streams are on shared routes"
        return id(stem.log)

    def origin(self, i: int) -> int:
        """What tells the streams apart whose tuples take shared routes."""
        return self._log(i)

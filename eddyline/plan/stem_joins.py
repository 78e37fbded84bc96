"""Planning of joins over SteMs: probe orders, keys, first filters and range probes. (Document 1, section 3.3.)"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate

from eddyline.plan.equalities import inlined
from eddyline.plan.equality_classes import EqualityClasses, is_equality
from eddyline.plan.expressions import all_of, calls_functions, conjuncts, may_overflow, move_columns, params_of, text
from eddyline.plan.patterns import Pattern
from eddyline.plan.physical import (
    Buffer,
    Cluster,
    CountInput,
    CountWindow,
    Filter,
    FirstFilter,
    Key,
    PhysicalNode,
    ProbeStep,
    Project,
    StemJoin,
    StreamInput,
    StreamScan,
)
from eddyline.plan.range_probes import PendingWindow, inputs_of, range_probes
from eddyline.sql.bound import Column, Expr


def stem_join(
    pattern: Pattern, inputs: Sequence[PhysicalNode], condition: Expr | None, frozen_table: int | None = None
) -> StemJoin:
    """The join of the inputs; `frozen_table` is the position of a non-retroactive table among them."""
    return _JoinPlanner(inputs, condition).plan(pattern, frozen_table)


class _JoinPlanner:
    def __init__(self, inputs: Sequence[PhysicalNode], condition: Expr | None) -> None:
        self.inputs = tuple(inputs)
        self.starts = tuple(accumulate((len(i.types) for i in inputs), initial=0))
        parts = conjuncts(condition)
        self.static = [p for p in parts if not params_of(p)]
        self.with_params = [p for p in parts if params_of(p)]
        self.keys: list[list[Key]] = [[] for _ in inputs]
        self.equal = EqualityClasses()
        for part in self.static:
            if is_equality(part):
                self.equal.add(*part.args)

    def plan(self, pattern: Pattern, frozen_table: int | None) -> StemJoin:
        n = len(self.inputs)
        windows = tuple(
            PendingWindow(w.time + self.starts[i], w.size) for i, child in enumerate(self.inputs) for w in child.pending
        )
        probes = tuple(self._order(i) for i in range(n))
        join = StemJoin(
            pattern,
            self.inputs,
            all_of(self.with_params),
            windows,
            keys=tuple(tuple(k) for k in self.keys),
            streams=tuple(self._stream(i) for i in range(n)),
            counted=tuple(self._counted(i) for i in range(n)),
            buffers=(Buffer(),) * n,
            probes=probes,
            filters=tuple(self._first_filter(i) for i in range(n)),
            ranges=(None,) * n,
            frozen_table=frozen_table,
        )
        if n != 2 or not join.attached or any(i.attached for i in self.inputs):
            return join
        conditions = [c for c in (join.condition, probes[0][0].conditions) if c is not None]
        return replace(join, ranges=range_probes(all_of(conditions), windows, self.starts[:-1]))

    def _order(self, start: int) -> tuple[ProbeStep, ...]:
        """The order in which changes of one input probe the others: the input with most usable equalities first."""
        bound = {start}
        waiting = list(self.static)
        proved = EqualityClasses()  # by the keys probed so far
        alone = self._ready(waiting, bound)  # conditions on the first input only; checked with the first probe
        steps: list[ProbeStep] = []
        while len(bound) < len(self.inputs):
            options = [i for i in range(len(self.inputs)) if i not in bound]
            best = max(options, key=lambda i: (len(self._equalities(start, bound, i)), self._selects(i), -i))
            pairs = self._equalities(start, bound, best)
            with_query = self.inputs[best].attached and any(self.inputs[b].attached for b in bound)
            own = tuple(self._own(k, best) for _, k in pairs)
            for pair in pairs:
                proved.add(*pair)
            waiting = [w for w in waiting if not (is_equality(w) and proved.equal(*w.args))]
            bound.add(best)
            conditions = all_of(c for c in (alone, self._ready(waiting, bound)) if c is not None)
            alone = None
            key = self._key(best, Key(own, with_query))
            steps.append(ProbeStep(best, key, tuple(e for e, _ in pairs), conditions))
        return tuple(steps)

    def _selects(self, i: int) -> bool:
        """Whether queries select rows of an input: few of them will be left."""
        return any(self._inputs_of(p) == {i} for p in self.with_params)

    def _ready(self, waiting: list[Expr], bound: set[int]) -> Expr | None:
        """Removes from `waiting` and returns the conditions over bound inputs only."""
        ready = [w for w in waiting if self._inputs_of(w) <= bound]
        waiting[:] = [w for w in waiting if not any(w is r for r in ready)]
        return all_of(ready)

    def _equalities(self, start: int, bound: set[int], new: int) -> list[tuple[Expr, Expr]]:
        """(expression over bound inputs, equal expression over the new input), by the equalities and what follows from
        them; preferably over the input where the route starts, so that routes through other inputs look alike."""
        pairs = []
        for members in self.equal.classes():
            of = {e: self._inputs_of(e) for e in members}
            known = [e for e in members if of[e] and of[e] <= bound]
            known.sort(key=lambda e: of[e] != {start})
            pairs += [(known[0], e) for e in members if of[e] == {new}] if known else []
        return sorted(pairs, key=lambda pair: text(self._own(pair[1], new)))

    def _key(self, i: int, key: Key) -> int:
        if key not in self.keys[i]:
            self.keys[i].append(key)
        return self.keys[i].index(key)

    def _stream(self, i: int) -> StreamInput | None:
        """The stream whose log has the rows of an input; None: the join keeps them."""
        node, conditions = self.inputs[i], list[Expr]()
        while isinstance(node, Filter):
            conditions.append(node.condition)
            node = node.input
        if not isinstance(node, StreamScan) or self._may_fail(i, conditions):
            return None
        return StreamInput(node, all_of(reversed(conditions)))

    def _counted(self, i: int) -> CountInput | None:
        """The count window that an input is, if its rows are read from the log of its stream."""
        node, conditions = self.inputs[i], list[Expr]()
        outputs: list[Expr] = [Column(c, x, "") for c, x in enumerate(node.types)]
        while isinstance(node, Filter | Cluster | Project):
            if isinstance(node, Project):
                exprs = [o.expr for o in node.outputs]
                conditions, outputs = ([inlined(e, exprs) for e in over] for over in (conditions, outputs))
            else:
                conditions += conjuncts(node.condition if isinstance(node, Filter) else node.where)
            node = node.input
        computed = any(params_of(e) for e in outputs) or self._may_fail(i, [*conditions, *outputs])
        if not isinstance(node, CountWindow) or computed:
            return None
        shared, per_query = (all_of(c for c in conditions if bool(params_of(c)) is own) for own in (False, True))
        return CountInput(node, shared, per_query, tuple(outputs))

    def _may_fail(self, i: int, exprs: Sequence[Expr]) -> bool:
        """Whether an expression or a key of an input may fail: then it is evaluated for the rows of this join alone, so
        that its failures are its own."""
        evaluated = [*exprs, *(e for key in self.keys[i] for e in key.exprs)]
        return any(calls_functions(e) or may_overflow(e) for e in evaluated)

    def _first_filter(self, i: int) -> FirstFilter | None:
        """The conditions with parameters that can filter the tuples of an input before they are joined."""
        # A condition that may overflow is checked on joined rows only: a tuple without a partner must not fail a query.
        own = [p for p in self.with_params if self._inputs_of(p) == {i} and not may_overflow(p)]
        child = self.inputs[i]
        if any(c.attached for c in self.inputs) or child.retracts or not child.reads_streams:
            return None
        condition = all_of(self._own(p, i) for p in own)
        if condition is None:
            return None
        always = calls_functions(condition) or len(self.inputs) > 2
        return FirstFilter(condition, carries=len(own) == len(self.with_params), always=always)

    def _own(self, expr: Expr, i: int) -> Expr:
        """An expression over an input's own columns."""
        return move_columns(expr, lambda c: c - self.starts[i])

    def _inputs_of(self, expr: Expr) -> set[int]:
        return inputs_of(expr, self.starts[:-1])

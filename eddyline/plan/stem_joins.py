"""Planning of joins over SteMs: probe orders, keys, first filters and range probes. (Document 1, section 3.3.)"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate

from eddyline.plan.expressions import all_of, calls_functions, conjuncts, may_overflow, move_columns, params_of
from eddyline.plan.patterns import Pattern
from eddyline.plan.physical import Buffer, FirstFilter, Key, PhysicalNode, ProbeStep, StemJoin
from eddyline.plan.range_probes import PendingWindow, inputs_of, range_probes
from eddyline.sql.bound import Call, Expr


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
        alone = self._ready(waiting, bound)  # conditions on the first input only; checked with the first probe
        steps: list[ProbeStep] = []
        while len(bound) < len(self.inputs):
            options = [i for i in range(len(self.inputs)) if i not in bound]
            best = max(options, key=lambda i: (len(self._equalities(waiting, bound, i)), -i))
            pairs = self._equalities(waiting, bound, best)
            with_query = self.inputs[best].attached and any(self.inputs[b].attached for b in bound)
            own = tuple(self._own(k, best) for _, k, _ in pairs)
            waiting = [w for w in waiting if not any(w is p for _, _, p in pairs)]
            bound.add(best)
            conditions = all_of(c for c in (alone, self._ready(waiting, bound)) if c is not None)
            alone = None
            key = self._key(best, Key(own, with_query))
            steps.append(ProbeStep(best, key, tuple(e for e, _, _ in pairs), conditions))
        return tuple(steps)

    def _ready(self, waiting: list[Expr], bound: set[int]) -> Expr | None:
        """Removes from `waiting` and returns the conditions over bound inputs only."""
        ready = [w for w in waiting if self._inputs_of(w) <= bound]
        waiting[:] = [w for w in waiting if not any(w is r for r in ready)]
        return all_of(ready)

    def _equalities(self, waiting: Sequence[Expr], bound: set[int], new: int) -> list[tuple[Expr, Expr, Call]]:
        """(expression over bound inputs, expression over the new input, the condition) for each usable equality."""
        usable = []
        for w in waiting:
            if isinstance(w, Call) and w.function == "eq":
                for a, b in (w.args, w.args[::-1]):
                    of_a, of_b = self._inputs_of(a), self._inputs_of(b)
                    if of_a and of_a <= bound and of_b == {new}:
                        usable.append((a, b, w))
                        break
        return usable

    def _key(self, i: int, key: Key) -> int:
        if key not in self.keys[i]:
            self.keys[i].append(key)
        return self.keys[i].index(key)

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

"""Planning of joins over SteMs: probe orders, keys, first filters and range probes. (Document 1, section 3.3.)

An input is looked up by a key, or scanned (document 2: hash, nested-loop and hybrid joins). The planner can make the
steps of any order of probes, so that a running join can take another one (`replanned`): rows, keys that exist and
conditions with parameters stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from itertools import accumulate

from eddyline.plan.equalities import inlined
from eddyline.plan.equality_classes import EqualityClasses, is_equality
from eddyline.plan.expressions import all_of, calls_functions, conjuncts, may_overflow, move_columns, params_of
from eddyline.plan.join_shape import JoinShape
from eddyline.plan.patterns import Pattern
from eddyline.plan.physical import (
    Buffer,
    Cluster,
    CountInput,
    CountWindow,
    Filter,
    FirstFilter,
    JoinMethod,
    Key,
    PhysicalNode,
    ProbeStep,
    Project,
    StemJoin,
    StreamInput,
    StreamScan,
    TableInput,
    TableScan,
)
from eddyline.plan.range_probes import PendingWindow, inputs_of, range_probes
from eddyline.sql.bound import Call, Column, Expr
from eddyline.types import BOOLEAN

Choose = Callable[[set[int], list[int]], int]  # the input to probe next, of those that are left, after the bound ones


def stem_join(
    pattern: Pattern,
    inputs: Sequence[PhysicalNode],
    condition: Expr | None,
    frozen_table: int | None = None,
    *,
    method: JoinMethod = "hash",
    order: Sequence[int] | None = None,
    keep_ranges: bool = True,
) -> StemJoin:
    """The join of the inputs; `frozen_table` is the position of a non-retroactive table among them.

    `order`: all inputs in the order in which the changes of each probe the others; None: it follows the data.

    A condition without parameters that calls functions over one input is checked below the join, unless they can be
    called before, between or after probes (`FirstFilter`). `keep_ranges`: a join by ranges checks it below too."""
    scanned = range(len(inputs)) if method != "hash" else ()  # a hybrid join chooses its indexes while it runs
    starts = tuple(accumulate((len(i.types) for i in inputs), initial=0))
    parts = conjuncts(condition)
    routed = [p for p in parts if calls_functions(p) and not params_of(p) and len(inputs_of(p, starts[:-1])) == 1]
    below = list(inputs)
    for part in routed:
        (i,) = inputs_of(part, starts[:-1])
        below[i] = Filter(below[i].pattern, (below[i],), _moved(part, starts[i]))
    others = all_of(p for p in parts if not any(p is r for r in routed))
    join = _JoinPlanner(below, others, scanned).plan(pattern, frozen_table, method, order)
    if not routed or (join.ranged and keep_ranges):
        return join
    planner = _JoinPlanner(inputs, condition, scanned, routed)
    return planner.plan(pattern, frozen_table, method, order) if planner.routes_functions() else join


def _moved(expr: Expr, start: int) -> Expr:
    """An expression over the columns of an input that begins at this column of the join."""
    return move_columns(expr, lambda c: c - start)


def replanned(join: StemJoin, orders: Sequence[Sequence[int]], scanned: Collection[int]) -> StemJoin:
    """The join with other probes: the changes of input i probe the inputs of `orders[i]` in turn; those in `scanned`
    are searched without a key. New keys are added behind those that exist."""
    planner = _JoinPlanner(join.inputs, join.predicate, scanned)
    planner.keys = [list(keys) for keys in join.keys]
    probes = tuple(planner.route(i, _following(order)) for i, order in enumerate(orders))
    keys = tuple(tuple(k) for k in planner.keys)
    return replace(join, probes=probes, keys=keys, scanned=frozenset(scanned))


def _following(order: Sequence[int]) -> Choose:
    return lambda bound, options: next(i for i in order if i in options)


class _JoinPlanner:
    def __init__(
        self,
        inputs: Sequence[PhysicalNode],
        condition: Expr | None,
        scanned: Collection[int] = (),
        routed: Collection[Expr] = frozenset(),
    ) -> None:
        """`routed`: conditions that call functions, which are matched with queries like conditions with parameters."""
        self.inputs = tuple(inputs)
        self.scanned = frozenset(scanned)
        self.starts = tuple(accumulate((len(i.types) for i in inputs), initial=0))
        parts = conjuncts(condition)
        self.routed = routed
        self.static = [p for p in parts if not params_of(p) and p not in routed]
        self.with_params = [p for p in parts if params_of(p) or p in routed]
        self.keys: list[list[Key]] = [[] for _ in inputs]
        self.shape = JoinShape(all_of(self.static), self.starts[:-1])

    def plan(
        self, pattern: Pattern, frozen_table: int | None, method: JoinMethod, order: Sequence[int] | None
    ) -> StemJoin:
        n = len(self.inputs)
        windows = tuple(
            PendingWindow(w.time + self.starts[i], w.size) for i, child in enumerate(self.inputs) for w in child.pending
        )
        choices = [self._most_equalities(i) if order is None else _following(order) for i in range(n)]
        probes = tuple(self.route(i, choose) for i, choose in enumerate(choices))
        join = StemJoin(
            pattern,
            self.inputs,
            all_of(self.with_params),
            windows,
            keys=tuple(tuple(k) for k in self.keys),
            streams=tuple(self._stream(i) for i in range(n)),
            counted=tuple(self._counted(i) for i in range(n)),
            tables=tuple(self._table(i) for i in range(n)),
            buffers=(Buffer(),) * n,
            probes=probes,
            filters=tuple(self._first_filter(i) for i in range(n)),
            ranges=(None,) * n,
            frozen_table=frozen_table,
            predicate=all_of(self.static),
            method=method,
            forced=None if order is None else tuple(order),
            scanned=self.scanned,
        )
        if n != 2 or not join.attached or any(i.attached for i in self.inputs) or method != "hash":
            return join
        conditions = [c for c in (join.condition, probes[0][0].conditions) if c is not None]
        return replace(join, ranges=range_probes(all_of(conditions), windows, self.starts[:-1]))

    def routes_functions(self) -> bool:
        """Whether all functions over one input can be called before, between or after the probes of its tuples."""
        inputs = {i for p in self.routed for i in self.shape.inputs_of(p)}
        return all(self._first_filter(i) is not None for i in inputs)

    def route(self, start: int, choose: Choose) -> tuple[ProbeStep, ...]:
        """The steps of the changes of one input; `choose` names the input to probe next."""
        bound = {start}
        waiting = list(self.static)
        proved = EqualityClasses()  # by the keys probed so far
        alone = self._ready(waiting, bound)  # conditions on the first input only; checked with the first probe
        steps: list[ProbeStep] = []
        while len(bound) < len(self.inputs):
            new = choose(bound, [i for i in range(len(self.inputs)) if i not in bound])
            pairs = self.shape.pairs(start, bound, new)
            with_query = self.inputs[new].attached and any(self.inputs[b].attached for b in bound)
            for pair in pairs:
                proved.add(*pair)
            waiting = [w for w in waiting if not (is_equality(w) and proved.equal(*w.args))]
            bound.add(new)
            scans = new in self.scanned
            equal = [Call("eq", pair, BOOLEAN) for pair in pairs] if scans else []
            pairs = [] if scans else pairs
            conditions = all_of(c for c in (alone, *equal, self._ready(waiting, bound)) if c is not None)
            alone = None
            key = self._key(new, Key(tuple(self.shape.own(k, new) for _, k in pairs), with_query))
            steps.append(ProbeStep(new, key, tuple(e for e, _ in pairs), conditions, scans))
        return tuple(steps)

    def _most_equalities(self, start: int) -> Choose:
        """Before anything is measured: the input with most usable equalities, then one whose rows queries select."""

        def choose(bound: set[int], options: list[int]) -> int:
            return max(options, key=lambda i: (len(self.shape.pairs(start, bound, i)), self._selects(i), -i))

        return choose

    def _selects(self, i: int) -> bool:
        """Whether queries select rows of an input: few of them will be left."""
        return any(self.shape.inputs_of(p) == {i} for p in self.with_params)

    def _ready(self, waiting: list[Expr], bound: set[int]) -> Expr | None:
        """Removes from `waiting` and returns the conditions over bound inputs only."""
        ready = [w for w in waiting if self.shape.inputs_of(w) <= bound]
        waiting[:] = [w for w in waiting if not any(w is r for r in ready)]
        return all_of(ready)

    def _key(self, i: int, key: Key) -> int:
        if key not in self.keys[i]:
            self.keys[i].append(key)
        return self.keys[i].index(key)

    def _stream(self, i: int) -> StreamInput | None:
        """The stream whose log has the rows of an input."""
        node, condition = self._selected(i)
        return StreamInput(node, all_of(condition)) if isinstance(node, StreamScan) else None

    def _table(self, i: int) -> TableInput | None:
        """The table that has the rows of an input."""
        node, condition = self._selected(i)
        return TableInput(node, all_of(condition)) if isinstance(node, TableScan) else None

    def _selected(self, i: int) -> tuple[PhysicalNode | None, list[Expr]]:
        """What an input selects rows of, and the conditions; nothing, if an expression may fail."""
        node, conditions = self.inputs[i], list[Expr]()
        while isinstance(node, Filter):
            conditions.append(node.condition)
            node = node.input
        return (None, []) if self._may_fail(i, conditions) else (node, conditions[::-1])

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
        own = [p for p in self.with_params if self.shape.inputs_of(p) == {i} and not may_overflow(p)]
        child = self.inputs[i]
        if any(c.attached for c in self.inputs) or child.retracts or not child.reads_streams:
            return None
        condition = all_of(self.shape.own(p, i) for p in own)
        if condition is None:
            return None
        rest = all_of(p for p in self.with_params if not any(p is o for o in own))
        return FirstFilter(condition, rest, always=len(self.inputs) > 2)

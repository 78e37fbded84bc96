"""The cost model: what a logical plan costs in a second, from rates, sizes and distinct counts. (Document 3, 5.4.1.)

For inputs with rates λ, sizes N and distinct counts d, and an output of size No:

    selection, projection, union    Σ λ
    join, intersection              λ1 N2 + λ2 N1: a tuple of one input looks at the rows of the other
    duplicate elimination           λ No / 2
    grouping                        2 λ C, where C is the number of aggregates
    negation                        2 λ1 log2 d1 + 2 λ2 log2 d2

Above an input that retracts rows all but the last two cost twice as much. The document prints λ1 N1 + λ2 N2 for a join,
but a tuple does not probe its own input. `lookup` is "scan" for these formulas. With "key", as operators here work, a
tuple looks at the rows of its own key only, after a probe that costs as much as `PROBE` rows, and duplicates are
counted by value as in a negation: 2 λ log2 No.

Operators that wait for the clock, and all below them, run once per class of queries; what is above them runs once per
query. Estimating a plan of n nodes takes O(n²) steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import log2, prod
from typing import Literal, TypeGuard

from eddyline.plan import nodes
from eddyline.plan.equality_classes import is_equality
from eddyline.plan.expressions import columns_of, conjuncts, params_of
from eddyline.plan.nodes import Node
from eddyline.plan.selectivities import distinct_count, selectivity
from eddyline.plan.statistics import Statistics
from eddyline.sql.bound import Expr

Lookup = Literal["key", "scan"]
PROBE = 60.0  # fitted to the CPU times of both forms of plans that can be rewritten (`benchmarks/rewrites.py`)


@dataclass(frozen=True, slots=True)
class Estimate:
    """The cost of a node with everything below it, and its output: rows in a second, expected size, distinct counts."""

    cost: float
    rate: float
    rows: float
    distinct: tuple[float | None, ...]

    @property
    def values(self) -> float:
        """How many different rows there are."""
        known = [self.rows if d is None else d for d in self.distinct]
        return max(1.0, min(self.rows, prod(known)))


def estimate(node: Node, statistics: Statistics, lookup: Lookup = "key") -> Estimate:
    return _Estimator(statistics, lookup).of(node, None)


@dataclass(frozen=True, slots=True)
class _Part:
    """A condition of a join: the inputs it uses, the fraction of rows it keeps, and whether it can be a key."""

    used: frozenset[int]
    kept: float
    is_key: bool


@dataclass(frozen=True)
class _Estimator:
    statistics: Statistics
    lookup: Lookup

    def of(self, node: Node, classes: float | None) -> Estimate:
        """`classes`: how many copies an operator above that waits for the clock has; None: there is none."""
        if classes is None and waits(node):
            classes = self.statistics.queries if _has_params(node) else 1.0
        inputs = [self.of(i, classes) for i in node.inputs]
        copies = classes if classes is not None else self.statistics.queries if _any_waits(node) else 1.0
        output = self._output(node, inputs)
        read = (node.input,) if _is_non_retroactive(node) else node.inputs
        twice = 2 if any(map(retracts, read)) and not isinstance(node, nodes.GroupBy | nodes.Negation) else 1
        return replace(output, cost=sum(i.cost for i in inputs) + copies * twice * output.cost)

    def _output(self, node: Node, inputs: Sequence[Estimate]) -> Estimate:
        """The estimate of a node; its cost is that of the node alone."""
        match node:
            case nodes.Stream() | nodes.Table():
                s = self.statistics
                return Estimate(0.0, s.rate(node.source), s.size(node.source), s.distinct_counts(node.source))
            case nodes.Select():
                kept = selectivity(node.condition, inputs[0].distinct, [inputs[0].rows] * len(inputs[0].distinct))
                return Estimate(inputs[0].rate, inputs[0].rate * kept, inputs[0].rows * kept, inputs[0].distinct)
            case nodes.Project():
                (i,) = inputs
                return Estimate(i.rate, i.rate, i.rows, _counts([o.expr for o in node.outputs], i))
            case nodes.Union():
                rate, rows = sum(i.rate for i in inputs), sum(i.rows for i in inputs)
                sides = zip(*(i.distinct for i in inputs), strict=True)
                return Estimate(rate, rate, rows, tuple(_largest(counts) for counts in sides))
            case nodes.Join() | nodes.TableJoin():
                return self._join(node, inputs)
            case nodes.Intersect():
                a, b = inputs
                cost = a.rate * self._looked_at(b.rows, b.values) + b.rate * self._looked_at(a.rows, a.values)
                return Estimate(cost, min(a.rate, b.rate), min(a.rows, b.rows), a.distinct)
            case nodes.Distinct():
                (i,) = inputs
                cost = i.rate * (i.values / 2 if self.lookup == "scan" else 2 * _log(i.values))
                return Estimate(cost, i.rate * i.values / max(i.rows, i.values), i.values, i.distinct)
            case nodes.GroupBy():
                (i,) = inputs
                counts = _counts(node.keys, i)
                groups = Estimate(0.0, 0.0, i.rows, counts).values if node.keys else 1.0
                cost = 2 * i.rate * max(1, len(node.aggregates))
                return Estimate(cost, 2 * i.rate, groups, (*counts, *(None for _ in node.aggregates)))
            case nodes.Negation():
                a, b = inputs
                cost = 2 * a.rate * _log(a.values) + 2 * b.rate * _log(b.values)
                left = a.rows / max(1.0, a.rows + b.rows)  # with equal sizes, half of the rows cancel out
                return Estimate(cost, (a.rate + b.rate) * left, a.rows * left, a.distinct)

    def _join(self, node: nodes.Join | nodes.TableJoin, inputs: Sequence[Estimate]) -> Estimate:
        """The rows of each input probe the others one by one, the one with the fewest matches first. The changes of a
        non-retroactive table probe nothing."""
        of_column = [n for n, i in enumerate(inputs) for _ in i.distinct]
        distinct = tuple(d for i in inputs for d in i.distinct)
        sizes = [inputs[n].rows for n in of_column]
        parts = [
            _Part(frozenset(of_column[c] for c in columns_of(part)), selectivity(part, distinct, sizes), _is_key(part))
            for part in conjuncts(node.condition)
        ]

        def checked(bound: set[int], j: int) -> list[_Part]:
            """The conditions that can be checked once input j is joined with the bound ones."""
            return [p for p in parts if j in p.used and p.used <= bound | {j}]

        def matches(bound: set[int], j: int) -> float:
            return inputs[j].rows * prod(p.kept for p in checked(bound, j))

        probing = range(1 if _is_non_retroactive(node) else len(inputs))
        cost = rate = 0.0
        for i in probing:
            bound, partial = {i}, inputs[i].rate * prod(p.kept for p in parts if p.used <= {i})
            while len(bound) < len(inputs):
                j = min((j for j in range(len(inputs)) if j not in bound), key=lambda j: matches(bound, j))
                keys = [p.kept for p in checked(bound, j) if p.is_key]
                scans = self.lookup == "scan" or not keys
                cost += partial * (inputs[j].rows if scans else PROBE + inputs[j].rows * prod(keys))
                partial *= matches(bound, j)
                bound.add(j)
            rate += partial
        rows = prod(i.rows for i in inputs) * prod(p.kept for p in parts)
        return Estimate(cost, rate, rows, distinct)

    def _looked_at(self, rows: float, values: float) -> float:
        return rows if self.lookup == "scan" else PROBE + rows / values


def waits(node: Node) -> bool:
    """Whether a node waits for the clock, and runs once per class of queries with all below it."""
    counts = isinstance(node, nodes.Stream) and node.window.kind == "rows"
    return counts or isinstance(node, nodes.Distinct | nodes.Intersect | nodes.Negation | nodes.GroupBy)


def retracts(node: Node) -> bool:
    """Whether a row may be retracted before its announced expiration."""
    match node:
        case nodes.Stream():
            return node.window.kind == "rows"
        case nodes.Table() | nodes.GroupBy() | nodes.Negation():
            return True
        case nodes.TableJoin():
            return node.kind == "retroactive" or retracts(node.input)
        case _:
            return any(map(retracts, node.inputs))


def _is_non_retroactive(node: Node) -> TypeGuard[nodes.TableJoin]:
    return isinstance(node, nodes.TableJoin) and node.kind == "non-retroactive"


def _any_waits(node: Node) -> bool:
    return waits(node) or any(map(_any_waits, node.inputs))


def _has_params(node: Node) -> bool:
    return any(params_of(e) for e in nodes.expressions(node)) or any(map(_has_params, node.inputs))


def _is_key(part: Expr) -> bool:
    return is_equality(part) and all(columns_of(side) for side in part.args)


def _counts(exprs: Sequence[Expr], below: Estimate) -> tuple[float | None, ...]:
    return tuple(distinct_count(e, below.distinct) if columns_of(e) else 1.0 for e in exprs)


def _largest(counts: Sequence[float | None]) -> float | None:
    known = [d for d in counts if d is not None]
    return max(known) if len(known) == len(counts) else None


def _log(values: float) -> float:
    return log2(max(2.0, values))

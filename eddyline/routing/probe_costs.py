"""Cost model of multi-way window joins: comparisons per unit of time, for any number of inputs and any order.

New rows of one input, the *origin*, are joined with the windows of the others in nested loops. Every partial result
scans the next window, or the bucket of its key; the rows that match are the next partial results. The first loop
compares nothing. Values are taken to be uniform, and the values of one key to contain those of another, so the number
of results does not depend on the order. (Document 2, section 4 and Appendix A, for any number of inputs. There the text
of H3 scans lambda4 T4 rows of the fourth window; the formula, T4 + tau, is right.)
"""

from __future__ import annotations

from math import prod

from eddyline.routing.join_graph import EAGER, Inputs, JoinGraph, JoinStatistics, Schedule


class ProbeCosts:
    """Sizes of partial results and costs of probes in one pass over new rows of the origin.

    Under eager evaluation a pass has one new row; otherwise it has those of an interval, and windows hold the rows of
    one expiration interval more. Without an origin, sizes are those of whole windows.
    """

    def __init__(
        self, statistics: JoinStatistics, graph: JoinGraph, origin: int | None, schedule: Schedule = EAGER
    ) -> None:
        self.statistics, self.graph, self.origin = statistics, graph, origin
        self._rows = [i.rows + i.rate * schedule.expire for i in statistics.inputs]
        self.passes = 1.0  # per unit of time
        if origin is not None:
            rate = statistics.inputs[origin].rate
            self._rows[origin] = rate * schedule.evaluate or 1.0
            self.passes = rate / self._rows[origin]
        self.costly = frozenset(t for t, theta in enumerate(statistics.thetas) if theta.cost)
        self._sizes: dict[Inputs, float] = {}

    def size(self, bound: Inputs, evaluated: frozenset[int] = frozenset()) -> float:
        """Expected partial results over the bound inputs: those that satisfy all equalities, all predicates that cost
        nothing, and of the others those that were evaluated."""
        if bound not in self._sizes:
            self._sizes[bound] = self._size(bound)
        return self._sizes[bound] * prod(self.statistics.thetas[t].selectivity for t in evaluated)

    def _size(self, bound: Inputs) -> float:
        size = prod(self._rows[i] for i in bound)
        for c, members in enumerate(self.graph.equalities):
            size /= self._values(c, members & bound)
        for t, inputs in enumerate(self.graph.thetas):
            if t not in self.costly and inputs <= bound:
                size *= self.statistics.thetas[t].selectivity
        return size

    def scanned(self, bound: Inputs, new: int) -> float:
        """The rows of `new` that one partial result is compared with: a bucket, and at least all that match."""
        rows, usable = self._rows[new], self.graph.usable(bound, new)
        if not usable or new == self.origin:  # new rows are in no index of their own
            return rows
        matching = rows
        for c in usable:
            matching /= min(self.statistics.domain(c, i, new) for i in self.graph.equalities[c] & bound)
        return max(rows / self.statistics.inputs[new].buckets, matching)

    def probe(self, bound: Inputs, evaluated: frozenset[int], new: int) -> float:
        """The cost of probing `new` with all partial results."""
        of_new = self.statistics.inputs[new]
        looked_up = new != self.origin and of_new.buckets > 1.0 and self.graph.usable(bound, new)
        each = self.scanned(bound, new) + (of_new.lookup if looked_up else 0.0)
        return self.size(bound, evaluated) * each

    def evaluation(self, bound: Inputs, evaluated: frozenset[int], theta: int) -> float:
        """The cost of evaluating a predicate for all partial results."""
        return self.size(bound, evaluated) * self.statistics.thetas[theta].cost

    def _values(self, c: int, members: Inputs) -> float:
        """By how much the equality of a class reduces the combinations of rows: every further input has to agree with
        one of those before it, that with which it agrees most often. Without measured domains it is the product of all
        distinct counts but the smallest."""
        left, reached, values = sorted(members), list[int](), 1.0
        while left:
            domains = {i: min((self.statistics.domain(c, i, j) for j in reached), default=1.0) for i in left}
            nearest = min(left, key=lambda i: domains[i])
            values *= domains[nearest]
            reached.append(nearest)
            left.remove(nearest)
        return values

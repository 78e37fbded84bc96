"""Prefixes of routes that joins share: a trie of steps per origin, with the number of routes through every node.

A step is whatever names a probe to the engine, such as a SteM and its key. Partial results of a node are built once
for all routes through it. A route whose queries select tuples needs only a share of them. So a join that follows a path
of the trie pays for the steps beyond it, and its part of each step on it. If it paid only for what the others do not
need, two joins could keep each other on a costly path for ever.
(Document 1, section 3.3; `probe_orders.best_orders` gives the credit.)
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from math import expm1, inf, log1p, prod

from eddyline.routing.join_graph import Inputs
from eddyline.routing.route_search import Paid

Steps = Sequence[Hashable]
WHOLE = 1.0 - 1e-9
UNIT = 1 << 40  # sums are of whole numbers of 1 / UNIT, so that they do not depend on the order of additions
NameOf = Callable[[Inputs, int], Hashable]  # the step that probes an input from partial results over the bound ones


@dataclass
class _Node:
    routes: int = 0
    whole: int = 0  # routes that need all partial results of the step
    missed: int = 0  # of the others: the logarithm of the share that none of them needs, in units
    shares: int = 0  # of all routes together, in units
    children: dict[Hashable, _Node] = field(default_factory=dict)

    def count(self, share: float, routes: int) -> None:
        self.routes += routes
        self.shares += routes * round(share * UNIT)
        if share >= WHOLE:
            self.whole += routes
        else:
            self.missed += routes * round(log1p(-share) * UNIT)

    def credit(self, own: float) -> float:
        """What other routes pay of the step, for a route that needs the share `own` of its partial results. The routes
        divide the cost of all that some of them needs by their shares, as if they needed them independently."""
        needed = 1.0 if self.whole else -expm1(self.missed / UNIT + (log1p(-own) if own < WHOLE else -inf))
        return max(0.0, 1.0 - needed / max(self.shares / UNIT + own, needed))


class SharedPrefixes:
    def __init__(self) -> None:
        self._origins: dict[Hashable, _Node] = {}

    def add(self, origin: Hashable, steps: Steps, shares: Sequence[float] = ()) -> None:
        """A join begins to use a route; `shares`: by step, how many of the partial results its queries still need. All
        of them, if it is not given."""
        node = self._origins.setdefault(origin, _Node())
        node.routes += 1
        for step, share in zip(steps, shares or repeat(1.0), strict=False):
            node = node.children.setdefault(step, _Node())
            node.count(share, 1)

    def remove(self, origin: Hashable, steps: Steps, shares: Sequence[float] = ()) -> None:
        """A join that used a route is dropped, or takes another one. Raises KeyError if no join uses it."""
        path = [(self._origins, origin)]
        for step in steps:
            siblings, name = path[-1]
            path.append((siblings[name].children, step))
        if any(name not in siblings for siblings, name in path):
            raise KeyError(steps)
        for (siblings, name), share in zip(path, (0.0, *(shares or [1.0] * len(steps))), strict=True):
            siblings[name].count(share, -1)
            if not siblings[name].routes:
                del siblings[name]
                return

    def nodes(self) -> int:
        """The steps that are taken, each counted once."""

        def below(node: _Node) -> int:
            return sum(1 + below(child) for child in node.children.values())

        return sum(below(root) for root in self._origins.values())

    def usable(self, origin: Hashable, start: int, name_of: NameOf, selected: Sequence[float]) -> list[Paid]:
        """The paths from an origin that a join can follow, with their credits; `start` is its input whose new rows they
        are, `selected` says how much its queries select of each of its inputs. Inputs of a self-join have equal steps:
        each order of them is a path."""
        root = self._origins.get(origin)
        return [] if root is None else list(_paths(root, (start,), (), name_of, selected))


def _paths(
    node: _Node, taken: tuple[int, ...], credits: tuple[float, ...], name_of: NameOf, selected: Sequence[float]
) -> Iterator[Paid]:
    bound, own = frozenset(taken), prod(selected[i] for i in taken)
    for new in range(len(selected)):
        child = None if new in bound else node.children.get(name_of(bound, new))
        if child is not None:
            along = (*credits, child.credit(own))
            yield Paid((*taken[1:], new), along)
            yield from _paths(child, (*taken, new), along, name_of, selected)

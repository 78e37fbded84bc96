"""Prefixes of routes that joins share: a trie of steps per origin, with the number of routes through every node.

A step is whatever names a probe to the engine, such as a SteM and its key. Partial results of a node are built once
for all routes through it, so a new join that follows a path of the trie pays only for the steps beyond it.
(Document 1, section 3.3; `probe_orders.best_orders` gives the credit.)
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field

from eddyline.routing.join_graph import Inputs

Steps = Sequence[Hashable]
NameOf = Callable[[Inputs, int], Hashable]  # the step that probes an input from partial results over the bound ones


@dataclass
class _Node:
    routes: int = 0
    children: dict[Hashable, _Node] = field(default_factory=dict)


class SharedPrefixes:
    def __init__(self) -> None:
        self._origins: dict[Hashable, _Node] = {}

    def add(self, origin: Hashable, steps: Steps) -> None:
        """A join begins to use a route."""
        node = self._origins.setdefault(origin, _Node())
        node.routes += 1
        for step in steps:
            node = node.children.setdefault(step, _Node())
            node.routes += 1

    def remove(self, origin: Hashable, steps: Steps) -> None:
        """A join that used a route is dropped, or takes another one. Raises KeyError if no join uses it."""
        path = [(self._origins, origin)]
        for step in steps:
            siblings, name = path[-1]
            path.append((siblings[name].children, step))
        if any(name not in siblings for siblings, name in path):
            raise KeyError(steps)
        for siblings, name in path:
            siblings[name].routes -= 1
            if not siblings[name].routes:
                del siblings[name]
                return

    def nodes(self) -> int:
        """The steps that are taken, each counted once."""

        def below(node: _Node) -> int:
            return sum(1 + below(child) for child in node.children.values())

        return sum(below(root) for root in self._origins.values())

    def usable(self, origin: Hashable, start: int, inputs: int, name_of: NameOf) -> list[tuple[int, ...]]:
        """The paths from an origin that a join of so many inputs can follow, as sequences of its inputs; `start` is its
        input whose new rows they are. Inputs of a self-join have equal steps: each order of them is a path."""
        root = self._origins.get(origin)
        return [] if root is None else list(_paths(root, (start,), inputs, name_of))


def _paths(node: _Node, taken: tuple[int, ...], inputs: int, name_of: NameOf) -> Iterator[tuple[int, ...]]:
    bound = frozenset(taken)
    for new in range(inputs):
        child = None if new in bound else node.children.get(name_of(bound, new))
        if child is not None:
            yield (*taken[1:], new)
            yield from _paths(child, (*taken, new), inputs, name_of)

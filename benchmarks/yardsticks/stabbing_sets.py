"""The stabbing set index: a structure for each group of a stabbing partition (document 4, section 2.1).

It knows nothing of the structures but how to build one of some ranges, and to insert and remove ranges, many at a time.
Invariant: after every call, the structure of a group holds just the ranges of the group. An update affects the
structure of one group; when the ranges were regrouped, all structures are built anew, once for the call. That is rare
with the trigger `witnesses`, which takes more than (1 + eps / 2) x tau groups; the other two regroup after some tau
updates however good the groups are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from benchmarks.yardsticks.dynamic_stabbing import DynamicPartition, Trigger, Updates
from benchmarks.yardsticks.range_updates import Batch, batch, inserts, removals
from eddyline.arrays import Ints, Mask


class GroupStructure(Protocol):
    def insert(self, ids: Ints, low: Ints, high: Ints) -> None:
        """Ranges that are not there."""

    def remove(self, ids: Ints, low: Ints, high: Ints) -> None:
        """Ranges that are there, with their ends."""


S = TypeVar("S", bound=GroupStructure)


class StabbingSets(Generic[S]):
    def __init__(
        self, build: Callable[[Ints, Ints, Ints], S], eps: float = 1.0, trigger: Trigger = "witnesses"
    ) -> None:
        """`build` makes the structure of some ranges: ids, low and high ends, in order of low end."""
        self.partition = DynamicPartition(eps, trigger)
        self._build = build
        self._structures: dict[int, S] = {}  # by the number of the group
        self._version = self.partition.version

    def __len__(self) -> int:
        """How many groups there are."""
        return len(self.partition)

    def __getitem__(self, group: int) -> S:
        return self._structures[group]

    def __iter__(self) -> Iterator[tuple[int, int, S]]:
        """(first, last, structure) along the axis; all ranges of a group hold what is between first and last."""
        part = self.partition
        for group, first, last in zip(part.numbers.tolist(), part.first.tolist(), part.last.tolist(), strict=True):
            yield first, last, self._structures[group]

    def insert(self, ids: npt.ArrayLike, low: npt.ArrayLike, high: npt.ArrayLike) -> None:
        """Ranges low … high under ids that are not there."""
        self.apply(inserts(ids, low, high))

    def remove(self, ids: npt.ArrayLike) -> None:
        self.apply(removals(ids))

    def update(self, insert: npt.ArrayLike, ids: npt.ArrayLike, low: npt.ArrayLike, high: npt.ArrayLike) -> None:
        """A sequence of inserts and removals."""
        self.apply(batch(insert, ids, low, high))

    def apply(self, updates: Batch) -> None:
        """One after the other for the partition; its groups then get what came and lose what went, all at once."""
        made = self.partition.apply(updates)
        if self.partition.version != self._version:
            self._rebuild()
            return
        went, came = net(updates.insert, updates.ids)
        for group, at in _by_group(made.group, went):
            self._structures[group].remove(updates.ids[at], made.low[at], made.high[at])
        for group, at in _by_group(made.group, came):
            self._add(group, updates.ids[at], made.low[at], made.high[at])
        self._forget_empty(made)

    def _add(self, group: int, ids: Ints, low: Ints, high: Ints) -> None:
        if group in self._structures:
            self._structures[group].insert(ids, low, high)
            return
        order = np.argsort(low, kind="stable")
        self._structures[group] = self._build(ids[order], low[order], high[order])

    def _forget_empty(self, made: Updates) -> None:
        if len(self._structures) > len(self.partition):
            for group in set(made.group.tolist()) - set(self.partition.numbers.tolist()):
                self._structures.pop(group, None)

    def _rebuild(self) -> None:
        """Every structure anew. O(n), and what it takes to build them."""
        starts, ids = self.partition.by_group()
        low, high = self.partition.ends(ids)
        parts = [slice(begin, end) for begin, end in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True)]
        numbers = self.partition.numbers.tolist()
        self._structures = {
            group: self._build(ids[part], low[part], high[part]) for group, part in zip(numbers, parts, strict=True)
        }
        self._version = self.partition.version


def net(insert: Mask, ids: Ints) -> tuple[Ints, Ints]:
    """Which removals are of ranges that were there before the batch, and which inserts of ranges that are there after
    it: those that are the first, and the last, update of their id."""
    every = np.arange(len(ids))
    if insert.all() or not insert.any():
        return every[~insert], every[insert]
    _, first = np.unique(ids, return_index=True)
    _, last = np.unique(ids[::-1], return_index=True)
    last = len(ids) - 1 - last
    return np.sort(first[~insert[first]]), np.sort(last[insert[last]])


def _by_group(groups: Ints, some: Ints) -> Iterator[tuple[int, Ints]]:
    """Some updates, by the group they are in."""
    if len(some) <= 1:
        yield from ((int(groups[i]), some) for i in some)
        return
    order = some[np.argsort(groups[some], kind="stable")]
    sorted_groups = groups[order]
    begins = np.append(0, np.nonzero(sorted_groups[1:] != sorted_groups[:-1])[0] + 1)
    cuts = [*begins.tolist(), len(order)]
    for group, begin, end in zip(sorted_groups[begins].tolist(), cuts[:-1], cuts[1:], strict=True):
        yield group, order[begin:end]

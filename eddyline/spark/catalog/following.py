"""Follower: applies the commits of a log to an engine, or to definitions alone.

What was committed between two micro-batches takes effect at once. An engine therefore skips families and queries that
these commits add and drop again: they are never started, and get no initial answer. Whether the commits are read one by
one or from a snapshot of the catalog, which has no trace of such queries, makes no difference.

An amended micro-batch (`amendments.py`) applies the commits that made it fail and those that removed the cause. There,
families are removed before anything else is applied.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

import numpy as np

from eddyline.arrays import Ints
from eddyline.engine.actions import Action, AddQueries, DropQueries, LoadQueries, NewFamily, Quarantine, RemoveFamily
from eddyline.engine.definitions import Definitions, Since, from_the_start
from eddyline.spark.catalog.commits import CommitLog

Part = TypeVar("Part")
Apply = Callable[[Action], list[Part]]


class Follower:
    def __init__(self, log: CommitLog, definitions: Definitions) -> None:
        self.log = log
        self.definitions = definitions
        self.version = 0  # the last commit that was applied to the definitions

    def move_to(self, version: int, apply: Apply[Part], *, amended: bool = False) -> list[Part]:
        """Applies the net effect of the commits up to a version; returns its parts."""
        actions = [action for _, commit in self._unapplied(version) for action in commit]
        netted = net(actions, self.definitions.families, "first" if amended else "in order")
        parts: list[Part] = []
        self.definitions.leaving = netted.removed
        for action in netted.actions:
            parts += apply(action)
        self.definitions.leaving, self.version = {}, max(self.version, version)
        return parts

    def define(self, version: int, since: Since = from_the_start) -> None:
        """Applies the commits up to a version one by one, without an engine."""
        for number, commit in self._unapplied(version):
            for action in commit:
                self.definitions.apply(action, since)
            self.version = number

    def _unapplied(self, version: int) -> Iterator[tuple[int, list[Action]]]:
        """The commits up to a version that were not applied yet, with their numbers; if none was, a snapshot replaces
        the first ones."""
        base = self._base(version) if not self.version else 0
        if base:
            yield base, self.log.read_snapshot(base)
        for number in range(max(self.version, base) + 1, version + 1):
            yield number, self.log.read(number)

    def _base(self, version: int) -> int:
        """The snapshot to start from; 0: there is none.

        The snapshot of a commit is written after it, and before the next commit. That of the last commit may therefore
        appear between a step and its replay; it is used only where the commits before it were trimmed.
        """
        earlier = self.log.snapshot_before(version - 1)
        return earlier if self.log.has(earlier + 1) else self.log.snapshot_before(version)

    def can_move_to(self, version: int) -> bool:
        return self.version == version or (self.version < version and self.log.has(self.version + 1))


@dataclass(frozen=True)
class Net:
    actions: list[Action]
    removed: dict[int, Ints]  # by family: queries that are dropped or put into quarantine by these actions


def net(actions: Sequence[Action], families: Container[int], removals: Literal["in order", "first"]) -> Net:
    """Actions that start nothing that they remove. `families` exist before; those that are removed get no new queries.
    `removals` says when they are removed: "first" also skips everything else that concerns them."""
    gone = {a.number for a in actions if isinstance(a, RemoveFamily)}
    ending = {n for n in gone if n in families}
    if removals == "first":
        first: list[Action] = [RemoveFamily(n) for n in sorted(ending)]
        kept = [*first, *(a for a in actions if family_of(a) not in gone)]
    else:
        adding = AddQueries | LoadQueries
        kept = [
            a for a in actions if family_of(a) not in gone or (family_of(a) in ending and not isinstance(a, adding))
        ]
    return Net(kept, _removed(kept))


def _removed(actions: Iterable[Action]) -> dict[int, Ints]:
    ids: dict[int, list[Ints]] = {}
    for a in actions:
        if isinstance(a, DropQueries | Quarantine):
            ids.setdefault(a.family, []).append(np.asarray(a.ids, np.int64))
    return {family: np.concatenate(some) for family, some in ids.items()}


def family_of(action: Action) -> int | None:
    """The number of the family that an action changes; None if it changes none."""
    if isinstance(action, NewFamily | RemoveFamily):
        return action.number
    return getattr(action, "family", None)

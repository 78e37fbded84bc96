"""Follower: applies the commits of a log, one by one, to an engine or to definitions alone.

An amended micro-batch (`amendments.py`) applies the commits that made it fail and those that removed the cause. Applied
one by one, they would start the cause before removing it. It therefore applies the net effect of all of them: families
that are removed again are never started, and neither are queries that are dropped or put into quarantine.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from typing import TypeVar

from eddyline.engine.actions import Action, DropQueries, NewFamily, Quarantine, RemoveFamily
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
        """Applies the commits up to a version, starting from a snapshot if none was applied yet; returns their parts.

        In an amended micro-batch, it skips families and queries that these commits add and drop again.
        """
        parts: list[Part] = []
        base = self.log.snapshot_before(version) if not self.version else 0
        if base:
            for action in self.log.read_snapshot(base):
                parts += apply(action)
            self.version = base
        if amended:
            numbers = range(self.version + 1, version + 1)
            netted = net([action for n in numbers for action in self.log.read(n)], self.definitions.families)
            self.definitions.leaving = netted.removed
            for action in netted.actions:
                parts += apply(action)
            self.definitions.leaving, self.version = {}, max(self.version, version)
        while self.version < version:
            for action in self.log.read(self.version + 1):
                parts += apply(action)
            self.version += 1
        return parts

    def define(self, version: int, since: Since = from_the_start) -> None:
        """Moves the definitions to a version, without an engine."""

        def apply(action: Action) -> list[None]:
            self.definitions.apply(action, since)
            return []

        self.move_to(version, apply)

    def can_move_to(self, version: int) -> bool:
        return self.version == version or (self.version < version and self.log.has(self.version + 1))


@dataclass(frozen=True)
class Net:
    actions: list[Action]
    removed: dict[int, set[int]]  # by family: queries that are dropped or put into quarantine by these actions


def net(actions: Sequence[Action], families: Container[int]) -> Net:
    """`families` exist before the actions; those that the actions remove are removed first."""
    removed_families = {a.number for a in actions if isinstance(a, RemoveFamily)}
    first: list[Action] = [RemoveFamily(n) for n in sorted(removed_families) if n in families]
    kept = [a for a in actions if family_of(a) not in removed_families]
    removed: dict[int, set[int]] = {}
    for a in kept:
        if isinstance(a, DropQueries | Quarantine):
            removed.setdefault(a.family, set()).update(int(i) for i in a.ids)
    return Net([*first, *kept], removed)


def family_of(action: Action) -> int | None:
    """The number of the family that an action changes; None if it changes none."""
    if isinstance(action, NewFamily | RemoveFamily):
        return action.number
    return getattr(action, "family", None)

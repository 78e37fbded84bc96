"""Follower: applies the commits of a log, one by one, to an engine or to definitions alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from eddyline.engine.actions import Action
from eddyline.engine.definitions import Definitions, Since, from_the_start
from eddyline.spark.catalog.commits import CommitLog
from eddyline.spark.catalog.netting import net

Part = TypeVar("Part")
Apply = Callable[[Action], list[Part]]


class Follower:
    def __init__(self, log: CommitLog, definitions: Definitions, version: int = 0) -> None:
        """`version`: the last commit already applied to the definitions."""
        self.log = log
        self.definitions = definitions
        self.version = version

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

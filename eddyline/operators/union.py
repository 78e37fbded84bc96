"""Merge union: the changes of all inputs."""

from __future__ import annotations

from eddyline.operators.base import Operator, Step
from eddyline.state.delta import Delta, concat


class UnionAll(Operator):
    def pull(self, step: Step) -> Delta:
        return concat([c.pull(step) for c in self.children], self.types, attached=self.attached)

"""Merge union: the changes of all inputs."""

from __future__ import annotations

from collections.abc import Sequence

from eddyline.operators.base import Operator, Step
from eddyline.state.delta import Delta, concat


class Union(Operator):
    def __init__(self, children: Sequence[Operator]) -> None:
        super().__init__(children)
        self.types, self.attached = children[0].types, children[0].attached

    def pull(self, step: Step) -> Delta:
        return concat([c.pull(step) for c in self.children], self.types, attached=self.attached)

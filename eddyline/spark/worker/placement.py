"""Placement: which families run in a bucket or a packer, and which of their queries.

Stateless families run in packers. The others run in buckets: in one bucket, in all buckets over a part of the rows, or
in all buckets over a part of the queries (`plan/partitioning.py`, `catalog/splitting.py`).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from eddyline.arrays import Ints
from eddyline.engine.actions import Split, SplitQueries
from eddyline.engine.definitions import Share
from eddyline.engine.family import Family
from eddyline.plan.partitioning import Partitioning, by_queries, partitioning


def partitioning_of(family: Family, split: Split | None) -> Partitioning:
    """How the input of a family is partitioned, given its committed split."""
    return (
        by_queries(family.plan)
        if isinstance(split, SplitQueries)
        else partitioning(family.plan, keeps_tuples=family.keeps_tuples)
    )


@dataclass(frozen=True)
class Placement(Share):
    """The placement in one process: `place` is the number of a bucket, or "packer"."""

    place: int | Literal["packer"]
    buckets: int
    clock_policy: Literal["min", "max"]
    _known: dict[int, tuple[Family, Split | None, Partitioning]] = field(default_factory=dict)

    def of(self, family: Family, split: Split | None) -> Partitioning:
        known = self._known.get(family.number)
        if known is not None and known[0] is family and known[1] == split:
            return known[2]
        decided = partitioning_of(family, split)
        if self.clock_policy == "max" and decided.kind == "stateless" and len(decided.routings) > 1:
            # The tuples visible to such a family depend on its clock, which only buckets know.
            decided = replace(decided, kind="anywhere")
        self._known[family.number] = family, split, decided
        return decided

    def keeps(self, family: Family, split: Split | None) -> bool:
        """Whether this process keeps the queries of a family. A packer needs the bounds of bands to route rows."""
        decided = self.of(family, split)
        if self.place == "packer":
            return decided.kind in ("stateless", "by range")
        if decided.kind == "one place":
            return place_of_family(family, self.buckets) == self.place
        return decided.kind != "stateless"

    def runs(self, family: Family, split: Split | None) -> bool:
        if self.place == "packer":
            return self.of(family, split).kind == "stateless"
        return self.keeps(family, split)

    def owned(self, ids: Ints, split: Split | None) -> npt.NDArray[np.bool_] | None:
        if isinstance(split, SplitQueries) and self.place != "packer":
            owned: npt.NDArray[np.bool_] = ids % self.buckets == self.place
            return owned
        return None


def place_of_family(family: Family, buckets: int) -> int:
    """The bucket of a family that cannot be split."""
    return family.number % buckets

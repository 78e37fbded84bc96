"""What a join remembers about the order of its probes: when it was last checked, by which statistics, and its changes.

It is saved with the join, so that a restored join takes the same orders at the same tuples: the order of results, and
with it the position of an output row, must be the same in a replay. So nothing here is a measured time.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

import pyarrow as pa

from eddyline.routing.join_graph import InputStatistics, JoinStatistics, ThetaStatistics

REMEMBERED = 8  # changes

Orders = tuple[tuple[int, ...], ...]  # by origin, the inputs that its changes probe


class OrderChange(NamedTuple):
    """At an arrival number and an event time, the changes of an origin took another order."""

    arrivals: int
    time: int
    origin: int
    before: tuple[int, ...]
    after: tuple[int, ...]
    why: str


class SavedPlan(NamedTuple):
    """The probes in force and what was counted: by input its changes, by condition between inputs what it did."""

    orders: Sequence[Sequence[int]]
    scanned: Sequence[int]
    counted: Sequence[int]
    conditions: Sequence[Sequence[float] | None]


@dataclass
class OrderState:
    checked: int | None = None  # the number of arrivals at the last check
    time: int = 0  # event time then
    changes_seen: list[int] = field(default_factory=list)  # by input, the changes that had arrived then
    basis: JoinStatistics | None = None  # those by which the orders in force were chosen
    costs: list[float] = field(default_factory=list)  # by origin, of its order by that basis, per microsecond
    calm: int = 1  # the intervals until the next check; more of them while the statistics do not move
    checks: int = 0
    searches: int = 0
    changes: list[OrderChange] = field(default_factory=list)  # the last ones

    def changed(self, change: OrderChange) -> None:
        self.changes = [*self.changes, change][-REMEMBERED:]

    def save(self, plan: SavedPlan) -> pa.Table:
        """As a table of one value."""
        saved = asdict(self) | plan._asdict()
        if self.basis is not None:
            saved["basis"]["domains"] = [[*pair, d] for pair, d in self.basis.domains.items()]
        return pa.table({"state": [json.dumps(saved)]})

    @classmethod
    def load(cls, saved: pa.Table) -> tuple[OrderState, SavedPlan]:
        """What was saved."""
        given: dict[str, Any] = json.loads(saved.column("state")[0].as_py())
        plan = SavedPlan(*(given.pop(name) for name in SavedPlan._fields))
        basis = given.pop("basis")
        changes = [OrderChange(a, t, i, tuple(x), tuple(y), why) for a, t, i, x, y, why in given.pop("changes")]
        return cls(**given, changes=changes, basis=None if basis is None else _statistics(basis)), plan


def _statistics(saved: dict[str, Any]) -> JoinStatistics:
    inputs = (i | {"distinct": {int(c): d for c, d in i["distinct"].items()}} for i in saved["inputs"])
    thetas = tuple(ThetaStatistics(**t) for t in saved["thetas"])
    domains = {(c, i, j): d for c, i, j, d in saved["domains"]}
    return JoinStatistics(tuple(InputStatistics(**i) for i in inputs), thetas, domains)

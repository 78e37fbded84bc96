"""Chooses the joins whose arriving tuples take shared routes (`operators/joins/shared_routes.py`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from eddyline.engine.running_family import RunningFamily
from eddyline.operators.evaluate import Functions
from eddyline.operators.joins.candidates import Candidates
from eddyline.operators.joins.route_tables import Member
from eddyline.operators.joins.shared_routes import SharedRoutes
from eddyline.operators.joins.stem_join import StemJoin
from eddyline.operators.scan import StreamScan
from eddyline.state.delta import Delta

FEWEST_JOINS = 4  # that justify shared routes
MOST_QUERIES = 64  # of a family; a larger one has an index of its own, which costs a tuple less
MOST_SLOTS = 4096  # queries of all families together: every tuple is compared with each of them
Routed = Mapping[tuple[int, int], Candidates | None]


class SharedJoins:
    """The shared routes of one stream."""

    def __init__(self) -> None:
        self._routes = SharedRoutes()
        self._members: dict[int, tuple[RunningFamily, list[Member]]] = {}  # by family

    def candidates(self, stream: str, batch: Delta, readers: Sequence[RunningFamily], functions: Functions) -> Routed:
        """The rows that the joins of small families may emit; empty if too few of them could share."""
        eager = (r for r in readers if r.collecting is None and stream in r.logs)
        small = {r.family.number: r for r in eager if len(r.family.queries) <= MOST_QUERIES}
        if sum(len(r.family.queries) for r in small.values()) > MOST_SLOTS:
            small = {}
        if {n: id(r) for n, r in small.items()} != {n: id(r) for n, (r, _) in self._members.items()}:
            self._members = {n: self._known(n, r, stream) for n, r in small.items()}
            self._routes.members = [m for _, members in self._members.values() for m in members]
        if len(self._routes.members) < FEWEST_JOINS or not len(batch):
            return {}
        queries = {n: r.family.queries.rows() for n, r in small.items()}
        try:
            return self._routes.candidates(batch, queries, functions)
        except Exception:  # probing alone, only the family whose queries cause it fails
            self._routes, self._members = SharedRoutes(), {}
            return {}

    def _known(self, number: int, running: RunningFamily, stream: str) -> tuple[RunningFamily, list[Member]]:
        known = self._members.get(number)
        return known if known is not None and known[0] is running else (running, members_of(running, stream))


def members_of(running: RunningFamily, stream: str) -> list[Member]:
    """The routes of a family's joins from a stream."""
    members = []
    for join in running.root.walk():
        if not isinstance(join, StemJoin):
            continue
        for i, child in enumerate(join.children):
            if any(isinstance(o, StreamScan) and o.stream == stream for o in child.walk()):
                member = Member.of(running.family.number, join, i)
                if member is not None:
                    members.append(member)
    return members

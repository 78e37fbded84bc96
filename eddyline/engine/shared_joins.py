"""Chooses the joins whose arriving tuples take shared routes (`operators/joins/shared_routes.py`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set

import numpy as np

from eddyline.engine.running_family import Routes, RunningFamily
from eddyline.operators.evaluate import Functions
from eddyline.operators.joins.candidates import Candidates
from eddyline.operators.joins.route_tables import Member
from eddyline.operators.joins.shared_routes import Arriving, Routed, SharedRoutes
from eddyline.operators.joins.stem_join import StemJoin
from eddyline.operators.scan import StreamScan
from eddyline.state.delta import Delta
from eddyline.state.store.store import LogName
from eddyline.state.store.stream_log import StreamLog

FEWEST_JOINS = 4  # that justify shared routes
MOST_QUERIES = 64  # of a family; a larger one has an index of its own, which costs a tuple less
MOST_SLOTS = 4096  # queries of all families together: every tuple is compared with each of them


class SharedJoins:
    """The shared routes of one stream."""

    def __init__(self) -> None:
        self.routes = SharedRoutes()
        self.idle: frozenset[int] = frozenset()  # families that change nothing if none of their joins has candidates
        self._members: dict[int, tuple[RunningFamily, int, list[Member]]] = {}  # by family, with the version of orders
        self._taken: list[tuple[Member, int, int, int]] = []  # with what tells versions of their queries apart
        self._revision: int | None = None

    @property
    def members(self) -> list[Member]:
        """The routes that are shared at present."""
        return self.routes.members

    def prepare(self, stream: str, readers: Sequence[RunningFamily], functions: Functions, revision: int) -> None:
        """Chooses among the families that read the stream, whenever the engine has another revision of families and
        queries."""
        if revision != self._revision:
            try:
                self._choose(stream, readers, functions)
            except Exception:  # probing alone, only the family whose queries cause it fails
                self.give_up()
            self._revision = revision

    def _choose(self, stream: str, readers: Sequence[RunningFamily], functions: Functions) -> None:
        eager = (r for r in readers if r.collecting is None and stream in r.logs)
        small = {r.family.number: r for r in eager if len(r.family.queries) <= MOST_QUERIES}
        self._members = {n: self._known(n, r, stream) for n, r in small.items()}
        members = [m for _, _, of_family in self._members.values() for m in of_family]
        slots = sum(len(r.family.queries) for r in small.values())
        if len(members) < FEWEST_JOINS or slots > MOST_SLOTS:
            members = []
        queries = {n: r.family.queries.rows() for n, r in small.items()}
        of_members = [(m, queries[m.family]) for m in members]
        known = [(m, q.version, q.removed, int(np.count_nonzero(q.alive))) for m, q in of_members]
        if known != self._taken:
            self.routes.take(members, queries, functions)
            self._taken = known
        shared = {(id(m.join), m.input) for m in members}
        self.idle = frozenset(r.family.number for r in small.values() if r.only_routes(stream, shared))

    def candidates(self, arriving: Arriving) -> Routed | None:
        """The rows that joins may emit; None if every family has to probe alone."""
        batch = arriving.batch
        if not self.routes.members or not len(batch) or (batch.first[1:] < batch.first[:-1]).any():
            return None
        try:
            return self.routes.candidates(arriving)
        except Exception:
            self.give_up()
            return None

    def give_up(self) -> None:
        """Lets every family probe alone, until families or queries change."""
        self.routes, self._members, self.idle, self._taken = SharedRoutes(), {}, frozenset(), []

    def _known(self, number: int, running: RunningFamily, stream: str) -> tuple[RunningFamily, int, list[Member]]:
        known = self._members.get(number)
        if known is not None and known[0] is running and known[1] == running.order_version:
            return known
        return running, running.order_version, members_of(running, stream)


def take_shared_routes(
    shared: dict[LogName, SharedJoins],
    arrived: Mapping[LogName, tuple[StreamLog, Delta]],
    readers_of: Callable[[LogName], Sequence[RunningFamily]],
    functions: Functions,
    revision: int,
    threads: int,
) -> tuple[Routes, Set[int]]:
    """Lets the tuples that were appended to logs in a step take shared routes. Returns by join and input the rows that
    it may emit, and the families for which nothing changes."""
    routed: dict[tuple[int, int], Candidates | None] = {}
    fresh = {id(log): int(batch.first.min()) for log, batch in arrived.values() if len(batch)}
    idle, busy = set[int](), set[int]()
    for name, (_, batch) in arrived.items():
        if name not in shared:
            shared[name] = SharedJoins()
        joins, readers = shared[name], readers_of(name)
        joins.prepare(name.stream, readers, functions, revision)
        results = joins.candidates(Arriving(batch, fresh, threads))
        busy.update(r.family.number for r in readers if results is None or r.family.number not in joins.idle)
        if results is not None:
            routed |= results.candidates
            idle |= joins.idle
            busy |= results.families
    return routed, idle - busy


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

"""A replica: the catalog and the families at one version of the commit log, moved forward commit by commit.

Every process that works on data has its own. It keeps the query tables only of the families it works on, and needs no
names of queries to be unique: that was checked before the commit was written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from eddyline import types as t
from eddyline.engine.family import Family, check_options
from eddyline.operators.evaluate import Functions
from eddyline.plan.partitioning import Partitioning, by_queries, partitioning
from eddyline.spark.commits import (
    Action,
    AddQueries,
    ChangeTable,
    CommitLog,
    Define,
    DefineFunction,
    DropQueries,
    FixCells,
    LoadQueries,
    NewFamily,
    NextFamily,
    Quarantine,
    RemoveFamily,
    ScriptRun,
    SplitQueries,
    Undefine,
)
from eddyline.spark.netting import net
from eddyline.spark.trust import Approvals, Bodies
from eddyline.sql.catalog import Catalog, Function
from eddyline.sql.declared import declared, shape
from eddyline.sql.parser import parse
from eddyline.state.delta import Ints
from eddyline.state.query_table import QueryTable

Since = Callable[[int, Ints], Ints]


class Replica:
    def __init__(
        self,
        log: CommitLog,
        clock_policy: Literal["min", "max"],
        keeps: Callable[[Family, Partitioning], bool],
        place: tuple[int, int] = (0, 1),
        approvals: Approvals | None = None,
    ) -> None:
        """`keeps` says for which families the query table is kept; of those that are split by queries, the part that
        falls to a bucket: `place` is its number, and how many there are. `approvals` say which functions may be loaded;
        without them none is."""
        self.log = log
        self.clock_policy = clock_policy
        self.version = 0
        self.catalog = Catalog()
        self._bodies = Bodies(approvals or Approvals(log.path.parent, ""))
        self.functions = Functions(self._bodies, {})
        self.families: dict[int, Family] = {}
        self.partitioning: dict[int, Partitioning] = {}
        self.live: dict[int, int] = {}  # how many queries each family has
        self.width: dict[int, float] = {}  # of cells, for families split by range
        self._keeps = keeps
        self._place = place
        self._out: dict[int, set[int]] = {}  # by family: the queries in quarantine
        self._removed: dict[int, set[int]] = {}  # by family: queries that commits in progress add and remove again

    def move_to(self, version: int, since: Since, *, amended: bool = False) -> Iterator[Action]:
        """Applies the commits up to a version; gives each action after it was applied.

        `since` tells, for queries of a family, from which arrival number on they see tuples. In an amended micro-batch,
        what does not outlast the commits is left out.
        """
        base = self.log.snapshot_before(version) if not self.version else 0
        if base:
            yield from self._applied(self.log.read_snapshot(base), since)
            self.version = base
        if amended:
            numbers = range(self.version + 1, version + 1)
            left = net([action for n in numbers for action in self.log.read(n)], self.families)
            self._removed = left.removed
            yield from self._applied(left.actions, since)
            self._removed, self.version = {}, max(self.version, version)
        while self.version < version:
            yield from self._applied(self.log.read(self.version + 1), since)
            self.version += 1

    def can_move_to(self, version: int) -> bool:
        return self.version == version or (self.version < version and self.log.has(self.version + 1))

    def _applied(self, actions: Sequence[Action], since: Since) -> Iterator[Action]:
        for action in actions:
            self._apply(action, since)
            yield action

    def keeps(self, number: int) -> bool:
        return self._keeps(self.families[number], self.partitioning[number])

    def _apply(self, action: Action, since: Since) -> None:
        match action:
            case Define():
                self.catalog.add(declared(parse(action.sql)[0].body, self.catalog))
            case Undefine():
                self.catalog.undefine(action.kind, action.name)
            case DefineFunction():
                self.functions.bodies = self._bodies = self._bodies.plus(action)
                self.catalog.add(function_of(action, self._bodies))
            case NewFamily():
                binding, options = shape(parse(action.sql)[0].body, self.catalog, action.in_lists)
                bound, views = binding.bound, binding.views
                checked = check_options(options)
                family = Family(action.number, action.name, bound, checked, action.kind, action.sql, views)
                self.families[action.number] = family
                self.partitioning[action.number] = self._split(family)
                self.live[action.number] = 0
            case RemoveFamily():
                for store in (self.families, self.partitioning, self.live, self.width, self._out):
                    store.pop(action.number, None)
            case FixCells():
                self.width[action.family] = action.width
            case SplitQueries():
                self.partitioning[action.family] = by_queries(self.families[action.family].plan)
            case AddQueries() | LoadQueries() | DropQueries() | Quarantine():
                self._queries(action, self.families[action.family].queries, since)
            case ChangeTable() | ScriptRun() | NextFamily():
                pass

    def _split(self, family: Family) -> Partitioning:
        split = partitioning(family.plan, family.emit)
        if self.clock_policy == "max" and split.kind == "stateless" and len(split.routings) > 1:
            # Which tuples such a family sees depends on its clock, which only buckets know.
            return replace(split, kind="anywhere")
        return split

    def _queries(
        self, action: AddQueries | LoadQueries | DropQueries | Quarantine, queries: QueryTable, since: Since
    ) -> None:
        kept = self.keeps(action.family)
        out = self._out.setdefault(action.family, set())
        match action:
            case AddQueries() | LoadQueries():
                self.live[action.family] += len(action.names)
                if kept:
                    self._add(action, queries, since)
            case DropQueries():
                gone = action.ids[~np.isin(action.ids, list(out))] if out else action.ids
                out.difference_update(action.ids.tolist())
                self._gone(action.family, gone, kept)
            case Quarantine():
                gone = np.array([i for i in action.ids if i not in out], np.int64)
                out.update(action.ids)
                self._gone(action.family, gone, kept)

    def _add(self, action: AddQueries | LoadQueries, queries: QueryTable, since: Since) -> None:
        if isinstance(action, AddQueries):
            next_id = queries.next_id + len(action.names)
            ids = np.arange(queries.next_id, next_id)
        else:
            next_id, ids = action.next_id, action.ids
        names, params = action.names, action.params
        if self.partitioning[action.family].kind == "by queries":
            bucket, buckets = self._place
            own = ids % buckets == bucket
            ids, names, params = ids[own], names.filter(own), tuple(p.filter(own) for p in params)
        if self._removed.get(action.family):
            stays = ~np.isin(ids, list(self._removed[action.family]))
            ids, names, params = ids[stays], names.filter(stays), tuple(p.filter(stays) for p in params)
        queries.add_some(names, params, ids, since(action.family, ids), next_id)

    def _gone(self, family: int, ids: Ints, kept: bool) -> None:
        self.live[family] -= len(ids)
        if kept:
            queries = self.families[family].queries
            queries.drop(queries.rows().here(ids))


def function_of(action: DefineFunction, bodies: Bodies) -> Function:
    """A function whose body is loaded when it is called."""
    types = [t.BY_NAME[x.upper()] for x in (*action.takes, action.gives)]
    name = action.name.lower()
    return Function(action.name, tuple(types[:-1]), types[-1], lambda *values: bodies[name](*values), action.kind)

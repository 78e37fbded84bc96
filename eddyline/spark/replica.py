"""A replica: the catalog and the families at one version of the commit log, moved forward commit by commit.

Every process that works on data has its own. It keeps the query tables only of the families it works on, and needs no
names of queries to be unique: that was checked before the commit was written.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator

from eddyline import types as t
from eddyline.families.family import Family, check_options
from eddyline.operators.evaluate import Functions
from eddyline.plan.partitioning import Partitioning, partitioning
from eddyline.spark.commits import (
    Action,
    AddQueries,
    ChangeTable,
    CommitLog,
    Define,
    DefineFunction,
    DropQueries,
    NewFamily,
    RemoveFamily,
    ScriptRun,
    Undefine,
)
from eddyline.sql.catalog import Catalog, Function
from eddyline.sql.declared import declared, shape
from eddyline.sql.parser import parse


class Replica:
    def __init__(self, log: CommitLog, keeps: Callable[[Family, Partitioning], bool]) -> None:
        """`keeps` says for which families the query table is kept."""
        self.log = log
        self.version = 0
        self.catalog = Catalog()
        self.functions = Functions({}, {})
        self.families: dict[int, Family] = {}
        self.partitioning: dict[int, Partitioning] = {}
        self.live: dict[int, int] = {}  # how many queries each family has
        self._keeps = keeps

    def move_to(self, version: int, since: Callable[[int, int], int]) -> Iterator[Action]:
        """Applies the commits up to a version; gives each action after it was applied.

        `since` tells, for a family and its first new query, from which arrival number on they see tuples.
        """
        while self.version < version:
            for action in self.log.read(self.version + 1):
                self._apply(action, since)
                yield action
            self.version += 1

    def keeps(self, number: int) -> bool:
        return self._keeps(self.families[number], self.partitioning[number])

    def _apply(self, action: Action, since: Callable[[int, int], int]) -> None:
        match action:
            case Define():
                self.catalog.add(declared(parse(action.sql)[0].body, self.catalog))
            case Undefine():
                self.catalog.undefine(action.kind, action.name)
            case DefineFunction():
                function = function_of(action)
                self.catalog.add(function)
                self.functions.bodies = {**self.functions.bodies, action.name.lower(): function.body}
            case NewFamily():
                binding, options = shape(parse(action.sql)[0].body, self.catalog)
                bound, views = binding.bound, binding.views
                checked = check_options(options)
                family = Family(action.number, action.name, bound, checked, action.kind, action.sql, views)
                self.families[action.number] = family
                self.partitioning[action.number] = partitioning(family.plan, family.emit)
                self.live[action.number] = 0
            case RemoveFamily():
                del self.families[action.number], self.partitioning[action.number], self.live[action.number]
            case AddQueries():
                self.live[action.family] += len(action.names)
                if self.keeps(action.family):
                    queries = self.families[action.family].queries
                    queries.add(action.names, action.params, since(action.family, queries.next_id))
            case DropQueries():
                self.live[action.family] -= len(action.ids)
                if self.keeps(action.family):
                    self.families[action.family].queries.drop(action.ids)
            case ChangeTable() | ScriptRun():
                pass


def function_of(action: DefineFunction) -> Function:
    types = [t.BY_NAME[x.upper()] for x in (*action.takes, action.gives)]
    return Function(action.name, tuple(types[:-1]), types[-1], pickle.loads(action.body))

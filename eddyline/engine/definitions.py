"""Definitions: the relations, functions, families and query tables that a list of actions has defined.

`apply` is the only interpreter of actions. Every process has definitions: a connection, the driver of a pipeline, and
each of its buckets and packers. They differ in their *share* of the query tables, and in what they notify: a runner (an
engine) where families run, a name keeper (a registry) where users name queries.

An action applies whole or not at all. Errors were detected when the action was made, except for two: the runner may
refuse to start a family, and a change of a table may violate its key.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Protocol, TypeAlias, get_args

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline import types as t
from eddyline.arrays import Ints
from eddyline.engine import actions
from eddyline.engine.actions import Action, DefineFunction, Relation, Split
from eddyline.engine.family import Family, check_options
from eddyline.engine.table_rows import TableRows
from eddyline.errors import StateError
from eddyline.operators.user_functions import Functions
from eddyline.plan.rules import Generation
from eddyline.sql.catalog import Catalog, Function, RelationKind, Table
from eddyline.sql.declared import declared, shape
from eddyline.sql.parser import parse
from eddyline.state.delta import Delta

Since = Callable[[int, Ints], Ints | int]  # (family, ids) -> the first arrival number that is visible to each query
Ids = Sequence[int] | Ints
Names: TypeAlias = "str | pa.Array"  # of one query, or of many
_NOBODY = np.empty(0, np.int64)


def from_the_start(family: int, ids: Ints) -> int:
    """The `Since` of definitions without a runner."""
    return 0


class Runner:
    """Runs families; definitions notify it of their changes. This one runs nothing."""

    def relation_defined(self, relation: Relation) -> None: ...

    def relation_removed(self, kind: RelationKind, name: str) -> None: ...

    def family_created(self, family: Family) -> None:
        """The family is not yet among the definitions; if this raises, it is not added."""

    def family_removed(self, family: Family) -> None: ...

    def family_split(self, family: Family) -> None:
        """The split of a family is known, and so are the processes that run it."""

    def queries_adding(self, family: Family) -> None:
        """Queries of the family are about to be added, and cannot be seen yet."""

    def queries_added(self, family: Family, ids: Ids) -> None: ...

    def queries_dropping(self, family: Family) -> None:
        """Queries of the family are about to be dropped, and can still be seen."""

    def queries_dropped(self, family: Family, ids: Ids) -> None:
        """If the query table is crowded, the rows of dropped queries are about to be removed: the runner must drop its
        references to them."""

    def function_changing(self) -> None:
        """The body of a function is about to be replaced."""

    def table_changing(self, table: str) -> None:
        """The rows of a table are about to change, and can still be seen."""

    def table_changed(self, table: str, delta: Delta) -> None: ...


class NameKeeper:
    """Keeps the names of families and queries; definitions notify it. This one keeps none."""

    def family_created(self, family: Family) -> None: ...

    def family_removed(self, family: Family) -> None: ...

    def claim(self, family: Family, ids: Ids, names: Names) -> None:
        """Takes the names of queries that are about to be added; if this raises, they are not added."""

    def release(self, names: Names) -> None: ...


class Share:
    """Which query tables are kept here, and which of their rows. This one keeps all."""

    def keeps(self, family: Family, split: Split | None) -> bool:
        return True

    def owned(self, ids: Ints, split: Split | None) -> npt.NDArray[np.bool_] | None:
        """Which of these queries are kept; None: all."""
        return None


class Nothing(Share):
    """No query table is kept: the catalog and the families alone."""

    def keeps(self, family: Family, split: Split | None) -> bool:
        return False


class Bodies(Protocol):
    """Bodies of functions by name, in lower case. Immutable."""

    def plus(self, function: DefineFunction) -> Bodies: ...

    def mapping(self) -> Mapping[str, Callable[..., Any]]: ...


class PlainBodies(dict[str, Callable[..., Any]]):
    """Bodies that are the functions themselves."""

    def plus(self, function: DefineFunction) -> PlainBodies:
        return PlainBodies({**self, function.name.lower(): function.body})

    def mapping(self) -> Mapping[str, Callable[..., Any]]:
        return self


class Definitions:
    def __init__(
        self,
        share: Share | None = None,
        bodies: Bodies | None = None,
        quarantined: Literal["kept", "dropped"] = "dropped",
    ) -> None:
        """`quarantined`: whether queries in quarantine keep their rows (on the driver) or are dropped."""
        self.share = share or Share()
        self.catalog = Catalog()
        self.tables: dict[str, TableRows] = {}  # in lower case
        self.families: dict[int, Family] = {}
        self.next_family = 1
        self.live: dict[int, int] = {}  # by family: the number of its queries, kept here or not
        self.splits: dict[int, Split] = {}
        self.quarantined: dict[int, dict[int, str]] = {}  # by family and query: the error
        self.scripts: set[str] = set()  # digests of the script's statements that were applied
        self.leaving: Mapping[int, Ints] = {}  # by family: queries that the next actions add and drop again
        self.runner = Runner()
        self.names = NameKeeper()
        self._bodies = PlainBodies() if bodies is None else bodies
        self.functions = Functions(self._bodies.mapping(), {})
        self.function_actions: dict[str, DefineFunction] = {}
        self._keeps_quarantined = quarantined == "kept"

    def keeps(self, family: Family) -> bool:
        return self.share.keeps(family, self.splits.get(family.number))

    def apply(self, action: Action, since: Since = from_the_start) -> None:
        match action:
            case actions.AddQuery():
                family = self.families[action.family]
                self.names.claim(family, (family.queries.next_id,), action.name)
                self.runner.queries_adding(family)
                id_ = family.queries.add_one(action.name, action.values, int(since(action.family, _NOBODY)))
                self.live[action.family] += 1
                self.runner.queries_added(family, (id_,))
            case actions.DropQuery():
                family = self.families[action.family]
                self.runner.queries_dropping(family)
                family.queries.drop_one(action.id)
                self._dropped(family, (action.id,), action.name)
            case actions.AddQueries() | actions.LoadQueries():
                self._add(self.families[action.family], action, since)
            case actions.DropQueries():
                self._drop(self.families[action.family], action.ids)
            case actions.Quarantine():
                self._quarantine(self.families[action.family], action)
            case actions.NewFamily():
                family = action.family or self._family(action)
                self.runner.family_created(family)
                self.names.family_created(family)
                self.families[family.number] = family
                self.live[family.number] = 0
                self.next_family = max(self.next_family, family.number + 1)
            case actions.RemoveFamily():
                self._remove(self.families[action.number])
            case actions.FixCells() | actions.SplitQueries():
                self.splits[action.family] = action
                self.runner.family_split(self.families[action.family])
            case actions.ChangeTable():
                self.change_table(action.table.lower(), action.gone, action.new)
            case actions.Define():
                self._define(action.relation or declared(parse(action.sql)[0].body, self.catalog))
            case actions.Undefine():
                self.catalog.undefine(action.kind, action.name)
                self.tables.pop(action.name.lower(), None)
                self.runner.relation_removed(action.kind, action.name)
            case actions.DefineFunction():
                self._define_function(action)
            case actions.NextFamily():
                self.next_family = action.number
            case actions.ScriptRun():
                self.scripts.add(action.digest)

    # relations and functions

    def _define(self, relation: Relation) -> None:
        self.catalog.add(relation)
        if isinstance(relation, Table):
            self.tables[relation.name.lower()] = TableRows(relation)
        self.runner.relation_defined(relation)

    def _define_function(self, action: DefineFunction) -> None:
        if action.name.lower() in self.function_actions:
            self.runner.function_changing()
        self._bodies = self._bodies.plus(action)
        self.functions.bodies = self._bodies.mapping()
        self.function_actions[action.name.lower()] = action
        takes = tuple(t.BY_NAME[x.upper()] for x in action.takes)
        self.catalog.add(Function(action.name, takes, t.BY_NAME[action.gives.upper()], action.kind))

    def change_table(self, table: str, gone: Ints, new: Sequence[pa.Array]) -> None:
        """Deletes rows of a table by position, and inserts new ones."""
        rows = self.tables[table]
        leaves = np.zeros(len(rows), np.bool_)
        leaves[gone] = True
        self.change_rows(table, lambda: rows.change(leaves, new))

    def change_rows(self, table: str, change: Callable[[], Delta]) -> None:
        """Changes the rows of a table, for an action or for its source; `change` carries it out."""
        self.runner.table_changing(table)
        delta = change()
        if len(delta):
            self.runner.table_changed(table, delta)

    # families

    def _family(self, action: actions.NewFamily) -> Family:
        """Binds the statement of a family that another process built."""
        binding, options = shape(parse(action.sql)[0].body, self.catalog, action.in_lists)
        checked = check_options(options)
        if action.rules not in get_args(Generation):
            raise StateError(
                f"The plan of family {action.name!r} was made by rules of a later version ({action.rules}).",
                hint="Use the version of Eddyline that wrote it.",
            )
        known = action.number, action.name, binding.bound, checked, action.kind, action.sql, binding.views
        return Family(*known, action.in_lists, action.rules)

    def _remove(self, family: Family) -> None:
        self.runner.queries_dropping(family)
        for store in (self.families, self.live, self.splits, self.quarantined):
            store.pop(family.number, None)
        self.names.family_removed(family)
        self.runner.family_removed(family)

    # queries

    def _add(self, family: Family, action: actions.AddQueries | actions.LoadQueries, since: Since) -> None:
        self.live[family.number] += len(action.names)
        if not self.keeps(family):
            return
        if isinstance(action, actions.AddQueries):
            next_id = family.queries.next_id + len(action.names)
            ids = np.arange(family.queries.next_id, next_id)
        else:
            next_id, ids = action.next_id, action.ids
        names, params = action.names, action.params
        owned = self.share.owned(ids, self.splits.get(family.number))
        leaving = self.leaving.get(family.number)
        if leaving is not None:
            stays = ~np.isin(ids, leaving)
            owned = stays if owned is None else owned & stays
        if owned is not None:
            ids, names, params = ids[owned], names.filter(owned), tuple(p.filter(owned) for p in params)
        first = since(family.number, ids)
        from_ = np.full(len(ids), first, np.int64) if isinstance(first, int) else first
        self.names.claim(family, ids, names)
        self.runner.queries_adding(family)
        try:
            family.queries.add_some(names, params, ids, from_, next_id)
        except BaseException:
            self.names.release(names)
            raise
        if len(ids):
            self.runner.queries_added(family, ids)

    def _drop(self, family: Family, ids: Ints) -> None:
        out = self.quarantined.get(family.number, {})
        dropped = ids
        if out and not self._keeps_quarantined:  # those in quarantine are dropped already
            dropped = ids[~np.isin(ids, list(out))]
        for i in ids.tolist() if out else ():
            out.pop(i, None)
        self._drop_rows(family, dropped)

    def _quarantine(self, family: Family, action: actions.Quarantine) -> None:
        out = self.quarantined.setdefault(family.number, {})
        new = np.array([i for i in action.ids if i not in out], np.int64)
        out.update(dict.fromkeys(action.ids, action.error))
        if not self._keeps_quarantined:
            self._drop_rows(family, new)

    def _drop_rows(self, family: Family, ids: Ints) -> None:
        """Drops queries from the query table, if it is kept here."""
        if not self.keeps(family):
            self.live[family.number] -= len(ids)
            return
        self.runner.queries_dropping(family)
        rows = family.queries.rows()
        here = rows.here(ids)
        family.queries.drop(here)
        self.live[family.number] -= len(ids) - len(here)
        self._dropped(family, here, rows.name_of(here))

    def _dropped(self, family: Family, ids: Ids, names: Names) -> None:
        self.live[family.number] -= len(ids)
        self.names.release(names)
        self.runner.queries_dropped(family, ids)
        if family.queries.crowded:
            family.queries.compact()

"""The mirror: a connection that runs nothing. It checks statements, and writes down what they change as a commit.

It is what `pipe.execute`, `pipe.register`, `pipe.drop` and the command line work on: the same statements, checks and
errors as in-process. Rows of tables are held here only for tables without a source of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from eddyline.errors import CatalogError
from eddyline.families.family import Family
from eddyline.local import statements
from eddyline.local.changes import Changes
from eddyline.local.connection import Connection
from eddyline.spark import blocks
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
from eddyline.spark.replica import function_of
from eddyline.sql.catalog import Sink, Stream, Table, View
from eddyline.sql.declared import declared, shape
from eddyline.sql.parser import parse
from eddyline.state.delta import Ints

_NO_ROWS = "The rows of a pipeline come from its sources: write them there."


class Mirror(Connection):
    def __init__(self, log: CommitLog) -> None:
        super().__init__()
        self.log = log
        self.version = 0
        self.done: set[str] = set()  # digests of the script's statements that were carried out
        self._journal: list[Action] = []
        self._added: dict[int, int] = {}  # by family: the first query that is not in the journal yet

    # what users call

    def run_script(self, sql: str) -> None:
        """The statements of a pipeline's script that this log has not seen yet."""
        with self._commit():
            for statement in parse(sql):
                digest = blocks.digest(statement.text.strip().encode())
                if digest not in self.done:
                    statements.run_script(self, [statement], sql)
                    self._journal.append(ScriptRun(digest))
                    self.done.add(digest)

    def execute(self, sql: str) -> Any:
        with self._commit():
            return super().execute(sql)

    def register(self, family: str, table: Any) -> Changes:
        with self._commit():
            return super().register(family, table)

    def drop(self, family: str, names: Sequence[str]) -> None:
        with self._commit():
            super().drop(family, names)

    def function(self, name: str, body: Callable[..., Any], takes: Sequence[str], gives: str) -> None:
        from pyspark import cloudpickle

        with self._commit():
            super().function(name, body, takes, gives)
            self._journal.append(DefineFunction(name, tuple(takes), gives, cloudpickle.dumps(body)))  # type: ignore[no-untyped-call]

    def push(self, stream: Any, rows: Any = None) -> Any:
        raise CatalogError("A pipeline takes no rows by push.", hint=_NO_ROWS)

    def advance(self, to: Any) -> Any:
        raise CatalogError("The clock of a pipeline follows its sources.", hint="Declare IDLE AFTER on quiet streams.")

    # what statements do here

    def define(self, thing: Stream | Table | View | Sink) -> None:
        super().define(thing)
        self._journal.append(Define(thing.sql))

    def undefine(self, kind: Literal["stream", "table", "view", "sink"], name: str) -> None:
        super().undefine(kind, name)
        self._journal.append(Undefine(kind, name))

    def start(self, family: Family) -> None:
        self._journal.append(NewFamily(family.number, family.name, family.kind, family.sql))

    def added(self, family: Family, ids: Sequence[int] | Ints) -> Changes:
        if len(ids):
            self._added.setdefault(family.number, int(ids[0]))
        return self._nothing

    def dropping(self, family: Family) -> None:
        self._write_added(family)

    def dropped(self, family: Family, ids: Sequence[int]) -> None:
        if family.kind == "implicit" and not len(family.queries):
            self.remove(family)
            return
        self._journal.append(DropQueries(family.number, np.array(ids, np.int64)))
        if family.queries.crowded:
            family.queries.clear_away()

    def remove(self, family: Family) -> None:
        self._write_added(family)
        self.registry.remove(family)
        self.templates.forget(family.number)
        self._journal.append(RemoveFamily(family.number))

    def change_table(self, table: Table, gone: Any, new: Sequence[pa.Array]) -> Any:
        if table.external is not None:
            raise CatalogError(f"Table {table.name!r} has a source of its own.", hint=_NO_ROWS)
        self.tables[table.name.lower()].change(gone, new)
        self._journal.append(ChangeTable(table.name, np.nonzero(gone)[0], tuple(new)))

    # the log

    @contextmanager
    def _commit(self) -> Iterator[None]:
        """Brings the mirror up to date, and writes what is done inside as one commit; also if it ends in an error."""
        with self.log.lock():
            self.catch_up()
            try:
                yield
            finally:
                for number in list(self._added):
                    self._write_added(self.registry.number(number))
                if self._journal:
                    actions, self._journal = self._journal, []
                    self.version = self.log.append(actions)

    def _write_added(self, family: Family) -> None:
        first = self._added.pop(family.number, None)
        if first is not None:
            rows = family.queries.rows()
            place = int(rows.positions(np.array([first]))[0])
            params = tuple(p.slice(place) for p in rows.params)
            self._journal.append(AddQueries(family.number, rows.names.slice(place), params))

    def catch_up(self) -> None:
        """Takes up what others have committed."""
        while self.version < self.log.latest():
            for action in self.log.read(self.version + 1):
                self._apply(action)
            self.version += 1

    def _apply(self, action: Action) -> None:
        match action:
            case Define():
                super().define(declared(parse(action.sql)[0].body, self.catalog))
            case Undefine():
                super().undefine(action.kind, action.name)
            case DefineFunction():
                function = function_of(action)
                self.catalog.add(function)
                self.functions.bodies = {**self.functions.bodies, action.name.lower(): function.body}
            case NewFamily():
                binding, options = shape(parse(action.sql)[0].body, self.catalog)
                self.registry.restore(action.number, action.name, binding, options, action.kind, action.sql)
            case RemoveFamily():
                self.registry.remove(self.registry.number(action.number))
            case AddQueries():
                family = self.registry.number(action.family)
                ids = family.queries.add(action.names, action.params, 0)
                self.registry.names.take(action.names, family.number, ids)
            case DropQueries():
                family = self.registry.number(action.family)
                rows = family.queries.rows()
                self.registry.names.release(rows.name_of(action.ids))
                family.queries.drop(action.ids)
                if family.queries.crowded:
                    family.queries.clear_away()
            case ChangeTable():
                table = self.tables[action.table.lower()]
                gone = np.zeros(len(table), np.bool_)
                gone[action.gone] = True
                table.change(gone, action.new)
            case ScriptRun():
                self.done.add(action.digest)

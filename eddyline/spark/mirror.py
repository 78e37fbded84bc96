"""The mirror: a connection that runs nothing. It checks statements, and writes down what they change as a commit.

It is what `pipe.execute`, `pipe.register`, `pipe.drop` and the command line work on: the same statements, checks and
errors as in-process. Rows of tables are held here only for tables without a source of their own.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from eddyline.delivery.changes import Changes
from eddyline.engine.failures import starting
from eddyline.engine.family import Family
from eddyline.errors import CatalogError, DataError, Error
from eddyline.operators.user_functions import FunctionKind, body_of
from eddyline.session import statements
from eddyline.spark import asking
from eddyline.spark.commits import (
    ChangeTable,
    CommitLog,
    Define,
    DefineFunction,
    DropQueries,
    NewFamily,
    Quarantine,
    RemoveFamily,
    ScriptRun,
    Undefine,
)
from eddyline.spark.epochs import run_starts
from eddyline.spark.externals import Rules, literal_secrets, owner_of
from eddyline.spark.logged import Logged
from eddyline.spark.overlaps import require_apart
from eddyline.spark.places import require_own_path, require_usable_path
from eddyline.spark.scripts import by_digest
from eddyline.spark.settings import has_begun, sources_of
from eddyline.spark.splitting import split_of
from eddyline.sql.binder import Binding
from eddyline.sql.bound import Field
from eddyline.sql.catalog import Catalog, Sink, Stream, Table, View
from eddyline.sql.parser import parse
from eddyline.sql.statements import CreateFamily, CreateQuery, QueryText, Statement
from eddyline.state.delta import Delta, Ints

LONG = 4096  # characters of a text that is bound before the log is locked
_NO_ROWS = "The rows of a pipeline come from its sources: write them there."


class Mirror(Logged):
    def __init__(self, log: CommitLog, rules: Rules | None = None) -> None:
        self.rules = rules or Rules()  # for what is declared here
        self.warn: Callable[[str], None] = logging.getLogger("eddyline").warning
        self.served: set[str] = set()  # sinks USING foreach_batch that have a function here
        self.given: set[str] = set()  # streams and tables, in lower case, whose source is a DataFrame of the pipeline
        self._prebound: dict[int, tuple[Catalog, int, Binding]] = {}  # by text: bound against a version of a catalog
        super().__init__(log)

    # what users call

    def run_script(self, sql: str) -> None:
        """The statements of a pipeline's script that this log has not seen yet.

        A statement is known by its words, whatever the space between them. All new statements are committed, or none.
        Before the first micro-batch, a script that was changed takes the place of what it was.
        """
        found = by_digest(sql)
        with self.commit(on_error="undo"):
            if not self._begun() and self.done - found.keys():
                self._forget_scripts()
            self.dropped_from_script = self.done - found.keys()
            self._run_new(found, sql)

    @contextmanager
    def rehearsed(self, sql: str) -> Iterator[None]:
        """Inside, the catalog is as `run_script` would leave it, of a checkpoint that has begun; nothing is written."""
        try:
            with self.commit(on_error="undo"):
                self._run_new(by_digest(sql), sql)
                yield
                raise _Rehearsed
        except _Rehearsed:
            pass

    def _run_new(self, script: Mapping[str, Statement], sql: str) -> None:
        for digest, statement in script.items():
            if digest not in self.done:
                self._run_one(statement, sql)
                self._journal.append(ScriptRun(digest))
                self.done.add(digest)

    def _run_one(self, statement: Statement, sql: str) -> None:
        try:
            statements.run_script(self, [statement], sql)
        except CatalogError as e:
            if self.done and re.search(r"There is already|is taken by", e.message):
                e.hint = "The checkpoint has it from before: drop it there first (eddyline query drop, or pipe.execute"
                e.hint += " with DROP …), or begin another checkpoint."
            raise

    def _forget_scripts(self) -> None:
        """Begins the log anew, if nothing but scripts has written to it."""
        numbers = range(1, self.log.latest() + 1)
        if all(self.log.has(n) and any(isinstance(a, ScriptRun) for a in self.log.read(n)) for n in numbers):
            self.log.clear()
            self._begin()
            self._open = True

    def execute(self, sql: str) -> Any:
        """A long text is parsed and bound before the log is locked, so that no other writer waits for it."""
        if not isinstance(sql, str) or len(sql) < LONG:
            with self.commit():
                return super().execute(sql)
        self.catch_up()
        script = parse(sql)
        with self._bound_before(script), self.commit():
            return statements.run_script(self, script, sql)

    @contextmanager
    def _bound_before(self, script: Sequence[Statement]) -> Iterator[None]:
        """Binds the queries of a script; `bind` takes what was bound here while the catalog stays what it was."""
        catalog = self.catalog
        texts: list[QueryText] = []
        try:
            for statement in script:
                body, version = statement.body, catalog.version
                if isinstance(body, CreateQuery | CreateFamily):
                    params = body.params if isinstance(body, CreateFamily) else None
                    with suppress(Error):  # it is told when the statement runs: one before it may declare what it reads
                        self._prebound[id(body.query)] = catalog, version, super().bind(body.query, params)
                        texts.append(body.query)
            yield
        finally:
            for text in texts:
                self._prebound.pop(id(text), None)

    def bind(self, text: QueryText, params: Sequence[Field] | None = None) -> Binding:
        catalog, version, binding = self._prebound.get(id(text), (None, 0, None))
        if binding is not None and catalog is self.catalog and version == self.catalog.version:
            return binding
        return super().bind(text, params)

    def register(self, family: str, table: Any) -> Changes:
        with self.commit():
            return super().register(family, table)

    def drop(self, family: str, names: Sequence[str]) -> None:
        with self.commit():
            super().drop(family, names)

    def function(
        self,
        name: str,
        body: Callable[..., Any],
        takes: Sequence[str],
        gives: str,
        kind: FunctionKind = "scalar",
    ) -> None:
        from pyspark import cloudpickle

        try:
            pickled: bytes = cloudpickle.dumps(body_of(body, kind))  # type: ignore[no-untyped-call]
        except Exception as e:
            raise DataError(
                f"The function {name!r} cannot be pickled, and so not be sent to where rows are: {e}.",
                hint="Let it open or make what it needs when it is called.",
            ) from None
        with self.commit():
            bodies, self.functions.bodies = self.functions.bodies, {}
            try:
                super().function(name, body, takes, gives, kind)  # checks it
            finally:
                self.functions.bodies = bodies
            action = DefineFunction(name, tuple(takes), gives, pickled, kind)
            self.approvals.approve(action)
            self._take_function(action)
            self._journal.append(action)

    def require_approved(self, unapproved: Literal["refuse", "approve"]) -> None:
        """Refuses, or approves, functions of the checkpoint that this user has not approved."""
        with self.guard:
            self.catch_up()
            if unapproved == "approve":
                for action in self.log.every():
                    if isinstance(action, DefineFunction):
                        self.approvals.approve(action)
            for action in self._functions.values():
                if not self.approvals.has(action):
                    raise self.approvals.refusal(action)

    def push(self, stream: Any, rows: Any = None) -> Any:
        raise CatalogError("A pipeline takes no rows by push.", hint=_NO_ROWS)

    def advance(self, to: Any) -> Any:
        raise CatalogError("The clock of a pipeline follows its sources.", hint="Declare IDLE AFTER on quiet streams.")

    def snapshot(self, name: str) -> pa.Table:
        self.query(name)
        raise CatalogError(f"A pipeline keeps no answer of {name!r} to be asked for.", hint="Read its sink.")

    def content(self, table: str) -> Delta:
        if self.has_source(table):
            raise CatalogError(
                f"The rows of table {table!r} are in the pipeline's state: they cannot be selected here.",
                hint="Read its source, or register a continuous query over it and read that query's sink.",
            )
        return super().content(table)

    def has_source(self, table: str) -> bool:
        """Whether the rows of a table come from a source: declared, or a DataFrame of the pipeline."""
        if self.catalog.tables[table].external is not None or table.lower() in self.given:
            return True
        return table.lower() in sources_of(self.log.path.parent.parent)

    def show(self, what: str) -> pa.Table:
        with self.guard:
            return asking.show(self, what)

    def stats(self) -> dict[str, Any]:
        with self.guard:
            return asking.stats(self)

    def late(self, stream: str) -> pa.Table:
        return asking.late(self, self.stream(stream))

    def save(self, path: Any) -> None:
        raise CatalogError("A pipeline is kept in its checkpoint, not by save.", hint="Copy the checkpoint.")

    def explain(self, name: str, analyze: bool = False) -> str:
        if analyze:
            hint = f"`eddyline query explain {name} --checkpoint …` tells what a pipeline knows of it."
            raise CatalogError("EXPLAIN ANALYZE needs figures of the engine, which runs elsewhere.", hint=hint)
        with self.guard:
            told = super().explain(name)
            family = self.registry.find(name) or self.query(name)[0]
            self._write_added(family)  # which may decide it
            split = split_of(family, self.splits.get(family.number))
            return f"{told}\nsplit over buckets: {split.kind}"

    # what statements do here

    def define(self, thing: Stream | Table | View | Sink) -> None:
        has_source = isinstance(thing, Stream) or (isinstance(thing, Table) and thing.external is not None)
        if has_source and self._begun():
            raise CatalogError(
                f"{thing.name!r} comes too late: Spark fixes the sources of a checkpoint when it first starts.",
                hint="Declare it in the script of a new checkpoint.",
            )
        if isinstance(thing, Sink):
            require_own_path(thing, self.catalog.sinks, self._base())
        if not isinstance(thing, View):
            self._check_external(thing)
        if isinstance(thing, Sink):
            require_usable_path(thing, self.log.path.parent / "pipeline.json")
            in_code = thing.external.format.lower() == "foreach_batch"
            if in_code and self._begun() and thing.name.lower() not in self.served:
                raise CatalogError(
                    f"The sink {thing.name!r} has no function.", hint=f"pipe.foreach_batch({thing.name!r}, function)."
                )
        super().define(thing)
        self._journal.append(Define(thing.sql))

    def _check_external(self, thing: Stream | Table | Sink) -> None:
        """Its format, its options and where it reads or writes."""
        self.rules.check(thing)
        require_apart(
            [*self.catalog.streams, *self.catalog.tables, *self.catalog.sinks, thing], self._checkpoint(), self._base()
        )
        for option in literal_secrets(thing):
            self.warn(
                f"Option {option!r} of {owner_of(thing)} is a secret in clear: the checkpoint keeps the SQL that it"
                " stands in. Write '${env:NAME}' or '${file:PATH}' in its place, in the pipeline's script."
            )

    def _checkpoint(self) -> Path:
        own = self.log.path.parent
        return own.parent if own.name == "eddyline" else self.log.path

    def _base(self) -> str:
        """Where relative paths begin: for others than the operator, where the last run was started."""
        runs = run_starts(self._checkpoint()) if self.rules.author == "others" else []
        return runs[-1].base if runs else os.getcwd()

    def undefine(self, kind: Literal["stream", "table", "view", "sink"], name: str) -> None:
        has_source = kind == "stream" or (kind == "table" and self.catalog.tables[name].external is not None)
        if has_source and self._begun():
            raise CatalogError(
                f"{name!r} stays: Spark fixes the sources of a checkpoint when it first starts.",
                hint="Drop its queries, or begin a new checkpoint without it.",
            )
        super().undefine(kind, name)
        self._journal.append(Undefine(kind, name))

    def _begun(self) -> bool:
        return has_begun(self.log.path.parent.parent)

    def start(self, family: Family) -> None:
        with starting(family):
            self.running_family(family)  # built and dropped: what no bucket could build is refused here
        made = NewFamily(family.number, family.name, family.kind, family.sql, family.in_lists)
        self._journal.append(made)

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
        self._let_out(family, ids)
        if family.queries.crowded:
            family.queries.clear_away()

    def remove(self, family: Family) -> None:
        self._write_added(family)
        self.registry.remove(family)
        self.templates.forget(family.number)
        self.splits.pop(family.number, None)
        self.quarantined.pop(family.number, None)
        self._journal.append(RemoveFamily(family.number))

    def change_table(self, table: Table, gone: Any, new: Sequence[pa.Array]) -> Any:
        if self.has_source(table.name):
            raise CatalogError(f"Table {table.name!r} has a source of its own.", hint=_NO_ROWS)
        self.tables[table.name.lower()].change(gone, new)
        self._journal.append(ChangeTable(table.name, np.nonzero(gone)[0], tuple(new)))

    def quarantine(self, family: int, ids: Sequence[int], error: str) -> None:
        """Takes queries out that went wrong, if they are still there."""
        with self.commit():
            found = self.registry.get(family)
            if found is None:
                return
            rows = found.queries.rows()
            there = rows.here(np.array(sorted(set(ids)), np.int64))
            there = there[rows.alive[rows.positions(there)]]
            new = [int(i) for i in there if int(i) not in self.quarantined.get(family, {})]
            if new:
                self.quarantined.setdefault(family, {}).update(dict.fromkeys(new, error))
                self._journal.append(Quarantine(family, tuple(new), error))

    def resume(self, name: str) -> int:  # type: ignore[override]  # a pipeline's changes are in its sinks
        """Lets a query, or all queries of a family, begin anew after quarantine; returns how many."""
        with self.commit():
            family = self.registry.find(name)
            if family is None:
                family, query = self.query(name)
                wanted = [query] if query in self.quarantined.get(family.number, {}) else []
            else:
                wanted = sorted(self.quarantined.get(family.number, {}))
            if not wanted:
                raise CatalogError(
                    f"{name!r} is not in quarantine.", hint="`eddyline query quarantined` lists what is."
                )
            rows = family.queries.rows()
            where = rows.positions(np.array(wanted))
            table = pa.table(
                [rows.names_at(where), *rows.all_params_at(where)],
                names=["query", *(p.name for p in family.bound.params)],
            )
            self.dropping(family)
            ids = self.registry.drop(family, table.column("query"))
            self._journal.append(DropQueries(family.number, ids))
            self._let_out(family, ids.tolist())
            self.added(family, self.registry.add_many(family, table, 0))
            return len(wanted)


class _Rehearsed(Exception):
    """Ends a rehearsal, so that it is undone."""

"""The catalog of a pipeline: it checks statements and commits their actions to the log.

`pipe.execute`, `pipe.register`, `pipe.drop` and the command line use it. Statements, checks and errors are those of the
in-process engine; `_check` adds what a pipeline refuses.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from eddyline.engine.actions import (
    Action,
    ChangeTable,
    Define,
    DefineFunction,
    NewFamily,
    Quarantine,
    ScriptRun,
    Undefine,
    apply_whole,
)
from eddyline.engine.failures import starting
from eddyline.engine.family import Family
from eddyline.engine.running_family import EngineOptions, RunningFamily
from eddyline.engine.table_rows import TableRows
from eddyline.errors import CatalogError, DataError, Error
from eddyline.operators.joins.stems import own_log, own_table
from eddyline.operators.user_functions import FunctionKind, body_of
from eddyline.plan.explain_partitioning import explain_partitioning
from eddyline.session.run_statements import run_script
from eddyline.session.show import explain, show
from eddyline.spark.catalog import asking
from eddyline.spark.catalog.commits import CommitLog
from eddyline.spark.catalog.externals import Rules, literal_secrets, owner_of
from eddyline.spark.catalog.logged import LoggedSession
from eddyline.spark.catalog.overlaps import require_apart
from eddyline.spark.catalog.scripts import by_digest
from eddyline.spark.output.epochs import run_starts
from eddyline.spark.output.places import require_usable_path
from eddyline.spark.output.sinks import kind_of, require_function
from eddyline.spark.run.settings import has_begun, sources_of
from eddyline.spark.worker.placement import partitioning_of
from eddyline.sql.catalog import Sink, Stream, Table, View
from eddyline.sql.parser import parse
from eddyline.sql.statements import CreateFamily, CreateQuery, Statement

LONG = 4096  # characters: a longer text is bound before the log is locked
_NO_ROWS = "The rows of a pipeline come from its sources: write them there."


class PipelineCatalog(LoggedSession):
    def __init__(self, log: CommitLog, rules: Rules | None = None) -> None:
        self.rules = rules or Rules()  # for statements run through this object
        self.warn: Callable[[str], None] = logging.getLogger("eddyline").warning
        self.served: set[str] = set()  # sinks USING foreach_batch whose function is registered
        self.given: set[str] = set()  # streams and tables, in lower case, whose source is a DataFrame
        self.dropped_from_script: set[str] = set()  # digests of statements that were removed from the script
        super().__init__(log, self)

    # statements

    def run_script(self, sql: str) -> None:
        """Runs the statements of a pipeline's script that the log does not have yet; commits all of them or none.

        A statement is identified by its words, independent of white space. Before the first micro-batch, a changed
        script replaces the earlier one.
        """
        script = by_digest(sql)
        with self.commit(on_error="undo"):
            if not self._begun() and self.definitions.scripts - script.keys():
                self._forget_scripts()
            self.dropped_from_script = self.definitions.scripts - script.keys()
            self._run_new(script, sql)

    @contextmanager
    def rehearsed(self, sql: str) -> Iterator[None]:
        """Inside, the catalog is as `run_script` would leave it on a started checkpoint; nothing is written."""
        try:
            with self.commit(on_error="undo"):
                self._run_new(by_digest(sql), sql)
                yield
                raise _Rehearsed
        except _Rehearsed:
            pass

    def _run_new(self, script: Mapping[str, Statement], sql: str) -> None:
        for digest, statement in script.items():
            if digest not in self.definitions.scripts:
                self._run_one(statement, sql)
                self.apply([ScriptRun(digest)])

    def _run_one(self, statement: Statement, sql: str) -> None:
        try:
            run_script(self, [statement], sql)
        except CatalogError as e:
            if self.definitions.scripts and re.search(r"There is already|is taken by", e.message):
                e.hint = "The checkpoint has it from before: drop it there first (eddyline query drop, or pipe.execute"
                e.hint += " with DROP …), or begin another checkpoint."
            raise

    def _forget_scripts(self) -> None:
        """Empties the log if only scripts have written to it."""
        numbers = range(1, self.log.latest() + 1)
        if all(self.log.has(n) and any(isinstance(a, ScriptRun) for a in self.log.read(n)) for n in numbers):
            self.log.clear()
            self.reset()

    def execute(self, sql: str) -> Any:
        """SELECT, SHOW and EXPLAIN return a pyarrow.Table, others None: a pipeline delivers changes to its sinks.

        A long text is parsed and bound before the log is locked, so that no other writer waits for it.
        """
        if isinstance(sql, str) and len(sql) >= LONG:
            self.catch_up()
            script = parse(sql)
            with self._bound_before(script), self.commit():
                return run_script(self, script, sql)
        with self.commit():
            known = self.session.known(sql) if isinstance(sql, str) else None
            return run_script(self, parse(sql), sql) if known is None else self.apply([known])

    @contextmanager
    def _bound_before(self, script: Sequence[Statement]) -> Iterator[None]:
        """Binds the queries of a script; the session uses the bindings as long as the catalog does not change."""
        session = self.session
        for statement in script:
            body = statement.body
            if isinstance(body, CreateQuery | CreateFamily):
                params = body.params if isinstance(body, CreateFamily) else None
                with suppress(Error):  # raised again when the statement runs: an earlier one may declare what it reads
                    session.prebind(body.query, params)
        try:
            yield
        finally:
            session.prebound.clear()

    # as a host of statements

    def apply(self, actions: Sequence[Action]) -> None:
        """Applies the actions of a statement, all of them or none, and records them for the commit that is open."""
        for action in actions:
            self._check(action)
        apply_whole(actions, self.record)

    def insert(self, stream: str, rows: pa.Table) -> None:
        raise CatalogError("A pipeline takes no rows by INSERT.", hint=_NO_ROWS)

    def show(self, what: str) -> pa.Table:
        with self.guard:
            return show(self.session, what, asking.PipelineFigures(self))

    def explain(self, name: str, analyze: bool = False) -> str:
        if analyze:
            hint = f"`eddyline query explain {name} --checkpoint …` tells what a pipeline knows of it."
            raise CatalogError("EXPLAIN ANALYZE needs figures of the engine, which runs elsewhere.", hint=hint)
        with self.guard:
            family, lines = explain(self.session, name)
            split = self.definitions.splits.get(family.number)
            if split is None and len(family.queries):
                split = self.decide_split(family)
            how = explain_partitioning(family.plan, partitioning_of(family, split))
            return "\n".join([*lines, f"split over buckets: {how}"])

    def table(self, name: str) -> TableRows:
        if self.has_source(name):
            raise CatalogError(
                f"The rows of table {name!r} are in the pipeline's state: they cannot be selected here.",
                hint="Read its source, or register a continuous query over it and read that query's sink.",
            )
        return self.definitions.tables[name]

    def view(self, name: str) -> pa.Table:
        raise CatalogError(f"A pipeline keeps no answer of {name!r} to be asked for.", hint="Read its sink.")

    # checks of a pipeline

    def _check(self, action: Action) -> None:
        match action:
            case Define(relation=relation) if relation is not None:
                self._check_relation(relation)
            case Undefine(kind, name):
                has_source = kind == "stream" or (kind == "table" and self.catalog.tables[name].external is not None)
                if has_source and self._begun():
                    raise CatalogError(
                        f"{name!r} stays: Spark fixes the sources of a checkpoint when it first starts.",
                        hint="Drop its queries, or begin a new checkpoint without it.",
                    )
            case NewFamily(family=family) if family is not None:
                with starting(family):  # refuses families that no bucket could build
                    RunningFamily(
                        family, self.definitions.functions, EngineOptions(answers="not kept"), own_log, own_table
                    )
            case ChangeTable() if self.has_source(action.table):
                raise CatalogError(f"Table {action.table!r} has a source of its own.", hint=_NO_ROWS)

    def _check_relation(self, thing: Stream | Table | View | Sink) -> None:
        has_source = isinstance(thing, Stream) or (isinstance(thing, Table) and thing.external is not None)
        if has_source and self._begun():
            raise CatalogError(
                f"{thing.name!r} comes too late: Spark fixes the sources of a checkpoint when it first starts.",
                hint="Declare it in the script of a new checkpoint.",
            )
        if not isinstance(thing, View):
            self._check_external(thing)
        if isinstance(thing, Sink):
            kind_of(thing).check(thing, thing.external.options)
            require_usable_path(thing, self.log.path.parent / "pipeline.json")
            if self._begun():
                require_function(thing, self.served)

    def _check_external(self, thing: Stream | Table | Sink) -> None:
        """Checks the format, the options and the path."""
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
        """The base of relative paths; for others than the operator, the folder where the last run was started."""
        runs = run_starts(self._checkpoint()) if self.rules.author == "others" else []
        return runs[-1].base if runs else os.getcwd()

    def _begun(self) -> bool:
        return has_begun(self.log.path.parent.parent)

    def has_source(self, table: str) -> bool:
        """Whether the rows of a table come from a source: declared, or a DataFrame of the pipeline."""
        if self.catalog.tables[table].external is not None or table.lower() in self.given:
            return True
        return table.lower() in sources_of(self.log.path.parent.parent)

    # queries and functions

    def register(self, family: str, table: Any) -> None:
        with self.commit():
            self.apply(self.session.register(family, table))

    def drop(self, family: str, names: Sequence[str]) -> None:
        with self.commit():
            self.apply(self.session.drop(family, names))

    def query(self, name: str) -> tuple[Family, int]:
        return self.registry.query(name)

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
            action = replace(self.session.function(name, body, takes, gives, kind), body=pickled)
            self.approvals.approve(action)
            self.apply([action])

    def require_approved(self, unapproved: Literal["refuse", "approve"]) -> None:
        """Refuses, or approves, functions of the checkpoint that this user has not approved."""
        with self.guard:
            self.catch_up()
            if unapproved == "approve":
                for action in self.log.every():
                    if isinstance(action, DefineFunction):
                        self.approvals.approve(action)
            for action in self.definitions.function_actions.values():
                if not self.approvals.has(action):
                    raise self.approvals.refusal(action)

    def quarantine(self, family: int, ids: Sequence[int], error: str) -> None:
        """Puts failed queries into quarantine, unless they were dropped meanwhile."""
        with self.commit():
            owner = self.registry.get(family)
            if owner is None:
                return
            rows = owner.queries.rows()
            present = rows.here(np.array(sorted(set(ids)), np.int64))
            live = present[rows.alive[rows.positions(present)]]
            new = [int(i) for i in live if int(i) not in self.quarantined.get(family, {})]
            if new:
                self.apply([Quarantine(family, tuple(new), error)])

    def resume(self, name: str) -> int:
        """Restarts a quarantined query, or all quarantined queries of a family; returns their number."""
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
            self.apply(self.session.resume(family, np.array(wanted, np.int64)))
            return len(wanted)

    @property
    def quarantined(self) -> dict[int, dict[int, str]]:
        """The error by family and query, for families that have quarantined queries."""
        return {number: out for number, out in self.definitions.quarantined.items() if out}

    @property
    def tables(self) -> dict[str, TableRows]:
        return self.definitions.tables

    # figures

    def stats(self) -> dict[str, Any]:
        with self.guard:
            return asking.stats(self)

    def late(self, stream: str) -> pa.Table:
        return asking.late(self, self.catalog.streams[stream])


class _Rehearsed(Exception):
    """Ends a rehearsal so that it is rolled back."""

"""A connection: the in-process API. A session turns statements into actions, and an engine applies them at once.

`storage.py` saves and restores a connection; `figures.py` has its figures for SHOW, EXPLAIN and `stats`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import pyarrow as pa

from eddyline.delivery.changes import Arrival, Changes, Lookup
from eddyline.engine.actions import Action, AddQueries, AddQuery, ChangeTable, DropQueries, Undefine, apply_whole
from eddyline.engine.definitions import Definitions
from eddyline.engine.engine import Engine
from eddyline.engine.failures import FamilyFailure, computing
from eddyline.engine.family import Family
from eddyline.engine.memory import most_step_bytes
from eddyline.engine.parts import InitialPart, Part
from eddyline.engine.running_family import EngineOptions
from eddyline.engine.table_rows import TableRows
from eddyline.errors import CatalogError, DataError, did_you_mean
from eddyline.local import figures
from eddyline.local.arriving import Incoming, incoming, selected
from eddyline.local.guard import LocalGuard
from eddyline.operators.user_functions import FunctionKind, body_of
from eddyline.session import input_rows
from eddyline.session.run_statements import run_script
from eddyline.session.session import Session
from eddyline.session.show import show
from eddyline.sql.catalog import Stream
from eddyline.sql.parser import parse
from eddyline.state.delta import MIN


class Connection:
    def __init__(self, clock: Literal["min", "max"] = "min", threads: int | None = None) -> None:
        """`threads`: threads per batch; by default one for each processor that this process may use."""
        if threads is not None and (not isinstance(threads, int) or isinstance(threads, bool) or threads < 1):
            raise DataError(f"threads cannot be {threads!r}.", hint="It is a whole number above zero.")
        if clock not in ("min", "max"):
            raise DataError(f"clock cannot be {clock!r}.", hint="It is 'min' (the slowest stream leads) or 'max'.")
        self.guard = LocalGuard()
        self.definitions = Definitions()
        options = EngineOptions(clock, threads=threads or len(os.sched_getaffinity(0)), most_bytes=most_step_bytes())
        self.engine = Engine(self.definitions, self.guard, options)
        self.session = Session(self.definitions, self)
        self.catalog = self.definitions.catalog
        self.registry = self.session.registry
        self.functions = self.definitions.functions
        self.set_apart: dict[str, list[list[pa.Array]]] = {}  # by stream: rows that were late or too far ahead
        self._nothing = Changes((), (), Lookup(self.registry, "now"))

    # statements

    def execute(self, sql: str) -> Any:
        """Runs one statement or a script; returns the result of the last statement.

        SELECT, SHOW and EXPLAIN return a pyarrow.Table, changes of data and new queries `Changes`, others None.

        The path of a new query: `parse` its text; bind it and plan the family of its shape (`Session.create_query`);
        build the operators of a new family (`Engine.family_created`). `push` runs them. A text of a known shape is
        neither parsed nor bound (`Session.known`).
        """
        action = self.session.known(sql) if isinstance(sql, str) else None
        if action is None:
            return run_script(self, parse(sql), sql)
        if self.engine.failed:
            self._refuse_queries([action])
        parts = self.engine.apply(action)
        return self._changes(parts) if isinstance(action, AddQuery) else self.guard.warn()

    def apply(self, actions: Sequence[Action]) -> Changes:
        """Applies the actions of one statement: all of them, or none if one fails."""
        if self.engine.failed:
            self._refuse_queries(actions)
        parts = [part for parts in apply_whole(actions, self.engine.apply) for part in parts]
        for action in actions:
            if isinstance(action, Undefine):
                self.set_apart.pop(action.name.lower(), None)
        if actions and isinstance(actions[-1], ChangeTable):
            return self._collected([p.resolve() for p in parts])
        return self._changes(parts)

    def insert(self, stream: str, rows: pa.Table) -> Changes:
        return self.push(stream, rows)

    def _refuse_queries(self, actions: Sequence[Action]) -> None:
        """Raises if a query is added to a family in quarantine, unless the same actions restart the family."""
        resumed = {a.family for a in actions if isinstance(a, DropQueries)}
        for action in actions:
            if isinstance(action, AddQuery | AddQueries) and action.family not in resumed:
                self._require_running(self.registry.number(action.family))

    # rows and time

    def push(self, stream: str | Mapping[str, Any], rows: Any = None) -> Changes:
        """Adds rows to a stream, or to several: `push({"r": …, "s": …})`. All are checked before any is applied."""
        if isinstance(stream, Mapping) and rows is not None:
            raise DataError("push takes a stream and its rows, or rows by stream, not both.")
        given = dict(stream) if isinstance(stream, Mapping) else {stream: rows}
        declared: list[tuple[Stream, Any]] = []
        for name, data in given.items():
            known = self._stream(name)
            if any(known is other for other, _ in declared):
                raise DataError(f"Stream {known.name!r} is named twice in one push.", hint="No row was applied.")
            declared.append((known, data))
        prepared = incoming(declared, self.engine.clocks.streams, self.engine.arrivals)
        self.functions.take_noted()  # discards warnings of reads since the last step
        return self._collected([p for i in prepared for p in self._arrive(i)], [i.arrival for i in prepared])

    def _arrive(self, prepared: Incoming) -> list[Part]:
        behind = self._behind(prepared) if self.engine.options.clock == "max" else None
        self.engine.clocks.streams[prepared.key] = prepared.clock
        self.set_apart.setdefault(prepared.key, []).extend(rows for rows in (prepared.late, behind) if rows is not None)
        if behind is not None:
            prepared.clock.late += len(behind[0])
        return self.engine.arrive(prepared.key, prepared.batch)

    def _behind(self, prepared: Incoming) -> list[pa.Array] | None:
        """Under clock = 'max', the tuples that are behind the clock of a query."""
        readers = (r for r in self.engine.running.values() if prepared.key in r.streams and len(r.family.queries))
        behind = prepared.batch.ts < max((r.reached for r in readers), default=MIN)
        return selected(list(prepared.batch.columns), behind) if behind.any() else None

    def advance(self, to: Any) -> Changes:
        """Time passes without tuples: every stream's watermark becomes at least `to`."""
        moment = input_rows.moment(to)
        self.functions.take_noted()
        return self._collected(self.engine.advance(moment))

    def _collected(self, parts: Sequence[Part], arrivals: Sequence[Arrival] = ()) -> Changes:
        """The changes of a step, and the families that failed."""
        failed = [Part(f, f.queries.rows(), x) for f, x in self.failures()]
        warnings = self.functions.take_noted()
        changes = Changes([*parts, *failed], arrivals, Lookup(self.registry), lambda: warnings)
        self.guard.warn()
        return changes

    def _changes(self, parts: Sequence[Part | InitialPart]) -> Changes:
        """The changes of actions; initial answers are computed on demand."""
        if not parts:
            self.guard.warn()
            return self._nothing
        changes = Changes(parts, (), Lookup(self.registry), self.functions.take_noted, self.guard.warn)
        self.guard.warn()
        return changes

    # families and queries

    def register(self, family: str, table: Any) -> Changes:
        """Adds one query per row: column `query` is its name, the others its parameters. All rows or none."""
        return self.apply(self.session.register(family, table))

    def drop(self, family: str, names: Sequence[str]) -> None:
        """Drops queries of a family by name. All or none."""
        self.apply(self.session.drop(family, names))

    def resume(self, name: str) -> Changes:
        """Restarts a failed family: its queries see the current tables, and the tuples that arrive from now on.

        `name` is the name of the family, or of one of its queries.
        """
        family, _ = self.registry.family_of(name)
        if family.number not in self.engine.failed:
            raise CatalogError(f"{name!r} is not in quarantine.", hint="SHOW FAMILIES tells which families failed.")
        rows = family.queries.rows()
        return self.apply(self.session.resume(family, rows.ids_at(rows.live())))

    def function(
        self,
        name: str,
        body: Callable[..., Any],
        takes: Sequence[str],
        gives: str,
        kind: FunctionKind = "scalar",
    ) -> None:
        """Registers a Python function for use in queries: `takes` and `gives` are SQL types.

        A 'scalar' function is called row by row with Python values, NULL as None. An 'arrow' function is called with a
        pyarrow array for each argument, a 'pandas' function with a Series, and returns one of the same length; where
        rows are cut into batches is not fixed, so a value must depend on its row alone. A call that raises or returns
        something else gives NULL, is counted (`stats()`, SHOW FUNCTIONS) and reported (`Changes.warnings()`).
        """
        action = self.session.function(name, body, takes, gives, kind)
        self.apply([replace(action, body=body_of(body, kind))])

    # reading

    def snapshot(self, name: str) -> pa.Table:
        """The answer of a query at its clock."""
        family, query = self.registry.query(name)
        self._require_running(family, name)
        if not family.has_snapshot:
            raise CatalogError(
                f"{name!r} was registered WITH (snapshot = 'no'): its answer is not kept.",
                hint="Fold its changes, or register it without that option.",
            )
        running = self.engine.running[family.number]
        self.engine.flush(running)
        if running.answer is not None:
            self.engine.catch_up(running)
        self._require_running(family, name)
        with computing(family):
            return self.engine.snapshot(running, query)

    def table(self, name: str) -> TableRows:
        """The rows of a table, for SELECT."""
        return self.definitions.tables[name]

    def view(self, name: str) -> pa.Table:
        """The rows of a view, for SELECT."""
        return self.snapshot(self.catalog.views[name].name)

    def late(self, stream: str) -> pa.Table:
        """The tuples of a stream that were late, or further ahead than its FUTURE LIMIT."""
        declared = self._stream(stream)
        parts = self.set_apart.get(declared.name.lower(), [])
        names = [f.name for f in declared.fields]
        columns = [pa.chunked_array([p[i] for p in parts], f.type) for i, f in enumerate(declared.fields)]
        return pa.table(columns, names=names)

    def show(self, what: str) -> pa.Table:
        """The result of SHOW: `what` is STREAMS, TABLES, QUERIES, …"""
        return show(self.session, what, figures.LocalFigures(self))

    def explain(self, name: str, analyze: bool = False) -> str:
        self.flush()
        return figures.explain(self, name, analyze)

    def stats(self) -> dict[str, Any]:
        self.flush()
        return figures.stats(self)

    def save(self, path: Any) -> None:
        """Writes everything to a directory, from which `eddyline.connect(path)` restores it."""
        self.flush()
        from eddyline.local.storage import save

        save(self, path)

    def flush(self) -> None:
        """Computes deferred results, so that counters and state are up to date."""
        self.engine.flush_all()
        self.guard.warn()

    def failures(self) -> list[tuple[Family, FamilyFailure]]:
        """The families in quarantine."""
        return [(self.registry.number(n), failure) for n, failure in self.engine.failed.items()]

    def _stream(self, name: str) -> Stream:
        known = self.catalog.streams.get(name) if isinstance(name, str) else None
        if known is None:
            raise CatalogError(
                f"There is no stream {name!r}.", hint=did_you_mean(str(name), self.catalog.streams.names())
            )
        return known

    def _require_running(self, family: Family, name: str | None = None) -> None:
        failure = self.engine.failed.get(family.number)
        if failure is not None:
            self.guard.refuse(failure, name or family.name)

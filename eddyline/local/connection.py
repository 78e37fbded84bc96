"""A connection: the whole contract in-process.

The path of data is in `stepping.py`, what statements do in `statements.py`, saving and restoring in `storage.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from eddyline import types as t
from eddyline.delivery.changes import Changes, Lookup, Part
from eddyline.engine.clocks import StreamClock
from eddyline.engine.failures import FamilyFailure, computing, starting
from eddyline.engine.family import Family
from eddyline.engine.history import History
from eddyline.engine.running_family import RunningFamily
from eddyline.engine.table_rows import TableRows
from eddyline.errors import CatalogError, DataError, ParseError, did_you_mean
from eddyline.local.stepping import Stepping
from eddyline.operators.user_functions import KINDS, FunctionKind, body_of
from eddyline.session import input_rows
from eddyline.session.templates import cut, dropped_query
from eddyline.sql.binder import Binding, bind_family, bind_standing
from eddyline.sql.bound import Field
from eddyline.sql.catalog import Function, Sink, Stream, Table, View
from eddyline.sql.dialect import OF_THE_SYNTAX
from eddyline.sql.functions import AGGREGATES, FORMS, NAMED
from eddyline.sql.parser import parse
from eddyline.sql.statements import QueryText
from eddyline.state.delta import Ints, query_of


class Connection(Stepping):
    # statements

    def execute(self, sql: str) -> Any:
        """Runs one statement or a script; returns what the last statement gives.

        SELECT, SHOW and EXPLAIN give a pyarrow.Table, changes of data and new queries give `Changes`, others None.
        """
        text = sql if isinstance(sql, str) else ""
        if not text.isascii():
            _require_whole_characters(text)
        dropped = dropped_query(text)
        if dropped is not None:
            found = self.registry.owner(dropped)
            if found is not None and found[0].kind != "view":
                return self.drop_query(found[0], dropped, found[1])
        known = cut(text)
        if known is not None:
            values = self.templates.values(known, self.catalog.version)
            if values is not None and self._is_free(known.name):
                return self.add_query(self.registry.number(values[0]), known.name, values[1])
        from eddyline.session import statements

        return statements.run_script(self, parse(sql), sql)

    def create_query(self, name: str, bound: Any, options: Mapping[str, str], text: str, place: str) -> Changes:
        """A query registered as text: finds or makes the family of its shape."""
        self.registry.require_free(name)
        binding = self.bind(bound)
        family, is_new = self.registry.shaped(binding, options, text, self.start)
        try:
            added = self.add_query(family, name, binding.bound.values)
        except BaseException:
            if is_new == "new":
                self.remove(family)
            raise
        known = cut(place)
        if known is not None and known.name == name:
            self.templates.learn(known, family.number, binding.recipes, binding.bound)
        return added

    def bind(self, text: QueryText, params: Sequence[Field] | None = None) -> Binding:
        """Binds a query registered as text, or a declared family with its parameters."""
        return bind_standing(self.catalog, text) if params is None else bind_family(self.catalog, text, params)

    def _is_free(self, name: str) -> bool:
        return self.registry.find(name) is None and self.registry.names.owner(name) is None

    def add_query(self, family: Family, name: str, values: Sequence[Any]) -> Changes:
        self.failures.require_running(family)
        return self.added(family, [self.registry.add_one(family, name, values, self.arrivals)])

    # streams, tables, views and sinks

    def define(self, thing: Stream | Table | View | Sink) -> None:
        self.catalog.add(thing)
        key = thing.name.lower()
        if isinstance(thing, Stream):
            self.clocks[key] = StreamClock(thing.delay, floor=self.advanced, future=thing.future)
            self.histories[key] = History([f.type for f in thing.fields])
            self.dead[key] = []
        elif isinstance(thing, Table):
            self.tables[key] = TableRows(thing)

    def undefine(self, kind: Literal["stream", "table", "view", "sink"], name: str) -> None:
        self.catalog.undefine(kind, name)
        for store in (self.clocks, self.histories, self.dead, self.tables):
            store.pop(name.lower(), None)

    # families and queries

    def start(self, family: Family) -> None:
        """Builds the operators of a family that is about to be registered, and gives them the tables they read."""
        with starting(family):
            running = self.running_family(family)
            running.clock = self.clock_of(running)
            if running.tables:
                nobody = family.queries.rows().only(np.empty(0, np.int64))
                running.run("arrivals", running.clock, nobody, tables=self._contents(running))
        self.running[family.number] = running

    def running_family(self, family: Family) -> RunningFamily:
        return RunningFamily(
            family, self.functions, self.clock_policy, threads=self.threads, most_bytes=self.most_bytes
        )

    def resume(self, name: str) -> Changes:
        """Lets a family that failed begin anew: its queries see tables as they stand, and the tuples to come.

        `name` is the family's, or that of one of its queries.
        """
        family = self.registry.find(name) if isinstance(name, str) else None
        family = family or self.query(name)[0]
        if self.failures.of(family) is None:
            raise CatalogError(f"{name!r} is not in quarantine.", hint="SHOW FAMILIES tells which families failed.")
        ids = self.registry.renew(family, self.arrivals)
        self.start(family)
        self.failures.remove(family)
        return self.added(family, ids)

    def register(self, family: str, table: Any) -> Changes:
        """Adds one query per row: column `query` is its name, the others its parameters. All rows or none."""
        target = self.registry.named(family)
        if target.kind != "declared":
            raise CatalogError(f"{target.name!r} is not a declared family.", hint="CREATE QUERY FAMILY declares one.")
        if isinstance(table, list) and not table:
            return self._nothing
        self.failures.require_running(target)
        ids = self.registry.add_many(target, input_rows.to_table(table), self.arrivals)
        return self.added(target, ids)

    def drop(self, family: str, names: Sequence[str]) -> None:
        """Drops queries of a family by name. All or none."""
        self.drop_queries(self.registry.named(family), names)

    def drop_queries(self, family: Family, names: Sequence[str]) -> None:
        self.dropping(family)
        self.dropped(family, self.registry.drop(family, names).tolist())

    def drop_query(self, family: Family, name: str, query: int) -> None:
        self.dropping(family)
        self.registry.drop_one(family, name, query)
        self.dropped(family, (query,))

    def dropping(self, family: Family) -> None:
        """Before queries go, what the family has not yet shown is shown."""
        running = self.running.get(family.number)
        if running is not None:
            self._settle(running)

    def dropped(self, family: Family, ids: Sequence[int]) -> None:
        if family.kind == "implicit" and not len(family.queries):
            self.remove(family)
            return
        running = self.running.get(family.number)
        if running is not None:
            self.failures.attempt(running, partial(running.forget, ids))
        if family.queries.crowded:
            if running is not None:
                self.failures.attempt(running, running.let_go)
            family.queries.clear_away()
        self.failures.tell()

    def remove(self, family: Family) -> None:
        self.dropping(family)
        self.registry.remove(family)
        self.templates.forget(family.number)
        self.failures.remove(family)
        running = self.running.pop(family.number, None)
        for stream in running.streams if running is not None else ():
            self._let_go(stream)

    def added(self, family: Family, ids: Sequence[int] | Ints) -> Changes:
        """New queries see tables, and groups that always exist, as they stand."""
        running = self.running[family.number]
        if not running.shows_itself:
            return self._nothing
        newcomers = running.announce(ids, self.clock_of(running), lambda: self._settle(running))

        def shown() -> list[Part]:
            self._settle(running)
            queries = family.queries.rows()
            if newcomers.shown is None:
                self.failures.tell()
                return [Part(family, queries, FamilyFailure(family.name, running.failure or "it was dropped"))]
            mine = newcomers.shown.take(np.isin(query_of(newcomers.shown), np.asarray(ids, np.int64)))
            return [Part(family, queries, mine)]

        found = Changes(shown, (), Lookup(self.registry), self.functions.take_noted)
        self.failures.tell()
        return found

    # asking

    def snapshot(self, name: str) -> pa.Table:
        """The answer of a query at its clock."""
        family, query = self.query(name)
        self.failures.require_running(family, name)
        running = self.running[family.number]
        if not family.has_snapshot:
            raise CatalogError(
                f"{name!r} was registered WITH (snapshot = 'no'): its answer is not kept.",
                hint="Fold its changes, or register it without that option.",
            )
        self._settle(running)
        self.failures.require_running(family, name)
        clock = max(running.clock, self.clock_of(running))
        with computing(family):
            return running.snapshot(query, clock, lambda s: self.histories[s].all(), self._contents(running))

    def query(self, name: str) -> tuple[Family, int]:
        found = self.registry.owner(name) if isinstance(name, str) else None
        if found is None:
            known = [n for f in self.registry for n in f.queries.some_names(100)]
            raise CatalogError(f"There is no query {name!r}.", hint=did_you_mean(str(name), known))
        return found

    def late(self, stream: str) -> pa.Table:
        """The tuples of a stream that came too late to be seen, or were further ahead than its FUTURE LIMIT."""
        declared = self.stream(stream)
        parts = self.dead[declared.name.lower()]
        names = [f.name for f in declared.fields]
        columns = [pa.chunked_array([p[i] for p in parts], f.type) for i, f in enumerate(declared.fields)]
        return pa.table(columns, names=names)

    def show(self, what: str) -> pa.Table:
        """What SHOW tells: `what` is STREAMS, TABLES, QUERIES, …"""
        from eddyline.local.showing import show

        return show(self, what)

    def explain(self, name: str, analyze: bool = False) -> str:
        from eddyline.local.showing import explain

        self.settle()
        return explain(self, name, analyze)

    def stats(self) -> dict[str, Any]:
        from eddyline.local.showing import stats

        self.settle()
        return stats(self)

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
        something else gives NULL, is counted (`stats()`, SHOW FUNCTIONS) and told (`Changes.warnings()`).
        """
        if not isinstance(name, str) or not name.isidentifier():
            raise DataError(f"{name!r} is not a name for a function.")
        if name.upper() in OF_THE_SYNTAX or name.lower() in {*NAMED, *FORMS, *AGGREGATES}:
            raise CatalogError(
                f"{name!r} is a built-in function, or has a syntax of its own.", hint="Choose another name."
            )
        if not callable(body):
            raise DataError(f"The body of function {name!r} is not callable.")
        if isinstance(takes, str) or not isinstance(takes, Sequence):
            raise DataError(f"The types that {name!r} takes must be a list.", hint='Write ["INT", "STRING"].')
        if kind not in KINDS:
            raise DataError(f"{kind!r} is not a kind of function.", hint=f"It is one of {', '.join(map(repr, KINDS))}.")
        if kind != "scalar" and not takes:
            raise DataError(f"An {kind} function needs an argument, which says how many values it returns.")
        types = [_type(x) for x in (*takes, gives)]
        known = self.catalog.functions.get(name)
        if known is not None and (*known.takes, known.gives) != tuple(types):
            raise CatalogError(
                f"There is already a function {known.name!r} with other types.", hint="Choose another name."
            )
        body = body_of(body, kind)
        self.catalog.add(Function(known.name if known else name, tuple(types[:-1]), types[-1], body, kind))
        self.functions.bodies = {**self.functions.bodies, name.lower(): body}

    def save(self, path: Any) -> None:
        """Writes everything to a directory, from which `eddyline.connect(path)` goes on."""
        self.settle()
        from eddyline.local.storage import save

        save(self, path)


def _require_whole_characters(sql: str) -> None:
    """Half of a character (a lone surrogate) is in no text that can be kept or sent."""
    try:
        sql.encode()
    except UnicodeEncodeError as e:
        raise ParseError(
            f"The text has {sql[e.start]!r}, which is half of a character.",
            hint="Nothing was run; give text that can be written as UTF-8.",
            sql=sql.encode(errors="replace").decode(),
            span=(e.start, e.start + 1),
        ) from None


def _type(name: str) -> pa.DataType:
    found = t.BY_NAME.get(str(name).upper())
    if found is None:
        raise DataError(f"{name!r} is not a type.", hint=did_you_mean(str(name), t.BY_NAME))
    return found

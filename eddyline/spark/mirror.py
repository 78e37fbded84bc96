"""The mirror: a connection that runs nothing. It checks statements, and writes down what they change as a commit.

It is what `pipe.execute`, `pipe.register`, `pipe.drop` and the command line work on: the same statements, checks and
errors as in-process. Rows of tables are held here only for tables without a source of their own.
"""

from __future__ import annotations

import os
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from eddyline.errors import CatalogError, DataError, StateError
from eddyline.families.family import Family
from eddyline.local import statements
from eddyline.local.changes import Changes
from eddyline.local.connection import Connection
from eddyline.plan.partitioning import partitioning
from eddyline.spark import blocks
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
    Undefine,
)
from eddyline.spark.places import require_own_path, require_usable_path
from eddyline.spark.replica import function_of
from eddyline.spark.routes import cell_width
from eddyline.spark.settings import has_begun
from eddyline.sql.catalog import Sink, Stream, Table, View
from eddyline.sql.cursor import words
from eddyline.sql.declared import declared, shape
from eddyline.sql.parser import parse
from eddyline.sql.statements import Statement
from eddyline.state.delta import Ints

COMMITS, MOST_COMMITS = 64, 4096  # so many make a snapshot worth while, and so many make it due
_NO_ROWS = "The rows of a pipeline come from its sources: write them there."


class Mirror(Connection):
    def __init__(self, log: CommitLog) -> None:
        self.log = log
        self.guard = threading.RLock()  # users and the driver's delivery work on the same mirror
        self.served: set[str] = set()  # sinks USING foreach_batch that have a function here
        self._begin()

    def _begin(self) -> None:
        """An empty catalog, at the beginning of the log."""
        super().__init__()
        self.version = 0
        self.done: set[str] = set()  # digests of the script's statements that were carried out
        self.dropped_from_script: set[str] = set()  # those of them that the script no longer has
        self.widths: dict[int, float] = {}  # of cells, by family
        self.quarantined: dict[int, dict[int, str]] = {}  # by family and query: what went wrong
        self._functions: dict[str, DefineFunction] = {}
        self._journal: list[Action] = []
        self._open = False
        self._summary_bytes = 0
        self._added: dict[int, int] = {}  # by family: the first query that is not in the journal yet

    # what users call

    def run_script(self, sql: str) -> None:
        """The statements of a pipeline's script that this log has not seen yet.

        One is known by its words, whatever the space between them. Before the first micro-batch, a script that was
        changed takes the place of what it was.
        """
        found: dict[str, Statement] = {}
        times: Counter[str] = Counter()
        for statement in parse(sql):
            text = words(statement.text)
            again = [str(times[text]).encode()] if times[text] else []  # the same may be meant twice
            found[blocks.digest(text.encode(), *again)] = statement
            times[text] += 1
        with self.commit():
            if not self._begun() and self.done - found.keys():
                self._forget_scripts()
            self.dropped_from_script = self.done - found.keys()
            for digest, statement in found.items():
                if digest not in self.done:
                    self._run_new(statement, sql)
                    self._journal.append(ScriptRun(digest))
                    self.done.add(digest)

    def _run_new(self, statement: Statement, sql: str) -> None:
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
        with self.commit():
            return super().execute(sql)

    def register(self, family: str, table: Any) -> Changes:
        with self.commit():
            return super().register(family, table)

    def drop(self, family: str, names: Sequence[str]) -> None:
        with self.commit():
            super().drop(family, names)

    def function(self, name: str, body: Callable[..., Any], takes: Sequence[str], gives: str) -> None:
        from pyspark import cloudpickle

        try:
            pickled: bytes = cloudpickle.dumps(body)  # type: ignore[no-untyped-call]
        except Exception as e:
            raise DataError(
                f"The function {name!r} cannot be pickled, and so not be sent to where rows are: {e}.",
                hint="Let it open or make what it needs when it is called.",
            ) from None
        with self.commit():
            super().function(name, body, takes, gives)
            action = self._functions[name.lower()] = DefineFunction(name, tuple(takes), gives, pickled)
            self._journal.append(action)

    def push(self, stream: Any, rows: Any = None) -> Any:
        raise CatalogError("A pipeline takes no rows by push.", hint=_NO_ROWS)

    def advance(self, to: Any) -> Any:
        raise CatalogError("The clock of a pipeline follows its sources.", hint="Declare IDLE AFTER on quiet streams.")

    def snapshot(self, name: str) -> pa.Table:
        self.query(name)
        raise CatalogError(f"A pipeline keeps no answer of {name!r} to be asked for.", hint="Read its sink.")

    def explain(self, name: str, analyze: bool = False) -> str:
        if analyze:
            raise CatalogError("EXPLAIN ANALYZE needs the engine's figures.", hint="`eddyline run` shows them live.")
        return super().explain(name)

    # what statements do here

    def define(self, thing: Stream | Table | View | Sink) -> None:
        has_source = isinstance(thing, Stream) or (isinstance(thing, Table) and thing.external is not None)
        if has_source and self._begun():
            raise CatalogError(
                f"{thing.name!r} comes too late: Spark fixes the sources of a checkpoint when it first starts.",
                hint="Declare it in the script of a new checkpoint.",
            )
        if isinstance(thing, Sink):
            require_own_path(thing, self.catalog.sinks, os.getcwd())
            require_usable_path(thing, self.log.path.parent / "pipeline.json")
            in_code = thing.external.format.lower() == "foreach_batch"
            if in_code and self._begun() and thing.name.lower() not in self.served:
                raise CatalogError(
                    f"The sink {thing.name!r} has no function.", hint=f"pipe.foreach_batch({thing.name!r}, function)."
                )
        super().define(thing)
        self._journal.append(Define(thing.sql))

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
        self._let_out(family, ids)
        if family.queries.crowded:
            family.queries.clear_away()

    def remove(self, family: Family) -> None:
        self._write_added(family)
        self.registry.remove(family)
        self.templates.forget(family.number)
        self.widths.pop(family.number, None)
        self.quarantined.pop(family.number, None)
        self._journal.append(RemoveFamily(family.number))

    def change_table(self, table: Table, gone: Any, new: Sequence[pa.Array]) -> Any:
        if table.external is not None:
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
            wanted = np.array(sorted(set(ids) if len(rows) else ()), np.int64)
            place = np.minimum(rows.positions(wanted), len(rows) - 1)
            there = wanted[(rows.ids_at(place) == wanted) & rows.alive[place]]
            new = [int(i) for i in there if int(i) not in self.quarantined.get(family, {})]
            if new:
                self.quarantined.setdefault(family, {}).update(dict.fromkeys(new, error))
                self._journal.append(Quarantine(family, tuple(new), error))

    def resume(self, name: str) -> int:
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

    # the log

    @contextmanager
    def commit(self) -> Iterator[None]:
        """Brings the mirror up to date, and writes what is done inside as one commit; also if it ends in an error."""
        with self.guard:
            if self._open:  # inside of another
                yield
                return
            with self.log.lock():
                self.catch_up()
                self._open = True
                try:
                    yield
                finally:
                    self._open = False
                    self._write()

    def _write(self) -> None:
        try:
            for number in list(self._added):
                self._write_added(self.registry.number(number))
            if self._journal:
                actions, self._journal = self._journal, []
                self.version = self.log.append(actions)
                self._summarise()
        except BaseException:
            self._begin()  # what was done here is in no log: the next to ask reads the log anew
            raise

    def _write_added(self, family: Family) -> None:
        first = self._added.pop(family.number, None)
        if first is None:
            return
        split = partitioning(family.plan, family.emit)
        if split.kind == "by range" and family.number not in self.widths:
            width = self.widths[family.number] = cell_width(family, split, self.functions)
            self._journal.append(FixCells(family.number, width))
        rows = family.queries.rows()
        place = int(rows.positions(np.array([first]))[0])
        new = np.arange(place, len(rows))
        params = tuple(rows.all_params_at(new))
        self._journal.append(AddQueries(family.number, rows.names_at(new), params))

    def catch_up(self) -> None:
        """Takes up what others have committed."""
        with self.guard:
            for _ in range(3):
                try:
                    self._catch_up()
                    return
                except StateError:
                    # While it was read, the pipeline may have let go of files that a snapshot stands for by now.
                    self._begin()
            self._catch_up()

    def _catch_up(self) -> None:
        latest = self.log.latest()
        if self.version < latest and not self.log.has(self.version + 1):
            self._begin()  # this mirror has slept, and what it has missed stands only in a snapshot by now
        base = self.log.snapshot_before(latest) if not self.version else 0
        if base:
            for action in self.log.read_snapshot(base):
                self._apply(action)
            self.version = base
        while self.version < latest:
            for action in self.log.read(self.version + 1):
                self._apply(action)
            self.version += 1

    def _summarise(self) -> None:
        """Writes a snapshot once commits have piled up, so that no reader has to go through them all."""
        base = self.log.snapshot_before(self.version)
        if self.version - base < COMMITS:
            return
        since = sum(self.log.size(n) for n in range(base + 1, self.version + 1) if self.log.has(n))
        if self.version - base >= MOST_COMMITS or since >= self._summary_bytes:
            self._summary_bytes = self.log.write_snapshot(self.version, list(self._everything()))

    def _everything(self) -> Iterator[Action]:
        """What brings an empty catalog to where this one is."""
        for relation in [*self.catalog.streams, *self.catalog.tables]:
            yield Define(relation.sql)
        for name, table in self.tables.items():
            if len(table):
                yield ChangeTable(name, np.empty(0, np.int64), tuple(table.columns))
        yield from self._functions.values()
        for view in self.catalog.views:
            yield Define(view.sql)
        for family in self.registry:
            yield NewFamily(family.number, family.name, family.kind, family.sql)
            if family.number in self.widths:
                yield FixCells(family.number, self.widths[family.number])
            rows = family.queries.rows()
            live = rows.live()
            params = tuple(rows.all_params_at(live))
            yield LoadQueries(family.number, family.queries.next_id, rows.ids_at(live), rows.names_at(live), params)
            for query, error in self.quarantined.get(family.number, {}).items():
                yield Quarantine(family.number, (query,), error)
        for sink in self.catalog.sinks:
            yield Define(sink.sql)
        yield NextFamily(self.registry.next_number)
        for digest in sorted(self.done):
            yield ScriptRun(digest)

    def _apply(self, action: Action) -> None:
        match action:
            case Define():
                super().define(declared(parse(action.sql)[0].body, self.catalog))
            case Undefine():
                super().undefine(action.kind, action.name)
            case DefineFunction():
                function = function_of(action)
                self._functions[action.name.lower()] = action
                self.catalog.add(function)
                self.functions.bodies = {**self.functions.bodies, action.name.lower(): function.body}
            case NewFamily():
                binding, options = shape(parse(action.sql)[0].body, self.catalog)
                self.registry.restore(action.number, action.name, binding, options, action.kind, action.sql)
            case RemoveFamily():
                self.registry.remove(self.registry.number(action.number))
                self.widths.pop(action.number, None)
                self.quarantined.pop(action.number, None)
            case FixCells():
                self.widths[action.family] = action.width
            case NextFamily():
                self.registry.next_number = action.number
            case ScriptRun():
                self.done.add(action.digest)
            case ChangeTable():
                table = self.tables[action.table.lower()]
                gone = np.zeros(len(table), np.bool_)
                gone[action.gone] = True
                table.change(gone, action.new)
            case Quarantine():
                self.quarantined.setdefault(action.family, {}).update(dict.fromkeys(action.ids, action.error))
            case AddQueries() | LoadQueries() | DropQueries():
                self._apply_to_queries(action, self.registry.number(action.family))

    def _apply_to_queries(self, action: AddQueries | LoadQueries | DropQueries, family: Family) -> None:
        match action:
            case AddQueries():
                ids = family.queries.add(action.names, action.params, 0)
                self.registry.names.take(action.names, family.number, ids)
            case LoadQueries():
                columns = {"query": action.names, "id": action.ids, "since": np.zeros(len(action.ids), np.int64)}
                columns |= {f"p{i}": p for i, p in enumerate(action.params)}
                family.queries.load(pa.table(columns), action.next_id)
                self.registry.names.take(action.names, family.number, action.ids)
            case DropQueries():
                rows = family.queries.rows()
                self.registry.names.release(rows.name_of(action.ids))
                family.queries.drop(action.ids)
                self._let_out(family, action.ids.tolist())
                if family.queries.crowded:
                    family.queries.clear_away()

    def _let_out(self, family: Family, ids: Sequence[int]) -> None:
        out = self.quarantined.get(family.number, {})
        for i in ids if out else ():
            out.pop(int(i), None)

"""A connection in step with a commit log: what is done to it is written as a commit, what others commit it takes up.

It has the catalog, the table of queries and the rows of tables that have no source of their own, and runs nothing.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Literal

import numpy as np
import pyarrow as pa

from eddyline.engine.family import Family
from eddyline.errors import StateError
from eddyline.local.connection import Connection
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
from eddyline.spark.replica import function_of
from eddyline.spark.seen import read_seen, seen_file
from eddyline.spark.settings import identity_of
from eddyline.spark.splitting import Split, decide
from eddyline.spark.trust import Approvals, Bodies
from eddyline.sql.declared import declared, shape
from eddyline.sql.parser import parse

COMMITS, MOST_COMMITS = 64, 4096  # so many make a snapshot worth while, and so many make it due


class Logged(Connection):
    def __init__(self, log: CommitLog) -> None:
        self.log = log
        self.guard = threading.RLock()  # users and the driver's delivery work on the same catalog
        self._begin()

    def _begin(self) -> None:
        """An empty catalog, at the beginning of the log."""
        super().__init__()
        self.version = 0
        self.done: set[str] = set()  # digests of the script's statements that were carried out
        self.dropped_from_script: set[str] = set()  # those of them that the script no longer has
        self.splits: dict[int, Split] = {}  # by family: how it is split, where its plan leaves something open
        self.quarantined: dict[int, dict[int, str]] = {}  # by family and query: what went wrong
        self._functions: dict[str, DefineFunction] = {}
        self.approvals = Approvals(self.log.path.parent, identity_of(self.log.path.parent.parent))
        self.functions.bodies = self._bodies = Bodies(self.approvals)
        self._journal: list[Action] = []
        self._open = False
        self._summary_bytes = 0
        self._added: dict[int, int] = {}  # by family: the first query that is not in the journal yet

    # writing

    @contextmanager
    def commit(self, on_error: Literal["keep", "undo"] = "keep") -> Iterator[None]:
        """Brings the mirror up to date, and writes what is done inside as one commit.

        If the block ends in an error, what it did before is written too ("keep"), or none of it ("undo"): then the next
        to ask reads the log anew.
        """
        with self.guard:
            if self._open:  # inside of another
                yield
                return
            with self.log.lock():
                self.catch_up()
                self._open = True
                try:
                    yield
                except BaseException:
                    if on_error == "undo":
                        self._begin()
                    raise
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
        if family.number not in self.splits:
            seen = partial(read_seen, seen_file(self.log.path.parent))
            decided = decide(family, self.functions, seen, is_new=first == 0)
            if decided is not None:
                self.splits[family.number] = decided
                self._journal.append(decided)
        rows = family.queries.rows()
        place = int(rows.positions(np.array([first]))[0])
        places = np.arange(place, len(rows))
        params = tuple(rows.all_params_at(places))
        self._journal.append(AddQueries(family.number, rows.names_at(places), params))

    def _summarise(self) -> None:
        """Writes a snapshot once commits have piled up, so that no reader has to go through them all."""
        base = self.log.snapshot_before(self.version)
        if self.version - base < COMMITS:
            return
        since = sum(self.log.size(n) for n in range(base + 1, self.version + 1) if self.log.has(n))
        if self.version - base >= MOST_COMMITS or since >= self._summary_bytes:
            try:
                self._summary_bytes = self.log.write_snapshot(self.version, list(self._everything()))
            except StateError as e:  # the commit stands; the next one tries again
                logging.getLogger("eddyline").warning("No snapshot of the catalog was written: %s", e)

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
            yield NewFamily(family.number, family.name, family.kind, family.sql, family.in_lists)
            if family.number in self.splits:
                yield self.splits[family.number]
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

    # reading

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
            self._begin()  # this one has slept, and what it has missed stands only in a snapshot by now
        base = self.log.snapshot_before(latest) if not self.version else 0
        if base:
            for action in self.log.read_snapshot(base):
                self._apply(action)
            self.version = base
        while self.version < latest:
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
                self._take_function(action)
            case NewFamily():
                binding, options = shape(parse(action.sql)[0].body, self.catalog, action.in_lists)
                self.registry.restore(action.number, action.name, binding, options, action.kind, action.sql)
            case RemoveFamily():
                self.registry.remove(self.registry.number(action.number))
                self.splits.pop(action.number, None)
                self.quarantined.pop(action.number, None)
            case FixCells() | SplitQueries():
                self.splits[action.family] = action
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

    def _take_function(self, action: DefineFunction) -> None:
        self._functions[action.name.lower()] = action
        self.functions.bodies = self._bodies = self._bodies.plus(action)
        self.catalog.add(function_of(action, self._bodies))

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

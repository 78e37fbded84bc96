"""A session in step with a commit log: its actions are written as commits, and it applies what others commit.

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

from eddyline.engine.actions import (
    Action,
    AddQueries,
    AddQuery,
    ChangeTable,
    Define,
    DropQueries,
    DropQuery,
    LoadQueries,
    NextFamily,
    Quarantine,
    ScriptRun,
    Split,
)
from eddyline.engine.definitions import Definitions
from eddyline.engine.family import Family
from eddyline.errors import StateError
from eddyline.session.registry import Registry
from eddyline.session.session import Contents, Session, new_family
from eddyline.spark.catalog.commits import CommitLog
from eddyline.spark.catalog.following import Follower
from eddyline.spark.catalog.netting import family_of
from eddyline.spark.catalog.splitting import decide
from eddyline.spark.catalog.trust import Approvals, Bodies
from eddyline.spark.input.seen import read_seen, seen_file
from eddyline.spark.run.settings import identity_of
from eddyline.sql.catalog import Catalog
from eddyline.state.query_table import as_columns

COMMITS, MOST_COMMITS = 64, 4096  # so many make a snapshot worth while, and so many make it due


class LoggedSession:
    def __init__(self, log: CommitLog, contents: Contents) -> None:
        self.log = log
        self.guard = threading.RLock()  # users and the driver's delivery work on the same catalog
        self._contents = contents
        self._open = False
        self._snapshot_bytes = 0
        self.reset()

    def reset(self) -> None:
        """An empty catalog, at the beginning of the log: the next to ask reads the log anew."""
        self.version = 0
        self.approvals = Approvals(self.log.path.parent, identity_of(self.log.path.parent.parent))
        self.definitions = Definitions(bodies=Bodies(self.approvals), quarantined="kept")
        self.session = Session(self.definitions, self._contents)
        self._journal: list[Action] = []
        self._first_added: dict[int, int] = {}  # by family: the id of the first query that the journal adds

    @property
    def catalog(self) -> Catalog:
        return self.session.catalog

    @property
    def registry(self) -> Registry:
        return self.session.registry

    # writing

    def apply(self, action: Action) -> None:
        """Applies an action here, and writes it when the commit ends."""
        if isinstance(action, AddQuery | AddQueries):
            next_id = self.definitions.families[action.family].queries.next_id
            self._first_added.setdefault(action.family, next_id)
        self.definitions.apply(action)
        self._journal.append(action)

    @contextmanager
    def commit(self, on_error: Literal["keep", "undo"] = "keep") -> Iterator[None]:
        """Reads what others have committed, and writes what is applied inside as one commit.

        If the block ends in an error, what it applied before is written too ("keep"), or none of it ("undo").
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
                        self.reset()
                    raise
                finally:
                    self._open = False
                    self._write()

    def _write(self) -> None:
        try:
            if self._journal:
                actions = list(self._compacted(self._journal))
                self._journal, self._first_added = [], {}
                self.version = self.log.append(actions)
                self._write_snapshot()
        except BaseException:
            self.reset()  # what was applied here is in no log
            raise

    def _compacted(self, journal: Sequence[Action]) -> Iterator[Action]:
        """The same with single queries gathered to columns, after the split of their family, decided by its first."""
        gathered: dict[int, list[AddQuery]] = {}
        for action in journal:
            number = family_of(action)
            if isinstance(action, AddQuery):
                gathered.setdefault(action.family, []).append(action)
                continue
            if number in gathered:
                yield from self._added(number, gathered.pop(number))
            match action:
                case DropQuery():
                    yield DropQueries(action.family, np.array([action.id], np.int64))
                case AddQueries():
                    yield from self._split(action.family)
                    yield action
                case _:
                    yield action
        for number, added in gathered.items():
            yield from self._added(number, added)

    def _added(self, number: int, added: Sequence[AddQuery]) -> Iterator[Action]:
        family = self.definitions.families.get(number)
        if family is not None:  # it was not removed by the same commit
            yield from self._split(number)
            columns = as_columns([a.values for a in added], family.bound.params)
            yield AddQueries(number, pa.array([a.name for a in added], pa.string()), tuple(columns))

    def _split(self, number: int) -> Iterator[Action]:
        family = self.definitions.families.get(number)
        if family is not None and number not in self.definitions.splits:
            decided = self.decide_split(family)
            if decided is not None:
                self.definitions.apply(decided)
                yield decided

    def decide_split(self, family: Family) -> Split | None:
        """How a family is to be split for which nothing is decided yet; None if its plan leaves nothing open."""
        seen = partial(read_seen, seen_file(self.log.path.parent))
        is_new = self._first_added.get(family.number, 1) == 0
        return decide(family, self.definitions.functions, seen, is_new=is_new)

    def _write_snapshot(self) -> None:
        """Writes a snapshot once commits have piled up, so that no reader has to read them all."""
        base = self.log.snapshot_before(self.version)
        if self.version - base < COMMITS:
            return
        since = sum(self.log.size(n) for n in range(base + 1, self.version + 1) if self.log.has(n))
        if self.version - base >= MOST_COMMITS or since >= self._snapshot_bytes:
            try:
                self._snapshot_bytes = self.log.write_snapshot(self.version, list(self._everything()))
            except StateError as e:  # the commit is valid without it; the next one tries again
                logging.getLogger("eddyline").warning("No snapshot of the catalog was written: %s", e)

    def _everything(self) -> Iterator[Action]:
        """What brings empty definitions to where these are."""
        definitions = self.definitions
        for relation in [*self.catalog.streams, *self.catalog.tables]:
            yield Define(relation.sql)
        for name, table in definitions.tables.items():
            if len(table):
                yield ChangeTable(name, np.empty(0, np.int64), tuple(table.columns))
        yield from definitions.function_actions.values()
        for view in self.catalog.views:
            yield Define(view.sql)
        for family in self.registry:
            yield new_family(family)
            if family.number in definitions.splits:
                yield definitions.splits[family.number]
            rows = family.queries.rows()
            live = rows.live()
            params = tuple(rows.all_params_at(live))
            yield LoadQueries(family.number, family.queries.next_id, rows.ids_at(live), rows.names_at(live), params)
            for query, error in definitions.quarantined.get(family.number, {}).items():
                yield Quarantine(family.number, (query,), error)
        for sink in self.catalog.sinks:
            yield Define(sink.sql)
        yield NextFamily(definitions.next_family)
        for digest in sorted(definitions.scripts):
            yield ScriptRun(digest)

    # reading

    def catch_up(self) -> None:
        """Applies what others have committed."""
        with self.guard:
            for _ in range(3):
                try:
                    self._catch_up()
                    return
                except StateError:
                    # While it was read, the pipeline may have removed files that a snapshot has replaced by now.
                    self.reset()
            self._catch_up()

    def _catch_up(self) -> None:
        latest = self.log.latest()
        if self.version < latest and not self.log.has(self.version + 1):
            self.reset()  # what it has missed is only in a snapshot by now
        follower = Follower(self.log, self.definitions, self.version)
        try:
            follower.define(latest)
        finally:
            self.version = follower.version

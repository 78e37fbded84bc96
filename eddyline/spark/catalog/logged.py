"""A session over a commit log: it writes its actions as commits, and applies the commits of other processes.

It holds the catalog, the query tables and the rows of tables without a source. It runs no queries.
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

from eddyline.engine import actions
from eddyline.engine.actions import Action
from eddyline.engine.definitions import Definitions
from eddyline.engine.family import Family
from eddyline.errors import StateError
from eddyline.session.registry import Registry
from eddyline.session.session import Contents, Session, new_family
from eddyline.spark.catalog.commits import CommitLog
from eddyline.spark.catalog.following import Follower, family_of
from eddyline.spark.catalog.splitting import decide
from eddyline.spark.catalog.trust import Approvals, ApprovedBodies
from eddyline.spark.input.seen import read_seen, seen_file
from eddyline.spark.run.settings import identity_of
from eddyline.sql.catalog import Catalog
from eddyline.state.query_table import as_columns

COMMITS, MOST_COMMITS = 64, 4096  # commits since a snapshot: the least for a new one, and the most without one


class LoggedSession:
    def __init__(self, log: CommitLog, contents: Contents) -> None:
        self.log = log
        self.guard = threading.RLock()  # users and the driver's delivery share the catalog
        self._contents = contents
        self._open = False
        self._snapshot_bytes = 0
        self.reset()

    def reset(self) -> None:
        """Empties the catalog; the next `catch_up` reads the log from the beginning."""
        self.approvals = Approvals(self.log.path.parent, identity_of(self.log.path.parent.parent))
        self.definitions = Definitions(bodies=ApprovedBodies(self.approvals), quarantined="kept")
        self._follower = Follower(self.log, self.definitions)
        self.session = Session(self.definitions, self._contents)
        self._journal: list[Action] = []
        self._first_added: dict[int, int] = {}  # by family: the id of the first query that the journal adds

    @property
    def catalog(self) -> Catalog:
        return self.session.catalog

    @property
    def registry(self) -> Registry:
        return self.session.registry

    @property
    def version(self) -> int:
        """The last commit that was applied."""
        return self._follower.version

    # writing

    def record(self, action: Action) -> None:
        """Applies an action, and records it for the commit that is open."""
        if isinstance(action, actions.AddQuery | actions.AddQueries):
            next_id = self.definitions.families[action.family].queries.next_id
            self._first_added.setdefault(action.family, next_id)
        self.definitions.apply(action)
        self._journal.append(action)

    @contextmanager
    def commit(self, on_error: Literal["keep", "undo"] = "keep") -> Iterator[None]:
        """Catches up with other processes, and writes the actions applied within the context as one commit.

        If the context ends in an error, the actions before it are written ("keep") or discarded ("undo").
        """
        with self.guard:
            if self._open:  # nested
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
                commit = list(self._combined(self._journal))
                self._journal, self._first_added = [], {}
                self._follower.version = self.log.append(commit)
                self._write_snapshot()
        except BaseException:
            self.reset()  # the applied actions are not in the log
            raise

    def _combined(self, journal: Sequence[Action]) -> Iterator[Action]:
        """The same actions, with single queries combined into columns and a family's split before its queries."""
        singles: dict[int, list[actions.AddQuery]] = {}
        for action in journal:
            number = family_of(action)
            if isinstance(action, actions.AddQuery):
                singles.setdefault(action.family, []).append(action)
                continue
            if number in singles:
                yield from self._added(number, singles.pop(number))
            match action:
                case actions.DropQuery():
                    yield actions.DropQueries(action.family, np.array([action.id], np.int64))
                case actions.AddQueries():
                    yield from self._split(action.family)
                    yield action
                case _:
                    yield action
        for number, added in singles.items():
            yield from self._added(number, added)

    def _added(self, number: int, added: Sequence[actions.AddQuery]) -> Iterator[Action]:
        family = self.definitions.families.get(number)
        if family is not None:  # not removed by the same commit
            yield from self._split(number)
            columns = as_columns([a.values for a in added], family.bound.params)
            yield actions.AddQueries(number, pa.array([a.name for a in added], pa.string()), tuple(columns))

    def _split(self, number: int) -> Iterator[Action]:
        family = self.definitions.families.get(number)
        if family is not None and number not in self.definitions.splits:
            decided = self.decide_split(family)
            if decided is not None:
                self.definitions.apply(decided)
                yield decided

    def decide_split(self, family: Family) -> actions.Split | None:
        """The split of a family that has none yet; None if its plan determines it."""
        seen = partial(read_seen, seen_file(self.log.path.parent))
        is_new = self._first_added.get(family.number, 1) == 0
        return decide(family, self.definitions.functions, seen, is_new=is_new)

    def _write_snapshot(self) -> None:
        """Writes a snapshot after enough commits, which bounds what a reader has to read."""
        base = self.log.snapshot_before(self.version)
        if self.version - base < COMMITS:
            return
        since = sum(self.log.size(n) for n in range(base + 1, self.version + 1) if self.log.has(n))
        if self.version - base >= MOST_COMMITS or since >= self._snapshot_bytes:
            try:
                self._snapshot_bytes = self.log.write_snapshot(self.version, list(self._everything()))
            except StateError as e:  # the commit is valid without it; the next one retries
                logging.getLogger("eddyline").warning("No snapshot of the catalog was written: %s", e)

    def _everything(self) -> Iterator[Action]:
        """The actions that turn empty definitions into these."""
        definitions = self.definitions
        for relation in [*self.catalog.streams, *self.catalog.tables]:
            yield actions.Define(relation.sql)
        for name, table in definitions.tables.items():
            if len(table):
                yield actions.ChangeTable(name, np.empty(0, np.int64), tuple(table.columns))
        yield from definitions.function_actions.values()
        for view in self.catalog.views:
            yield actions.Define(view.sql)
        for family in self.registry:
            yield new_family(family)
            if family.number in definitions.splits:
                yield definitions.splits[family.number]
            rows = family.queries.rows()
            live = rows.live()
            params = tuple(rows.all_params_at(live))
            yield actions.LoadQueries(
                family.number, family.queries.next_id, rows.ids_at(live), rows.names_at(live), params
            )
            for query, error in definitions.quarantined.get(family.number, {}).items():
                yield actions.Quarantine(family.number, (query,), error)
        for sink in self.catalog.sinks:
            yield actions.Define(sink.sql)
        yield actions.NextFamily(definitions.next_family)
        for digest in sorted(definitions.scripts):
            yield actions.ScriptRun(digest)

    # reading

    def catch_up(self) -> None:
        """Applies the commits of other processes."""
        with self.guard:
            for _ in range(3):
                try:
                    self._catch_up()
                    return
                except StateError:
                    # The pipeline may have trimmed files while they were read; a snapshot has replaced them.
                    self.reset()
            self._catch_up()

    def _catch_up(self) -> None:
        latest = self.log.latest()
        if self.version < latest and not self.log.has(self.version + 1):
            self.reset()  # the next commit was trimmed: read the snapshot
        self._follower.define(latest)

"""A bucket: the families of a pipeline over one part of the data.

It is the in-process host without its door: the same running families, clocks and tables, fed with blocks. All buckets
see the same notes and the same commits, so their clocks and arrival numbers agree without a word between them.

A step is a function of the bucket's state and of the blocks: replayed, it gives the same state and the same changes.
Within it, catalog commits come first, then changes of tables, then the rows of all streams together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from eddyline.engine.clocks import StreamClock
from eddyline.engine.running_family import RunningFamily
from eddyline.engine.table_rows import TableRows
from eddyline.errors import StateError
from eddyline.spark import blocks
from eddyline.spark.commits import (
    Action,
    AddQueries,
    ChangeTable,
    Define,
    DropQueries,
    LoadQueries,
    NewFamily,
    Quarantine,
    RemoveFamily,
    SplitQueries,
    Undefine,
)
from eddyline.spark.guard import Bad, started, watched
from eddyline.spark.replica import Replica
from eddyline.spark.routes import lives_in, route_name
from eddyline.spark.settings import Settings
from eddyline.spark.tables import apply_changes
from eddyline.state.delta import MAX, MIN, Delta, Ints, concat, empty, micros
from eddyline.state.query_table import QueryRows

Placed = tuple[tuple[int, int, int], bytes]  # (source, partition, number), block


@dataclass(frozen=True)
class Part:
    """Changes of one family, with its query table as it was then."""

    running: RunningFamily
    queries: QueryRows
    delta: Delta


@dataclass
class Input:
    """The blocks of one step, in a fixed order, taken apart."""

    version: int
    now: int
    amended: int  # how often the micro-batch was amended
    notes: list[dict[str, Any]] = field(default_factory=list)
    rows: dict[tuple[str, str], list[tuple[int, pa.Table]]] = field(
        default_factory=dict
    )  # stream, routing → base, rows
    tables: list[tuple[str, pa.Table]] = field(default_factory=list)


class Bucket:
    def __init__(self, number: int, settings: Settings) -> None:
        self.number = number
        self.settings = settings
        self.replica = Replica(
            settings.log(),
            settings.clock_policy,
            lambda f, p: lives_in(f, p, number, settings.buckets),
            (number, settings.buckets),
            settings.approvals(),
        )
        self.running: dict[int, RunningFamily] = {}
        self.clocks: dict[str, StreamClock] = {}
        self.heard: dict[str, int] = {}  # by stream: when, by the wall clock, its last rows came
        self.tables: dict[str, TableRows] = {}
        self.arrivals = 0
        self.since: dict[int, list[tuple[int, int]]] = {}  # by family: from which query on, which arrival number
        self.broken: dict[int, str] = {}  # families whose operators failed, and how
        self.bad: list[Bad] = []  # who went wrong in the last step
        self.broke: list[int] = []  # families whose operators failed in the last step
        self.amended = 0  # how often the micro-batch of the last step was amended

    def step(self, given: Sequence[Placed]) -> list[Part]:
        """One micro-batch: its blocks, in the order of their places."""
        start = self.arrivals
        self.bad, self.broke = [], []
        taken = self._take(given)
        self.amended = taken.amended
        parts = self._commits(taken, start)
        for name, changes in taken.tables:
            parts += self._change(name, apply_changes(self.tables[name], changes))
        for note in taken.notes:
            self._hear(note, taken.now)
        self._pass_time(taken.now)
        rows: dict[tuple[str, str], Delta] = {}
        for r in list(self.running.values()):
            clock = self.clock_of(r)
            streams = {s: d for s in r.streams if (d := self._rows(r, s, taken, rows)) is not None}
            if streams or clock > r.clock:
                parts.append(self._run(r, partial(r.run, "arrivals", clock, r.family.queries.rows(), streams)))
        return parts

    def _run(self, running: RunningFamily, run: Callable[[], Delta]) -> Part:
        """One family's part of a step; if its operators fail, it stops here until queries come to it anew."""
        queries = running.family.queries.rows()
        found, bad, goes_on = watched(running, self.settings.on_error, run)
        self.bad += bad
        if not goes_on:
            self._break(running.family.number, bad[0].error)
        return Part(running, queries, found)

    def _break(self, family: int, error: str) -> None:
        self.running.pop(family, None)
        self.broken[family] = error
        self.broke.append(family)

    def step_again(self, given: Sequence[Placed], broke: Sequence[int]) -> None:
        """A step that was taken before, in which these families broke.

        One that broke then for no lasting reason breaks again, for its queries have gone; one that breaks only now must
        not, for nobody would hear of it.
        """
        self.step(given)
        for family in set(broke) - set(self.broke):
            self._break(family, "It failed in an earlier step.")
        anew = set(self.broke) - set(broke)
        if anew:
            number = min(anew)
            raise StateError(
                f"Family {self.replica.families[number].name!r} failed in a step that it had taken before:"
                f" {self.broken[number]}",
                hint="Start the pipeline again: nothing is lost.",
            )

    # input

    def _take(self, given: Sequence[Placed]) -> Input:
        decoded = [(place, *blocks.decode(b)) for place, b in given]
        notes = [(place, h) for place, h, _ in decoded if h["kind"] == "note"]
        version, now = (max(h[name] for _, h in notes) for name in ("version", "now"))
        taken = Input(version, now, max(h.get("amended", 0) for _, h in notes))
        base = {}
        for (source, partition, _), h in notes:
            base[source, partition] = self.arrivals
            self.arrivals += h["count"]
            taken.notes.append(h)
        for (source, partition, _), h, table in decoded:
            if h["kind"] == "rows":
                taken.rows.setdefault((h["stream"], h["route"]), []).append((base[source, partition], table))
            elif h["kind"] == "table":
                taken.tables.append((h["table"], table))
        return taken

    def _rows(
        self, running: RunningFamily, stream: str, taken: Input, made: dict[tuple[str, str], Delta]
    ) -> Delta | None:
        """The rows of a stream as the family's routing brings them here; families with the same routing share them."""
        key = (
            stream,
            route_name(running.family, self.replica.partitioning[running.family.number], stream, self.settings.buckets),
        )
        if key not in made and key in taken.rows:
            time = self.replica.catalog.streams[stream].time
            made[key] = concat(
                [_delta(t, b, time) for b, t in taken.rows[key]], _types(taken.rows[key]), attached=False
            )
        return made.get(key)

    # time

    def _hear(self, note: Mapping[str, Any], now: int) -> None:
        clock = self.clocks.get(note["relation"])
        if clock is not None and note["high"] is not None:
            clock.high = max(clock.high, note["high"])
            clock.arrived += note["count"]
            self.heard[note["relation"]] = now

    def _pass_time(self, now: int) -> None:
        """A stream that is silent for longer than it declared no longer holds back the clock: its watermark moves with
        the wall clock, and at least to where the slowest of the others is."""
        limits = {s.name.lower(): s.idle for s in self.replica.catalog.streams if s.idle is not None}
        idle = {s: now - self.heard[s] - limit // 1000 for s, limit in limits.items()}
        idle = {s: over for s, over in idle.items() if over >= 0}
        others = [c.watermark for s, c in self.clocks.items() if s not in idle]
        for s, over in idle.items():
            clock = self.clocks[s]
            if clock.high > MIN + clock.delay:
                clock.advance(clock.high - clock.delay + over * 1000)
            if others:
                clock.advance(min(others))

    def clock_of(self, running: RunningFamily) -> int:
        if not running.streams:
            return max((c.watermark for c in self.clocks.values()), default=MIN)
        choose = min if self.settings.clock_policy == "min" else max
        return choose(self.clocks[s].watermark for s in running.streams)

    # catalog and tables

    def _commits(self, taken: Input, since: int) -> list[Part]:
        parts: list[Part] = []
        moved = self.replica.move_to(
            taken.version, lambda _, ids: np.full(len(ids), since, np.int64), amended=taken.amended > 0
        )
        for action in moved:
            parts += self._after(action, since, taken.now)
        return parts

    def _after(self, action: Action, since: int, now: int) -> list[Part]:
        """What a commit does here, after the replica has taken it up."""
        match action:
            case Define():
                self._define(now)
            case Undefine(kind="stream"):
                del self.clocks[action.name.lower()], self.heard[action.name.lower()]
            case Undefine(kind="table"):
                del self.tables[action.name.lower()]
            case NewFamily() if self.replica.keeps(action.number):
                self._start(action.number)
            case SplitQueries() if action.family not in (*self.running, *self.broken):
                self._start(action.family)  # until now it lived elsewhere
            case RemoveFamily():
                by_number: tuple[dict[int, Any], ...] = (self.running, self.since, self.broken)
                for numbered in by_number:
                    numbered.pop(action.number, None)
            case AddQueries() | LoadQueries() if self.replica.keeps(action.family):
                queries = self.replica.families[action.family].queries
                ids = queries.rows().ids_from(
                    queries.next_id - len(action.names) if isinstance(action, AddQueries) else 0
                )
                if not len(ids):
                    return []
                if self.broken.pop(action.family, None) is not None:
                    self._start(action.family)
                if action.family in self.broken:  # it cannot even start
                    self.bad.append(Bad(action.family, ids, self.broken[action.family]))
                    return []
                return self._add(self.running[action.family], ids, since)
            case DropQueries() | Quarantine() if action.family in self.running:
                running = self.running[action.family]
                self._run(running, partial(_forget, running, np.array(action.ids, np.int64)))
                if running.family.queries.crowded:
                    running.family.queries.clear_away()
            case ChangeTable():
                table = self.tables[action.table.lower()]
                gone = np.zeros(len(table), np.bool_)
                gone[action.gone] = True
                return self._change(action.table.lower(), table.change(gone, action.new))
        return []

    def _define(self, now: int) -> None:
        for stream in self.replica.catalog.streams:
            self.clocks.setdefault(stream.name.lower(), StreamClock(stream.delay))
            self.heard.setdefault(stream.name.lower(), now)
        for table in self.replica.catalog.tables:
            self.tables.setdefault(table.name.lower(), TableRows(table))

    def _start(self, number: int) -> None:
        family = self.replica.families[number]
        self.since.setdefault(number, [])
        running = started(family, self.replica.functions, self.settings.clock_policy)
        if isinstance(running, str):
            self._break(number, running)
            return
        self.running[number] = running
        running.clock = self.clock_of(running)
        if running.tables:
            contents = self._contents(running)
            self._run(running, partial(running.run, "arrivals", running.clock, family.queries.rows(), tables=contents))

    def _add(self, running: RunningFamily, ids: Ints, since: int) -> list[Part]:
        queries = running.family.queries
        runs = self.since[running.family.number]
        if not runs or runs[-1][1] != since:
            runs.append((int(ids[0]), since))
        if not running.shows_itself:
            return []
        new, clock, contents = queries.rows().only(ids), self.clock_of(running), self._contents(running)
        return [self._run(running, partial(running.run, "replay", clock, new, tables=contents))]

    def _change(self, table: str, delta: Delta) -> list[Part]:
        parts = []
        for r in list(self.running.values()):
            if table in r.tables and len(delta):
                queries, clock = r.family.queries.rows(), self.clock_of(r)
                parts.append(self._run(r, partial(r.run, "arrivals", clock, queries, tables={table: delta})))
        return parts

    def _contents(self, running: RunningFamily) -> dict[str, Delta]:
        return {name: self.tables[name].content() for name in running.tables}

    # state

    def save(self) -> tuple[dict[str, Any], dict[str, pa.Table]]:
        """Small things as JSON would have them, and the rest as tables; neither changes with the bucket afterwards."""
        self._forget_since()
        meta = {
            "version": self.replica.version,
            "arrivals": self.arrivals,
            "clocks": {s: dict(vars(c)) for s, c in self.clocks.items()},
            "heard": dict(self.heard),
            "since": {str(f): list(runs) for f, runs in self.since.items()},
            "broken": {str(n): error for n, error in self.broken.items()},
            "families": {str(n): [r.clock, r.changes] for n, r in self.running.items()},
        }
        tables = {f"table.{name}": rows.to_arrow() for name, rows in self.tables.items()}
        for number, r in self.running.items():
            tables |= {f"{number}.{part}": state for part, state in r.save().items()}
        return meta, tables

    def _forget_since(self) -> None:
        """Lets go of what is known only of queries that have gone."""
        for number, runs in self.since.items():
            rows = self.replica.families[number].queries.rows()
            first = np.array([q for q, _ in runs], np.int64)
            used = np.unique(np.searchsorted(first, rows.ids_at(rows.live()), side="right") - 1)
            self.since[number] = [runs[i] for i in used if i >= 0]

    def load(self, meta: Mapping[str, Any], tables: Mapping[str, pa.Table]) -> None:
        """Takes up what `save` gave, in a bucket that has done nothing yet."""
        self.since = {int(f): [(q, a) for q, a in runs] for f, runs in meta["since"].items()}
        for _ in self.replica.move_to(meta["version"], self._since_of):
            pass
        self.arrivals = meta["arrivals"]
        self.clocks = {s: StreamClock(**c) for s, c in meta["clocks"].items()}
        self.heard = dict(meta["heard"])
        self.broken = {int(n): error for n, error in meta["broken"].items()}
        for table in self.replica.catalog.tables:
            rows = self.tables[table.name.lower()] = TableRows(table)
            rows.columns = [c.combine_chunks() for c in tables[f"table.{table.name.lower()}"].columns]
        self.renew(meta, tables)

    def renew(self, meta: Mapping[str, Any], tables: Mapping[str, pa.Table]) -> None:
        """Lets the families go on from what was saved, in whatever form they held it before.

        A bucket that went on from its own form would give the same rows as one that was brought back, but in another
        order, and the positions of rows would not be the same in a replay.
        """
        for number, (clock, changes) in meta["families"].items():
            family = self.replica.families[int(number)]
            if family.queries.crowded:
                family.queries.clear_away()
            running = RunningFamily(family, self.replica.functions, self.settings.clock_policy, "not kept")
            own = {k.partition(".")[2]: t for k, t in tables.items() if k.startswith(f"{number}.")}
            running.load(own, clock, changes)
            self.running[int(number)] = running

    def _since_of(self, family: int, ids: Ints) -> Ints:
        """The arrival number from which each query sees tuples."""
        runs = np.array([(MIN, 0), *self.since.get(family, [])], np.int64)
        found: Ints = runs[np.searchsorted(runs[:, 0], ids, side="right") - 1, 1]
        return found


def _forget(running: RunningFamily, ids: Ints) -> Delta:
    """Dropped queries leave the state of their family; this changes no answer."""
    running.forget(running.family.queries.rows().here(ids).tolist())
    if running.family.queries.crowded:
        running.let_go()
    return empty(running.root.types, attached=True)


def _delta(table: pa.Table, base: int, time: int) -> Delta:
    """Rows of a block as arriving tuples; the last column is their number in the source partition."""
    *columns, places = (c.combine_chunks() for c in table.columns)
    numbers = base + places.to_numpy()
    n = len(numbers)
    ends, signs = np.full(n, MAX, np.int64), np.ones(n, np.int64)
    return Delta(tuple(columns), None, micros(columns[time]), ends, signs, numbers, numbers)


def _types(rows: Sequence[tuple[int, pa.Table]]) -> list[pa.DataType]:
    return list(rows[0][1].schema.types[:-1])

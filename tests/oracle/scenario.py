"""Random scenarios: what happens to a connection, in order; how it is cut into batches; and the comparison.

A scenario is played to the engine under some cuts and to the reference tuple by tuple. For every query the folded
changes must equal the differences of the reference, and snapshots its answers.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import product
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa

import eddyline
from eddyline.engine.actions import ChangeTable
from eddyline.reference import Change, Reference, canonical, fold_by_signs, normalise, unmatched
from eddyline.sql.binder import bind_family, bind_standing
from eddyline.sql.parser import parse
from tests.oracle import queries
from tests.oracle.schema import SMALL, Lazy, Schema

START = datetime(2026, 1, 1)


@dataclass(frozen=True)
class Pace:
    """How often queries are evaluated and expired, in milliseconds of event time; None: no such option."""

    evaluate: int | None
    expire: int | None

    def options(self) -> list[list[str]]:
        """The options, and fewer of them for queries on which some have no effect."""
        given = {"evaluate": self.evaluate, "expire": self.expire}
        both = [f"{name} = '{value} milliseconds'" for name, value in given.items() if value is not None]
        return [both, [o for o in both if o.startswith("evaluate")], []]


@dataclass
class Scenario:
    delays: dict[str, int]
    events: list[tuple[Any, ...]] = field(default_factory=list)
    clock: str = "min"
    options: str = ""  # of every query
    emit_all: bool = False  # whether queries ask for every end
    schema: Schema = SMALL
    lazy: dict[str, Lazy] = field(default_factory=dict)  # by family, or by query registered as text
    pace: Pace | None = None  # of every query
    joins: dict[str, list[str]] = field(default_factory=dict)  # by family or query: options of joins, if they fit it

    def __str__(self) -> str:
        heading = f"delays {self.delays}, clock {self.clock}, options {self.options!r}, emit_all {self.emit_all}"
        lazy = [f"pace {self.pace}", *(f"{k}: {v}" for k, v in (*self.lazy.items(), *self.joins.items()))]
        return "\n".join([heading, *lazy, *(str(e) for e in self.events)])

    def with_options(self, name: str) -> list[str]:
        """The options of a family, or of a query registered as text."""
        lazy = self.lazy[name].options if name in self.lazy else ""
        return [o for o in (self.options, "emit = 'all'" if self.emit_all else "", lazy) if o]


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def stream_row(rnd: Random, ts: datetime) -> tuple[Any, ...]:
    def maybe(value: Any) -> Any:
        return None if rnd.random() < 0.08 else value

    c = rnd.choice([0.0, -0.0, 0.5, 1.0, 1.25, 2.25, 3.0, -1.0, float("nan"), float("inf")])
    return (
        maybe(rnd.randint(0, 4)),
        maybe(rnd.randint(0, 4)),
        maybe(c),
        maybe(rnd.choice(["a", "ab", "b", ""])),
        maybe(rnd.random() < 0.5),
        ts,
    )


def table_row(rnd: Random, table: str) -> tuple[Any, ...]:
    n = rnd.choice(["a", "ab", "b", None])
    if table == "t":
        return rnd.randint(0, 6), rnd.randint(0, 4), n
    return rnd.randint(0, 4), n, rnd.choice([0.0, 1.5, 3.0, None])


def scenario(rnd: Random, texts: list[str], *, rows: int, clock: str = "min", families: bool = False) -> Scenario:
    """Queries are registered and dropped at random times among arrivals, table changes and the passing of time."""
    s = Scenario({x: rnd.choice([0, 0, 1, 3]) for x in queries.STREAMS}, clock=clock)
    now = 0.0
    waiting = [("register", f"q{i}", text) for i, text in enumerate(texts)]
    if families:
        for i in range(rnd.randint(1, 3)):
            name = rnd.choice(list(queries.FAMILIES))
            params, _ = queries.FAMILIES[name]
            table = [
                {"query": f"{name}{i}_{j}"}
                | {p.split()[0]: queries.parameter(rnd, *p.split()) for p in params.split(", ")}
                for j in range(rnd.randint(1, 4))
            ]
            waiting.append(("family", name, table))
    standing: list[str] = []
    contents: dict[str, list[tuple[Any, ...]]] = {x: [] for x in queries.TABLES}
    for i in range(rows):
        if waiting and (i == 0 or rnd.random() < 3 / rows):
            event = waiting.pop(0)
            s.events.append(event)
            standing += [r["query"] for r in event[2]] if event[0] == "family" else [event[1]]
        if rnd.random() < 0.25:
            s.events.append(table_change(rnd, contents))
        if standing and rnd.random() < 0.03:
            s.events.append(("drop", standing.pop(rnd.randrange(len(standing)))))
        if rnd.random() < 0.05:
            now += rnd.choice([0, 1, 4])
            s.events.append(("advance", at(now)))
        now += rnd.choice([0, 0, 0.5, 1, 1, 2])
        late = rnd.choice([0, 0, 0, 0, 1, 2, 5])
        s.events.append(("row", rnd.choice("rs"), stream_row(rnd, at(max(0, now - late)))))
    s.events += waiting
    if rnd.random() < 0.8:
        s.events.append(("advance", at(now + rnd.choice([0, 1, 3, 20]))))
    return s


def in_long_steps(rnd: Random, s: Scenario) -> Scenario:
    """The scenario with a clock that moves seldom and far, so that much changes in one step."""
    events: list[tuple[Any, ...]] = []
    latest = START
    for e in s.events:
        events.append(e)
        if e[0] == "row":
            latest = max(latest, e[2][-1])
            if rnd.random() < 0.25:
                events.append(("advance", latest - timedelta(seconds=rnd.choice([0, 0.5, 1, 3]))))
    return replace(s, delays=dict.fromkeys(s.delays, 60), events=events)


def table_change(rnd: Random, contents: dict[str, list[tuple[Any, ...]]]) -> tuple[Any, ...]:
    table = rnd.choice("tu")
    rows = contents[table]
    deletes = [r for r in rows if rnd.random() < 0.2]
    inserts = [table_row(rnd, table) for _ in range(rnd.randint(0, 2))]
    for r in deletes:
        rows.remove(r)
    rows += inserts
    return "table", table, inserts, deletes


class Player:
    """The engine side: plays a scenario under cuts and keeps the log of every query."""

    def __init__(self, s: Scenario) -> None:
        self.scenario, self.schema = s, s.schema
        self.db = eddyline.connect(clock=s.clock)
        for name, f in s.schema.functions.items():
            self.db.function(name, f.body, f.takes, f.gives)
        for name, columns in s.schema.streams.items():
            delay = f"WATERMARK ts DELAY OF INTERVAL {s.delays[name]} SECONDS"
            self.db.execute(f"CREATE STREAM {name} ({columns}, ts TIMESTAMP) {delay}")
        for name, (columns, kind) in s.schema.tables.items():
            self.db.execute(f"CREATE TABLE {name} ({columns}) {kind}")
        self.pace = s.pace or Pace(None, None)
        for name in {e[1] for e in s.events if e[0] == "family"}:
            params, text = s.schema.families[name]
            self._create(f"QUERY FAMILY {name} ({params})", s.with_options(name), text)
        self.logs: dict[str, list[tuple[str, Any, Any, tuple[Any, ...]]]] = {}
        self.complete: dict[str, int] = {}  # by lazily evaluated query: the last instant at which its log is complete
        self.fields = {n: [f.name for f in self.db.catalog.streams[n].fields] for n in s.schema.streams}

    def _create(self, what: str, options: list[str], text: str) -> Any:
        """Creates a query or family, with the options that have an effect on it."""
        joins = self.scenario.joins.get(what.split()[2], [])
        fewer = [joins, joins[:1], joins[1:], []] if joins else [[]]
        for pace, join in product(self.pace.options(), fewer):
            given = ", ".join([*options, *pace, *join])
            try:
                return self.db.execute(f"CREATE {what}{f' WITH ({given})' if given else ''} AS {text}")
            except eddyline.BindError as e:
                if "has no effect" not in e.message:
                    raise
        raise AssertionError("without options nothing is refused")

    def _note_delivered(self) -> None:
        """Notes up to which instant the log of each lazily evaluated query is complete."""
        for name in self.logs:
            family, _ = self.db.registry.query(name)
            running = self.db.engine.running[family.number]
            assert running.reached - running.clock < max(1, family.evaluate), f"{name} is overdue"
            if running.collecting is not None and not running.collecting.held:
                self.complete[name] = running.clock - 1 if running.behind else running.clock

    def take(self, changes: Any) -> None:
        if changes is None:
            return
        counted, listed = changes.count(), 0  # counting comes first: it must not need the rows
        for name, log in self.logs.items():
            table = changes.rows(name)
            columns = [c.to_pylist() for c in table.columns]
            rows = list(zip(*columns, strict=True)) if columns else []
            listed += len(rows)
            for op, ts, exp, *values in rows:
                log.append((op, ts, exp, tuple(values)))
        assert listed == counted, (listed, counted)
        self._note_delivered()

    def push(self, rows: list[tuple[str, tuple[Any, ...]]]) -> None:
        batch: dict[str, list[dict[str, Any]]] = {}
        for stream, row in rows:
            batch.setdefault(stream, []).append(dict(zip(self.fields[stream], row, strict=True)))
        if batch:
            self.take(self.db.push(batch))

    def play(self, event: tuple[Any, ...]) -> None:
        match event:
            case ("register", name, text):
                self.logs[name] = []
                self.take(self._create(f"CONTINUOUS QUERY {name}", self.scenario.with_options(name), text))
            case ("family", family, table):
                self.logs |= {r["query"]: [] for r in table}
                names = {k: [r[k] for r in table] for k in table[0]}
                types = {f.name: f.type for f in self.db.registry.named(family).bound.params} | {"query": pa.string()}
                self.take(self.db.register(family, pa.table({k: pa.array(v, types[k]) for k, v in names.items()})))
            case ("drop", name):
                self.logs.pop(name)
                self.db.execute(f"DROP CONTINUOUS QUERY {name}")
            case ("drop family", family, names):
                for name in names:
                    self.logs.pop(name)
                params, text = self.schema.families[family]
                self.db.execute(f"DROP QUERY FAMILY {family}")
                self._create(f"QUERY FAMILY {family} ({params})", self.scenario.with_options(family), text)
            case ("advance", moment):
                self.take(self.db.advance(moment))
            case ("table", table, inserts, deletes):
                self.change_table(table, inserts, deletes)

    def change_table(self, table: str, inserts: list[tuple[Any, ...]], deletes: list[tuple[Any, ...]]) -> None:
        declared = self.db.catalog.tables[table]
        rows = self.db.definitions.tables[table].to_arrow().to_pylist()
        gone = [False] * len(rows)
        for d in deletes:
            equal = (i for i, r in enumerate(rows) if canonical(tuple(r.values())) == canonical(d))
            gone[next(i for i in equal if not gone[i])] = True
        columns = [pa.array([r[i] for r in inserts], f.type) for i, f in enumerate(declared.fields)]
        self.take(self.db.apply([ChangeTable(declared.name, np.nonzero(gone)[0], tuple(columns))]))

    def save_and_restore(self) -> None:
        with TemporaryDirectory() as folder:
            self.db.save(f"{folder}/state")
            functions = {name: f.body for name, f in self.schema.functions.items()}
            self.db = eddyline.connect(f"{folder}/state", functions=functions)


def reference_for(s: Scenario, player: Player) -> Reference:
    functions = {name: f.body for name, f in s.schema.functions.items()}
    ref = Reference(clock=s.clock, udfs=functions)  # type: ignore[arg-type]
    for name in s.schema.streams:
        declared = player.db.catalog.streams[name]
        ref.create_stream(name, declared.fields, declared.time, declared.delay)
    for name in s.schema.tables:
        ref.create_table(name)
    return ref


def tell(ref: Reference, player: Player, event: tuple[Any, ...]) -> None:
    catalog = player.db.catalog
    match event:
        case ("row", stream, row):
            ref.push(stream, [row])
        case ("register", name, text):
            ref.register(name, bind_standing(catalog, parse(text)[0].body.query).bound)
        case ("family", family, table):
            params = player.db.registry.named(family).bound.params
            bound = bind_family(catalog, parse(player.schema.families[family][1])[0].body.query, params).bound
            for r in table:
                ref.register(r["query"], bound, tuple(r[p.name] for p in params))
        case ("drop", name):
            ref.drop(name)
        case ("drop family", _, names):
            for name in names:
                ref.drop(name)
        case ("advance", moment):
            ref.advance(moment)
        case ("table", table, inserts, deletes):
            ref.change_table(table, inserts, deletes)


def cut(rnd: Random, s: Scenario, *, across_streams: bool = True) -> list[tuple[Any, ...]]:
    """The events with runs of consecutive rows grouped into batches; ("push", rows)."""
    size = rnd.choice([1, 2, 7, 1000])
    cutted: list[tuple[Any, ...]] = []
    for e in s.events:
        if e[0] != "row":
            cutted.append(e)
            continue
        open_batch = cutted and cutted[-1][0] == "push" and len(cutted[-1][1]) < size and rnd.random() < 0.9
        if open_batch and (across_streams or cutted[-1][1][-1][0] == e[1]):
            cutted[-1][1].append(e[1:])
        else:
            cutted.append(("push", [e[1:]]))
    return cutted


def check(
    rnd: Random, s: Scenario, *, cuts: int = 2, snapshots: float = 0.15, restores: float = 0.05, logs: float = 0.0
) -> int:
    """Plays the scenario under several cuts; returns how many (query, input) cases were compared.

    After an event, a query's snapshot and its log so far are compared with these probabilities.
    """
    compared = 0
    for _ in range(cuts):
        player = Player(s)
        ref = reference_for(s, player)
        for e in cut(rnd, s, across_streams=s.clock == "min"):
            if e[0] == "push":
                for row in e[1]:
                    tell(ref, player, ("row", *row))
                player.push(e[1])
            else:
                for name in dropped(e):
                    same_changes(s, player, ref, name)
                tell(ref, player, e)
                player.play(e)
            if rnd.random() < restores:
                player.save_and_restore()
            for name in player.logs:
                if rnd.random() < snapshots:
                    same_answer(s, player, ref, name, e)
                if rnd.random() < logs:
                    same_changes(s, player, ref, name)
        for name in player.logs:
            same_answer(s, player, ref, name, ("end",))
            same_changes(s, player, ref, name)
            compared += 1
        for stream in s.schema.streams:
            late = Counter(canonical(tuple(r.values())) for r in player.db.late(stream).to_pylist())
            assert late == Counter(canonical(r) for r in ref.late[stream]), f"late rows of {stream}\n{s}"
    return compared


def dropped(event: tuple[Any, ...]) -> list[str]:
    """The queries that an event drops."""
    return [event[1]] if event[0] == "drop" else event[2] if event[0] == "drop family" else []


def same_answer(s: Scenario, player: Player, ref: Reference, name: str, event: tuple[Any, ...]) -> None:
    table = player.db.snapshot(name)
    columns = [c.to_pylist() for c in table.columns]
    got = Counter(canonical(row) for row in zip(*columns, strict=True))
    want = ref.answer(name)
    difference = f"only engine: {got - want}\nonly reference: {want - got}"
    assert got == want, f"snapshot of {name} after {event}\n{text_of(s, name)}\n{s}\n{difference}"


def same_changes(s: Scenario, player: Player, ref: Reference, name: str) -> None:
    """Results may be late by no more than the query's interval of re-evaluation: up to there, all are in the log."""
    complete = player.complete.get(name)
    clock = ref.clock(name) if complete is None else complete
    log = [(op, micros(ts), micros(exp), row) for op, ts, exp, row in player.logs[name]]
    got = normalise(log, clock)
    want = {(row, t): n for (row, t), n in ref.changes(name).items() if complete is None or t <= complete}
    if got != want:
        keys = sorted({k for k in got.keys() | want.keys() if got.get(k, 0) != want.get(k, 0)}, key=lambda k: k[1])
        lines = [f"{seconds(t)} {row}: engine {got.get((row, t))}, reference {want.get((row, t))}" for row, t in keys]
        shown = "\n".join([*lines, f"log: {player.logs[name]}"])
        raise AssertionError(f"changes of {name}\n{text_of(s, name)}\n{s}\n{shown}")
    keeps_promises(log, clock, f"{name}\n{text_of(s, name)}\n{s}", emit_all=s.emit_all)


def keeps_promises(log: list[Change], clock: int, what: str, *, emit_all: bool = False) -> None:
    """Raises if a log breaks what it promises beside its fold."""
    shown = "\n".join(map(str, log))
    wrong = unmatched(log)
    assert not wrong, f"these name no `+` that stands: {wrong}\nlog of {what}\n{shown}"
    for op, ts, exp, _ in log:  # a `-` only retracts what has not ended, unless every end is asked for
        ends = emit_all and op == "-" and exp is not None and ts == exp + 1
        assert ends or exp is None or ts is None or ts <= exp, f"{(op, ts, exp)} in the log of {what}\n{shown}"
    if emit_all:
        assert fold_by_signs(log, clock) == normalise(log, clock), f"signs of {what}\n{shown}"


def micros(moment: datetime | None) -> int | None:
    return None if moment is None else (moment - datetime(1970, 1, 1)) // timedelta(microseconds=1)


def seconds(t: int) -> str:
    return "ever" if t <= -(2**62) else str(t / 1e6 - (START - datetime(1970, 1, 1)).total_seconds())


def text_of(s: Scenario, name: str) -> str:
    for e in s.events:
        if e[0] == "register" and e[1] == name:
            return str(e[2])
        if e[0] == "family" and any(r["query"] == name for r in e[2]):
            return f"{s.schema.families[e[1]][1]} {next(r for r in e[2] if r['query'] == name)}"
    return name

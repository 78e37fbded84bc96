"""Random scenarios of many joins over the same streams: several shapes, variants of them, queries that come and go.

Streams have equal timestamps and tuples out of order and late; tables change; the clock sometimes moves so far that all
windows are empty. Queries and whole families are dropped and added again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from random import Random
from typing import Any

from eddyline.engine import join_orders
from tests.oracle.multi_joins import MULTI, TABLES, Shape, shape, variant
from tests.oracle.scenario import Scenario, at, check
from tests.oracle.schema import Lazy
from tests.oracle.slots import family, filled, member

Row = tuple[Any, ...]
Event = tuple[Any, ...]
ROWS = {2: 60, 3: 60, 4: 55, 5: 45, 6: 40}  # tuples of a scenario, by the most inputs of its joins
TEXTS = ("a", "ab", "b", "", "a longer text than the others")
NUMBERS = (0.0, -0.0, 0.5, 1.0, 2.0, 2.25, 3.0, -1.0, float("nan"), float("inf"))


def values(rnd: Random, keys: int) -> Row:
    """The columns a, b, c and n, which streams and tables have in common: few distinct values, some of them NULL."""
    made = (
        rnd.randint(0, keys),
        rnd.randint(0, keys),
        rnd.choice(NUMBERS[: 3 + 2 * keys]),
        rnd.choice(TEXTS[: 2 + keys]),
    )
    return tuple(None if rnd.random() < 0.04 else v for v in made)


class Contents:
    """The rows of all tables as they change; keys are unique where they are declared so."""

    def __init__(self, rnd: Random, keys: int) -> None:
        self._rnd, self._keys = rnd, keys
        self._rows: dict[str, list[Row]] = {t: [] for t in TABLES}

    def first(self, table: str) -> Event:
        rows = self._rows[table] = [(i, *values(self._rnd, self._keys)) for i in range(self._rnd.randint(0, 3))]
        return "table", table, list(rows), []

    def change(self) -> Event:
        """Inserts, deletes and updates of one table, at once."""
        rnd = self._rnd
        table = rnd.choice(list(TABLES))
        rows = self._rows[table]
        deletes = [r for r in rows if rnd.random() < 0.2]
        inserts = [(r[0], *values(rnd, self._keys)) for r in deletes if rnd.random() < 0.5]
        for r in deletes:
            rows.remove(r)
        taken = {r[0] for r in (*rows, *inserts)} if "KEY" in TABLES[table][0] else set()
        free = [i for i in range(8) if i not in taken]
        inserts += [(i, *values(rnd, self._keys)) for i in rnd.sample(free, min(len(free), rnd.randint(0, 2)))]
        rows += inserts
        return "table", table, inserts, deletes


def shapes(rnd: Random, streams: Sequence[str], most: int) -> list[Shape]:
    """Some joins over the same few streams, and variants of them."""
    made = [shape(rnd, streams, most)]
    while rnd.random() < 0.6 and len(made) < 4:
        made.append(variant(rnd, rnd.choice(made)) if rnd.random() < 0.6 else shape(rnd, streams, most))
    return made


class Arriving:
    """Queries of some shapes, as they are registered: some as texts, some as members of declared families."""

    def __init__(self, rnd: Random, of: Sequence[Shape]) -> None:
        self._rnd, self._made = rnd, 0
        self.families: dict[str, tuple[str, str]] = {}
        self.waiting: list[Event] = []
        self.standing: list[str] = []
        self._again: dict[str, Event] = {}
        for each in of:
            if "$" in each.text and rnd.random() < 0.5:
                name = f"f{len(self.families)}"
                self.families[name] = family(each)
                self.waiting += [self._members(name) for _ in range(rnd.randint(1, 2))]
            else:
                texts = [filled(rnd, each) for _ in range(rnd.randint(1, 3))]
                self.waiting += [("register", self._name(), text) for text in texts]
        rnd.shuffle(self.waiting)

    def _name(self) -> str:
        self._made += 1
        return f"q{self._made}"

    def _members(self, name: str) -> Event:
        params = self.families[name][0]
        return (
            "family",
            name,
            [{"query": self._name()} | member(self._rnd, params) for _ in range(self._rnd.randint(1, 3))],
        )

    def come(self) -> Event:
        event = self.waiting.pop(0)
        for name in [r["query"] for r in event[2]] if event[0] == "family" else [event[1]]:
            self.standing.append(name)
            self._again[name] = event
        return event

    def go(self, *, families: bool = True) -> Event:
        """A query, or one of the `families` with all its queries, is dropped; perhaps it is added again later."""
        rnd = self._rnd
        name = rnd.choice(self.standing)
        event = self._again[name]
        if rnd.random() < 0.6:
            self.waiting.append(
                self._members(event[1]) if event[0] == "family" else ("register", self._name(), event[2])
            )
        if families and event[0] == "family" and rnd.random() < 0.4:
            gone = [q for q in self.standing if self._again[q][:2] == event[:2]]
            self.standing = [q for q in self.standing if q not in gone]
            return "drop family", event[1], gone
        self.standing.remove(name)
        return "drop", name


def join_scenario(rnd: Random, clock: str = "min", most: int = 6) -> Scenario:
    streams = rnd.sample("rsvw", rnd.choice([1, 2, 2, 3, 4]))
    of = shapes(rnd, streams, min(most, 3 + len(streams)))
    inputs = max(len(s.inputs) for s in of)
    arriving, keys = Arriving(rnd, of), rnd.choice([1, 2, 3, 4] if inputs < 4 else [1, 1, 2] if inputs == 4 else [1])
    contents, now = Contents(rnd, keys), 0.0
    events: list[Event] = [contents.first(t) for t in TABLES]
    rows = rnd.randint(ROWS[inputs] // 3, ROWS[inputs])
    steps = [0, 0, 0, 0.5, 0.5, 1, 2] if inputs < 5 else [0, 0, 0.5, 1, 1, 2, 2]  # windows of many inputs hold less
    for i in range(rows):
        while arriving.waiting and rnd.random() < (0.9 if i == 0 else 4 / rows):
            events.append(arriving.come())
        if arriving.standing and rnd.random() < 1.5 / rows:
            events.append(arriving.go())
        if rnd.random() < 0.15:
            events.append(contents.change())
        if rnd.random() < 0.06:
            now += rnd.choice([0, 1, 4, 12])
            events.append(("advance", at(now)))
        now += rnd.choice(steps)
        late = rnd.choice([0, 0, 0, 0, 0, 1, 2, 5])
        stream = rnd.choice(streams if rnd.random() < 0.95 else "rsvw")
        events.append(("row", stream, (*values(rnd, keys), rnd.random() < 0.5, at(max(0, now - late)))))
    if arriving.waiting and rnd.random() < 0.2:
        events.append(arriving.come())
    if rnd.random() < 0.8:
        events.append(("advance", at(now + rnd.choice([0, 1, 3, 20]))))
    delays = {s: rnd.choice([0, 0, 1, 3]) for s in MULTI.streams}
    return Scenario(
        delays, events, clock, emit_all=rnd.random() < 0.2, schema=replace(MULTI, families=arriving.families)
    )


def lazily(rnd: Random, s: Scenario) -> None:
    """Every family is re-evaluated at intervals of nothing, 1% or 50% of a window."""
    names = [*s.schema.families, *(e[1] for e in s.events if e[0] == "register")]
    for name in names:
        evaluate, expire = (rnd.choice([0, 0.01, 0.5]) * rnd.choice([1, 2, 5]) for _ in range(2))
        if evaluate or expire:
            s.lazy[name] = Lazy(evaluate, expire)


def searched(rnd: Random, s: Scenario) -> None:
    """Some joins scan windows, index some of them, or have a forced order."""
    texts = {name: text for name, (_, text) in s.schema.families.items()}
    texts |= {e[1]: e[2] for e in s.events if e[0] == "register"}
    for name, text in texts.items():
        inputs = re.findall(r"(\w+|\w+ \[[^]]*\]|\)) AS (x\d)", text)
        order = [alias for of, alias in inputs if of not in TABLES]
        rnd.shuffle(order)
        joins = [
            f"order = '{', '.join(order)}'",
            rnd.choice(
                ["join = 'nested loop'", "join = 'hash'", f"join = 'hybrid', index_entries = {rnd.randint(1, 30)}"]
            ),
        ]
        s.joins[name] = [o for o in joins if rnd.random() < 0.4]


@contextmanager
def restless() -> Iterator[None]:
    """Orders are searched after every few tuples, and taken where they are not dearer."""
    settings = {"INTERVAL": 4, "PER_JOIN": 0, "PACE": 1, "DRIFT": 1.0, "GAIN": -1.0}
    before = {name: getattr(join_orders, name) for name in settings}
    vars(join_orders).update(settings)
    try:
        yield
    finally:
        vars(join_orders).update(before)


def play(seed: int, *, clock: str | None = None, most: int = 6) -> int:
    """Plays a scenario to engine and reference; returns how many (query, input) cases were compared."""
    rnd = Random(f"multi join {seed}")
    s = join_scenario(rnd, clock or rnd.choice(["min", "min", "min", "max"]), most)
    if rnd.random() < 0.5:
        lazily(rnd, s)
    if rnd.random() < 0.5:
        searched(rnd, s)
    try:
        with restless() if rnd.random() < 0.7 else nullcontext():
            return check(rnd, s, cuts=1, snapshots=rnd.choice([0, 0.05]), restores=0.03, logs=0.02)
    except BaseException as e:
        e.add_note(f"multi-way joins, seed {seed}\n{s}")
        raise

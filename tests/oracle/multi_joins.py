"""Random joins of 2 to 6 inputs, as shapes of SQL text, for many queries over the same streams.

A shape is a list of inputs, a list of conditions, and what is done with the joined rows; its constants are slots
(`slots.py`). A variant has the inputs in another order, or fewer of them, or other windows or conditions.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from random import Random

from tests.oracle.schema import Function, Schema

_COLUMNS = "a INT, b BIGINT, c DOUBLE, n STRING"
STREAMS = dict.fromkeys("rsvw", f"{_COLUMNS}, f BOOLEAN")
TABLES = {
    "m": (f"id INT, {_COLUMNS}", ""),
    "e": (f"id INT, {_COLUMNS}", "NON RETROACTIVE"),
    "k": (f"id INT PRIMARY KEY, {_COLUMNS}", ""),
    "o": (f"id INT PRIMARY KEY, {_COLUMNS}", "NON RETROACTIVE"),
}
FUNCTIONS = {
    "near": Function(lambda x, y: abs(x - y) <= 1, ("INT", "INT"), "BOOLEAN"),
    "twice": Function(lambda x: 2 * x, ("INT",), "BIGINT"),
}
MULTI = Schema(STREAMS, TABLES, {}, FUNCTIONS)
FROZEN = {name for name, (_, kind) in TABLES.items() if kind}

EQUAL = (
    *["{x}.a = {y}.a"] * 6,
    *["{x}.n = {y}.n"] * 2,
    "{x}.b = {y}.b",
    "{x}.a = {y}.b",
    "{x}.a = {y}.c",
    "{x}.c = {y}.c",
    "{x}.c = {y}.b",
    "{x}.a + 1 = {y}.b",
    "{x}.a + $i = {y}.a",
    "{x}.a + {x}.b = {y}.b",
    "abs({x}.a) = abs({y}.b)",
    "concat({x}.n, 'b') = {y}.n",
    "{x}.n <=> {y}.n",
    "{x}.a = {y}.a AND {x}.n = {y}.n",
    "{x}.a = {y}.a AND {y}.b = {x}.b",
    "twice({x}.a) = {y}.b",
)
THETA = (
    "{x}.a < {y}.b",
    "{x}.a >= {y}.a",
    "{x}.a <> {y}.a",
    "{y}.a - {x}.a BETWEEN $l AND $h",
    "abs({x}.c - {y}.c) <= $d",
    "{x}.a + {y}.a > $l",
    "{x}.a * {y}.b <= {x}.b + $i",
    "({x}.a = {y}.a OR {x}.n = {y}.n)",
    "{y}.n LIKE concat({x}.n, '%')",
    "coalesce({x}.a, {y}.a) = $i",
    "near({x}.a, {y}.a)",
    "{y}.b >= {x}.b + $l AND {y}.b <= {x}.b + $h",
    "{x}.n < {y}.n",
)
THREE = (
    "{x}.a + {y}.a > {z}.b",
    "{x}.a + {y}.b = {z}.a",
    "{x}.a BETWEEN {y}.a AND {z}.b",
    "{x}.a + {y}.a - {z}.a BETWEEN $l AND $h",
    "coalesce({x}.n, {y}.n) <> {z}.n",
    "({x}.a = {y}.b OR {y}.n = {z}.n)",
    "{z}.a IN ({x}.a, {y}.b, $i)",
    "near({x}.a, CAST({y}.b AS INT)) = near({y}.a, {z}.a)",
)
TIME = (
    "abs({x}.ts - {y}.ts) <= INTERVAL $w SECONDS",
    "{x}.ts <= {y}.ts",
    "{x}.ts < {y}.ts + INTERVAL $w SECONDS",
    "{x}.ts = {y}.ts",
)
SELECTIONS = (
    "{x}.a BETWEEN $l AND $h",
    "{x}.a >= $l",
    "{x}.b < $h",
    "{x}.a = $i",
    "{x}.c <= $d",
    "{x}.n = $t",
    "{x}.n LIKE $p",
    "{x}.a IN ($i, $i, $i)",
    "{x}.n IN ($t, $t)",
    "{x}.a <> $i",
    "{x}.b IS NOT NULL",
    "{x}.n IS NULL",
    "({x}.a > $i OR {x}.c < $d)",
    "{x}.a NOT IN ($i, $i)",
    "near({x}.a, $i)",
)
COMMON = ("{x}.a = {y}.a", "{x}.a = {y}.a", "{x}.n = {y}.n", "{x}.b = {y}.b", "{x}.c = {y}.c")
INPUTS = (2, 2, 2, 3, 3, 3, 3, 3, 4, 4, 4, 5, 5, 6)
SPARSE = ("common", "common", "clique", "chain", "star", "cycle")  # equalities between all inputs
GRAPHS = ("common", "common", "common", "clique", "chain", "chain", "star", "cycle", "theta", "cross")


@dataclass(frozen=True)
class Input:
    """An input of a join: its text without the alias."""

    text: str
    alias: str
    timed: bool = False  # a stream, with `ts`
    keeps: bool = True  # rows leave only by expiration
    frozen: bool = False  # a non-retroactive table


@dataclass(frozen=True)
class Condition:
    text: str
    aliases: tuple[str, ...]


@dataclass(frozen=True)
class Shape:
    inputs: tuple[Input, ...]
    conditions: tuple[Condition, ...]
    items: tuple[str, ...]  # the first is a whole number of type INT
    above: str = "{items} {joined}"
    on: bool = False  # written as JOIN … ON

    @property
    def text(self) -> str:
        items = ", ".join(f"{e} AS c{i}" for i, e in enumerate(self.items))
        return self.above.format(items=f"SELECT {items}", joined=self._joined(), first=f"SELECT {self.items[0]} AS c0")

    def _joined(self) -> str:
        tables = [f"{i.text} AS {i.alias}" for i in self.inputs]
        if not self.on:
            every = " AND ".join(c.text for c in self.conditions)
            return f"FROM {', '.join(tables)}{f' WHERE {every}' if every else ''}"
        joined, known, waiting = f"FROM {tables[0]}", {self.inputs[0].alias}, list(self.conditions)
        for i, table in zip(self.inputs[1:], tables[1:], strict=True):
            known.add(i.alias)
            ready = [c for c in waiting if known.issuperset(c.aliases)]
            waiting = [c for c in waiting if c not in ready]
            joined += f" JOIN {table} ON {' AND '.join(c.text for c in ready) or 'TRUE'}"
        return joined


# Inputs.


def window(rnd: Random, *, small: bool = False, counted: bool = True) -> str:
    kinds = (
        ["[RANGE {} SECONDS]"] * 5
        + (["[ROWS {}]"] * 2 if counted else [])
        + ["", rnd.choice(["", "[NOW]"])] * (not small)
    )
    kind = rnd.choice(kinds)
    if "ROWS" in kind:
        return " " + kind.format(rnd.choice(["$m", rnd.randint(1, 3 if small else 4)]))
    return (
        f" {kind}".format(rnd.choice(["$w", rnd.choice([1, 2, 3] if small else [0, 1, 2, 3, 4, 5, 5, 8, 8])]))
        if kind
        else ""
    )


def an_input(rnd: Random, alias: str, streams: Sequence[str], *, small: bool, frozen: bool) -> Input:
    """Beside a non-retroactive table no input may retract rows, so that it has no count window below it."""
    stream = rnd.choice(streams)
    over = window(rnd, small=small, counted=not frozen)
    kind = rnd.choice(
        ["stream"] * 9 + ["table"] * 2 + ["plain", "union"] + ["distinct", "group", "except"] * (not frozen)
    )
    other = f"{rnd.choice(streams)}{window(rnd, small=small, counted=not frozen)}"
    match kind:
        case "stream":
            return Input(f"{stream}{over}", alias, timed=True, keeps="ROWS" not in over)
        case "table":
            return Input(rnd.choice([t for t in TABLES if t not in FROZEN]), alias)
        case "plain":
            return Input(f"(SELECT a, b, c + 1 AS c, n FROM {stream}{over} AS d WHERE {a_selection(rnd, 'd')})", alias)
        case "union":
            return Input(f"(SELECT a, b, c, n FROM {stream}{over} UNION ALL SELECT a, b, c, n FROM {other})", alias)
        case "distinct":
            return Input(f"(SELECT DISTINCT a, b, c, n FROM {stream}{over})", alias, keeps=False)
        case "group":
            items = "a, SUM(b) AS b, MAX(c) AS c, MIN(n) AS n"
            return Input(f"(SELECT {items} FROM {stream}{over} GROUP BY a)", alias, keeps=False)
    return Input(
        f"(SELECT a, b, c, n FROM {stream}{over} EXCEPT ALL SELECT a, b, c, n FROM {other})", alias, keeps=False
    )


def a_selection(rnd: Random, alias: str) -> str:
    return rnd.choice(SELECTIONS).format(x=alias)


# Shapes.


def shape(rnd: Random, streams: Sequence[str], most: int = 6) -> Shape:
    """A join of up to `most` inputs, most of them windows of these streams."""
    count = min(rnd.choice(INPUTS), most)
    graph = rnd.choice(GRAPHS if count < 5 else SPARSE)
    frozen = rnd.random() < 0.15
    small = count > 4 or (graph in ("theta", "cross") and count > 2)
    aliases = [f"x{i}" for i in range(count)]
    inputs = [an_input(rnd, x, streams, small=small, frozen=frozen) for x in aliases]
    if frozen:
        inputs[-1] = Input(rnd.choice(sorted(FROZEN)), aliases[-1], frozen=True)
    if not any(i.timed for i in inputs):
        inputs[0] = Input(f"{streams[0]}{window(rnd, small=small, counted=not frozen)}", aliases[0], timed=True)
    if rnd.random() < 0.2 and count < 6 and inputs[0].timed:  # the same window once more
        inputs.append(replace(inputs[0], alias=f"x{count}"))
        aliases.append(f"x{count}")
    rnd.shuffle(inputs)
    conditions = edges(rnd, graph, aliases) + more_conditions(rnd, inputs)
    rnd.shuffle(conditions)
    items = [f"{rnd.choice(aliases)}.a", f"{rnd.choice(aliases)}.{rnd.choice('abcn')}"]
    if rnd.random() < 0.3:
        items.append(rnd.choice([f"{rnd.choice(aliases)}.a + {rnd.choice(aliases)}.b", f"{rnd.choice(aliases)}.n"]))
    if rnd.random() < 0.15:
        items.append(f"{next(i.alias for i in inputs if i.timed)}.ts")
    return Shape(tuple(inputs), tuple(conditions), tuple(items), above(rnd, streams), rnd.random() < 0.25)


def edges(rnd: Random, graph: str, aliases: Sequence[str]) -> list[Condition]:
    """The conditions between two inputs that make a join graph; either input may be written first."""
    common = rnd.choice(COMMON)
    last = len(aliases) - 1
    pairs = [(rnd.choice(aliases[:i]), x) for i, x in enumerate(aliases) if i]  # a tree
    match graph:
        case "clique":
            pairs = list(combinations(aliases, 2))
        case "chain":
            pairs = [(aliases[i], aliases[i + 1]) for i in range(last)]
        case "star":
            pairs = [(aliases[0], x) for x in aliases[1:]]
        case "cycle":
            pairs = [(aliases[i], aliases[i + 1]) for i in range(last)] + [(aliases[last], aliases[0])] * (last > 1)
        case "cross":
            pairs = rnd.sample(pairs, len(pairs) - 1)
    of = {"common": (common,), "clique": (common,), "theta": THETA}.get(graph, (*EQUAL, *EQUAL, *THETA))
    made = []
    for pair in pairs:
        x, y = rnd.sample(pair, 2)
        made.append(Condition(rnd.choice(of).format(x=x, y=y), (x, y)))
    return made


def more_conditions(rnd: Random, inputs: Sequence[Input]) -> list[Condition]:
    """Conditions on single inputs, on three inputs, and on times."""
    aliases = [i.alias for i in inputs]
    made = [Condition(a_selection(rnd, x), (x,)) for x in aliases if rnd.random() < 0.7 / len(aliases)]
    if len(aliases) > 2 and rnd.random() < 0.25:
        x, y, z = rnd.sample(aliases, 3)
        made.append(Condition(rnd.choice(THREE).format(x=x, y=y, z=z), (x, y, z)))
    if rnd.random() < 0.1:
        x, y = rnd.sample(aliases, 2)
        made.append(Condition(rnd.choice(THETA).format(x=x, y=y), (x, y)))
    timed = [i.alias for i in inputs if i.timed]
    if len(timed) > 1 and rnd.random() < 0.2:
        x, y = rnd.sample(timed, 2)
        made.append(Condition(rnd.choice(TIME).format(x=x, y=y), (x, y)))
    return made


def above(rnd: Random, streams: Sequence[str]) -> str:
    """What is done with the joined rows."""
    stream = rnd.choice(streams)
    return rnd.choice(
        ["{items} {joined}"] * 12
        + [
            "SELECT j.c0, COUNT(*) AS k, MAX(j.c1) AS m FROM ({items} {joined}) AS j GROUP BY j.c0",
            "SELECT j.c1, SUM(j.c0) AS k FROM ({items} {joined}) AS j GROUP BY j.c1 HAVING COUNT(*) > $l",
            "SELECT COUNT(*) AS k, MIN(j.c1) AS m FROM ({items} {joined}) AS j",
            "SELECT DISTINCT j.c0, j.c1 FROM ({items} {joined}) AS j",
            "{first} {joined} EXCEPT ALL SELECT a AS c0 FROM " + f"{stream}{window(rnd)}",
            "{first} {joined} UNION ALL SELECT a AS c0 FROM " + f"{stream}{window(rnd)} WHERE a > $i",
            "SELECT j.c0, j.c1, y.b FROM ({items} {joined}) AS j, " + f"{stream}{window(rnd)} AS y WHERE j.c0 = y.a",
        ]
    )


def variant(rnd: Random, of: Shape) -> Shape:
    """A shape with the same inputs in another order, or without one of them, under other windows or conditions."""
    inputs, conditions = list(of.inputs), list(of.conditions)
    frozen = any(i.frozen for i in inputs)
    match rnd.choice(["order", "order", "fewer", "windows", "conditions"]):
        case "fewer" if len(inputs) > 2:
            used = {x for e in of.items for x in re.findall(r"x\d", e)}
            spare = [i for i in inputs if i.alias not in used and not i.frozen]
            if spare and any(i.timed for i in inputs if i is not spare[0]):
                inputs.remove(spare[0])
                conditions = [c for c in conditions if spare[0].alias not in c.aliases]
        case "windows":
            small = len(inputs) > 3
            inputs = [
                replace(i, text=i.text[0] + window(rnd, small=small, counted=not frozen)) if i.timed else i
                for i in inputs
            ]
        case "conditions":
            kept = [c for c in conditions if len(c.aliases) == 2]
            conditions = kept + more_conditions(rnd, inputs)
    rnd.shuffle(inputs)
    rnd.shuffle(conditions)
    small_enough = len(inputs) < 4 or len([c for c in conditions if len(c.aliases) > 1]) >= len(inputs) - 1
    return (
        replace(of, inputs=tuple(inputs), conditions=tuple(conditions), on=rnd.random() < 0.25) if small_enough else of
    )

"""Families with conditions of every operator over every type, against the reference evaluator on each row and query."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable
from random import Random
from typing import Any

import pyarrow as pa
import pytest

import eddyline
from eddyline import types as t
from eddyline.delivery.changes import Changes
from eddyline.index.filters import domains, grouped_filter
from eddyline.index.runtime import garbage
from eddyline.reference.scalar import value
from eddyline.sql.bound import SelectBlock
from tests.nightly import TIMES

COLUMNS: dict[str, tuple[str, list[Any]]] = {
    "i8": ("TINYINT", [-128, -1, 0, 1, 2, 127]),
    "i": ("INT", [-(2**31), -2, 0, 1, 2, 3, 2**31 - 1]),
    "b": ("BIGINT", [-(2**63), -1, 0, 1, 2, 2**63 - 1]),
    "f": ("FLOAT", [-math.inf, -0.0, 0.0, 0.5, 1.5, math.inf, math.nan]),
    "d": ("DOUBLE", [-math.inf, -1.0, -0.0, 0.0, 0.1, 0.3, 2.0, math.inf, math.nan]),
    "n": ("STRING", ["", "a", "ab", "a%", "b", "é", "éa", "\0"]),
    "at": ("TIMESTAMP", [dt.datetime(1960, 1, 1), *(dt.datetime(2026, 1, 1, 0, 0, 0, x) for x in range(3))]),
    "day": ("DATE", [dt.date(1960, 1, 1), dt.date(2026, 1, 1), dt.date(2026, 1, 2)]),
    "ok": ("BOOLEAN", [True, False]),
}
PATTERNS = ["a%", "a", "%", "", "a_%", "a\\%", "é%", "_", "%b", "a\\"]
ATOMS = [
    "{c} < {p}", "{c} <= {p}", "{c} > {p}", "{c} >= {p}", "{c} = {p}", "{c} <> {p}", "{c} <=> {p}", "NOT ({c} <=> {p})",
    "{p} < {c}", "{c} BETWEEN {p} AND {q}", "{c} NOT BETWEEN {p} AND {q}", "{c} IN ({p}, {q})", "{c} NOT IN ({p}, {q})",
    "{c} IN ({p}, NULL)", "{c} NOT IN ({p}, NULL)", "{c} IS NULL", "{c} IS NOT NULL", "({c} IS NULL OR {c} > {p})",
    "COALESCE({c}, {p}) = {q}", "({c} > {p}) IS NULL", "CASE WHEN {c} > {p} THEN {c} < {q} ELSE {c} IS NULL END",
]  # fmt: skip
OTHERS = {  # over columns of their own, with the type of their parameters
    "i + i8 > {p}": "INT", "b - i BETWEEN {p} AND {q}": "BIGINT", "d * 2 < {p}": "DOUBLE", "i < i8": "INT",
    "i > {p} + {q}": "INT",
    "i + {p} > {q}": "INT", "{p} < {q}": "INT", "{p} IS NULL": "INT", "twice(i) > {p}": "INT", "i > twice({p})": "INT",
    "near(i, {p})": "INT", "NOT near(i, {p})": "INT", "twice({p}) = {q}": "INT", "n LIKE 'a%'": "STRING", "TRUE": "INT",
}  # fmt: skip
FUNCTIONS: dict[str, Callable[..., Any]] = {"twice": lambda x: 2 * x, "near": lambda x, y: abs(x - y) <= 1}
COMMON = "CREATE STREAM s ({}, ts TIMESTAMP) WATERMARK ts"


class Made:
    """A random condition: its text, and the parameters it has with their types and the values they may take."""

    def __init__(self, rnd: Random) -> None:
        self.rnd = rnd
        self.params: dict[str, tuple[str, list[Any]]] = {}
        self.text = self.condition(rnd.choice([0, 1, 2, 3]))

    def param(self, type_: str, values: list[Any]) -> str:
        name = f"p{len(self.params)}"
        self.params[name] = type_, values
        return f":{name}"

    def condition(self, depth: int) -> str:
        if depth == 0:
            return self.atom()
        if self.rnd.random() < 0.2:
            return f"NOT ({self.condition(depth - 1)})"
        word = self.rnd.choice([" AND ", " AND ", " OR "])
        return word.join(f"({self.condition(depth - 1)})" for _ in range(2))

    def atom(self) -> str:
        kind = self.rnd.random()
        if kind < 0.2:
            text, type_ = self.rnd.choice(list(OTHERS.items()))
            values = next(v for x, v in COLUMNS.values() if x == type_)
        elif kind < 0.3:
            text, type_, values = (
                self.rnd.choice(["n LIKE {p}", "n NOT LIKE {p}", "n LIKE {p} OR n < {q}"]),
                "STRING",
                PATTERNS,
            )
        else:
            column = self.rnd.choice(list(COLUMNS))
            text, (type_, values) = self.rnd.choice(ATOMS).replace("{c}", column), COLUMNS[column]
        for place in ("{p}", "{q}"):
            if place in text:
                text = text.replace(place, self.param(type_, values))
        return text


class World:
    def __init__(self, params: dict[str, tuple[str, list[Any]]], condition: str) -> None:
        self.db = eddyline.connect()
        self.params = params | {"unused": ("INT", [0])}  # a family has one at least
        self.udfs: dict[str, Callable[..., Any]] = dict(FUNCTIONS)
        self.db.execute(COMMON.format(", ".join(f"{n} {x}" for n, (x, _) in COLUMNS.items())))
        self.db.function("twice", FUNCTIONS["twice"], ["INT"], "INT")
        self.db.function("near", FUNCTIONS["near"], ["INT", "INT"], "BOOLEAN")
        given = ", ".join(f"{n} {x}" for n, (x, _) in self.params.items())
        self.db.execute(f"CREATE QUERY FAMILY f ({given}) AS SELECT i, ts FROM s WHERE {condition}")
        query = self.db.registry.named("f").bound.query
        assert isinstance(query, SelectBlock)
        self.where = query.where
        self.standing: dict[str, tuple[Any, ...]] = {}
        self.made = self.clock = 0

    def register(self, rnd: Random, many: int) -> None:
        rows = [
            tuple(None if rnd.random() < 0.1 else rnd.choice(v) for _, v in self.params.values()) for _ in range(many)
        ]
        names = [f"q{self.made + i}" for i in range(many)]
        self.made += many
        columns = {n: pa.array([r[k] for r in rows], t.BY_NAME[x]) for k, (n, (x, _)) in enumerate(self.params.items())}
        self.db.register("f", pa.table({"query": pa.array(names, pa.string())} | columns))
        self.standing |= dict(zip(names, rows, strict=True))

    def drop(self, names: list[str]) -> None:
        self.db.drop("f", names)
        for name in names:
            del self.standing[name]

    def push(self, rnd: Random, many: int) -> tuple[Changes, set[tuple[int, str]]]:
        """What the engine found, and what the reference says of each row and query that stands."""
        rows = [tuple(None if rnd.random() < 0.15 else rnd.choice(v) for _, v in COLUMNS.values()) for _ in range(many)]
        self.clock += 1
        columns = {n: pa.array([r[k] for r in rows], t.BY_NAME[x]) for k, (n, (x, _)) in enumerate(COLUMNS.items())}
        ts = pa.array([dt.datetime(2026, 1, 1) + dt.timedelta(seconds=self.clock)] * many, t.TIMESTAMP)
        changes = self.db.push("s", pa.table(columns | {"ts": ts}))
        plain = [tuple(c[i].as_py() for c in columns.values()) for i in range(many)]
        return changes, {(i, q) for i, r in enumerate(plain) for q, p in self.standing.items() if self.holds(r, p)}

    def holds(self, row: tuple[Any, ...], params: tuple[Any, ...]) -> bool:
        return self.where is None or value(self.where, row, params, self.udfs) is True


def pairs(changes: Changes) -> list[tuple[int, str]]:
    return [(x["row"], q) for x in changes.affected("f").to_pylist() for q in x["queries"]]


def small(monkeypatch: pytest.MonkeyPatch, cuts: int) -> None:
    """Few queries as if they were many: trees, and few codes."""
    monkeypatch.setattr(grouped_filter, "BLOCK_STEP", 1e9 if cuts % 2 else 1000.0)
    monkeypatch.setattr(grouped_filter, "SMALLEST_TREE", 2)
    monkeypatch.setattr(domains, "MOST_CUTS", cuts)


def run(seed: str, world: World, rounds: int) -> None:
    rnd = Random(f"{seed} input")
    for turn in range(rounds):
        world.register(rnd, rnd.choice([1, 3, 20]))
        changes, wanted = world.push(rnd, rnd.choice([1, 8]))
        note = f"seed {seed}, turn {turn}: {world.where}"
        assert sorted(pairs(changes)) == sorted(wanted), note
        assert changes.count() == changes.count_affected("f") == len(wanted), note
        assert set(changes.queries()) == {q for _, q in wanted}, note
        world.drop(rnd.sample(sorted(world.standing), rnd.randint(0, len(world.standing) // 2)))


@pytest.mark.parametrize("seed", range(60 * TIMES))
def test_random_conditions_hold_for_a_row_as_the_reference_says(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    made = Made(Random(seed))
    if seed % 3:
        small(monkeypatch, 65_533 if seed % 3 == 1 else 4)
    run(f"{seed}", World(made.params, made.text), rounds=5)


@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("text", ATOMS)
def test_every_operator_holds_over_every_type_as_the_reference_says(column: str, text: str) -> None:
    type_, values = COLUMNS[column]
    given = {n: (type_, values) for n in ("p", "q") if f"{{{n}}}" in text}
    run(f"{column} {text}", World(given, text.format(c=column, p=":p", q=":q")), rounds=2)


@pytest.mark.parametrize("text", [*OTHERS, "n LIKE {p}", "n NOT LIKE {p}", "NOT (n LIKE {p} AND n <> {q})"])
@pytest.mark.parametrize("cuts", [65_533, 3])
def test_what_is_no_range_over_one_column_holds_as_the_reference_says(
    monkeypatch: pytest.MonkeyPatch, text: str, cuts: int
) -> None:
    small(monkeypatch, cuts)
    type_ = OTHERS.get(text, "STRING")
    values = PATTERNS if text not in OTHERS else next(v for x, v in COLUMNS.values() if x == type_)
    given = {n: (type_, values) for n in ("p", "q") if f"{{{n}}}" in text}
    run(text, World(given, text.format(p=":p", q=":q")), rounds=3)


@pytest.mark.parametrize("seed", range(6 * TIMES))
def test_results_asked_for_later_show_what_was_true_at_the_push(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    small(monkeypatch, 65_533)
    monkeypatch.setattr(garbage, "SPARE", 10)
    rnd = Random(f"later {seed}")
    world = World({"p": COLUMNS["i"], "q": COLUMNS["n"]}, "i > :p OR n = :q")
    kept = []
    for _ in range(12):
        world.register(rnd, rnd.choice([1, 30]))
        kept.append(world.push(rnd, rnd.choice([1, 5])))
        world.drop(rnd.sample(sorted(world.standing), rnd.choice([0, len(world.standing) // 2, len(world.standing)])))
    assert world.db.registry.named("f").queries.rows().removed > 0, f"seed {seed}: nothing was compacted"
    for turn, (changes, wanted) in enumerate(kept):
        assert sorted(pairs(changes)) == sorted(wanted), f"seed {seed}, turn {turn}"
        assert changes.count() == len(wanted), f"seed {seed}, turn {turn}"


@pytest.mark.parametrize("condition", ["i > twice(:p)", "twice(:p) > 10", "twice(i) > :p", "twice(i) > twice(:p)"])
def test_a_function_defined_anew_decides_from_then_on(condition: str) -> None:
    """As `test_functions.py` has it for what is selected."""
    world = World({"p": ("INT", [0, 1])}, condition)
    world.register(Random(0), 10)
    for body in (FUNCTIONS["twice"], lambda x: 50 - x):
        world.db.function("twice", body, ["INT"], "INT")
        world.udfs["twice"] = body
        changes, wanted = world.push(Random(1), 20)
        assert sorted(pairs(changes)) == sorted(wanted)

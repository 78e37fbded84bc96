"""The table of queries is indexed in runs: found is what plain comparisons find, however the queries came and went."""

from __future__ import annotations

from itertools import pairwise
from random import Random
from typing import Any

import pyarrow as pa
import pytest

import eddyline
from eddyline.operators.attach import Attach
from eddyline.operators.query_index import QueryIndex

STREAM = "CREATE STREAM s (k STRING, a INT, c DOUBLE, ts TIMESTAMP) WATERMARK ts"
FAMILIES = {
    "between": ("lo DOUBLE, hi DOUBLE", "c BETWEEN :lo AND :hi"),
    "inside": ("lo DOUBLE, hi DOUBLE", "c > :lo AND c < :hi"),
    "keyed": ("k STRING, lo DOUBLE, hi DOUBLE", "k = :k AND c >= :lo AND c <= :hi"),
    "above": ("a INT, lo DOUBLE", "a >= :a AND c <> :lo"),
    "any": ("lo DOUBLE", "c + :lo > 3"),
}
TYPES = {"k": pa.string(), "a": pa.int32(), "lo": pa.float64(), "hi": pa.float64()}


class World:
    def __init__(self, family: str) -> None:
        self.family = family
        self.db = eddyline.connect()
        params, condition = FAMILIES[family]
        self.names = [p.split()[0] for p in params.split(", ")]
        self.db.execute(STREAM)
        self.db.execute(f"CREATE QUERY FAMILY f ({params}) AS SELECT k, a, c FROM s WHERE {condition}")

    def register(self, queries: list[dict[str, Any]]) -> None:
        columns = {n: pa.array([q[n] for q in queries], TYPES[n]) for n in self.names}
        self.db.register("f", pa.table({"query": [q["query"] for q in queries]} | columns))

    def push(self, rows: list[dict[str, Any]]) -> list[tuple[str, Any]]:
        """(query, row) of every match, in the order in which they are given."""
        changes = self.db.push("s", rows)
        found = []
        for compact in changes.compact("f").to_pylist():
            row = tuple(compact[n] for n in "kac")
            found += [(query, row) for query in compact["queries"]]
        return found

    def runs(self) -> list[int]:
        return [len(run) for run in self.index().runs.known]

    def index(self) -> QueryIndex:
        (found,) = [
            o.matcher.index for r in self.db.engine.running.values() for o in r.root.walk() if isinstance(o, Attach)
        ]
        return found


def matches(family: str, q: dict[str, Any], row: dict[str, Any]) -> bool:
    """By plain comparisons; what is NULL matches nothing."""
    k, a, c = (row[n] for n in "kac")
    values = {n: v for n, v in q.items() if n != "query"}
    if c is None or None in values.values():
        return False
    match family:
        case "between":
            return bool(q["lo"] <= c <= q["hi"])
        case "inside":
            return bool(q["lo"] < c < q["hi"])
        case "keyed":
            return k is not None and k == q["k"] and bool(q["lo"] <= c <= q["hi"])
        case "above":
            return a is not None and bool(a >= q["a"] and c != q["lo"])
        case _:
            return bool(c + q["lo"] > 3)


def a_query(rnd: Random, name: str, names: list[str]) -> dict[str, Any]:
    lo = rnd.choice([None, *range(-2, 5)])
    values = {"k": rnd.choice("abc"), "a": rnd.randint(-2, 4), "lo": lo, "hi": None if lo is None else lo + 2}
    return {"query": name} | {n: values[n] for n in names}


def a_row(rnd: Random, second: int) -> dict[str, Any]:
    values = {"k": rnd.choice(["a", "b", "c", "d", None]), "a": rnd.choice([None, *range(-3, 5)])}
    return values | {"c": rnd.choice([None, *range(-3, 6)]), "ts": f"2026-01-01 00:{second // 60:02}:{second % 60:02}"}


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("seed", range(4))
def test_queries_that_come_and_go_are_found_as_by_plain_comparisons(family: str, seed: int) -> None:
    rnd = Random(f"{family} {seed}")
    world, standing, made = World(family), {}, 0
    for second in range(40):
        many = rnd.choice([1, 1, 2, 7, 60]) if rnd.random() < 0.8 else 0
        new = [a_query(rnd, f"q{made + i}", world.names) for i in range(many)]
        made += many
        if new:
            world.register(new)
        standing |= {q["query"]: q for q in new}
        gone = rnd.sample(sorted(standing), rnd.randint(0, len(standing) // 2)) if rnd.random() < 0.5 else []
        world.db.drop("f", gone)
        for name in gone:
            del standing[name]
        rows = [a_row(rnd, second) for _ in range(rnd.choice([1, 3, 20]))]
        found = world.push(rows)
        wanted = [
            (name, tuple(None if row[n] is None else row[n] for n in "kac"))
            for row in rows
            for name, q in standing.items()
            if matches(family, q, row)
        ]
        assert sorted(map(str, found)) == sorted(map(str, plain(wanted))), f"seed {seed}, second {second}"
        runs = world.runs() if standing and found else [1]
        assert all(a >= 4 * b for a, b in pairwise(runs)), runs


def plain(pairs: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """With numbers as the columns have them."""
    return [(name, (k, a, None if c is None else float(c))) for name, (k, a, c) in pairs]


def test_the_order_of_results_does_not_tell_how_the_queries_came() -> None:
    rnd = Random("order")
    at_once, one_by_one = World("keyed"), World("keyed")
    queries = [a_query(rnd, f"q{i}", at_once.names) for i in range(50)]
    at_once.register(queries)
    for q in queries:
        one_by_one.register([q])
        one_by_one.push([a_row(rnd, 0)])
    rows = [a_row(rnd, 1) for _ in range(100)]
    found = [world.push(rows) for world in (at_once, one_by_one)]
    assert found[0] == found[1] and found[0]
    assert len(at_once.runs()) == 1 < len(one_by_one.runs())


def test_a_query_that_comes_to_many_leaves_their_index_as_it_is() -> None:
    rnd = Random("many")
    world = World("between")
    world.register([a_query(rnd, f"q{i}", world.names) for i in range(1000)])
    world.push([a_row(rnd, 0)])
    first = world.index().runs.known[0]
    for i in range(100):
        world.register([a_query(rnd, f"new{i}", world.names)])
        world.push([a_row(rnd, 1)])
    assert world.index().runs.known[0] is first
    assert sum(world.runs()) == 1100

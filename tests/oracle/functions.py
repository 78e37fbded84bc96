"""Random queries with user functions, also failing ones, in filters and joins of any fan-out, called in any place.

Functions stand alone, are compared with constants, take a parameter, stand beside cheap conditions and beside each
other; some raise or return no value of their type for a part of the rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any
from unittest.mock import patch

from eddyline.operators.checks import Checks
from eddyline.operators.joins.routed_functions import RoutedFunctions
from tests.oracle import queries
from tests.oracle.scenario import Scenario, check, scenario
from tests.oracle.schema import SMALL, Function

FUNCTIONS = {
    "odd": Function(lambda x: x % 2 == 1, ("INT",), "BOOLEAN"),  # fails for NULL
    "known": Function(lambda x: x is not None, ("STRING",), "BOOLEAN"),
    "inverse": Function(lambda x: 12 // x, ("INT",), "BIGINT"),  # fails for 0
    "near": Function(lambda x, y: abs(x - y) <= 1, ("INT", "INT"), "BOOLEAN"),
    "wrong": Function(lambda x: "text" if x == 1 else x, ("INT",), "INT"),
    "never": Function(lambda x: 1 / 0, ("INT",), "BOOLEAN"),
}
SELECTIONS = (
    "odd({x}.a)",
    "known({x}.n)",
    "near({x}.a, CAST({x}.b AS INT))",
    "inverse({x}.a) > 3",
    "inverse({x}.a) BETWEEN 4 AND 12",
    "near({x}.a, 2)",
    "wrong({x}.a) <= 2",
    "NOT odd({x}.a)",
    "(odd({x}.a) OR {x}.b > 2)",
    "never({x}.a)",
    "({x}.f OR NOT never({x}.a))",
    "odd({x}.a) AND inverse({x}.a) = 4",
    "odd({x}.a) AND {x}.b >= 1",
    "coalesce(wrong({x}.a), 0) = 0",
)
BETWEEN = ("near({x}.a, {y}.a)", "near(CAST({x}.b AS INT), {y}.a) = odd({x}.a)", "inverse({x}.a) >= inverse({y}.a)")
FAMILIES = {
    "gf": ("p INT", "SELECT s.a, s.n FROM s WHERE near(s.a, :p) AND s.b >= :p"),
    "gj": ("p INT", "SELECT x.a, y.b FROM r AS x, s [RANGE 5 SECONDS] AS y WHERE x.a = y.a AND near(x.a, :p)"),
    "gr": (
        "p INT, q INT",
        "SELECT x.a, y.b FROM r [RANGE 4 SECONDS] AS x, s AS y "
        "WHERE x.a = y.a AND inverse(x.a) > :p AND y.b <= :q AND odd(x.a)",
    ),
    "gw": (
        "w INT, p INT",
        "SELECT x.n, y.n FROM r [RANGE :w SECONDS] AS x, s [RANGE 3 SECONDS] AS y WHERE x.b = y.b AND near(y.a, :p)",
    ),
    "gt": ("p INT", "SELECT x.a, t.n FROM s [RANGE 6 SECONDS] AS x, t WHERE x.a = t.a AND near(x.a, :p) AND odd(t.id)"),
    "gm": (
        "p INT",
        "SELECT x.a, y.b, z.n FROM r [RANGE 3 SECONDS] AS x, s [RANGE 3 SECONDS] AS y, r [RANGE 4 SECONDS] AS z "
        "WHERE x.a = y.a AND y.a = z.a AND near(x.a, :p) AND known(z.n)",
    ),
    "g4": (
        "p INT, q INT",
        "SELECT x.a, y.b, z.n, v.b AS k FROM r [RANGE 4 SECONDS] AS x, s AS y, r [RANGE 3 SECONDS] AS z, s [NOW] AS v "
        "WHERE x.a = y.a AND y.b = z.b AND z.a = v.a AND near(x.a, :p) AND inverse(z.a) > :q",
    ),
    "gg": ("k INT", "SELECT x.a, COUNT(*) AS n FROM r AS x, s AS y WHERE x.a = y.a AND odd(x.a) "
           "GROUP BY x.a HAVING COUNT(*) > :k"),
}  # fmt: skip


def selection(rnd: Random, x: str) -> str:
    return rnd.choice(SELECTIONS).format(x=x)


def filter_query(rnd: Random) -> str:
    parts = [selection(rnd, "s") for _ in range(rnd.randint(1, 3))] + queries.maybe_predicate(rnd, "s")
    rnd.shuffle(parts)
    return f"SELECT s.a, s.n FROM s{queries.window(rnd)} WHERE {' AND '.join(parts)}"


def join_query(rnd: Random) -> str:
    names = "xyzv"[: rnd.choice([2, 2, 2, 3, 3, 4])]
    sources = [f"{rnd.choice('rs')}{queries.window(rnd)} AS {x}" for x in names]
    parts = [queries.join_condition(rnd, names[i], names[i + 1]) for i in range(len(names) - 1)]
    parts += [selection(rnd, rnd.choice(names)) for _ in range(rnd.randint(1, 3))]
    parts += queries.maybe_predicate(rnd, rnd.choice(names))
    if rnd.random() < 0.25:
        x, y = rnd.sample(names, 2)
        parts.append(rnd.choice(BETWEEN).format(x=x, y=y))
    rnd.shuffle(parts)
    return f"SELECT x.a, y.b, {names[-1]}.n FROM {', '.join(sources)} WHERE {' AND '.join(parts)}"


def table_join(rnd: Random) -> str:
    table = rnd.choice("tu")
    parts = [f"x.a = {table}.a", selection(rnd, "x"), *queries.maybe_predicate(rnd, "x")]
    if rnd.random() < 0.4:
        parts.append(rnd.choice([f"odd({table}.a)", f"known({table}.n)", f"near(x.a, {table}.a)"]))
    return (
        f"SELECT x.a, {table}.n FROM {rnd.choice('rs')}{queries.window(rnd)} AS x, {table} WHERE {' AND '.join(parts)}"
    )


def nested(rnd: Random) -> str:
    joined = f"({join_query(rnd)}) AS j"
    return rnd.choice(
        [
            f"SELECT j.a, COUNT(*) AS k FROM {joined} WHERE odd(j.a) GROUP BY j.a",
            f"SELECT DISTINCT j.a FROM {joined}",
            f"SELECT j.a, w.b FROM {joined}, s [ROWS 2] AS w WHERE j.a = w.a AND odd(w.a) AND near(j.a, 1)",
        ]
    )


MAKE: tuple[Callable[[Random], str], ...] = (filter_query, join_query, join_query, join_query, table_join, nested)


def function_scenario(rnd: Random) -> Scenario:
    texts = [rnd.choice(MAKE)(rnd) for _ in range(rnd.randint(1, 4))]
    s = scenario(rnd, texts, rows=rnd.randint(4, 30), clock="max" if rnd.random() < 0.1 else "min")
    s.schema = replace(SMALL, families=FAMILIES, functions=FUNCTIONS)
    for i in range(rnd.randint(0, 2)):
        name = rnd.choice(list(FAMILIES))
        table = [
            {"query": f"{name}{i}_{j}"} | {p: queries.parameter(rnd, p, k) for p, k in s.schema.parameters(name)}
            for j in range(rnd.randint(1, 4))
        ]
        s.events.insert(rnd.randrange(len(s.events)), ("family", name, table))
    spread = rnd.choice([1, 1, 2, 10, 40])  # the number of partners of a tuple, from many to nearly none
    s.events = [(*e[:2], _spread(rnd, e[2], spread)) if e[0] == "row" else e for e in s.events]
    return s


def _spread(rnd: Random, row: tuple[Any, ...], by: int) -> tuple[Any, ...]:
    return (None if row[0] is None else row[0] + 5 * rnd.randrange(by), *row[1:])


def play(seed: int) -> int:
    """How many (query, input) cases were compared. Where functions are called, and in which order, is drawn anew for
    every batch."""
    rnd = Random(f"functions {seed}")
    s = function_scenario(rnd)
    routes = Random(f"routes {seed}")

    def order(self: Checks) -> list[int]:
        return routes.sample(range(len(self.clauses)), len(self.clauses))

    def place(self: RoutedFunctions, *_: object) -> int:
        return routes.randint(0, len(self.route.probes))

    try:
        with patch.object(RoutedFunctions, "place", place), patch.object(Checks, "order", order):
            return check(rnd, s)
    except BaseException as e:
        e.add_note(f"functions, seed {seed}\n{s}")
        raise

"""Random queries of several levels, as SQL text: what one operator asks of its input, others below must grant.

Every level has the columns a INT, b BIGINT, c DOUBLE, n STRING, so that levels can be put on each other at will.
Expressions have no constants, which would become parameters.
"""

from __future__ import annotations

from random import Random

from tests.oracle.queries import window

ITEMS = {
    "a": ["{0}.a"] * 5 + ["CAST({0}.b AS INT)", "abs({0}.a)", "{0}.a + {0}.a", "coalesce({0}.a, CAST({0}.b AS INT))"],
    "b": ["{0}.b"] * 5 + ["CAST({0}.a AS BIGINT)", "{0}.a + {0}.b", "{0}.b % {0}.a", "floor({0}.c)"],
    "c": ["{0}.c"] * 5 + ["CAST({0}.b AS DOUBLE)", "-{0}.c", "{0}.c * {0}.c", "sqrt({0}.c)"],
    "n": ["{0}.n"] * 6 + ["upper({0}.n)", "concat({0}.n, {0}.n)", "CAST({0}.c AS STRING)", "CAST({0}.a AS STRING)"],
}
EQUAL = ["{0}.a = {1}.a"] * 4 + [
    "{0}.a = {1}.b",
    "{0}.b = {1}.b",
    "{0}.n = {1}.n",
    "{0}.c = {1}.c",
    "{0}.c = {1}.b",
    "{0}.n <=> {1}.n",
    "{0}.a + {0}.b = {1}.b",
    "abs({0}.a) = abs({1}.b)",
]


def item(rnd: Random, column: str, source: str) -> str:
    return f"{rnd.choice(ITEMS[column]).format(source)} AS {column}"


def items(rnd: Random, *sources: str) -> str:
    return ", ".join(item(rnd, c, rnd.choice(sources)) for c in "abcn")


def deep_query(rnd: Random, depth: int = 2) -> str:
    if depth == 0:
        return f"SELECT {items(rnd, 'd')} FROM {rnd.choice('rs')}{window(rnd)} AS d"

    def source(name: str) -> str:
        if rnd.random() < 0.4:
            return f"{rnd.choice('rs')}{window(rnd)} AS {name}"
        return f"({deep_query(rnd, depth - 1)}) AS {name}"

    def where(*pairs: str) -> str:
        return " AND ".join(rnd.choice(EQUAL).format(*pair) for pair in pairs)

    kind = rnd.choice(
        ["project", "select", "distinct", "group", "join", "join", "three", "set", "set", "table", "meet"]
    )
    match kind:
        case "project":
            return f"SELECT {items(rnd, 'd')} FROM {source('d')}"
        case "select":
            return f"SELECT {items(rnd, 'd')} FROM {source('d')} WHERE d.a = d.b"
        case "distinct":
            return f"SELECT DISTINCT {items(rnd, 'd')} FROM {source('d')}"
        case "group":
            keys = rnd.sample("abcn", rnd.randint(1, 3))
            aggregates = {"a": "MIN(d.a)", "b": "COUNT(*)", "c": "MAX(d.c)", "n": "MIN(d.n)"}
            outputs = ", ".join(f"d.{c}" if c in keys else f"{aggregates[c]} AS {c}" for c in "abcn")
            return f"SELECT {outputs} FROM {source('d')} GROUP BY {', '.join(f'd.{k}' for k in keys)}"
        case "join":
            more = f" AND {where('xy')}" if rnd.random() < 0.3 else ""
            return f"SELECT {items(rnd, 'x', 'y')} FROM {source('x')}, {source('y')} WHERE {where('xy')}{more}"
        case "three":
            sources = f"{source('x')}, {source('y')}, {source('z')}"
            return f"SELECT {items(rnd, 'x', 'z')} FROM {sources} WHERE {where('xy', rnd.choice(['yz', 'xz']))}"
        case "set":
            op = rnd.choice(["UNION ALL", "UNION ALL", "EXCEPT ALL", "EXCEPT ALL", "INTERSECT ALL", "UNION", "EXCEPT"])
            return f"{deep_query(rnd, depth - 1)} {op} {deep_query(rnd, depth - 1)}"
        case "table":
            table = rnd.choice(["t", "(SELECT DISTINCT t.a, t.n FROM t) AS t"])
            return f"SELECT {items(rnd, 'x')} FROM {source('x')}, {table} WHERE x.a = t.a"
        case _:  # two streams that meet in a table
            return f"SELECT {items(rnd, 'x', 'y')} FROM {source('x')}, {source('y')}, t WHERE x.a = t.a AND t.a = y.a"

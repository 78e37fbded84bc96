"""Random queries of every class, as SQL text, over a small fixed schema with small domains, so that rows meet."""

from __future__ import annotations

from itertools import pairwise
from random import Random

from eddyline import types as t
from eddyline.aggregates import AGGREGATES

STREAMS = {"r": "a INT, b BIGINT, c DOUBLE, n STRING, f BOOLEAN", "s": "a INT, b BIGINT, c DOUBLE, n STRING, f BOOLEAN"}
TABLES = {"t": ("id INT, a INT, n STRING", ""), "u": ("a INT, n STRING, x DOUBLE", "NON RETROACTIVE")}
COLUMNS = {"a": t.INT, "c": t.DOUBLE, "n": t.STRING, "f": t.BOOLEAN}  # those that are aggregated


def window(rnd: Random) -> str:
    kind = rnd.choice(["range"] * 4 + ["none", "none", "now"])
    return {"range": f" [RANGE {rnd.choice([1, 2, 3, 5, 8])} SECONDS]", "none": "", "now": " [NOW]"}[kind]


def number(rnd: Random, x: str) -> str:
    """A numeric expression over the columns of source x."""
    column = f"{x}.{rnd.choice(['a', 'b', 'c', 'a'])}"
    return rnd.choice(
        [column] * 4
        + [
            f"{column} + {rnd.randint(-2, 2)}",
            f"{x}.a * {x}.b",
            f"abs({column} - {rnd.randint(0, 3)})",
            f"-{column}",
            f"{x}.a % 2",
            f"{x}.b / {rnd.choice(['2', x + '.a'])}",
            f"coalesce({x}.a, {rnd.randint(0, 3)})",
            f"CASE WHEN {x}.f THEN {x}.a ELSE {x}.b END",
        ]
    )


def predicate(rnd: Random, x: str, depth: int = 2) -> str:
    if depth and rnd.random() < 0.4:
        op = rnd.choice(["AND", "OR"])
        return f"({predicate(rnd, x, depth - 1)} {op} {predicate(rnd, x, depth - 1)})"
    if depth and rnd.random() < 0.15:
        return f"NOT ({predicate(rnd, x, depth - 1)})"
    kind = rnd.randrange(9)
    if kind == 0:
        low = rnd.randint(-1, 3)
        return f"{number(rnd, x)} BETWEEN {low} AND {low + rnd.randint(-1, 3)}"
    if kind == 1:
        return f"{x}.a IN ({', '.join(str(rnd.randint(0, 4)) for _ in range(rnd.randint(1, 3)))})"
    if kind == 2:
        pattern = rnd.choice(["a%", "%b", "_", "%", "ab", "a_%"])
        return f"{x}.n LIKE '{pattern}'"
    if kind == 3:
        return f"{x}.{rnd.choice('abcnf')} IS {rnd.choice(['', 'NOT '])}NULL"
    if kind == 4:
        return f"{x}.n {rnd.choice(['=', '<>', '<', '>='])} '{rnd.choice(['a', 'ab', 'b', ''])}'"
    if kind == 5:
        return rnd.choice([f"{x}.f", f"{x}.f = TRUE", f"{x}.f <> FALSE", "TRUE", f"{x}.f IS FALSE"])
    if kind == 6:
        return f"{x}.c {rnd.choice(['<', '<=', '>', '>=', '=', '<>'])} {rnd.choice(['0.5', '1', '2.25', '-1'])}"
    return f"{number(rnd, x)} {rnd.choice(['<', '<=', '>', '>=', '=', '<>'])} {rnd.randint(-1, 4)}"


def where(rnd: Random, parts: list[str]) -> str:
    return f" WHERE {' AND '.join(parts)}" if parts else ""


def maybe_predicate(rnd: Random, x: str) -> list[str]:
    return [predicate(rnd, x)] if rnd.random() < 0.6 else []


def filter_query(rnd: Random) -> str:
    s = rnd.choice("rs")
    items = rnd.choice(["*", f"{s}.a, {s}.n", f"{number(rnd, s)} AS x, {s}.n", f"{s}.a, {number(rnd, s)} AS y"])
    return f"SELECT {items} FROM {s}{window(rnd)}{where(rnd, maybe_predicate(rnd, s))}"


def join_condition(rnd: Random, x: str, y: str) -> str:
    return rnd.choice(
        [f"{x}.a = {y}.a"] * 4
        + [
            f"{x}.n = {y}.n",
            f"{x}.b = {y}.a",
            f"{x}.a + 1 = {y}.b",
            f"{x}.a = {y}.a AND {x}.n = {y}.n",
            f"{y}.a - {x}.a BETWEEN {rnd.randint(-2, 0)} AND {rnd.randint(0, 2)}",
            f"{x}.a < {y}.b",
        ]
    )


def time_condition(rnd: Random, x: str, y: str) -> list[str]:
    return [f"abs({x}.ts - {y}.ts) <= INTERVAL {rnd.randint(0, 4)} SECONDS"] if rnd.random() < 0.3 else []


def join_query(rnd: Random) -> str:
    x, y = rnd.choice([("r", "s"), ("s", "r"), ("r", "r")])
    first, second = f"{x}{window(rnd)} AS x", f"{y}{window(rnd)} AS y"
    parts = [join_condition(rnd, "x", "y"), *time_condition(rnd, "x", "y")]
    parts += maybe_predicate(rnd, "x") + maybe_predicate(rnd, "y")
    items = rnd.choice(["x.a, y.b", "x.a, y.n, x.c + y.c AS sum", "x.ts AS tx, y.ts AS ty"])
    if rnd.random() < 0.3:
        return f"SELECT {items} FROM {first} JOIN {second} ON {' AND '.join(parts)}"
    return f"SELECT {items} FROM {first}, {second}{where(rnd, parts)}"


def three_way_join(rnd: Random) -> str:
    names = [rnd.choice("rs") for _ in range(3)]
    sources = ", ".join(f"{n} [RANGE {rnd.randint(1, 4)} SECONDS] AS {a}" for n, a in zip(names, "xyz", strict=True))
    parts = [join_condition(rnd, "x", "y"), join_condition(rnd, rnd.choice("xy"), "z")]
    if rnd.random() < 0.3:
        parts.append("x.b = z.b")
    return f"SELECT x.a, y.b, z.n FROM {sources}{where(rnd, parts + maybe_predicate(rnd, 'y'))}"


def distinct_query(rnd: Random) -> str:
    items = rnd.choice(["s.a", "s.a, s.n", "s.a % 2 AS p", "s.c"])
    return f"SELECT DISTINCT {items} FROM s{window(rnd)}{where(rnd, maybe_predicate(rnd, 's'))}"


def aggregate(rnd: Random, x: str) -> str:
    """A registered aggregate over a column of source x that it takes."""
    calls = [f"{f.name.upper()}({x}.{c})" for f in AGGREGATES.values() for c in COLUMNS if f.types(COLUMNS[c])]
    return rnd.choice([*calls, "COUNT(*)", "COUNT(*)", f"SUM({x}.a) + COUNT(*)"])


def group_query(rnd: Random, source: str | None = None) -> str:
    source = source or f"s{rnd.choice([window(rnd), window(rnd), f' [ROWS {rnd.randint(1, 4)}]'])}"
    aggregates = [f"{aggregate(rnd, 's')} AS v{i}" for i in range(rnd.randint(1, 2))]
    key = rnd.choice(["", "", "s.a", "s.n", "s.a, s.f", "s.a % 2"])
    having = f" HAVING {rnd.choice(['COUNT(*) > 1', 'SUM(s.a) >= 2', 'MAX(s.c) < 2'])}" if rnd.random() < 0.25 else ""
    items = ", ".join(([f"{key}" + (" AS p" if "%" in key else "")] if key else []) + aggregates)
    grouping = f" GROUP BY {key}" if key else ""
    return f"SELECT {items} FROM {source}{where(rnd, maybe_predicate(rnd, 's'))}{grouping}{having}"


def set_query(rnd: Random) -> str:
    op = rnd.choice(["UNION ALL", "INTERSECT ALL", "EXCEPT ALL", "EXCEPT ALL", "UNION", "EXCEPT", "INTERSECT"])
    items = rnd.choice(["{0}.a", "{0}.a, {0}.n", "{0}.a, {0}.b"])

    def side(x: str) -> str:
        return f"SELECT {items.format(x)} FROM {x}{window(rnd)}{where(rnd, maybe_predicate(rnd, x))}"

    left, right = side(rnd.choice("rs")), side(rnd.choice("rs"))
    if rnd.random() < 0.2:
        return f"{left} {op} {right} {rnd.choice(['EXCEPT ALL', 'UNION ALL', 'INTERSECT ALL'])} {side('r')}"
    return f"{left} {op} {right}"


def table_join(rnd: Random) -> str:
    table = rnd.choice("tu")
    parts = [rnd.choice([f"x.a = {table}.a", f"x.a = {table}.a", f"x.n = {table}.n", f"x.a > {table}.a"])]
    parts += maybe_predicate(rnd, "x")
    sources = f"{rnd.choice('rs')}{window(rnd)} AS x, {table}"
    if rnd.random() < 0.25:
        other = rnd.choice("rs")
        sources += f", {other} [RANGE 2 SECONDS] AS y"
        parts.append("x.b = y.b")
    if table == "u" and rnd.random() < 0.2:
        sources += ", t"
        parts.append("t.a = u.a")
    return f"SELECT x.a, {table}.n FROM {sources}{where(rnd, parts)}"


def tables_only(rnd: Random) -> str:
    low = rnd.randint(0, 2)
    return rnd.choice(
        [
            f"SELECT MIN(id) AS m FROM t WHERE a BETWEEN {low} AND {low + 2}",
            f"SELECT MAX(id) AS m FROM t WHERE a BETWEEN {low} AND {low + 1}",
            f"SELECT t.id, u.n FROM t, u WHERE t.a = u.a AND t.id > {low}",
            f"SELECT a, COUNT(*) AS k FROM t GROUP BY a HAVING COUNT(*) > {low}",
            f"SELECT DISTINCT n FROM t WHERE id > {low}",
            f"SELECT n FROM t EXCEPT ALL SELECT n FROM u WHERE x > {low}",
            f"SELECT COUNT(*) AS k, SUM(x) AS q FROM u WHERE a <> {low}",
        ]
    )


def rows_query(rnd: Random) -> str:
    n = rnd.randint(1, 4)
    s = rnd.choice("rs")
    return rnd.choice(
        [
            f"SELECT {s}.a, {s}.n FROM {s} [ROWS {n}]{where(rnd, maybe_predicate(rnd, s))}",
            f"SELECT DISTINCT {s}.a FROM {s} [ROWS {n}]",
            f"SELECT x.a, y.b FROM r [ROWS {n}] AS x, s [ROWS {rnd.randint(1, 3)}] AS y WHERE x.a = y.a",
            f"SELECT r.a FROM r [ROWS {n}] EXCEPT ALL SELECT s.a FROM s{window(rnd)}",
            f"SELECT x.a, t.n FROM {s} [ROWS {n}] AS x, t WHERE x.a = t.a",
        ]
    )


def nested(rnd: Random) -> str:
    inner_join = f"(SELECT x.a, x.b, y.c, y.n, y.f FROM r{window(rnd)} AS x, s{window(rnd)} AS y WHERE x.a = y.a) AS s"
    plain = f"(SELECT s.a, s.b, s.c, s.n, s.f FROM s{window(rnd)}{where(rnd, maybe_predicate(rnd, 's'))}) AS s"
    counts = f"(SELECT s.a, COUNT(*) AS k FROM s{window(rnd)} GROUP BY s.a) AS g"
    maxima = f"(SELECT s.a, MAX(s.c) AS m FROM s{window(rnd)} GROUP BY s.a) AS g"
    distinct = f"(SELECT DISTINCT s.a, s.n FROM s{window(rnd)}) AS d"
    with_table = f"(SELECT x.a, u.n FROM r{window(rnd)} AS x, u WHERE x.a = u.a) AS j"
    limit = rnd.randint(0, 3)
    return rnd.choice(
        [
            lambda: group_query(rnd, inner_join),
            lambda: group_query(rnd, plain),
            lambda: f"SELECT g.k, r.n FROM {counts}, r{window(rnd)} WHERE g.a = r.a",
            lambda: f"SELECT MAX(g.k) AS m FROM {counts}",
            lambda: f"SELECT DISTINCT d.a FROM ({set_query(rnd)}) AS d",
            lambda: f"SELECT x.a, d.n FROM r{window(rnd)} AS x, {distinct} WHERE x.a = d.a",
            lambda: f"SELECT COUNT(*) AS k FROM ({rows_query(rnd)}) AS q",
            lambda: f"SELECT g.v FROM (SELECT SUM(s.a) AS v FROM s{window(rnd)}) AS g WHERE g.v > {limit}",
            lambda: f"SELECT g.a, t.n FROM {maxima}, t WHERE g.a = t.a",
            lambda: f"SELECT COUNT(*) AS k FROM {with_table}",
            lambda: f"SELECT a FROM t UNION ALL SELECT s.a FROM s{window(rnd)} WHERE s.b > {limit}",
            lambda: f"SELECT s.a FROM s{window(rnd)} EXCEPT ALL SELECT t.a FROM t WHERE t.id > {limit}",
        ]
    )()


def retracting_source(rnd: Random, name: str) -> str:
    """A source with the columns a, b and n whose rows may be retracted."""
    s = rnd.choice("rs")
    rows = f"{s} [ROWS {rnd.randint(1, 3)}]"
    other = f"{'s' if s == 'r' else 'r'}{rnd.choice([window(rnd), f' [ROWS {rnd.randint(1, 3)}]'])}"
    inner = rnd.choice(
        [
            f"SELECT a, b, n FROM {rows}{where(rnd, maybe_predicate(rnd, s))}",
            f"SELECT DISTINCT a, b, n FROM {rows}",
            f"SELECT a, b, n FROM {s}{window(rnd)} EXCEPT ALL SELECT a, b, n FROM {other}",
            f"SELECT a, a + b AS b, n FROM {rows} EXCEPT ALL SELECT a, b, n FROM {other}",
            f"SELECT a, MAX(b) AS b, MIN(n) AS n FROM {s}{window(rnd)} GROUP BY a",
            f"SELECT x.a, x.b, t.n FROM {s}{window(rnd)} AS x, t WHERE x.a = t.a",
            f"SELECT x.a, y.b, y.n FROM {rows} AS x, {other} AS y WHERE x.a = y.a",
            "SELECT a, CAST(id AS BIGINT) AS b, n FROM t",
        ]
    )
    return rnd.choice([f"{rows} AS {name}", f"({inner}) AS {name}", f"({inner}) AS {name}"])


def retracting_join(rnd: Random) -> str:
    """A join of inputs that retract rows, several of them in one step."""
    names = "xyz"[: rnd.choice([2, 2, 2, 3])]
    sources = [retracting_source(rnd, name) for name in names]
    if rnd.random() < 0.2:
        sources[rnd.randrange(len(sources))] = f"r{window(rnd)} AS {names[-1]}"
    sources = [s.rpartition(" AS ")[0] + f" AS {name}" for s, name in zip(sources, names, strict=True)]
    parts = [join_condition(rnd, a, b) for a, b in pairwise(names)]
    if rnd.random() < 0.2:
        parts = parts[1:]
    joined = f"SELECT {rnd.choice(['x.a, y.b', 'x.n', 'y.a', 'x.a, x.b, y.n'])} FROM {', '.join(sources)}"
    joined += where(rnd, parts)
    first = joined[len("SELECT ") :].split(" FROM ")[0].split(", ")[0].split(".")[-1]
    return rnd.choice(
        [joined] * 6
        + [
            f"SELECT DISTINCT j.{first} FROM ({joined}) AS j",
            f"SELECT COUNT(*) AS k FROM ({joined}) AS j",
            f"SELECT j.{first}, w.b FROM ({joined}) AS j, s [ROWS 2] AS w WHERE w.{first} = j.{first}",
        ]
    )


CLASSES = {
    "filter": filter_query,
    "join": join_query,
    "three-way join": three_way_join,
    "distinct": distinct_query,
    "group by": group_query,
    "set operation": set_query,
    "table join": table_join,
    "tables only": tables_only,
    "count window": rows_query,
    "nested": nested,
    "retracting join": retracting_join,
}


def query(rnd: Random) -> str:
    return CLASSES[rnd.choice(list(CLASSES))](rnd)


FAMILIES = {
    "fa": ("lo DOUBLE, hi DOUBLE", "SELECT s.a, s.c FROM s WHERE s.c BETWEEN :lo AND :hi"),
    "fw": ("w INT", "SELECT x.a, y.b FROM r [RANGE :w SECONDS] AS x, s [RANGE 3 SECONDS] AS y WHERE x.a = y.a"),
    "fb": (
        "lo INT, hi INT",
        "SELECT r.a, s.b FROM r [RANGE 4 SECONDS], s [RANGE 4 SECONDS] WHERE s.b - r.b BETWEEN :lo AND :hi",
    ),
    "fj": (
        "a1 INT, a2 INT, c1 DOUBLE",
        "SELECT r.n, s.n FROM r, s [RANGE 6 SECONDS] WHERE r.b = s.b AND r.a BETWEEN :a1 AND :a2 AND s.c >= :c1",
    ),
    "ft": ("w INT", "SELECT r.a, s.a FROM r, s WHERE r.b = s.b AND abs(r.ts - s.ts) <= INTERVAL :w SECONDS"),
    "fg": (
        "w INT, k INT",
        "SELECT s.a, COUNT(*) AS n, MAX(s.c) AS m FROM s [RANGE :w SECONDS] GROUP BY s.a HAVING COUNT(*) > :k",
    ),
    "fd": ("p STRING", "SELECT DISTINCT s.a FROM s [RANGE 3 SECONDS] WHERE s.n LIKE :p"),
    "fn": ("m INT", "SELECT s.a FROM s [ROWS :m] EXCEPT ALL SELECT r.a FROM r [RANGE 2 SECONDS] WHERE r.b <> :m"),
    "fm": ("lo INT, hi INT", "SELECT MIN(id) AS m FROM t WHERE a BETWEEN :lo AND :hi"),
    "fu": ("k INT", "SELECT s.a, u.n FROM s, u WHERE s.a = u.a AND u.x > :k"),
}


def parameter(rnd: Random, name: str, kind: str) -> object:
    if rnd.random() < 0.05 and name not in "wm":  # a window has a size
        return None
    if kind == "STRING":
        return rnd.choice(["a%", "%b", "ab", "%"])
    if kind == "DOUBLE":
        return rnd.choice([0.0, 0.5, 1.0, 2.25, -1.0])
    return rnd.randint(0, 5) if name in "wmk" else rnd.randint(-2, 4)

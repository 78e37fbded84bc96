"""Random joins of two inputs whose queries differ in ranges: select joins, band joins, window joins, and mixtures."""

from __future__ import annotations

from random import Random
from typing import Any

from tests.oracle.queries import aggregate

OWN = ("{x}.{p} BETWEEN {lo} AND {hi}", "{x}.{p} > {lo}", "{x}.{p} <= {hi} AND {x}.{q} >= {lo}", "{x}.{p} = {hi}", "")
OTHER = (
    "{y}.{p} BETWEEN {lo} AND {hi}",
    "{y}.{p} < {hi}",
    "{y}.{p} >= {lo} AND {y}.{p} < {hi} AND {y}.{q} <= {hi}",
    "{y}.{p} + {y}.{q} BETWEEN {lo} AND {hi}",
)
BANDS = (
    "{y}.{p} - {x}.{p} BETWEEN {lo} AND {hi}",
    "{x}.{p} - {y}.{p} > {lo} AND {x}.{p} - {y}.{p} < {hi}",
    "abs({x}.{p} - {y}.{p}) <= {hi}",
    "{y}.{p} - {x}.{p} >= {lo} AND {y}.{q} BETWEEN {lo} AND {hi}",
    "abs({x}.ts - {y}.ts) <= INTERVAL {seconds} SECONDS",
    "{x}.ts - {y}.ts BETWEEN INTERVAL {seconds} SECONDS AND INTERVAL 3 SECONDS",
)
SUMS = (  # bands as one would write them; the first few are of numbers only
    "{y}.{p} >= {x}.{p} + {lo} AND {y}.{p} <= {x}.{p} + {hi}",
    "{y}.{p} BETWEEN {x}.{p} - {hi} AND {x}.{p} + {hi}",
    "{x}.{p} + {lo} <= {y}.{p}",
    "{y}.{p} - {lo} > {x}.{p} - ({hi} + {lo}) AND {x}.{p} + {hi} > {y}.{p}",
    "{y}.{p} - {x}.{p} >= {lo} AND {x}.{p} + {hi} > {y}.{p} + {lo}",
    "{y}.{p} = {x}.{p} + {hi}",
    "{y}.{p} - {x}.{p} - {lo} >= {hi} - {y}.{p} + {y}.{p}",
    "{y}.b > {x}.a + {lo} AND {y}.b <= {x}.a + {hi}",
    "{y}.a - {hi} <= {x}.b",
    "{y}.ts BETWEEN {x}.ts AND {x}.ts + INTERVAL {seconds} SECONDS",
    "{x}.ts >= {y}.ts - INTERVAL {seconds} SECONDS AND {y}.ts > {x}.ts - INTERVAL 2 SECONDS",
    "INTERVAL {seconds} SECONDS + {x}.ts < {y}.ts + INTERVAL 1 SECONDS",
    "{y}.ts - {x}.ts + INTERVAL 1 SECONDS <= INTERVAL {seconds} SECONDS",
)
ALIKE = (  # the same for all queries
    "{x}.{p} < {y}.{p}",
    "{y}.{p} <= {x}.{p}",
    "{x}.{p} >= {y}.{p} AND {x}.{p} <= {y}.{p}",
    "{x}.a > {y}.b",
    "{x}.c < {y}.b AND {y}.c >= {x}.c",
    "{x}.ts <= {y}.ts",
    "{y}.ts > {x}.ts",
    "{x}.f <= {y}.f",
    "NOT ({x}.c >= {y}.c OR {x}.a > {hi})",
    "{x}.{p} <> {y}.{p}",
)
KEYS = ("{x}.a = {y}.a", "{x}.a = {y}.a AND {x}.n = {y}.n", "{x}.f = {y}.f", "{x}.f = {y}.f")
KINDS = ("select", "band", "window", "mixed", "aggregate", "sum", "alike", "limits")
INT, BIGINT = 2**31 - 1, 2**63 - 1
ITEMS = (
    "COUNT(*) AS n, SUM(y.a) AS m",
    "SUM(x.b) AS n, AVG(y.c) AS m",
    "MIN(y.a) AS n, MAX(x.a) AS m",
    "MAX(y.c) AS n, COUNT(x.n) AS m",
    "MIN(x.n) AS n, SUM(x.c) AS m, MAX(y.b) AS o",
    "SUM(x.a * y.a) AS n, COUNT(*) AS m",
)


def range_queries(rnd: Random, kind: str) -> list[str]:
    """Queries of one shape, which differ in their constants."""
    p, q = rnd.choice(["aa", "ab", "bc", "cc", "cb"])
    x, y = rnd.choice([("r", "s"), ("s", "r"), ("r", "s"), ("r", "r"), ("s", "t")])
    if y == "t":
        p, q = rnd.choice(["aa", "aa", "aa"])
    same = rnd.choice([True, False])
    own, other, band, key = (rnd.choice(shapes) for shapes in (OWN, OTHER, BANDS, KEYS))
    if y == "t":
        key = KEYS[0]
        band = rnd.choice(BANDS[:3])
    total, alike = (rnd.choice(shapes[:3] if y == "t" else shapes) for shapes in (SUMS, ALIKE))
    others = [k for k in KINDS if k not in ("aggregate", "limits")]
    of = rnd.choice({"aggregate": others, "limits": ["sum", "sum", "alike", "band"]}.get(kind, [kind]))
    items = "x.a, y.a AS b"
    if kind == "aggregate":
        items = rnd.choice(
            ITEMS[:1] if y == "t" else (*ITEMS, f"{aggregate(rnd, 'x')} AS n, {aggregate(rnd, 'y')} AS m")
        )
    parts = {
        "select": [key, own, other],
        "band": [band, rnd.choice([own, ""])],
        "window": [key, rnd.choice([other, ""]), own],
        "mixed": [rnd.choice([key, ""]), own, other, band],
        "sum": [rnd.choice([key, ""]), rnd.choice([own, ""]), rnd.choice([other, "", ""]), total],
        "alike": [rnd.choice([key, ""]), rnd.choice([own, band, total]), rnd.choice([other, total, ""]), alike],
    }[of]
    windows = [rnd.choice(["", "range", "range"]) for _ in range(2)] if of != "window" else ["range", "range"]
    if y == "t":
        windows[1] = ""
    wide = rnd.random() < 0.5
    fixed = [rnd.choice([1, 2, 5]) for _ in range(2)]

    def window(i: int) -> str:
        if not windows[i]:
            return ""
        return f" [RANGE {fixed[i] if same else rnd.choice([0, 1, 2, 3, 5])} SECONDS]"

    def text() -> str:
        low = rnd.choice([-2, 0, 0, 1, 2])
        high = low + rnd.choice([-1, 0, 1, 2, 3, 4, 6])
        fraction = rnd.choice(["", "", ".5", ".25"]) if "c" in (p, q) else ""
        names = {"x": "x", "y": "y", "p": p, "q": q, "lo": f"{low}{fraction}", "hi": f"{high}{fraction}"}
        names["seconds"] = str(rnd.randint(0, 4))
        if kind == "limits":
            limit = rnd.choice([INT, INT, BIGINT]) if wide else INT
            if not fraction and rnd.random() < 0.4:
                names["hi" if rnd.random() < 0.5 else "lo"] = str(rnd.choice([-1, 1]) * (limit - rnd.randint(0, 3)))
            if rnd.random() < 0.3:
                names["seconds"] = str(rnd.choice([10**11, 25 * 10**10, 3 * 10**12, -(10**11)]))
        conditions = [c.format(**names) for c in parts if c]
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        return f"SELECT {items} FROM {x}{window(0)} AS x, {y}{window(1)} AS y{where}"

    return [text() for _ in range(rnd.randint(2, 5))]


def row_near_limits(rnd: Random, row: tuple[Any, ...]) -> tuple[Any, ...]:
    """A row of a stream, some of its numbers so large that sums of them overflow."""
    a, b, c, n, f, ts = row
    if rnd.random() < 0.2:
        a = rnd.choice([-1, 1]) * (INT - rnd.randint(0, 3))
    if rnd.random() < 0.2:
        b = rnd.choice([-1, 1]) * (rnd.choice([INT, BIGINT]) - rnd.randint(0, 3))
    if rnd.random() < 0.2:
        c = rnd.choice([1e300, -1e300, float("-inf"), 9.007199254740993e15])
    return a, b, c, n, f, ts

"""Random joins of two inputs whose queries differ in ranges: select joins, band joins, window joins, and mixtures."""

from __future__ import annotations

from random import Random

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
KEYS = ("{x}.a = {y}.a", "{x}.a = {y}.a AND {x}.n = {y}.n", "{x}.f = {y}.f", "{x}.f = {y}.f")
KINDS = ("select", "band", "window", "mixed", "aggregate")
AGGREGATES = (
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
    of = rnd.choice(KINDS[:-1]) if kind == "aggregate" else kind
    items = rnd.choice(AGGREGATES[:1] if y == "t" else AGGREGATES) if kind == "aggregate" else "x.a, y.a AS b"
    parts = {
        "select": [key, own, other],
        "band": [band, rnd.choice([own, ""])],
        "window": [key, rnd.choice([other, ""]), own],
        "mixed": [rnd.choice([key, ""]), own, other, band],
    }[of]
    windows = [rnd.choice(["", "range", "range"]) for _ in range(2)] if of != "window" else ["range", "range"]
    if y == "t":
        windows[1] = ""
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
        conditions = [c.format(**names) for c in parts if c]
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        return f"SELECT {items} FROM {x}{window(0)} AS x, {y}{window(1)} AS y{where}"

    return [text() for _ in range(rnd.randint(2, 5))]

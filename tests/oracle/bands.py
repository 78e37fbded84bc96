"""Random joins within a band, as SQL text: several queries of one shape, so that they are one family."""

from __future__ import annotations

from random import Random

from tests.oracle.queries import maybe_predicate, window

BANDS = (
    "{y}.{q} - {x}.{p} BETWEEN {lo} AND {hi}",
    "abs({x}.{p} - {y}.{q}) <= {hi}",
    "{hi} > abs({x}.{p} - {y}.{q})",
    "{y}.{q} >= {x}.{p} + {lo} AND {y}.{q} <= {x}.{p} + {hi}",
    "{x}.{p} - {y}.{q} < {hi} AND {y}.{q} - {x}.{p} <= {hi}",
    "{y}.{q} < {x}.{p} + {hi} AND {lo} + {x}.{p} < {y}.{q}",
    "{x}.{p} + {lo} = {y}.{q}",
    "{y}.{q} - {x}.{p} = {hi}",
    "{x}.{p} + {hi} + {lo} >= {y}.{q} - {hi} AND {x}.{p} - {hi} <= {y}.{q} - {lo}",
    "{x}.{p} - {y}.{q} >= {lo} AND {x}.{p} <= {y}.{q} + {hi}",
    "abs({x}.{p} * 2 - {y}.{q} + {lo}) <= {hi} AND {x}.n <> {y}.n",
)
ODD = ("CAST('NaN' AS DOUBLE)", "CAST('Infinity' AS DOUBLE)", "CAST('-inf' AS DOUBLE)", "CAST(NULL AS DOUBLE)")


def constant(rnd: Random, column: str, low: int, high: int) -> str:
    number = rnd.randint(low, high)
    return str(number) if column != "c" else rnd.choice([f"{number}.5", f"{number}.0", f"{number}.25"])


def band_queries(rnd: Random) -> list[str]:
    """One to three queries that differ in their constants."""
    p, q = rnd.choice(["aa", "bb", "cc", "cc", "ab", "bc", "ca"])
    shape = rnd.choice(BANDS)
    sources = [f"r{window(rnd)} AS x", f"s{window(rnd)} AS y"]
    if rnd.random() < 0.3:
        where = f" WHERE {' AND '.join(some)}" if (some := maybe_predicate(rnd, "r")) else ""
        sources[0] = f"(SELECT a, b, c + b AS c, n FROM r{window(rnd)}{where}) AS x"
    tail = rnd.choice(["", "", "", " AND y.f", " AND x.b > 0", " AND x.a <= y.a + 9"])
    if rnd.random() < 0.2:
        sources.append(rnd.choice(["t", "u"]))
        tail += f" AND {sources[-1]}.a = x.a"
    rnd.shuffle(sources)
    union = rnd.choice([""] * 6 + [" UNION ALL SELECT s.a, s.b FROM s", " UNION ALL SELECT r.a, r.b FROM r WHERE r.f"])
    odd = rnd.choice(ODD) if rnd.random() < 0.08 and "c" in (p, q) else None

    def text() -> str:
        column = "c" if "c" in (p, q) else "a"
        lo, hi = constant(rnd, column, -2, 0), odd or constant(rnd, column, 0, 2)
        condition = shape.format(x="x", y="y", p=p, q=q, lo=lo, hi=hi)
        return f"SELECT x.a, y.b FROM {', '.join(sources)} WHERE {condition}{tail}{union}"

    return [text() for _ in range(rnd.randint(1, 3))]

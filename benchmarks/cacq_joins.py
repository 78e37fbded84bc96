"""Document 1, Figure 11(a): stocks joined with articles under many selections, against NiagaraCQ's two plans.

`s.price > x` for 1 to 200 values of x. PushDown selects first and joins once per query; PullUp joins once and
selects after. Both run over the engine's own grouped filters and SteMs (`yardsticks/niagara_plans.py`), on the same
updates in turns, with equal results; times are CPU seconds of one thread. CACQ lets the measured costs decide.
"""

from __future__ import annotations

import hashlib
import sys
import time
from typing import Any

import numpy as np
import pyarrow as pa

import eddyline
from benchmarks._chart import Panel, draw
from benchmarks._report import Figure, report
from benchmarks.yardsticks.niagara_plans import plan

QUERIES = (1, 2, 5, 10, 20, 50, 100, 200)
PLANS = ["tickets", "pull up", "push down"]
QUOTES, WARM, ROUNDS = 2250, 4, 31


def quotes(count: int, rng: np.random.Generator) -> pa.Table:
    columns = {"symbol": rng.permutation(count).astype(np.int32), "price": 100 * (1 - rng.random(count))}
    return pa.table(columns | {"ts": pa.array(np.zeros(count, np.int64), pa.timestamp("us"))})


def articles(symbols: int, each: int, rng: np.random.Generator) -> pa.Table:
    count = symbols * each
    columns = {"symbol": rng.permutation(np.repeat(np.arange(symbols, dtype=np.int32), each))}
    columns["text"] = pa.array(["x" * int(n) for n in rng.integers(200, 1000, count)])
    return pa.table(columns | {"ts": pa.array(np.zeros(count, np.int64), pa.timestamp("us"))})


def engine(condition: str, parameter: str) -> eddyline.Connection:
    db = eddyline.connect(threads=1)
    db.execute("CREATE STREAM stocks (symbol INT, price DOUBLE, ts TIMESTAMP) WATERMARK ts")
    db.execute("CREATE STREAM articles (symbol INT, text STRING, ts TIMESTAMP) WATERMARK ts")
    db.execute(
        f"CREATE QUERY FAMILY f ({parameter}) WITH (snapshot = 'no') AS SELECT s.symbol, s.price, a.text "
        f"FROM stocks AS s, articles AS a WHERE {condition} AND s.symbol = a.symbol"
    )
    return db


def prepared(queries: int, name: str) -> eddyline.Connection:
    """A connection with the queries and standing articles, warmed up."""
    rng = np.random.default_rng(queries)
    db = engine("s.price > :x", "x DOUBLE")
    x = np.append(0.0, 100 * rng.random(queries - 1))
    db.register("f", pa.table({"query": [f"q{i}" for i in range(queries)], "x": x}))
    with plan(name):
        db.push("articles", articles(QUOTES, 1, rng))
        for _ in range(WARM):
            db.push("stocks", quotes(QUOTES, rng)).count()
    return db


def by_plan(queries: int) -> dict[str, float]:
    """Median CPU seconds of an update of all quotes, by plan. Plans take turns on the same updates."""
    rng = np.random.default_rng(1000 + queries)
    dbs = {name: prepared(queries, name) for name in PLANS}
    seconds: dict[str, list[float]] = {name: [] for name in PLANS}
    for turn in range(ROUNDS):
        given, results = quotes(QUOTES, rng), set()
        for name in PLANS[turn % 3 :] + PLANS[: turn % 3]:
            with plan(name):
                begun = time.process_time()
                changes = dbs[name].push("stocks", given)
                count = changes.count()
                seconds[name].append(time.process_time() - begun)
                results.add((count, fingerprint(changes) if turn == 0 else ""))
        assert len(results) == 1, f"the plans disagree for {queries} queries"
    return {name: float(np.median(x)) for name, x in seconds.items()}


def fingerprint(changes: eddyline.Changes) -> str:
    """A hash of all results, in any order."""
    rows = sorted((r["symbol"], r["price"], len(r["text"]), tuple(sorted(r["queries"]))) for r in compact(changes))
    return hashlib.sha256(repr(rows).encode()).hexdigest()


def compact(changes: eddyline.Changes) -> list[dict[str, Any]]:
    """Each joined row once, with all its queries; a plan may list it once for each query."""
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in changes.compact("f").to_pylist():
        known = found.setdefault((row["symbol"], row["price"], row["text"]), row | {"queries": []})
        known["queries"] += row["queries"]
    return list(found.values())


def main() -> bool:
    by_plan(2)
    measured = [by_plan(n) for n in QUERIES]
    tickets, pull_up, pushed_down = ([m[name] for m in measured] for name in PLANS)
    worst = [m[PLANS[0]] / min(m[PLANS[1]], m[PLANS[2]]) for m in measured]
    x = list(map(float, QUERIES))
    panels = [
        Panel(
            f"An update of {QUOTES:,} quotes, by number of queries (Figure 11a)",
            "queries",
            "ms",
            {
                name: (x, [1000 * s for s in seconds])
                for name, seconds in (
                    ("CACQ: tickets", tickets),
                    ("PullUp: join first", pull_up),
                    ("PushDown: a join per query", pushed_down),
                )
            },
            "log",
        ),
    ]
    draw("cacq-joins", panels)
    figures = [
        *(
            Figure(f"{n} queries: CACQ, times the better of PushDown and PullUp", w, "", 1.2)
            for n, w in zip(QUERIES, worst, strict=True)
        ),
        Figure("200 queries: CACQ, times PullUp", tickets[-1] / pull_up[-1], ""),
        Figure("200 queries: CACQ, times PushDown", tickets[-1] / pushed_down[-1], ""),
    ]
    series = {
        "queries": QUERIES,
        "seconds": {"tickets": tickets, "pull up": pull_up, "push down": pushed_down},
    }
    return report("cacq-joins", figures, series)


if __name__ == "__main__":
    sys.exit(0 if main() else 1)

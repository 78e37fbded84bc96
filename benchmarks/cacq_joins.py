"""Document 1, Figure 11: stocks joined with articles under many selections, against NiagaraCQ's two plans.

(a) `s.price > x` for 1 to 200 values of x. PushDown selects first and joins once per query, over one shared hash table
of articles. PullUp joins once and selects after, as this engine does when told to visit its modules first. CACQ lets
the tickets decide. (b) The selection is a function of the user's, which costs 10 to 50 µs; 1, 10 and 100 articles a
quote. What counts is how often the function is called.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import numpy as np
import pyarrow as pa

import eddyline
from benchmarks._chart import Panel, draw
from benchmarks._report import Figure, report
from eddyline.index.keys.sorted_runs import equal_ranges, spread
from eddyline.operators.joins.filter_first import FirstFilter

QUERIES = (1, 2, 5, 10, 20, 50, 100, 200)
QUOTES = 2250
FANOUT = (1, 10, 100)
SPINNING_QUERIES, SPINNING_QUOTES = 10, 50

TIME = pa.array(np.zeros(1, np.int64), pa.timestamp("us"))


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
    if "interesting" in condition:
        db.function("interesting", Spin(), ["DOUBLE", "INT"], "BOOLEAN")
    db.execute(
        f"CREATE QUERY FAMILY f ({parameter}) WITH (snapshot = 'no') AS SELECT s.symbol, s.price, a.text "
        f"FROM stocks AS s, articles AS a WHERE {condition} AND s.symbol = a.symbol"
    )
    return db


def seconds_of(work: Callable[[], int]) -> tuple[float, int]:
    begun = time.perf_counter()
    found = work()
    return time.perf_counter() - begun, found


def in_engine(queries: int, first: str | None, rng: np.random.Generator) -> tuple[float, int]:
    """Seconds of an update of all quotes over standing articles, and its results."""
    chosen = FirstFilter.first
    if first is not None:
        FirstFilter.first = lambda self: first  # type: ignore[method-assign]
    try:
        db = engine("s.price > :x", "x DOUBLE")
        x = np.append(0.0, 100 * rng.random(queries - 1))
        db.register("f", pa.table({"query": [f"q{i}" for i in range(queries)], "x": x}))
        db.push("articles", articles(QUOTES, 1, rng))
        db.push("stocks", quotes(QUOTES, rng)).count()
        given = [quotes(QUOTES, rng) for _ in range(3)]
        return min(seconds_of(lambda g=g: db.push("stocks", g).count()) for g in given)  # type: ignore[misc]
    finally:
        FirstFilter.first = chosen  # type: ignore[method-assign]


def push_down(queries: int, rng: np.random.Generator) -> tuple[float, int]:
    """Select by a grouped index on x, then join once per query; all copies of rows are made, as its plan does."""
    x = np.sort(np.append(0.0, 100 * rng.random(queries - 1)))
    table = articles(QUOTES, 1, rng)
    symbol = table.column("symbol").to_numpy()
    order = np.argsort(symbol)
    found = []
    for _ in range(4):
        given = quotes(QUOTES, rng)

        def update(given: pa.Table = given) -> int:
            price, results = given.column("price").to_numpy(), 0
            keys = given.column("symbol").to_numpy().astype(np.int64)
            for value in x:
                mine = np.nonzero(price > value)[0]
                low, high = equal_ranges(symbol[order].astype(np.int64), keys[mine])
                owner, place = spread(low, high)
                left = given.take(pa.array(mine[owner]))
                right = table.take(pa.array(order[place]))
                results += len(left) if left.num_rows == right.num_rows else 0
            return results

        found.append(seconds_of(update))
    return min(found)


class Spin:
    """A function that costs 10 to 50 µs, and counts how often it is called."""

    def __init__(self) -> None:
        self.calls = 0
        self.rng = np.random.default_rng(6)

    def __call__(self, price: float, threshold: int) -> bool:
        self.calls += 1
        until = time.perf_counter() + self.rng.uniform(10e-6, 50e-6)
        while time.perf_counter() < until:
            pass
        return int(price * 7919) % 100 > threshold


def spinning(fanout: int, first: str | None, rng: np.random.Generator) -> tuple[float, int]:
    """Seconds of an update of all quotes, and how often the function was called for it."""
    chosen = FirstFilter.first
    if first is not None:
        FirstFilter.first = lambda self: first  # type: ignore[method-assign]
        FirstFilter.judge = lambda self, step, delta: None  # type: ignore[method-assign]
    try:
        db = engine("interesting(s.price, :p)", "p INT")
        spin = db.functions.bodies["interesting"]
        table = {
            "query": [f"q{i}" for i in range(SPINNING_QUERIES)],
            "p": pa.array([90] * SPINNING_QUERIES, pa.int32()),
        }
        db.register("f", pa.table(table))
        db.push("articles", articles(SPINNING_QUOTES, fanout, rng))
        before = spin.calls
        seconds, _ = seconds_of(lambda: db.push("stocks", quotes(SPINNING_QUOTES, rng)).count())
        return seconds, spin.calls - before
    finally:
        FirstFilter.first = chosen  # type: ignore[method-assign]


def main() -> bool:
    rng = np.random.default_rng(5)
    in_engine(2, None, rng)
    in_engine(2, "stem", rng)
    tickets = [in_engine(n, None, rng)[0] for n in QUERIES]
    pull_up = [in_engine(n, "stem", rng)[0] for n in QUERIES]
    pushed_down = [push_down(n, rng)[0] for n in QUERIES]
    judge = FirstFilter.judge
    lineage = [spinning(n, None, rng) for n in FANOUT]
    after = [spinning(n, "stem", rng) for n in FANOUT]
    FirstFilter.judge = judge  # type: ignore[method-assign]
    x, fan = list(map(float, QUERIES)), list(map(float, FANOUT))
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
        Panel(
            "Calls of the function for an update, by articles a quote (Figure 11b)",
            "articles a quote",
            "calls",
            {
                "CACQ: tickets": (fan, [float(n) for _, n in lineage]),
                "PullUp: join first": (fan, [float(n) for _, n in after]),
            },
            "log",
        ),
    ]
    draw("cacq-joins", panels)
    figures = [
        Figure("1 query: CACQ, as a share of PullUp", tickets[0] / pull_up[0], "", 1.2),
        Figure("200 queries: CACQ, as a share of PullUp", tickets[-1] / pull_up[-1], "", 1.2),
        Figure("200 queries: CACQ, as a share of PushDown", tickets[-1] / pushed_down[-1], "", 0.5),
        Figure("function, 100 articles a quote: calls of CACQ", lineage[-1][1], "calls"),
        Figure(
            "function, 100 articles a quote: calls of PullUp, times CACQ's", after[-1][1] / lineage[-1][1], "", least=50
        ),
        Figure(
            "function, 100 articles a quote: time of PullUp, times CACQ's", after[-1][0] / lineage[-1][0], "", least=20
        ),
    ]
    series = {
        "queries": QUERIES,
        "seconds": {"tickets": tickets, "pull up": pull_up, "push down": pushed_down},
        "fanout": FANOUT,
        "functions (seconds, calls)": {"tickets": lineage, "pull up": after},
    }
    return report("cacq-joins", figures, series)


if __name__ == "__main__":
    sys.exit(0 if main() else 1)

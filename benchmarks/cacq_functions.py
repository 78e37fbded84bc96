"""Document 1, Figure 11(b): 100 queries, each with a function of its own over stocks, joined with articles.

A function costs 10 to 500 µs a call, each another time, and accepts a tenth of the quotes. A quote has 1, 10 or 100
articles, or one in a hundred quotes has one (0.01). Four plans process the same updates in turns, over the engine's own
SteMs, with equal results: the engine, which decides for each function and batch by measured costs; function-first,
which calls functions for all quotes; probe-first, which calls them for quotes that have articles, once for a quote; and
NiagaraCQ's PullUp, which calls them for joined rows. Functions spin in CPU time, and times are CPU seconds.
"""

from __future__ import annotations

import hashlib
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pyarrow as pa

import eddyline
from benchmarks._chart import Panel, draw
from benchmarks._report import Figure, report
from benchmarks.yardsticks.niagara_plans import plan
from eddyline.operators.joins.routed_functions import RoutedFunctions

FUNCTIONS = 100
COSTS = np.linspace(10e-6, 500e-6, FUNCTIONS)  # seconds
FANOUT = (0.01, 1.0, 10.0, 100.0)
QUOTES = {0.01: 300, 1.0: 20, 10.0: 20, 100.0: 20}  # in an update
ROUNDS, WARM = 3, 2
PLANS = ("eddy", "function first", "probe first", "pull up")
COSTLY = ("pull up",)  # one round: at 100 articles a quote it takes 100 times as long


class Spin:
    """A function that takes a fixed CPU time, accepts a tenth of its arguments, and counts its calls."""

    def __init__(self, number: int) -> None:
        self.number, self.cost, self.calls = number, float(COSTS[number]), 0

    def __call__(self, price: float) -> bool:
        until = time.thread_time() + self.cost
        self.calls += 1
        while time.thread_time() < until:
            pass
        return (int(price * 7919) + self.number) % 10 == 0


class Host:
    """A connection with the queries and standing articles, which processes updates by one plan."""

    def __init__(self, name: str, fanout: float) -> None:
        self.name, self.spins = name, [Spin(i) for i in range(FUNCTIONS)]
        self.seconds: list[float] = []
        self.db = eddyline.connect(threads=1)
        self.db.execute("CREATE STREAM stocks (symbol INT, price DOUBLE, ts TIMESTAMP) WATERMARK ts")
        self.db.execute("CREATE STREAM articles (symbol INT, id INT, ts TIMESTAMP) WATERMARK ts")
        for i, spin in enumerate(self.spins):
            self.db.function(f"f{i}", spin, ["DOUBLE"], "BOOLEAN")
            self.db.execute(
                f"CREATE CONTINUOUS QUERY q{i} WITH (snapshot = 'no') AS SELECT s.symbol, s.price, a.id "
                f"FROM stocks AS s, articles AS a WHERE f{i}(s.price) AND s.symbol = a.symbol"
            )
        each = max(1, int(fanout))
        with_articles = np.arange(0, QUOTES[fanout], max(1, round(1 / fanout)), dtype=np.int32)
        symbols = np.repeat(with_articles, each)
        ids = np.arange(len(symbols), dtype=np.int32)
        self.db.push("articles", pa.table({"symbol": symbols, "id": ids, "ts": moments(len(symbols))}))

    def update(self, given: pa.Table) -> str:
        """Processes an update; a hash of all its results."""
        with forced(self.name):
            begun = time.process_time()
            changes = self.db.push("stocks", given)
            changes.count()
            self.seconds.append(time.process_time() - begun)
        rows = [changes.rows(f"q{i}").select(["symbol", "price", "id"]).to_pydict() for i in range(FUNCTIONS)]
        return hashlib.sha256(repr(rows).encode()).hexdigest()

    @property
    def calls(self) -> int:
        return sum(s.calls for s in self.spins)


@contextmanager
def forced(name: str) -> Iterator[None]:
    """Runs what is pushed inside by one plan."""
    own = RoutedFunctions.place
    places = {"function first": 0, "probe first": 1}
    try:
        if name in places:
            RoutedFunctions.place = lambda *_: places[name]  # type: ignore[assignment, method-assign]
        with plan(name):
            yield
    finally:
        RoutedFunctions.place = own  # type: ignore[method-assign]


def moments(count: int) -> pa.Array:
    return pa.array(np.zeros(count, np.int64), pa.timestamp("us"))


def quotes(count: int, rng: np.random.Generator) -> pa.Table:
    columns = {"symbol": rng.permutation(count).astype(np.int32), "price": 100 * rng.random(count)}
    return pa.table(columns | {"ts": moments(count)})


def measured(fanout: float) -> dict[str, tuple[float, float]]:
    """By plan: median CPU seconds of an update, and calls of functions for it. The first updates are not counted."""
    rng = np.random.default_rng(int(100 * fanout))
    hosts = {name: Host(name, fanout) for name in PLANS}
    for host in hosts.values():
        warm = np.random.default_rng(1)
        for _ in range(WARM):
            host.update(quotes(QUOTES[fanout] // 20, warm))
        host.seconds.clear()
    before = {name: host.calls for name, host in hosts.items()}
    for turn in range(ROUNDS):
        given = quotes(QUOTES[fanout], rng)
        taking_part = [p for p in PLANS if turn == 0 or p not in COSTLY]
        hashes = {hosts[p].update(given) for p in (*taking_part[turn:], *taking_part[:turn])}
        assert len(hashes) == 1, f"the plans disagree at {fanout} articles a quote"
    return {name: (float(np.median(h.seconds)), (h.calls - before[name]) / len(h.seconds)) for name, h in hosts.items()}


def main() -> bool:
    found = {fanout: measured(fanout) for fanout in FANOUT}
    figures = []
    for fanout, of in found.items():
        (seconds, calls), (first, first_calls), (probe, _), _ = (of[p] for p in PLANS)
        what = f"{fanout:g} articles a quote"
        figures.append(
            Figure(f"{what}: the engine, times the better of both orders", seconds / min(first, probe), "", 1.2)
        )
        limit = 0.05 if fanout < 1 else None
        figures.append(Figure(f"{what}: calls, of function-first's", calls / first_calls, "", limit))
        figures.append(Figure(f"{what}: time of PullUp, times the engine's", of["pull up"][0] / seconds, ""))
        figures.append(Figure(f"{what}: calls of PullUp, times the engine's", of["pull up"][1] / calls, ""))
    x = list(FANOUT)
    panels = [
        Panel(
            f"An update, {FUNCTIONS} functions of 10 to 500 µs (Figure 11b)",
            "articles a quote",
            "ms a quote",
            {p: (x, [1000 * found[f][p][0] / QUOTES[f] for f in FANOUT]) for p in PLANS},
            "log",
        ),
        Panel(
            "Calls of functions",
            "articles a quote",
            "calls a quote",
            {p: (x, [found[f][p][1] / QUOTES[f] for f in FANOUT]) for p in PLANS},
            "log",
        ),
    ]
    draw("cacq-functions", panels)
    series = {
        "fanout": FANOUT,
        "quotes in an update": [QUOTES[f] for f in FANOUT],
        "seconds": {p: [found[f][p][0] for f in FANOUT] for p in PLANS},
        "calls": {p: [found[f][p][1] for f in FANOUT] for p in PLANS},
    }
    return report("cacq-functions", figures, series)


if __name__ == "__main__":
    sys.exit(0 if main() else 1)

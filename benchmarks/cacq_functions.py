"""Document 1, Figure 11(b): 100 queries, each with a function of its own over stocks, joined with articles.

A function costs 10 to 500 µs a call, each another time, and accepts a tenth of the quotes. A quote has 1, 10 or 100
articles, or one in a hundred quotes has one (0.01). Four plans process the same updates in turns, over the engine's own
SteMs, with equal results: the engine, which decides for each function and batch by measured costs; function-first,
which calls functions for all quotes; probe-first, which calls them for quotes that have articles, once for a quote; and
NiagaraCQ's PullUp, which calls them for joined rows. Functions spin in CPU time, and times are CPU seconds.

A second part joins quotes with articles, one in a hundred or ten quotes or each with one, and then with comments. The
engine is compared with functions called before, between and after the two probes.
"""

from __future__ import annotations

import hashlib
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import product
from typing import Any

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
# three inputs
PLACES = ("before both probes", "between the probes", "after both probes")
FEW_COSTS = np.linspace(5e-6, 50e-6, 10)  # seconds
FIRST, SECOND = (0.01, 0.1, 1.0), (10, 1000)  # articles and comments of a quote
QUOTES_OF_THREE = {0.01: 2000, 0.1: 1000, 1.0: 200}
MORE_ROUNDS = 9  # updates are as short as 20 ms


class Spin:
    """A function that takes a fixed CPU time, accepts a tenth of its arguments, and counts its calls."""

    def __init__(self, number: int, cost: float) -> None:
        self.number, self.cost, self.calls = number, float(cost), 0

    def __call__(self, price: float) -> bool:
        until = time.thread_time() + self.cost
        self.calls += 1
        while time.thread_time() < until:
            pass
        return (int(price * 7919) + self.number) % 10 == 0


class Host:
    """A connection with a query for each function and standing partners, which processes updates by one plan."""

    def __init__(self, name: str, costs: Sequence[float], partners: Mapping[str, np.ndarray]) -> None:
        """`costs`: seconds of each function. `partners`: by stream, the symbols of its rows; probed in this order."""
        self.name, self.spins = name, [Spin(i, cost) for i, cost in enumerate(costs)]
        self.columns = ["symbol", "price", *(f"{stream}_id" for stream in partners)]
        self.seconds: list[float] = []
        self.db = eddyline.connect(threads=1)
        self.db.execute("CREATE STREAM stocks (symbol INT, price DOUBLE, ts TIMESTAMP) WATERMARK ts")
        for stream in partners:
            self.db.execute(f"CREATE STREAM {stream} (symbol INT, id INT, ts TIMESTAMP) WATERMARK ts")
        ids = "".join(f", {stream}.id AS {stream}_id" for stream in partners)
        equal = "".join(f" AND s.symbol = {stream}.symbol" for stream in partners)
        order = f", order = 's, {', '.join(partners)}'" if len(partners) > 1 else ""
        for i, spin in enumerate(self.spins):
            self.db.function(f"f{i}", spin, ["DOUBLE"], "BOOLEAN")
            self.db.execute(
                f"CREATE CONTINUOUS QUERY q{i} WITH (snapshot = 'no'{order}) AS SELECT s.symbol, s.price{ids} "
                f"FROM stocks AS s, {', '.join(partners)} WHERE f{i}(s.price){equal}"
            )
        for stream, symbols in partners.items():
            numbers = np.arange(len(symbols), dtype=np.int32)
            self.db.push(stream, pa.table({"symbol": symbols, "id": numbers, "ts": moments(len(symbols))}))

    def update(self, given: pa.Table) -> str:
        """Processes an update; a hash of all its results."""
        with forced(self.name):
            begun = time.process_time()
            changes = self.db.push("stocks", given)
            changes.count()
            self.seconds.append(time.process_time() - begun)
        rows = [changes.rows(f"q{i}").select(self.columns).to_pydict() for i in range(len(self.spins))]
        return hashlib.sha256(repr(rows).encode()).hexdigest()

    @property
    def calls(self) -> int:
        return sum(s.calls for s in self.spins)


@contextmanager
def forced(name: str) -> Iterator[None]:
    """Runs what is pushed inside by one plan."""
    own = RoutedFunctions.place
    places = {"function first": 0, "probe first": 1} | {place: k for k, place in enumerate(PLACES)}
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


def partners(count: int, fanout: float) -> np.ndarray:
    """Symbols of rows of which each quote has so many, or, below one, so large a share of quotes has one."""
    having = np.arange(0, count, max(1, round(1 / fanout)), dtype=np.int32)
    return np.repeat(having, max(1, int(fanout)))


def measured(hosts: Mapping[str, Host], count: int, seed: int, rounds: int) -> dict[str, tuple[float, float]]:
    """By plan: median CPU seconds of an update, and calls of functions for it. The first updates are not counted."""
    rng = np.random.default_rng(seed)
    for host in hosts.values():
        warm = np.random.default_rng(1)
        for _ in range(WARM):
            host.update(quotes(count // 20, warm))
        host.seconds.clear()
    before = {name: host.calls for name, host in hosts.items()}
    for turn in range(rounds):
        given = quotes(count, rng)
        taking_part = [p for p in hosts if turn == 0 or p not in COSTLY]
        first = turn % len(taking_part)
        hashes = {hosts[p].update(given) for p in (*taking_part[first:], *taking_part[:first])}
        assert len(hashes) == 1, f"the plans disagree about {count} quotes"
    return {name: (float(np.median(h.seconds)), (h.calls - before[name]) / len(h.seconds)) for name, h in hosts.items()}


def of_two(fanout: float) -> dict[str, tuple[float, float]]:
    articles = {"articles": partners(QUOTES[fanout], fanout)}
    return measured({name: Host(name, COSTS, articles) for name in PLANS}, QUOTES[fanout], int(100 * fanout), ROUNDS)


def of_three(first: float, second: float) -> dict[str, tuple[float, float]]:
    count = QUOTES_OF_THREE[first]
    standing = {"articles": partners(count, first), "comments": partners(count, second)}
    hosts = {name: Host(name, FEW_COSTS, standing) for name in ("eddy", *PLACES)}
    return measured(hosts, count, int(100 * first), MORE_ROUNDS)


def three_inputs() -> tuple[list[Figure], list[dict[str, Any]]]:
    """The engine against the best of the forced places, and every point."""
    figures, points = [], []
    for first, second in product(FIRST, SECOND):
        of = of_three(first, second)
        best = min(PLACES, key=lambda place: of[place][0])
        what = f"{first:g} articles, {second} comments a quote"
        figures.append(Figure(f"{what}: the engine, times the best place", of["eddy"][0] / of[best][0], "", 1.2))
        for place in PLACES:
            figures.append(Figure(f"{what}: {place}, times the best place", of[place][0] / of[best][0], ""))
        points.append({"articles": first, "comments": second, "quotes": QUOTES_OF_THREE[first], "best": best})
        points[-1] |= {name: {"seconds": seconds, "calls": calls} for name, (seconds, calls) in of.items()}
    return figures, points


def main() -> bool:
    found = {fanout: of_two(fanout) for fanout in FANOUT}
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
    more_figures, points = three_inputs()
    return report("cacq-functions", figures + more_figures, series | {"three inputs": points})


if __name__ == "__main__":
    sys.exit(0 if main() else 1)

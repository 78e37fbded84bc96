"""Document 2, Table 8 and Figure 4: multi-way window joins that run, row by row as printed, and in the engine.

The algorithms of the document (`yardsticks/window_multijoins.py`, compiled) run Table 8, Figures 4(a) and 4(b), and all
24 orders of Table 5, whose counted comparisons are held against the cost model. The engine does the same: it runs
Table 5 by nested loops in all 24 orders (`WITH (join = 'nested loop', order = …)`), and counts. It also runs it with
higher rates and more distinct values (`RUNS`): by keys and by nested loops, in the best and in the worst order, and in
the order that it chooses, one row a push, and a hundredth of the window a push. Results are compared by a hash.

With `evaluate` = a hundredth of the window the engine collects rows of 1, 12 or 120 a push, and evaluates them at once.
What a push costs without any evaluation is measured by a family that is never evaluated.

`--evaluate` and `--expire` are given to the engine as options of the family, if it has them.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import permutations
from statistics import median

import numpy as np
import pyarrow as pa

import eddyline
from benchmarks._chart import Panel, draw
from benchmarks._report import Figure, report
from benchmarks.yardsticks.document_windows import time_window
from benchmarks.yardsticks.window_multijoins import WindowMultijoin, arrivals, hash_of_results
from eddyline.operators.joins.stem_join import StemJoin
from eddyline.routing.join_graph import EAGER, JoinGraph, JoinStatistics
from eddyline.routing.route_search import multiway_cost

REPEATS = 5
INTERVALS = (0, 1, 2, 4, 6, 8, 10, 15, 20, 30, 40, 50)  # units of time; 0 is eager
SLOW_BUCKETS = {"equal": None, "1 to slow": 1, "5 to slow": 5, "10 to slow": 10}
MEAN_BUCKETS = tuple(range(3, 16))
BEST, WORST = (0, 1, 2, 3), (3, 2, 1, 0)  # orders of Table 5
SCALE = 8  # by how much the rates of the engine's runs are higher, and distinct values more
ORDERS = {"best": BEST, "worst": WORST, "chosen": None}
RUNS = tuple((algorithm, name) for algorithm in ("hash", "nested loop") for name in ORDERS)
COUNTED_BATCH = 60  # rows a push where comparisons are counted: four units of time
BATCH = 0.01  # of the shortest window


@dataclass(frozen=True)
class Streams:
    """Parameters of the document. A unit of time has as many arrivals as all rates together."""

    rates: tuple[float, ...]
    windows: tuple[float, ...]
    distinct: tuple[int, ...]

    @property
    def unit(self) -> int:
        return round(sum(self.rates))

    @property
    def ticks(self) -> list[int]:
        return [round(w * self.unit) for w in self.windows]

    def faster(self, times: int) -> Streams:
        """With higher rates and as many more distinct values: rows have the same number of partners."""
        rates, distinct = (tuple(times * x for x in values) for values in (self.rates, self.distinct))
        return Streams(rates, self.windows, distinct)

    def multijoin(self, order: Sequence[int], buckets: Sequence[int], interval: float, rows: int) -> WindowMultijoin:
        given = arrivals(self.rates, self.distinct, rows, seed=8)
        return WindowMultijoin(given, order, self.ticks, buckets, round(interval * self.unit))


TABLE_5 = Streams((10, 1, 1, 3), (100, 100, 200, 100), (500, 50, 40, 5))
EQUAL = Streams((1, 1, 1, 1), (100,) * 4, (50,) * 4)
FAST_FOURTH = Streams((1, 1, 1, 50), (100,) * 4, (50,) * 4)


def throughput(streams: Streams, order: Sequence[int], buckets: Sequence[int], interval: float, rows: int) -> float:
    """Rows per second of processor time, by the median, once the windows are full."""
    rates, fill = [], 2 * max(streams.ticks)
    for _ in range(REPEATS):
        join = streams.multijoin(order, buckets, interval, fill + rows)
        join.run(fill)
        began = time.process_time()
        join.run(fill + rows)
        rates.append(rows / (time.process_time() - began))
    return median(rates)


def table_8() -> dict[str, tuple[float, float]]:
    """Rows per second of the best and of the worst order."""
    found = {}
    for name, buckets in (("nested loop", 1), ("hash", 5)):
        for interval in (0, 5, 10):
            label = f"{'lazy' if interval else 'eager'} {name}" + (f", tau = {interval}" if interval else "")
            best, worst = (throughput(TABLE_5, o, [buckets] * 4, interval, 5_000 * buckets) for o in (BEST, WORST))
            found[label] = best, worst
    return found


def figure_4a() -> dict[str, list[float]]:
    kinds = {"nested loop": 1, "hash, 2 buckets": 2, "hash, 10 buckets": 10, "hash, 30 buckets": 30}
    return {
        name: [throughput(EQUAL, BEST, [b] * 4, interval, 20_000) for interval in INTERVALS]
        for name, b in kinds.items()
    }


def figure_4b() -> dict[str, list[tuple[float, float]]]:
    """(mean buckets, rows per second); the fast stream has all buckets that the slow ones leave."""
    lines: dict[str, list[tuple[float, float]]] = {}
    for name, slow in SLOW_BUCKETS.items():
        for mean in MEAN_BUCKETS:
            fast = mean if slow is None else 4 * mean - 3 * slow
            if fast >= 1:
                buckets = [slow or mean] * 3 + [fast]
                lines.setdefault(name, []).append((mean, throughput(FAST_FOURTH, BEST, buckets, 5, 20_000)))
    return lines


def counted_orders() -> dict[str, tuple[float, float]]:
    """For every order of Table 5: comparisons per unit of time as predicted, and as counted in a nested-loop join."""
    windows = zip(TABLE_5.rates, TABLE_5.windows, TABLE_5.distinct, strict=True)
    statistics = JoinStatistics(tuple(time_window(*w) for w in windows))
    found, fill, rows = {}, 2 * max(TABLE_5.ticks), 30_000
    for order in permutations(range(4)):
        join = TABLE_5.multijoin(order, [1] * 4, 0, fill + rows)
        join.run(fill)
        counted = join.run(fill + rows).comparisons * TABLE_5.unit / rows
        predicted = multiway_cost(statistics, JoinGraph.on_common_key(4), order, EAGER)
        found["".join(str(s + 1) for s in order)] = predicted, counted
    return found


class EngineRun:
    """Table 5 in the engine; event times are arrival numbers. Without an order, it follows the data."""

    def __init__(
        self, streams: Streams, order: Sequence[int] | None, algorithm: str, options: Mapping[str, str], rows: int
    ) -> None:
        self.streams, self.at = streams, 0
        self.rows = arrivals(streams.rates, streams.distinct, rows, seed=8)
        self.db = eddyline.connect()
        for s in range(4):
            self.db.execute(f"CREATE STREAM s{s} (k BIGINT, id BIGINT, ts TIMESTAMP) WATERMARK ts")
        sources = ", ".join(f"s{s} [RANGE {streams.ticks[s]} MILLISECONDS]" for s in range(4))
        given = {"join": algorithm} | dict(options)
        if order is not None:
            given["order"] = ", ".join(f"s{s}" for s in order)
        listed = ", ".join(f"{name} = '{value}'" for name, value in given.items())
        self.db.execute(
            f"CREATE QUERY FAMILY f WITH ({listed}) AS SELECT s0.id AS i0, s1.id AS i1, s2.id AS i2, s3.id AS i3 "
            f"FROM {sources} WHERE s0.k = s1.k AND s1.k = s2.k AND s2.k = s3.k"
        )
        self.db.register("f", pa.table({"query": ["q"]}))

    @property
    def compared(self) -> int:
        """Comparisons so far."""
        operators = (o for running in self.db.engine.running.values() for o in running.root.walk())
        return sum(o.stems.counts.comparisons for o in operators if isinstance(o, StemJoin))

    def push(self, until: int, batch: int) -> tuple[float, int, int]:
        """Pushes rows up to an arrival number: CPU seconds until counted, the number of results and their hash."""
        seconds, results, hashed = 0.0, 0, 0
        while self.at < until:
            end = min(self.at + batch, until)
            given = {}
            for s in np.unique(self.rows.stream[self.at : end]).tolist():
                ids = self.at + np.nonzero(self.rows.stream[self.at : end] == s)[0]
                ts = pa.array(1000 * ids, pa.timestamp("us"))
                given[f"s{s}"] = pa.table({"k": self.rows.key[ids], "id": ids, "ts": ts})
            began = time.process_time()
            changes = self.db.push(given)
            changes.count()
            seconds += time.process_time() - began
            results, hashed = self._add(changes, results, hashed)
            self.at = end
        return seconds, results, hashed

    def evaluate_rest(self) -> tuple[int, int]:
        """Results of the rows that have been collected and not evaluated, and their hash."""
        later = datetime(1970, 1, 1) + timedelta(milliseconds=self.at + max(self.streams.ticks))
        return self._add(self.db.advance(later), 0, 0)

    @staticmethod
    def _add(changes: eddyline.Changes, results: int, hashed: int) -> tuple[int, int]:
        table = changes.rows("f")
        chosen = np.stack([table.column(f"i{s}").to_numpy() for s in range(4)])
        return results + table.num_rows, (hashed + hash_of_results(chosen)) % 2**64


def counted_in_engine(predicted: Mapping[str, tuple[float, float]]) -> tuple[dict[str, tuple[float, float]], int]:
    """For every order of Table 5: comparisons per unit of time as predicted, and as counted in the engine's nested-loop
    join; and how many orders gave other results than the yardstick."""
    counted, wrong, fill, rows = {}, 0, 2 * max(TABLE_5.ticks), 30_000
    for order in permutations(range(4)):
        name = "".join(str(s + 1) for s in order)
        run = EngineRun(TABLE_5, order, "nested loop", {}, fill + rows)
        yardstick = TABLE_5.multijoin(BEST, [50] * 4, 0, fill + rows)
        run.push(fill, COUNTED_BATCH)
        yardstick.run(fill)
        before = run.compared
        _, results, hashed = run.push(fill + rows, COUNTED_BATCH)
        expected = yardstick.run(fill + rows)
        wrong += (expected.results, expected.hash) != (results, hashed)
        counted[name] = predicted[name][0], (run.compared - before) * TABLE_5.unit / rows
    return counted, wrong


def in_engine(options: Mapping[str, str]) -> tuple[dict[tuple[str, str, int], float], int]:
    """Rows per second of each way to run Table 5: by algorithm, order and rows a push; and how many of them gave other
    results than the yardstick."""
    rates, wrong, streams = dict[tuple[str, str, int], float](), 0, TABLE_5.faster(SCALE)
    fill, batch = max(streams.ticks), hundredth(streams)
    pushes = ((1, 200), (batch, 40 * batch))
    end = fill + sum(rows for _, rows in pushes)
    for algorithm, name in RUNS:
        run = EngineRun(streams, ORDERS[name], algorithm, options, end)
        expected = streams.multijoin(BEST, [50] * 4, 0, end)
        run.push(fill, batch)
        expected.run(fill)
        for size, rows in pushes:
            seconds, results, hashed = run.push(run.at + rows, size)
            counted = expected.run(run.at)
            wrong += (counted.results, counted.hash) != (results, hashed)
            rates[algorithm, name, size] = rows / seconds
    return rates, wrong


def lazily() -> tuple[dict[str, float], int]:
    """Rows per second of a hash join in the best order, evaluated every hundredth of the window, by rows a push; and
    how many of these runs gave other results than the yardstick."""
    rates, wrong, streams = dict[str, float](), 0, TABLE_5.faster(SCALE)
    fill, batch = max(streams.ticks), hundredth(streams)
    end = fill + 40 * batch
    expected = streams.multijoin(BEST, [50] * 4, 0, end).run(end)
    ways = {"evaluated at once": ({}, 1)} | {
        f"evaluated every {batch} rows, {size} a push": ({"evaluate": f"{batch} milliseconds"}, size)
        for size in (1, batch // 10, batch)
    }
    for name, (options, size) in (ways | {"never evaluated": ({"evaluate": "10 hours"}, 1)}).items():
        run = EngineRun(streams, BEST, "hash", options, end)
        _, *before = run.push(fill, batch)
        seconds, *after = run.push(end, size)
        rates[name] = (end - fill) / seconds
        if name in ways:
            counted = [sum(x) for x in zip(before, after, run.evaluate_rest(), strict=True)]
            wrong += (expected.results, expected.hash) != (counted[0], counted[1] % 2**64)
    return rates, wrong


def lazy_figures(rates: Mapping[str, float]) -> list[Figure]:
    seconds = {name: 1 / rate for name, rate in rates.items()}
    eager, alone = seconds["evaluated at once"], seconds["never evaluated"]
    figures = [Figure(f"engine, one row a push unless said: {name}", r, "rows/s") for name, r in rates.items()]
    for name in [n for n in rates if n.startswith("evaluated every")]:
        figures.append(Figure(f"engine: {name}, against one row at a time", eager / seconds[name], "times"))
        if name.endswith(" 1 a push"):
            gain = (eager - alone) / (seconds[name] - alone)
            figures.append(Figure("engine: the same, without what a push costs that evaluates nothing", gain, "times"))
    return figures


def hundredth(streams: Streams) -> int:
    """Rows of all streams in a hundredth of the shortest window."""
    return round(BATCH * min(streams.ticks))


def main(options: Mapping[str, str] | None = None) -> bool:
    throughput(EQUAL, BEST, [2] * 4, 1, 100)  # compiles
    orders, table, by_interval, by_buckets = counted_orders(), table_8(), figure_4a(), figure_4b()
    in_product, other = counted_in_engine(orders)
    engine, wrong = in_engine(options or {})
    lazy, wrong_lazily = lazily()
    figures = [
        Figure(f"Table 5, 24 orders, {name}: counted comparisons against predicted, off by at most", off(of), "%", 10)
        for name, of in (("as printed", orders), ("in the engine", in_product))
    ]
    figures += [
        *(
            Figure(f"Table 8: {name}, {which} order", rate, "rows/s")
            for name, both in table.items()
            for which, rate in zip(("best", "worst"), both, strict=True)
        ),
    ]
    best, worst = table["eager nested loop"]
    figures += [
        Figure("Table 8: best against worst order, eager nested loop", best / worst, "times", least=4),
        Figure("Table 8: hash with 5 buckets against nested loop, best order", table["eager hash"][0] / best, "times"),
        Figure("Figure 4(a): hash with 30 buckets against nested loop, at best", _gain(by_interval), "times", least=5),
        *(Figure(f"engine: {a}, {o} order, {n:,} rows a push", rate, "rows/s") for (a, o, n), rate in engine.items()),
        Figure("engine: runs with other results than the yardstick", wrong + wrong_lazily + other, "", 0),
        *lazy_figures(lazy),
    ]
    batch = hundredth(TABLE_5.faster(SCALE))
    for algorithm in ("hash", "nested loop"):
        one, many = (engine[algorithm, "best", n] for n in (1, batch))
        least = 20 if algorithm == "hash" else None
        figures.append(Figure(f"engine: {algorithm}, {batch} rows a push against 1", many / one, "times", least=least))
        best, worst, chosen = (engine[algorithm, o, batch] for o in ORDERS)
        least = 4 if algorithm == "nested loop" else None
        figures += [
            Figure(f"engine: {algorithm}, best against worst order", best / worst, "times", least=least),
            Figure(f"engine: {algorithm}, the order it chooses against the best", chosen / best, "times"),
        ]
    hashed, scanned = (engine[a, "best", batch] for a in ("hash", "nested loop"))
    figures.append(Figure(f"engine: hash against nested loop, {batch} rows a push", hashed / scanned, "times", least=5))
    units = [float(i) for i in INTERVALS]
    panels = [
        Panel(
            "Four equal windows (Figure 4a); 0 is eager",
            "tau",
            "rows/s",
            {n: (units, r) for n, r in by_interval.items()},
        ),
        Panel(
            "A fourth stream 50 times as fast, tau = 5 (Figure 4b)",
            "mean buckets",
            "rows/s",
            {n: ([x for x, _ in points], [y for _, y in points]) for n, points in by_buckets.items()},
        ),
        Panel(
            "Comparisons of the 24 orders of Table 5",
            "predicted",
            "counted",
            {
                name: ([p for p, _ in sorted(of.values())], [c for _, c in sorted(of.values())])
                for name, of in (("as printed", orders), ("in the engine", in_product))
            },
        ),
    ]
    draw("multijoin-run", panels)
    series = {"table 8": table, "tau": INTERVALS, "figure 4a": by_interval, "figure 4b": by_buckets}
    table_5 = {"table 5 (predicted, counted)": orders, "table 5 in the engine (predicted, counted)": in_product}
    rates = {f"{a}, {o} order, {n} rows a push": rate for (a, o, n), rate in engine.items()}
    return report("multijoin-run", figures, series | table_5 | {"engine": rates, "lazily": lazy})


def off(orders: Mapping[str, tuple[float, float]]) -> float:
    """The largest difference between what was counted and what was predicted, in percent."""
    return 100 * max(abs(counted / predicted - 1.0) for predicted, counted in orders.values())


def _gain(by_interval: dict[str, list[float]]) -> float:
    return max(by_interval["hash, 30 buckets"]) / max(by_interval["nested loop"])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--evaluate", help="how often the engine evaluates the join, such as '5 seconds'")
    parser.add_argument("--expire", help="how often the engine expires rows")
    given = {name: value for name, value in vars(parser.parse_args()).items() if value is not None}
    sys.exit(0 if main(given) else 1)

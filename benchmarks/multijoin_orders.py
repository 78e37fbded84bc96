"""Document 2, Figures 2 and 3 and Tables 5 to 7: costs of multi-way window joins and of their orders, by the formulas.

Costs are comparisons per unit of time. Figure 2 joins 2 to 6 equal windows eagerly, in the naive way and with new rows
first. Figure 3 joins four windows every tau units of time, each algorithm with its best order: (a) equal windows,
(b) a fourth stream that is ten times as fast. The tables cost all 24 orders of four streams, and the heuristic's.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations

from benchmarks._chart import Panel, draw
from benchmarks._report import Figure, report
from benchmarks.yardsticks.document_windows import time_window
from benchmarks.yardsticks.general_orders import general_orders
from eddyline.routing.global_orders import heuristic_order
from eddyline.routing.join_graph import EAGER, JoinGraph, JoinStatistics, Schedule
from eddyline.routing.route_search import join_cost, multiway_cost

Streams = Sequence[tuple[float, float, float]]  # rate, window length and distinct values of each

WINDOWS = range(2, 7)
INTERVALS = (1, 2, 5, 10, 15, 20, 25, 30, 35, 40, 45, 50)
PLAIN = (1, 100, 50)
EQUAL, FAST_FOURTH = [PLAIN] * 4, [PLAIN] * 3 + [(10, 100, 50)]


@dataclass(frozen=True)
class Table:
    """A table of the document: its streams, and the costs that it or its derivation gives to orders."""

    streams: Streams
    named: dict[str, float]
    best: float
    worst: float
    mean: float | None = None


TABLES = {
    5: Table(
        [(10, 100, 500), (1, 100, 50), (1, 200, 40), (3, 100, 5)], {"1234": 16_000, "2134": 19_600}, 16_000, 86_850
    ),
    6: Table(
        [(100, 100, 200), (1, 100, 200), (1, 100, 20), (3, 100, 2)],
        {"2134": 80_400, "1234": 120_000, "2314": 123_150, "2341": 248_450},
        80_400,
        646_050,
    ),
    7: Table(
        [(11, 100, 200), (10, 100, 100), (1, 100, 65), (1, 100, 20)],
        {"3142": 47_977, "4132": 47_977, "3412": 49_542, "3124": 51_954, "1234": 68_200, "2134": 79_000},
        47_977,
        79_000,
        63_362,
    ),
}


def joined(streams: Streams) -> tuple[JoinStatistics, JoinGraph]:
    return JoinStatistics(tuple(time_window(*s) for s in streams)), JoinGraph.on_common_key(len(streams))


def best_costs(streams: Streams, interval: float) -> dict[str, float]:
    """The cost of each lazy algorithm with its best orders."""
    statistics, graph = joined(streams)
    schedule, orders = Schedule.every(interval), list(permutations(range(len(streams))))
    return {
        "naive": min(join_cost(statistics, graph, [o] * len(streams), schedule) for o in orders),
        "lazy": min(multiway_cost(statistics, graph, o, schedule) for o in orders),
        "general": join_cost(statistics, graph, general_orders(statistics, graph, schedule), schedule),
    }


def by_windows() -> dict[str, list[float]]:
    """Figure 2: the costs of the eager algorithms."""
    costs: dict[str, list[float]] = {"naive": [], "multi-way": []}
    for n in WINDOWS:
        statistics, graph = joined([PLAIN] * n)
        costs["naive"].append(join_cost(statistics, graph, [range(n)] * n, EAGER))
        costs["multi-way"].append(multiway_cost(statistics, graph, range(n), EAGER))
    return costs


def by_interval(streams: Streams) -> dict[str, list[float]]:
    """Figure 3: the costs of the lazy algorithms."""
    costs = [best_costs(streams, interval) for interval in INTERVALS]
    return {name: [c[name] for c in costs] for name in costs[0]}


def order_costs(table: Table) -> dict[str, float]:
    """All orders, as "1234", by ascending cost."""
    statistics, graph = joined(table.streams)
    costs = {
        "".join(str(i + 1) for i in order): multiway_cost(statistics, graph, order, EAGER)
        for order in permutations(range(len(table.streams)))
    }
    return dict(sorted(costs.items(), key=lambda item: item[1]))


def exactly(claim: str, measured: float, value: float) -> Figure:
    """A figure that must be this number, rounded as it is printed."""
    return Figure(claim, round(measured), "comparisons", value, value)


def table_figures(number: int, table: Table, costs: dict[str, float]) -> list[Figure]:
    statistics, graph = joined(table.streams)
    chosen = "".join(str(i + 1) for i in heuristic_order(statistics, graph))
    figures = [exactly(f"Table {number}: order {o}", costs[o], c) for o, c in table.named.items()]
    figures += [
        exactly(f"Table {number}: best of 24 orders", min(costs.values()), table.best),
        exactly(f"Table {number}: worst of 24 orders", max(costs.values()), table.worst),
    ]
    if table.mean is not None:
        figures.append(exactly(f"Table {number}: mean of 24 orders", sum(costs.values()) / len(costs), table.mean))
    against = costs[chosen] / min(costs.values())
    return [
        *figures,
        Figure(f"Table {number}: the heuristic's order {chosen} against the best", against, "times", 1.0001),
    ]


def main() -> bool:
    eager, equal, fast = by_windows(), by_interval(EQUAL), by_interval(FAST_FOURTH)
    tables = {number: order_costs(table) for number, table in TABLES.items()}
    figures = [f for number, costs in tables.items() for f in table_figures(number, TABLES[number], costs)]
    figures.append(Figure("Table 5: rank of order 2134", [*tables[5]].index("2134") + 1, "", 5, 5))
    expected = {"lazy": (20_450, 61_800), "general": (20_450, 57_600), "naive": (58_307, 57_900)}
    for name, (first, last) in expected.items():
        figures.append(exactly(f"Figure 3(b): {name}, tau = 1", fast[name][0], first))
        figures.append(exactly(f"Figure 3(b): {name}, tau = 50", fast[name][-1], last))
    ratios = [n / m for n, m in zip(eager["naive"], eager["multi-way"], strict=True)]
    figures += [
        Figure(f"Figure 2: naive, {n} windows", r, "times multi-way") for n, r in zip(WINDOWS, ratios, strict=True)
    ]
    worst = max(g / min(lz, n) for g, lz, n in zip(fast["general"], fast["lazy"], fast["naive"], strict=True))
    figures.append(Figure("Figure 3(b): general against the better of the others, at worst", worst, "times", 1.0001))
    x, tau = [float(n) for n in WINDOWS], [float(t) for t in INTERVALS]
    unit = "comparisons per unit of time"
    panels = [
        Panel(
            "Eager joins of equal windows (Figure 2)", "windows", unit, {n: (x, c) for n, c in eager.items()}, "log y"
        ),
        Panel("Lazy joins of four equal windows (Figure 3a)", "tau", unit, {n: (tau, c) for n, c in equal.items()}),
        Panel(
            "Lazy joins, the fourth stream 10 times as fast (3b)", "tau", unit, {n: (tau, c) for n, c in fast.items()}
        ),
        Panel(
            "All orders, as multiples of the best (Tables 5 to 7)",
            "rank of the order",
            "times the best",
            {
                f"Table {number}": ([*map(float, range(1, 25))], [c / min(costs.values()) for c in costs.values()])
                for number, costs in tables.items()
            },
        ),
    ]
    draw("multijoin-orders", panels)
    series = {
        "windows": list(WINDOWS),
        "figure 2": eager,
        "tau": INTERVALS,
        "figure 3a": equal,
        "figure 3b": fast,
        "tables": {str(number): costs for number, costs in tables.items()},
    }
    return report("multijoin-orders", figures, series)


if __name__ == "__main__":
    sys.exit(0 if main() else 1)

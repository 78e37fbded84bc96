"""Document 1, Table 4 and Figure 9: tickets over time as queries come; and a stream whose selectivities are reversed.

Each of the five queries of a workload comes 10,000 tuples after the one before; tuples come 100 at a time. A filter's
share of all tickets is what the eddy thinks of it. The order has settled when it stays as it is until the next query
comes.
"""

from __future__ import annotations

import sys

import numpy as np

import eddyline
from benchmarks._chart import Panel, draw
from benchmarks._report import Figure, report
from benchmarks.cacq_routing import PREDICATES, STREAM, connection, entered, tuples

WORKLOADS = {
    "workload 1": ["a > 30", "b > 50", "c > 10", "d > 40", "e > 90"],
    "workload 2": [" AND ".join(f"{n} > 10" for n in "abcde"[: k + 1]) for k in range(5)],
    "workload 3": [" AND ".join(f"{n} > {10 + 20 * i}" for i, n in enumerate("abcde"[: k + 1])) for k in range(5)],
}
BETWEEN, BATCH = 10_000, 100
Shares = dict[str, list[float]]


def shares(db: eddyline.Connection) -> tuple[dict[str, float], list[str]]:
    """By attribute the share of tickets, and the order in force."""
    tickets: dict[str, float] = {}
    pool = db.engine.pools.get("s")
    for run in pool.runs if pool else ():
        for maps in run.routed.filter.maps:
            for i, predicates in zip(maps.attributes.tolist(), maps.predicates.tolist(), strict=True):
                name = "abcde"[run.attributes[i]]
                if predicates and run.routed.eddy.account(i).rows:
                    tickets[name] = tickets.get(name, 0.0) + run.routed.eddy.account(i).tickets
    total = sum(tickets.values()) or 1.0
    return {n: x / total for n, x in tickets.items()}, sorted(tickets, key=lambda n: -tickets[n])


def adapt(queries: list[str], rng: np.random.Generator) -> tuple[Shares, int]:
    """The shares over time, and the most tuples after which an order settled once a query had come."""
    db = eddyline.connect(threads=1)
    db.execute(STREAM)
    over_time: Shares = {n: [] for n in "abcde"}
    slowest = 0
    for i, where in enumerate(queries):
        db.execute(f"CREATE CONTINUOUS QUERY q{i} AS SELECT i FROM s WHERE {where}")
        orders = []
        for _ in range(BETWEEN // BATCH):
            db.push("s", tuples(BATCH, rng)).count()
            found, order = shares(db)
            orders.append(order)
            for n in "abcde":
                over_time[n].append(100 * found.get(n, 0.0))
        differing = [k for k, order in enumerate(orders) if order[:1] != orders[-1][:1]]
        slowest = max(slowest, BATCH * (differing[-1] + 2) if differing else BATCH)
    return over_time, slowest


def drift(rng: np.random.Generator) -> tuple[list[float], int]:
    """Filters entered by a tuple, batch by batch, with selectivities reversed in the middle; tuples until re-ordered.

    All five queries have all five predicates, so the best order is by selectivity alone, before and after."""
    db = connection([" AND ".join(PREDICATES)] * 5)
    visits, before = [], 0
    for i in range(2 * BETWEEN // BATCH):
        db.push("s", tuples(BATCH, rng, turned=i >= BETWEEN // BATCH)).count()
        now = entered(db)
        visits.append((now - before) / BATCH)
        before = now
    late = visits[BETWEEN // BATCH :]
    settled = float(np.mean(late[len(late) // 2 :]))
    above = [k for k, v in enumerate(late) if v > 1.25 * settled]
    return visits, BATCH * ((above[-1] + 1) if above else 0)


def main() -> bool:
    import eddyline.engine.pooling as host

    host.FEWEST_FAMILIES = 1  # the first query alone has a filter too
    rng = np.random.default_rng(2)
    panels, figures = [], []
    series: dict[str, Shares | list[float]] = {}
    for name, queries in WORKLOADS.items():
        found, slowest = adapt(queries, rng)
        x = [BATCH * (i + 1.0) for i in range(len(found["a"]))]
        marks = [BETWEEN * (i + 1.0) for i in range(4)]
        lines = {f"S.{n}": (x, y) for n, y in found.items()}
        panels.append(Panel(f"Share of tickets, {name} (Figure 9)", "tuples", "% of tickets", lines, marks=marks))
        figures.append(Figure(f"{name}: tuples until the first filter is the final one", slowest, "tuples", 2000))
        series[name] = found
    visits, settled = drift(rng)
    x = [BATCH * (i + 1.0) for i in range(len(visits))]
    title = "Filters entered by a tuple; the selectivities of five filters are reversed in the middle"
    panels.append(Panel(title, "tuples", "filters", {"tickets": (x, visits)}, marks=[float(BETWEEN)]))
    half = len(visits) // 2
    figures += [
        Figure("drift: filters entered before", float(np.mean(visits[half // 2 : half])), "filters", 1.3),
        Figure("drift: filters entered in the end", float(np.mean(visits[-half // 2 :])), "filters", 1.3),
        Figure("drift: tuples until it is re-ordered", settled, "tuples", 5000),
    ]
    series["drift"] = visits
    draw("cacq-adaptivity", panels)
    return report("cacq-adaptivity", figures, series)


if __name__ == "__main__":
    sys.exit(0 if main() else 1)

"""Document 1, Table 4 and Figure 9: orders as queries come, against the best of all orders; and reversed selectivities.

Each of the five queries of a workload comes 10,000 tuples after the one before; tuples come 100 at a time. After each
query, the filters that the engine enters are compared with the best of all orders on the same tuples, over every 1,000
tuples. Every new filter starts with the attributes in reverse, which is the worst order of workload 3. Document 1's
tickets choose orders on the same bitmaps and tuples: Figure 9 shows their shares.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field

import numpy as np

from benchmarks._chart import Panel, draw
from benchmarks._filter_orders import by_order, codes_of, entered_by
from benchmarks._report import Figure, report
from benchmarks.cacq_routing import PREDICATES, connection, pool_names, pool_run, tuples
from benchmarks.yardsticks.ticket_order import TicketOrder
from eddyline.index.filters.bitmaps import Bitmaps
from eddyline.routing.filter_eddy import FilterEddy, Lookups

WORKLOADS = {
    "workload 1": ["a > 30", "b > 50", "c > 10", "d > 40", "e > 90"],
    "workload 2": [" AND ".join(f"{n} > 10" for n in "abcde"[: k + 1]) for k in range(5)],
    "workload 3": [" AND ".join(f"{n} > {10 + 20 * i}" for i, n in enumerate("abcde"[: k + 1])) for k in range(5)],
}
BETWEEN, BATCH = 10_000, 100
WINDOW = 10  # batches over which a policy is compared with the best order
NEAR = 1.1


@dataclass
class Adapted:
    """Filters entered by a tuple, batch by batch, and by attribute the share of tickets in percent."""

    engine: list[float] = field(default_factory=list)
    tickets: list[float] = field(default_factory=list)
    best: list[float] = field(default_factory=list)
    shares: dict[str, list[float]] = field(default_factory=lambda: {n: [] for n in "abcde"})
    settled: list[int] = field(default_factory=list)  # by query: tuples until the engine stays near the best order
    lookups: list[tuple[float, float]] = field(default_factory=list)  # by query, of a tuple: for searches, for samples


def adapt(queries: list[str], rng: np.random.Generator) -> Adapted:
    found, db = Adapted(), connection([])
    for i, where in enumerate(queries):
        db.execute(f"CREATE CONTINUOUS QUERY q{i} AS SELECT i FROM s WHERE {where}")
        given = [tuples(BATCH, rng) for _ in range(BETWEEN // BATCH)]
        engine, before = [], 0
        for batch in given:
            db.push("s", batch).count()
            now = int(pool_run(db).routed.eddies[0].entered.sum())
            engine.append((now - before) / BATCH)
            before = now
        run, names = pool_run(db), pool_names(db)
        (maps,), (eddy,) = run.routed.filter.maps, run.routed.eddies
        codes = [codes_of(run, names, batch) for batch in given]
        orders = by_order(maps, np.concatenate(codes, axis=1))
        best_order = np.array(min(orders, key=lambda p: orders[p]))
        best = [entered_by(maps, c, best_order) / BATCH for c in codes]
        tickets = TicketOrder(maps)
        own = [names[run.attributes[a]] for a in maps.attributes.tolist()]
        for c in codes:
            found.tickets.append(entered_by(maps, c, tickets.learn(c)) / BATCH)
            shares = dict(zip(own, tickets.shares(), strict=True))
            for n in "abcde":
                found.shares[n].append(100 * shares.get(n, 0.0))
        found.engine += engine
        found.best += best
        found.settled.append(settled(engine, best))
        searched = int(run.routed.lookups.sum()) - eddy.sampled
        found.lookups.append((searched / BETWEEN, eddy.sampled / BETWEEN))
    return found


def settled(entered: list[float], best: list[float]) -> int:
    """After how many tuples every window stays near the best order."""
    windows = range(len(entered) - WINDOW + 1)
    far = [k for k in windows if sum(entered[k : k + WINDOW]) > NEAR * sum(best[k : k + WINDOW])]
    return BATCH * (far[-1] + 1) if far else 0


def drift(rng: np.random.Generator) -> tuple[list[float], list[float], int]:
    """Filters entered by a tuple and in the best order, with selectivities reversed in the middle; tuples until near.

    All five queries have all five predicates, so the best order is by selectivity alone, before and after."""
    db = connection([" AND ".join(PREDICATES)] * 5)
    given = [tuples(BATCH, rng, turned=i >= BETWEEN // BATCH) for i in range(2 * BETWEEN // BATCH)]
    visits, before = [], 0
    for batch in given:
        db.push("s", batch).count()
        now = int(pool_run(db).routed.eddies[0].entered.sum())
        visits.append((now - before) / BATCH)
        before = now
    run = pool_run(db)
    (maps,) = run.routed.filter.maps
    best: list[float] = []
    half = len(given) // 2
    for part in (given[:half], given[half:]):
        codes = [codes_of(run, pool_names(db), batch) for batch in part]
        orders = by_order(maps, np.concatenate(codes, axis=1))
        best_order = np.array(min(orders, key=lambda p: orders[p]))
        best += [entered_by(maps, c, best_order) / BATCH for c in codes]
    return visits, best, settled(visits[half:], best[half:])


def smooth(values: list[float]) -> list[float]:
    """Means over ten batches, for pictures."""
    return [float(np.mean(values[max(0, i - WINDOW + 1) : i + 1])) for i in range(len(values))]


def main() -> bool:
    import eddyline.engine.pooling as host

    host.FEWEST_FAMILIES = 1  # the first query alone has a filter too
    begin = FilterEddy.__init__

    def reversed_start(self: FilterEddy, maps: Bitmaps, lookups: Lookups | None = None) -> None:
        begin(self, maps, lookups)
        self.order = self.order[::-1].copy()

    FilterEddy.__init__ = reversed_start  # type: ignore[method-assign]
    rng = np.random.default_rng(2)
    panels, figures = [], []
    series: dict[str, object] = {}
    for name, queries in WORKLOADS.items():
        found = adapt(queries, rng)
        x = [BATCH * (i + 1.0) for i in range(len(found.engine))]
        marks = [BETWEEN * (i + 1.0) for i in range(4)]
        shares = {f"S.{n}": (x, y) for n, y in found.shares.items()}
        panels.append(Panel(f"Share of tickets, {name} (Figure 9)", "tuples", "% of tickets", shares, marks=marks))
        entered = {"in the engine": found.engine, "tickets": found.tickets, "the best of all orders": found.best}
        lines = {label: (x, smooth(y)) for label, y in entered.items()}
        panels.append(Panel(f"Filters entered by a tuple, {name}", "tuples", "filters", lines, marks=marks))
        last = slice(-BETWEEN // BATCH, None)
        engine, tickets, best = (float(np.mean(v[last])) for v in entered.values())
        limit = 3.0 if name == "workload 3" else None
        searches, samples = found.lookups[-1]
        figures += [
            Figure(
                f"{name}: tuples until within 1.1 times the best order, at most", max(found.settled), "tuples", 1000
            ),
            Figure(f"{name}, all queries: filters entered by a tuple", engine, "filters", limit),
            Figure(f"{name}, all queries: in the best of all orders", best, "filters"),
            Figure(f"{name}, all queries: by tickets", tickets, "filters"),
            Figure(f"{name}, all queries: times the best order", engine / best, "", NEAR),
            Figure(f"{name}, all queries: lookups of a tuple, for searches", searches, "lookups"),
            Figure(f"{name}, all queries: lookups of a tuple, for samples only", samples, "lookups"),
        ]
        series[name] = {
            "shares": found.shares,
            **entered,
            "tuples until near, by query": found.settled,
            "lookups by query": found.lookups,
        }
    visits, best_visits, until = drift(rng)
    x = [BATCH * (i + 1.0) for i in range(len(visits))]
    title = "Filters entered by a tuple; the selectivities of five filters are reversed in the middle"
    lines = {"in the engine": (x, visits), "the best of all orders": (x, best_visits)}
    panels.append(Panel(title, "tuples", "filters", lines, marks=[float(BETWEEN)]))
    half = len(visits) // 2
    figures += [
        Figure("drift: filters entered before", float(np.mean(visits[half // 2 : half])), "filters", 1.3),
        Figure("drift: filters entered in the end", float(np.mean(visits[-half // 2 :])), "filters", 1.3),
        Figure("drift: tuples until within 1.1 times the best order", until, "tuples", 3000),
    ]
    series["drift"] = {"engine": visits, "best": best_visits}
    draw("cacq-adaptivity", panels)
    return report("cacq-adaptivity", figures, series)


if __name__ == "__main__":
    sys.exit(0 if main() else 1)

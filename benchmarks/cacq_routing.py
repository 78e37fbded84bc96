"""Document 1, Table 3 and Figure 8: how many filters a tuple enters, by routing policy, all on the same tuples.

Five queries of one to five predicates, registered as texts, the longest first and its predicates from the least to the
most selective, so that the engine starts with the worst order. The other policies use the same bitmaps: the best of all
120 orders, document 1's tickets, a random order for every tuple, and all filters for every tuple. A lookup is a value
that was searched among the bounds of an attribute. The engine codes a batch attribute by attribute before it enters
filters, because a code costs less than a visit; it leaves an attribute out for some rows only where that saves time.
"""

from __future__ import annotations

import sys

import numpy as np
import pyarrow as pa

import eddyline
from benchmarks._chart import Panel, draw
from benchmarks._filter_orders import at_random, by_order, codes_of, entered_by
from benchmarks._report import Figure, report
from benchmarks.yardsticks.ticket_order import TicketOrder
from eddyline.operators.pool import PoolRun
from eddyline.plan.expressions import text, unwidened

PREDICATES = ("a > 90", "b > 70", "c > 50", "d > 30", "e > 10")
STREAM = "CREATE STREAM s (i INT, a INT, b INT, c INT, d INT, e INT, ts TIMESTAMP) WATERMARK ts"
TUPLES, BATCH = 50_000, 1000


def tuples(count: int, rng: np.random.Generator, turned: bool = False) -> pa.Table:
    """Random tuples of the source S; `turned` gives values from the other end, which reverses the selectivities."""
    columns = {"i": np.arange(count, dtype=np.int32)}
    for n in "abcde":
        columns[n] = rng.integers(0, 100, count).astype(np.int32)
    if turned:  # of a > 90, one in ten passes before and nine in ten then; of e > 10 the other way round
        shift = {"a": 80, "b": 40, "c": 0, "d": -40, "e": -80}
        columns |= {n: np.clip(columns[n] + k, 0, 99).astype(np.int32) for n, k in shift.items()}
    return pa.table(columns | {"ts": pa.array(np.zeros(count, np.int64), pa.timestamp("us"))})


def connection(conditions: list[str]) -> eddyline.Connection:
    """A connection with a query for each condition."""
    db = eddyline.connect(threads=1)
    db.execute(STREAM)
    for k, where in enumerate(conditions):
        db.execute(f"CREATE CONTINUOUS QUERY q{k} AS SELECT i FROM s WHERE {where}")
    return db


def pool_run(db: eddyline.Connection) -> PoolRun:
    (run,) = db.engine.pools["s"].runs
    return run


def pool_names(db: eddyline.Connection) -> str:
    """The columns that are the attributes of the pool, in its order."""
    return "".join(text(unwidened(a)) for a in db.engine.pools["s"].attributes)


def main() -> bool:
    rng = np.random.default_rng(1)
    db = connection([" AND ".join(reversed(PREDICATES[: k + 1])) for k in range(4, -1, -1)])
    given = [tuples(BATCH, rng) for _ in range(TUPLES // BATCH)]
    series, before = [], 0
    for batch in given:
        db.push("s", batch).count()
        now = int(pool_run(db).routed.eddies[0].entered.sum())
        series.append((now - before) / BATCH)
        before = now
    run = pool_run(db)
    (maps,), (eddy,) = run.routed.filter.maps, run.routed.eddies
    codes = [codes_of(run, pool_names(db), batch) for batch in given]
    whole = np.concatenate(codes, axis=1)
    orders = by_order(maps, whole)
    tickets = TicketOrder(maps)
    by_tickets = [entered_by(maps, c, tickets.learn(c)) / BATCH for c in codes]
    lookups = int(run.routed.lookups.sum())
    values = {
        "in the engine": before / TUPLES,
        "the best of all orders": min(orders.values()) / TUPLES,
        "tickets": float(np.mean(by_tickets)),
        "random order": at_random(maps, whole, rng) / TUPLES,
        "the worst of all orders": max(orders.values()) / TUPLES,
        "all of them": 5.0,
    }
    figures = [Figure(f"filters entered by a tuple: {name}", v, "filters") for name, v in values.items()]
    figures[0] = Figure("filters entered by a tuple: in the engine", values["in the engine"], "filters", 1.16)
    figures += [
        Figure("in the engine, the first 1,000 tuples", series[0], "filters"),
        Figure("lookups of a tuple: for searches", (lookups - eddy.sampled) / TUPLES, "lookups"),
        Figure("lookups of a tuple: for samples only", eddy.sampled / TUPLES, "lookups"),
        Figure("times the order was checked, on samples of 256 tuples", eddy.checks, ""),
    ]
    x = [float(BATCH * (i + 1)) for i in range(len(series))]
    lines = {"in the engine": (x, series), "tickets": (x, by_tickets)}
    for name in ("the best of all orders", "random order", "all of them"):
        lines[name] = ([x[0], x[-1]], [values[name], values[name]])
    draw("cacq-routing", [Panel("Filters entered by a tuple (Table 3, Figure 8)", "tuples", "filters", lines)])
    named = {"".join(pool_names(db)[run.attributes[i]] for i in p): n / TUPLES for p, n in orders.items()}
    return report("cacq-routing", figures, {"tuples": x, "engine": series, "tickets": by_tickets, "orders": named})


if __name__ == "__main__":
    sys.exit(0 if main() else 1)

"""Document 1, Table 3 and Figure 8: how many filters a tuple enters, by routing policy.

Five queries of one to five predicates, registered as texts. Tickets are what runs; the others are the same bitmaps with
another order: the best one known beforehand, a random one for every tuple, and all filters for every tuple.
"""

from __future__ import annotations

import sys

import numpy as np
import numpy.typing as npt
import pyarrow as pa

import eddyline
from benchmarks._chart import Panel, draw
from benchmarks._report import Figure, report
from eddyline.index.filters.bitmap_search import search_bitmaps
from eddyline.index.filters.boxes import MatchPairs
from eddyline.index.filters.domains import value_column
from eddyline.operators.pool import PoolRun

PREDICATES = ("a > 90", "b > 70", "c > 50", "d > 30", "e > 10")
STREAM = "CREATE STREAM s (i INT, a INT, b INT, c INT, d INT, e INT, ts TIMESTAMP) WATERMARK ts"
TUPLES = 50_000


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


def entered(db: eddyline.Connection) -> int:
    """How many filters all tuples together have entered, ever."""
    (run,) = db.engine.pools["s"].runs
    return sum(run.routed.eddy.account(i).entered for i in range(len(run.attributes)))


def by_order(run: PoolRun, columns: npt.NDArray[np.uint16], order: npt.NDArray[np.int64]) -> int:
    """Filters that some tuples enter together in a fixed order."""
    (maps,) = run.routed.filter.maps
    counts = np.zeros(columns.shape[1], np.int64)
    visits, _ = search_bitmaps(maps, columns, np.empty(0, np.bool_), order, counts, MatchPairs(), listing=False)
    return int(visits.sum())


def main() -> bool:
    rng = np.random.default_rng(1)
    db = connection([" AND ".join(PREDICATES[: k + 1]) for k in range(5)])
    series = []
    before = 0
    for _ in range(TUPLES // 1000):
        db.push("s", tuples(1000, rng)).count()
        total = entered(db)
        series.append((total - before) / 1000)
        before = total
    tickets = before / TUPLES
    (run,) = db.engine.pools["s"].runs
    given = tuples(5000, rng)
    codes = np.empty((5, 5000), np.uint16)
    for i, domain in enumerate(run.routed.filter.domains):
        domain.codes(value_column(given.column("abcde"[i]).combine_chunks()), codes[i])
    optimal = by_order(run, codes, np.arange(5)) / 5000
    at_random = sum(by_order(run, codes[:, i : i + 1], rng.permutation(5)) for i in range(5000)) / 5000
    figures = [
        Figure("filters entered by a tuple: tickets", tickets, "filters", 1.3),
        Figure("filters entered by a tuple: the best order, known beforehand", optimal, "filters"),
        Figure("filters entered by a tuple: random order", at_random, "filters", least=2.5),
        Figure("filters entered by a tuple: all of them", 5.0, "filters"),
    ]
    x = [1000.0 * (i + 1) for i in range(len(series))]
    lines = {"tickets": (x, series)}
    for name, value in (("best order", optimal), ("random order", at_random), ("all filters", 5.0)):
        lines[name] = ([x[0], x[-1]], [value, value])
    draw("cacq-routing", [Panel("Filters entered by a tuple (Table 3, Figure 8)", "tuples", "filters", lines)])
    return report("cacq-routing", figures, {"tuples": x, "tickets": series})


if __name__ == "__main__":
    sys.exit(0 if main() else 1)

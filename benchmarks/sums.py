"""SUM and AVG of doubles: what exact sums cost, in time and memory, against pairs of doubles that lose digits.

The yardstick keeps a sum as an unevaluated pair (high, low), with two-sum, as a careful engineer would who accepts that
digits are lost while extreme values are in a window. Both run in the same process, batch by batch in turn, over the
same rows; answers are checked equal where pairs are exact enough. Values: prices with two decimals; measurements of 12
orders of magnitude; prices of which 1 in 2,000 is 1e300; any doubles. CPU time of `push`, the least of all batches.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from numba import njit

import eddyline
from benchmarks._report import Figure, report
from eddyline.arrays import Doubles, Ints
from eddyline.operators import group_by
from eddyline.operators.counter_layout import Layout
from eddyline.operators.counters import Counters
from eddyline.operators.slots import grown
from eddyline.state.timeline import Events

ROWS, BATCHES, WARM = 6_000, 40, 10
JOIN_ROWS, JOIN_QUERIES, JOIN_TUPLES, JOIN_BATCHES = 20_000, 20_000, 1_000, 8
WORLD = "CREATE STREAM trades (symbol INT, price DOUBLE, ts TIMESTAMP) WATERMARK ts DELAY OF INTERVAL 0 SECONDS"
JOINED = """
CREATE STREAM r (a INT, b INT, ts TIMESTAMP) WATERMARK ts DELAY OF INTERVAL 0 SECONDS;
CREATE STREAM s (b INT, c INT, d DOUBLE, ts TIMESTAMP) WATERMARK ts DELAY OF INTERVAL 0 SECONDS;
CREATE QUERY FAMILY f (a1 INT, a2 INT, c1 INT, c2 INT) WITH (snapshot = 'no') AS
  SELECT {} AS v FROM r [RANGE 1 HOUR], s [RANGE 1 HOUR]
  WHERE r.b = s.b AND r.a BETWEEN :a1 AND :a2 AND s.c BETWEEN :c1 AND :c2
"""


# --- the yardstick ---------------------------------------------------------------------------------------------------


class Pairs:
    """Counters of groups whose sums are pairs of doubles."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.totals = np.zeros((0, layout.ints), np.int64)
        self.high, self.low = np.zeros((0, layout.floats)), np.zeros((0, layout.floats))

    def grow(self, slots: int) -> None:
        self.totals = grown(self.totals, slots, 0)
        self.high, self.low = grown(self.high, slots, 0.0), grown(self.low, slots, 0.0)

    def keep(self, used: npt.NDArray[np.bool_]) -> None:
        n = len(used)
        self.totals, self.high, self.low = self.totals[:n][used], self.high[:n][used], self.low[:n][used]

    def apply(self, events: Events) -> tuple[Ints, Ints, Doubles]:
        at, ints, floats = _accumulate(
            events.slot, events.time, events.ints, events.floats, self.totals, self.high, self.low
        )
        for c, divisor in enumerate(self.layout.divisors):
            if divisor >= 0:
                floats[:, c] /= np.maximum(ints[:, divisor], 1)
        return at, ints, floats


@njit(cache=True, nogil=True)
def _accumulate(
    slot: Ints, time: Ints, ints: Ints, floats: Doubles, totals: Ints, high: Doubles, low: Doubles
) -> tuple[Ints, Ints, Doubles]:
    n = len(slot)
    instants = 0
    for i in range(n):
        if i + 1 == n or slot[i + 1] != slot[i] or time[i + 1] != time[i]:
            instants += 1
    at = np.empty(instants, np.int64)
    after_ints = np.empty((instants, ints.shape[1]), np.int64)
    after_floats = np.empty((instants, floats.shape[1]), np.float64)
    g = 0
    for i in range(n):
        s = slot[i]
        for j in range(ints.shape[1]):
            totals[s, j] += ints[i, j]
        for j in range(floats.shape[1]):
            x, y = high[s, j], floats[i, j]
            total = x + y
            b = total - x
            rest = low[s, j] + ((x - (total - b)) + (y - b))
            high[s, j] = total + rest
            low[s, j] = rest - (high[s, j] - total)
        if i + 1 == n or slot[i + 1] != slot[i] or time[i + 1] != time[i]:
            if totals[s, 0] == 0:
                high[s, :] = 0.0
                low[s, :] = 0.0
            at[g] = i
            for j in range(ints.shape[1]):
                after_ints[g, j] = totals[s, j]
            for j in range(floats.shape[1]):
                after_floats[g, j] = high[s, j] + low[s, j]
            g += 1
    return at, after_ints, after_floats


# --- groups ----------------------------------------------------------------------------------------------------------


def prices(rng: np.random.Generator, n: int) -> Doubles:
    return np.round(rng.uniform(1, 1000, n), 2)


def measurements(rng: np.random.Generator, n: int) -> Doubles:
    return np.asarray(rng.normal(size=n) * 10.0 ** rng.integers(-6, 6, n))


def with_outliers(rng: np.random.Generator, n: int) -> Doubles:
    values = prices(rng, n)
    values[rng.integers(0, n, n // 2000)] = 1e300
    return values


def any_doubles(rng: np.random.Generator, n: int) -> Doubles:
    return np.asarray(rng.normal(size=n) * 10.0 ** rng.integers(-300, 300, n))


def grouping(items: str, window: str, counters: type) -> tuple[Any, Any]:
    """A connection with one grouping query, and the query's operator."""
    with patch.object(group_by, "Counters", counters):
        db = eddyline.connect(threads=1)
        db.execute(f"{WORLD}; CREATE CONTINUOUS QUERY q AS SELECT symbol, {items} FROM trades {window} GROUP BY symbol")
    (running,) = db.engine.running.values()
    return db, next(o for o in running.root.walk() if isinstance(o, group_by.GroupBy))


@dataclass(frozen=True)
class Workload:
    items: str
    values: Callable[[np.random.Generator, int], Doubles]
    groups: int
    window: str = "[RANGE 5 SECONDS]"


def compare(w: Workload) -> tuple[float, float, float, float]:
    """Microseconds a row with exact sums and with pairs; bytes a group that the sums take."""
    rng = np.random.default_rng(5)
    sides = [grouping(w.items, w.window, c) for c in (Counters, Pairs)]
    least = [float("inf")] * 2
    for i in range(BATCHES):
        ts = pa.array(i * 1_000_000 + np.sort(rng.integers(0, 1_000_000, ROWS)), pa.timestamp("us"))
        symbols = pa.array(rng.integers(0, w.groups, ROWS), pa.int32())
        rows = pa.table({"symbol": symbols, "price": w.values(rng, ROWS), "ts": ts})
        for side in (0, 1) if i % 2 else (1, 0):
            began = time.process_time()
            sides[side][0].push("trades", rows).count()
            if i >= WARM:
                least[side] = min(least[side], time.process_time() - began)
    if w.values is prices:
        _check(*(db.snapshot("q") for db, _ in sides))
    operator = sides[0][1]
    arrays = operator.counters.sums.arrays
    size = arrays.narrow[0].nbytes + arrays.wide_row[0].nbytes + arrays.wide.nbytes / len(operator.slots)
    return least[0] / ROWS * 1e6, least[1] / ROWS * 1e6, size, 16.0 * operator.layout.floats


def _check(exact: pa.Table, pairs: pa.Table) -> None:
    a, b = (t.sort_by("symbol") for t in (exact, pairs))
    for column in a.column_names:
        ours, theirs = (t.column(column).to_numpy() for t in (a, b))
        assert np.allclose(ours, theirs, rtol=1e-15, atol=0), column


GROUPS = {
    "SUM of prices, 1,000 groups": Workload("SUM(price) AS v", prices, 1_000),
    "SUM of prices, 50,000 groups": Workload("SUM(price) AS v", prices, 50_000),
    "SUM of prices, one group": Workload("SUM(price) AS v", prices, 1),
    "AVG of prices, 1,000 groups": Workload("AVG(price) AS v", prices, 1_000),
    "COUNT, SUM and AVG of prices, 1,000 groups": Workload(
        "COUNT(*) AS n, SUM(price) AS v, AVG(price) AS m", prices, 1_000
    ),
    "SUM of all prices, 1,000 groups": Workload("SUM(price) AS v", prices, 1_000, ""),
    "SUM of measurements, 1,000 groups": Workload("SUM(price) AS v", measurements, 1_000),
    "SUM of prices with outliers, 1,000 groups": Workload("SUM(price) AS v", with_outliers, 1_000),
    "SUM of any doubles, 1,000 groups": Workload("SUM(price) AS v", any_doubles, 1_000),
}


# --- joins over ranges -----------------------------------------------------------------------------------------------


def join(aggregate: str) -> float:
    """Microseconds a tuple."""
    rng = np.random.default_rng(3)
    db = eddyline.connect(threads=1)
    db.execute(JOINED.format(aggregate))
    a, c = rng.integers(0, 100_000, (2, JOIN_QUERIES))
    ends = {"a1": a, "a2": a + 10_000, "c1": c, "c2": c + 5_000}
    names = [f"q{i}" for i in range(JOIN_QUERIES)]
    db.register("f", pa.table({"query": names} | {n: v.astype(np.int32) for n, v in ends.items()}))
    columns = {"b": rng.integers(0, 1_000, JOIN_ROWS), "c": rng.integers(0, 100_000, JOIN_ROWS)}
    start = pa.array(np.zeros(JOIN_ROWS, np.int64), pa.timestamp("us"))
    rows = {n: v.astype(np.int32) for n, v in columns.items()} | {"d": prices(rng, JOIN_ROWS), "ts": start}
    db.push("s", pa.table(rows))
    least = float("inf")
    for i in range(JOIN_BATCHES):
        columns = {"a": rng.integers(0, 100_000, JOIN_TUPLES), "b": rng.integers(0, 1_000, JOIN_TUPLES)}
        ts = pa.array(np.full(JOIN_TUPLES, (i + 1) * 1_000_000), pa.timestamp("us"))
        began = time.process_time()
        db.push("r", pa.table({n: v.astype(np.int32) for n, v in columns.items()} | {"ts": ts})).count()
        least = min(least, time.process_time() - began)
    return least / JOIN_TUPLES * 1e6


def main() -> bool:
    figures = []
    compare(GROUPS["SUM of prices, 1,000 groups"])  # compiles
    for name, workload in GROUPS.items():
        exact, pairs, bytes_exact, bytes_pairs = compare(workload)
        figures += [
            Figure(f"{name}: a row, exact", exact, "µs"),
            Figure(f"{name}: time, as a share of pairs", exact / pairs, ""),
            Figure(f"{name}: sums of a group, exact", bytes_exact, "bytes"),
            Figure(f"{name}: sums of a group, pairs", bytes_pairs, "bytes"),
        ]
    join("COUNT(*)")
    for aggregate in ("COUNT(*)", "SUM(s.c)", "SUM(s.d)", "AVG(s.d)"):
        figures.append(Figure(f"range join, {aggregate}: a tuple", join(aggregate), "µs"))
    return report("sums", figures)


if __name__ == "__main__":
    sys.exit(0 if main() else 1)

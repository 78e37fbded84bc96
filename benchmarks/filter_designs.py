"""Designs of a grouped filter side by side: counting, access predicates, box trees, bitmaps, and the choice among them.

    counting            per attribute the ranges that hold the value; a query matches when all its ranges were counted
    access predicate    each query is found by its narrowest range alone, then all its ranges are checked
    box trees, bitmaps  the two structures of the engine, each forced to take all queries
    by estimate         what runs

All on one thread, matches counted only; brute force is by attribute.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np
import pyarrow as pa
from numba import njit

from benchmarks._chart import Panel, draw
from benchmarks._report import Figure, report
from benchmarks._workloads import KINDS, _by_attribute, best, connection, events, queries_of
from eddyline.arrays import Doubles, Ints
from eddyline.index.filters import grouped_filter as module
from eddyline.index.filters.domains import value_column

CELLS = 1024
QUERIES = (1_000, 10_000, 100_000)


def cells(low: Doubles, high: Doubles, spread: float, which: Ints) -> tuple[Ints, Ints]:
    """Ranges by the cells they reach: where each cell's begin, and the queries."""
    first = np.clip(low / spread * CELLS, 0, CELLS - 1).astype(np.int64)
    last = np.clip(high / spread * CELLS, 0, CELLS - 1).astype(np.int64)
    count = np.maximum(last - first + 1, 0)
    owner = np.repeat(which, count)
    at = np.arange(len(owner)) - np.repeat(np.cumsum(count) - count, count) + np.repeat(first, count)
    order = np.argsort(at, kind="stable")
    return np.searchsorted(at[order], np.arange(CELLS + 1)), owner[order]


@njit(nogil=True)
def _counting(
    starts: Ints, owners: Ints, base: Ints, low: Doubles, high: Doubles, needed: Ints, rows: Doubles, scale: float
) -> int:
    hits = np.zeros(len(needed), np.int64)
    touched = np.empty(len(needed) + 1, np.int64)
    total = 0
    free = 0
    for q in range(len(needed)):
        free += needed[q] == 0
    for r in range(len(rows)):
        n = 0
        for a in range(5):
            x = rows[r, a]
            cell = min(int(x * scale), 1023)
            for i in range(base[a] + starts[a, cell], base[a] + starts[a, cell + 1]):
                q = owners[i]
                if low[q, a] <= x <= high[q, a]:
                    if hits[q] == 0:
                        touched[n] = q
                        n += 1
                    hits[q] += 1
        for i in range(n):
            total += hits[touched[i]] == needed[touched[i]]
            hits[touched[i]] = 0
        total += free
    return total


@njit(nogil=True)
def _access(starts: Ints, owners: Ints, base: Ints, low: Doubles, high: Doubles, rows: Doubles, scale: float) -> int:
    total = 0
    for r in range(len(rows)):
        for a in range(5):
            cell = min(int(rows[r, a] * scale), 1023)
            for i in range(base[a] + starts[a, cell], base[a] + starts[a, cell + 1]):
                q = owners[i]
                held = True
                for b in range(5):
                    held &= (low[q, b] <= rows[r, b]) & (rows[r, b] <= high[q, b])
                total += held
    return total


def by_hand(kind: str, queries: int, rows: Doubles, design: str) -> Callable[[], int]:
    spread = 1.0 if kind == "F-sel" else 100.0
    low, high = (np.asarray(x, np.float64) for x in KINDS[kind][2](queries))
    bounded = (low > 0) | (high < (np.inf if kind == "F-sel" else 99)) if kind == "F" else np.isfinite(low)
    if design == "access predicate":
        narrowest = np.argmin(np.where(bounded, high - low, np.inf), axis=1)
        chosen = np.zeros_like(bounded)
        chosen[np.arange(queries), narrowest] = True
    else:
        chosen = bounded
    parts = [cells(low[c, a], high[c, a], spread, c) for a, c in ((a, np.nonzero(chosen[:, a])[0]) for a in range(5))]
    starts = np.stack([s for s, _ in parts])
    owners = np.concatenate([o for _, o in parts])
    base = np.cumsum([0, *(len(o) for _, o in parts)])[:-1]
    if design == "access predicate":
        return lambda: _access(starts, owners, base, low, high, rows, CELLS / spread)
    needed = bounded.sum(axis=1)
    return lambda: _counting(starts, owners, base, low, high, needed, rows, CELLS / spread)


FORCED = {
    "box trees": {"BLOCK_STEP": 1e12, "SMALLEST_TREE": 1},
    "bitmaps": {"SMALLEST_TREE": sys.maxsize},
    "by estimate": {},
}


def in_engine(kind: str, queries: int, given: pa.Table, design: str) -> Callable[[], int]:
    """The grouped filter of the family, made with constants that force a structure."""
    kept = {name: getattr(module, name) for name in FORCED[design]}
    for name, value in FORCED[design].items():
        setattr(module, name, value)
    try:
        db = connection(kind, threads=1)
        db.register("f", queries_of(kind, queries))
        db.push("s", given.slice(0, 10)).count()
        (running,) = db.engine.running.values()
        assert running.pool_filter is not None
        (run,) = running.pool_filter.matcher.index.runs.known
    finally:
        for name, value in kept.items():
            setattr(module, name, value)
    columns = [value_column(given.column(n).combine_chunks()) for n in "abcde"]

    def count() -> int:
        found = run.index.search(columns, len(given), np.empty(0, np.bool_), "counts")
        return int(found.counts.sum()) + found.pairs.used

    return count


def rates(kind: str, queries: int) -> dict[str, float]:
    rng = np.random.default_rng(7)
    given = events(kind, 4000, rng)
    rows = np.column_stack([given.column(n).to_numpy() for n in "abcde"]).astype(np.float64)
    low, high = (np.ascontiguousarray(x.T, np.float64) for x in KINDS[kind][2](queries))
    counts = np.zeros(400, np.int64)
    found = {"brute force": 400 / best(lambda: _by_attribute(low, high, rows[:400], counts), 3)}
    for design in ("counting", "access predicate"):
        few = rows if kind == "F-sel" else rows[:400]
        work = by_hand(kind, queries, few, design)
        work()
        found[design] = len(few) / best(work, 3)
    for design in FORCED:
        work = in_engine(kind, queries, given, design)
        work()
        found[design] = len(given) / best(work, 3)
    return found


def main() -> bool:
    panels, figures = [], []
    series: dict[str, dict[str, list[float]]] = {}
    for kind in KINDS:
        found = [rates(kind, n) for n in QUERIES]
        series[kind] = {design: [f[design] for f in found] for design in found[0]}
        lines = {design: (list(map(float, QUERIES)), y) for design, y in series[kind].items()}
        panels.append(Panel(f"Workload {kind}: events per second, one thread", "queries", "events/s", lines, "log"))
        others = max(v for d, v in found[-1].items() if d != "by estimate")
        figures += [Figure(f"{kind}, {QUERIES[-1]:,} queries: {d}", v, "events/s") for d, v in found[-1].items()]
        figures.append(
            Figure(f"{kind}: what runs, as a share of the best", found[-1]["by estimate"] / others, "", least=0.7)
        )
    draw("filter-designs", panels)
    return report("filter-designs", figures, {"queries": list(QUERIES)} | series)


if __name__ == "__main__":
    sys.exit(0 if main() else 1)

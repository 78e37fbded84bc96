"""Policies that order the attributes of a grouped filter, on random sets of queries: against the best of all orders.

300 sets of 1 to 60 queries over 3 to 6 attributes, of three kinds: predicates on any attributes, nested ones as in
document 1's tables, and selective ones. Each policy learns from 256 tuples; what counts are the filters entered by
2,000 others, relative to the order that is best for them.
"""

from __future__ import annotations

import sys

import numpy as np

from benchmarks._filter_orders import ALL_ALIVE, by_order, entered_by
from benchmarks._report import Figure, report
from benchmarks.yardsticks.ticket_order import TicketOrder
from eddyline.index.filters.bitmaps import Bitmaps, bitmaps
from eddyline.index.filters.clauses import CodeRanges
from eddyline.index.filters.order_search import better_order
from eddyline.index.filters.steps import steps_in

SETS, SIZE = 300, 101  # sets of queries, and codes of an attribute
LEARNT, TUPLES = 256, 2000


def random_queries(rng: np.random.Generator) -> Bitmaps:
    width, queries, kind = int(rng.integers(3, 7)), int(rng.choice([1, 2, 3, 5, 8, 20, 60])), int(rng.integers(0, 3))
    rows = []
    for query in range(queries):
        count = int(rng.integers(1, width + 1))
        chosen = np.arange(count) if kind == 1 else np.sort(rng.choice(width, count, replace=False))
        for a in chosen.tolist():
            low = int(rng.integers(80, 100)) if kind == 2 else int(rng.integers(1, 100))
            high = SIZE - 1 if rng.random() < 0.5 else min(SIZE - 1, low + int(rng.integers(0, 100)))
            rows.append((query, a, low, high))
    owner, attribute, low_end, high_end = np.array(rows).T
    ids = attribute.astype(np.int32)
    ends = low_end.astype(np.uint16), high_end.astype(np.uint16)
    ranges = CodeRanges(owner.astype(np.int32), np.zeros_like(ids), ids, ids, *ends)
    return bitmaps(np.arange(queries, dtype=np.int32), ranges, [SIZE] * width, np.ones(width, np.bool_))


def ratios(maps: Bitmaps, rng: np.random.Generator) -> tuple[float, float, float]:
    """Filters entered by the engine's order, by tickets and at a random order, relative to the best order."""
    width = len(maps.attributes)
    codes = rng.integers(1, SIZE, (len(maps.bin_of), LEARNT + TUPLES)).astype(np.uint16)
    sample, rest = np.ascontiguousarray(codes[:, :LEARNT]), np.ascontiguousarray(codes[:, LEARNT:])
    best = min(by_order(maps, rest).values())
    start = rng.permutation(width)
    learnt = better_order(maps, sample, steps_in(maps, start, ALL_ALIVE), np.ones(width)).order
    orders = (learnt, TicketOrder(maps).learn(sample), start)
    engine, tickets, random = (entered_by(maps, rest, order) / best for order in orders)
    return engine, tickets, random


def main() -> bool:
    rng = np.random.default_rng(9)
    found = np.array([ratios(random_queries(rng), rng) for _ in range(SETS)])
    figures = []
    for name, values, limits in zip(
        ("in the engine", "tickets", "random"), found.T, ((1.01, 1.1), (), ()), strict=True
    ):
        mean, most = limits or (None, None)
        figures += [
            Figure(f"{name}: filters entered, times the best order, mean", float(values.mean()), "", mean),
            Figure(f"{name}: in the worst of {SETS} sets of queries", float(values.max()), "", most),
        ]
    return report("filter-orders", figures, {"engine, tickets, random": found.tolist()})


if __name__ == "__main__":
    sys.exit(0 if main() else 1)

"""Document 1, Figure 4: throughput against the bits of lineage that a tuple carries, with five living queries.

There, room for 3,000 bits of state made tuples more than five times slower than room for 15, the least that five
queries over five attributes need: five ready bits, five done bits and five of queriesCompleted. Here the other slots
are those of dropped queries. A tuple has a set of 4,096 bits per block while it passes the block, and none is stored
with it: the throughput is the same up to 4,106 bits. It falls with 1 / bits beyond, which the last points show.
Times are CPU seconds of one thread.
"""

from __future__ import annotations

import sys
import time

import numpy as np
import pyarrow as pa

from benchmarks._chart import Panel, draw
from benchmarks._report import Figure, report
from eddyline.index.filters import grouped_filter as module
from eddyline.index.filters.clauses import Conditions, ValueRanges
from eddyline.index.filters.domains import value_column
from eddyline.index.filters.grouped_filter import grouped_filter
from eddyline.operators.query_index import RoutedFilter

ROUTING = 10  # the ready and done bits of five attributes
BITS = (15, 50, 100, 250, 500, 1000, 1500, 2000, 2500, 3000, 16_384, 65_536, 262_144)
PRINTED = 3000  # bits of the last point in document 1
ROWS, ROUNDS = 20_000, 21


def filter_of(slots: int) -> RoutedFilter:
    """Queries with a predicate on each of five attributes; every slot has the constants of one of the same five."""
    rng = np.random.default_rng(3)
    single = []
    for _ in "abcde":
        start = rng.integers(0, 100, 5)[np.arange(slots) % 5]
        never = np.zeros(slots, np.bool_)
        single.append((ValueRanges(np.arange(slots), np.zeros(slots, np.int64), start, start, never, ~never, never),))
    conditions = Conditions(slots, tuple(single), (None,) * 5, np.full(slots, 5), np.zeros(slots, np.bool_))
    kept, module.SMALLEST_TREE = module.SMALLEST_TREE, sys.maxsize  # bitmaps, whatever the number of slots
    try:
        return RoutedFilter(grouped_filter(conditions))
    finally:
        module.SMALLEST_TREE = kept


def main() -> bool:
    rng = np.random.default_rng(4)
    columns = [value_column(pa.array(rng.integers(0, 100, ROWS))) for _ in "abcde"]
    filters = [filter_of(bits - ROUTING) for bits in BITS]
    seconds = np.full((len(BITS), ROUNDS), np.inf)
    counts = set()
    for turn in range(ROUNDS):  # point after point, so that none has the quiet minute of the machine
        for i, (bits, routed) in enumerate(zip(BITS, filters, strict=True)):
            alive = np.arange(bits - ROUTING) < 5
            counts.add(int(routed.search(columns, ROWS, alive, "counts").counts.sum()))
            begun = time.process_time()
            routed.search(columns, ROWS, alive, "counts")
            seconds[i, turn] = time.process_time() - begun
    assert len(counts) == 1, "the same five queries match the same tuples at every point"
    rates = (ROWS / np.median(seconds, axis=1)).tolist()
    lines = {"one thread": (list(map(float, BITS)), rates)}
    draw("cacq-lineage", [Panel("Throughput by bits of lineage (Figure 4)", "bits", "tuples/s", lines, "log")])
    figures = [Figure(f"{b:,} bits of lineage", r, "tuples/s") for b, r in zip(BITS, rates, strict=True)]
    figures.append(Figure("3,000 bits: times slower than 15", rates[0] / rates[BITS.index(PRINTED)], "", 1.5))
    figures.append(Figure("262,144 bits: times slower than 16,384", rates[-3] / rates[-1], "", 24))
    return report("cacq-lineage", figures, {"bits": list(BITS), "tuples/s": rates})


if __name__ == "__main__":
    sys.exit(0 if main() else 1)

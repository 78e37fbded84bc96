"""Document 1, Figure 4: throughput against the bits of lineage that a tuple carries, with five queries that stand.

There, room for 3,000 bits of state made tuples five times slower than room for 15. Here a tuple carries a set of 4,096
bits per block only while it passes that block, so bits cost time but are never stored with the tuple.
"""

from __future__ import annotations

import sys

import numpy as np
import pyarrow as pa

from benchmarks._chart import Panel, draw
from benchmarks._report import Figure, report
from benchmarks._workloads import best
from eddyline.index.filters.clauses import Conditions, ValueRanges
from eddyline.index.filters.domains import value_column
from eddyline.index.filters.grouped_filter import grouped_filter, search

BITS = (4_096, 8_192, 16_384, 32_768, 65_536, 131_072, 262_144)
ROWS = 20_000


def rate(bits: int, rng: np.random.Generator) -> float:
    """Tuples per second through the filters of `bits` queries, of which only the first five have not been dropped."""
    single = []
    for _ in "abcde":
        start = rng.integers(0, 100, bits)
        never = np.zeros(bits, np.bool_)
        single.append((ValueRanges(np.arange(bits), np.zeros(bits, np.int64), start, start, never, ~never, never),))
    conditions = Conditions(bits, tuple(single), (None,) * 5, np.full(bits, 5), np.zeros(bits, np.bool_))
    found = grouped_filter(conditions)
    alive = np.arange(bits) < 5
    columns = [value_column(pa.array(rng.integers(0, 100, ROWS))) for _ in "abcde"]
    order = np.arange(5)

    def once() -> None:
        search(found, columns, ROWS, alive, lambda maps, codes: order, "counts")

    once()
    return ROWS / best(once)


def main() -> bool:
    rng = np.random.default_rng(3)
    rates = [rate(bits, rng) for bits in BITS]
    lines = {"one thread": (list(map(float, BITS)), rates)}
    draw("cacq-lineage", [Panel("Throughput by bits of lineage (Figure 4)", "bits", "tuples/s", lines, "log")])
    figures = [Figure(f"{b:,} bits of lineage", r, "tuples/s") for b, r in zip(BITS, rates, strict=True)]
    figures.append(Figure("64 times the bits: times slower", rates[0] / rates[-1], "", 64))
    return report("cacq-lineage", figures, {"bits": list(BITS), "tuples/s": rates})


if __name__ == "__main__":
    sys.exit(0 if main() else 1)

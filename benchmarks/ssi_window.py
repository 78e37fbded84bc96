"""Window joins (document 4, section 3.3, which has no figure) over the number of queries, and of rows with one key.

A query asks r.b = s.b, a range over r.a, one over s.c, and that neither is older than its window when the other comes.
The further rows reach back in time, the more of them no query wants; WJ-SSI looks at skylines: rows that are younger
than all that are nearer to a group's point.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from benchmarks._chart import Panel, draw
from benchmarks._join_workloads import SPACE, Queries, select_joins
from benchmarks._report import Figure, report
from benchmarks._workloads import best
from eddyline.arrays import Ints
from eddyline.index.ranges.probes import Arrivals, Axes, Partners, Probes, Visibility
from eddyline.index.ranges.range_groups import RangeGroups, range_groups
from eddyline.index.ranges.range_search import STRATEGIES, affected
from eddyline.index.ranges.skylines import linked
from eddyline.operators.joins.range_choice import Estimates

STATIC = ("join_first", "select_first", "hotspot", "ssi")
WAYS = (*STATIC, "Dynamic")
QUERIES, PARTNERS, TUPLES = 100_000, 1_000, 40
LONGEST = 3_600_000_000  # a window, in microseconds
KEYS = 20


@dataclass(frozen=True)
class Windows:
    """Queries, whose windows are up to an hour long; every key has so many rows, of the last hour."""

    queries: Queries
    partners: int

    @cached_property
    def groups(self) -> RangeGroups:
        q = self.queries
        window = np.random.default_rng(7).integers(0, LONGEST, len(q))
        low, high = np.stack([q.low, -window]), np.stack([q.high, window])
        return range_groups(np.arange(len(q)), low, high, [(q.own_low, q.own_high)])

    @cached_property
    def segment(self) -> Ints:
        rng = np.random.default_rng(8)
        rows = KEYS * self.partners
        ts, c = rng.integers(0, LONGEST, rows), rng.integers(0, SPACE, rows)
        order = np.lexsort((c, np.repeat(np.arange(KEYS), self.partners)))
        return linked(np.stack([ts, ts + LONGEST, np.zeros(rows, np.int64), c, ts])[:, order].copy())

    def rate(self, strategy: str) -> float:
        """Tuples per second, in one batch: with the keys in turn, at the end of the hour; for Dynamic, the choice is
        part of it."""
        rng = np.random.default_rng(9)
        own, begin = rng.integers(0, SPACE, TUPLES), np.arange(TUPLES) % KEYS * self.partners
        now, nothing, nobody = np.full(TUPLES, LONGEST), np.zeros(TUPLES, np.int64), np.empty(0, np.uint64)
        arrivals = Arrivals(np.stack([nothing, now]), now, now + LONGEST, nothing, np.stack([own, ~own]))
        partners = Partners.of([self.segment], begin[None, :], begin[None, :] + self.partners, axes=2)
        axes = Axes(np.zeros(2, np.uint8), np.ones(2, np.int64))
        probes = Probes(axes, arrivals, partners)
        visibility = Visibility(nobody, nobody, np.zeros(0, np.int64))
        estimates = Estimates(self.groups) if strategy == "Dynamic" else None
        static = np.full(TUPLES, STRATEGIES.index(strategy) if estimates is None else 0, np.uint8)

        def run() -> Ints:
            strategies = static if estimates is None else estimates.choose(probes)[0]
            return affected(self.groups, probes, visibility, strategies, listing=False)[0]

        assert run().any()
        return TUPLES / best(run, 5)


def main() -> bool:
    rng = np.random.default_rng(33)
    many = [1_000, 10_000, 100_000, 300_000]
    by_queries = [{w: Windows(select_joins(rng, n), PARTNERS).rate(w) for w in WAYS} for n in many]
    rows = [10, 100, 1_000, 10_000]
    by_rows = [{w: Windows(select_joins(rng, QUERIES), n).rate(w) for w in WAYS} for n in rows]
    panels = [
        Panel(f"Window joins, {PARTNERS:,} rows a key", "queries", "tuples/s",
              {w: (many, [r[w] for r in by_queries]) for w in WAYS}, "log"),
        Panel(f"Window joins, {QUERIES:,} queries", "rows a key", "tuples/s",
              {w: (rows, [r[w] for r in by_rows]) for w in WAYS}, "log"),
    ]  # fmt: skip
    draw("ssi-window", panels)
    at = by_queries[many.index(QUERIES)]
    figures = [
        *(Figure(f"{w}, {QUERIES:,} queries, {PARTNERS:,} rows a key", at[w], "tuples/s") for w in WAYS),
        Figure("SSI, times the best of JoinFirst and SelectFirst", at["ssi"] / max(at[w] for w in WAYS[:2]), ""),
        Figure("SSI, from 100 to 10,000 rows a key: kept", by_rows[3]["ssi"] / by_rows[1]["ssi"], ""),
        Figure("Dynamic, times the best strategy, at its worst",
               min(r["Dynamic"] / max(r[s] for s in STATIC) for r in by_queries + by_rows), ""),
    ]  # fmt: skip
    series = {"queries": list(zip(many, by_queries, strict=True)), "rows": list(zip(rows, by_rows, strict=True))}
    return report("ssi-window", figures, series)


if __name__ == "__main__":
    sys.exit(0 if main() else 1)

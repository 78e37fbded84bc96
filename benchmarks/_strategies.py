"""Strategies for joins over ranges side by side: one tuple at a time, as in document 4, and in batches.

A tuple finds its partners by key, then the queries it affects; nothing is listed ("we exclude the output cost"). S is
sorted by key and place once.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from benchmarks._join_workloads import Queries
from eddyline.arrays import Ints
from eddyline.index.keys.sorted_runs import equal_ranges
from eddyline.index.ranges.probes import Arrivals, Axes, Partners, Probes, Visibility, segment_header
from eddyline.index.ranges.range_groups import RangeGroups, range_groups
from eddyline.index.ranges.range_search import STRATEGIES, affected

LEAST_SECONDS = 0.15  # a rate is measured for so long at least
LEAST_TUPLES = 5
_NOBODY = np.empty(0, np.uint64)


@dataclass(frozen=True)
class Setting:
    """Queries and rows; `keys` are those of the rows, ascending, `places` where they lie, ascending within a key."""

    queries: Queries
    keys: Ints
    places: Ints
    with_own: bool
    hot: float = 0.001

    @cached_property
    def groups(self) -> RangeGroups:
        q = self.queries
        own = [(q.own_low, q.own_high)] if self.with_own else []
        return range_groups(np.arange(len(q)), q.low[None, :], q.high[None, :], own, self.hot)

    @cached_property
    def segment(self) -> Ints:
        always = np.zeros(len(self.keys), np.int64)
        return np.stack([always, always + 1, always, self.places])

    @cached_property
    def _fixed(self) -> tuple[Ints, Axes, Visibility]:
        since = np.zeros(len(self.groups.slots), np.int64)
        axes = Axes(np.zeros(1, np.uint8), np.ones(1, np.int64))
        return segment_header(self.segment, 1)[None, :], axes, Visibility(_NOBODY, _NOBODY, since)

    def count(self, wanted: Ints, shift: Ints, own: Ints, strategies: np.ndarray) -> Ints:
        """How many queries some tuples affect, by their keys, what is taken from the places, and R.A."""
        headers, axes, visibility = self._fixed
        low, high = equal_ranges(self.keys, wanted)
        zero = np.zeros(len(wanted), np.int64)
        of_own = np.stack([own, ~own]) if self.with_own else np.empty((0, len(wanted)), np.int64)
        arrivals = Arrivals(shift[None, :], zero, zero, zero, of_own)
        probes = Probes(axes, arrivals, Partners(headers, low[None, :], high[None, :]))
        return affected(self.groups, probes, visibility, strategies, listing=False)[0]

    def rate(self, strategy: str, wanted: Ints, shift: Ints, own: Ints) -> float:
        """Tuples per second, one at a time."""
        strategies = np.full(1, STRATEGIES.index(strategy), np.uint8)
        cut = [slice(i, i + 1) for i in range(len(wanted))]
        self.count(wanted[:1], shift[:1], own[:1], strategies)
        best = 0.0
        for _ in range(3):
            begun, done = time.perf_counter(), 0
            while done < LEAST_TUPLES or time.perf_counter() - begun < LEAST_SECONDS:
                s = cut[done % len(cut)]
                self.count(wanted[s], shift[s], own[s], strategies)
                done += 1
            best = max(best, done / (time.perf_counter() - begun))
        return best

    def batched(self, strategy: str, wanted: Ints, shift: Ints, own: Ints) -> float:
        """Tuples per second, as many together as take a moment."""
        code, best, n = STRATEGIES.index(strategy), 0.0, LEAST_TUPLES
        for _ in range(9):
            strategies = np.full(n, code, np.uint8)
            begun = time.perf_counter()
            self.count(wanted[:n], shift[:n], own[:n], strategies)
            rate = n / (time.perf_counter() - begun)
            best, n = max(best, rate), int(min(len(wanted), max(LEAST_TUPLES, rate * LEAST_SECONDS)))
        return best


def select_setting(queries: Queries, b: Ints, c: Ints, hot: float = 0.001) -> Setting:
    order = np.lexsort((c, b))
    return Setting(queries, b[order], c[order], with_own=True, hot=hot)


def band_setting(queries: Queries, b: Ints, hot: float = 0.001) -> Setting:
    return Setting(queries, np.zeros(len(b), np.int64), np.sort(b), with_own=False, hot=hot)

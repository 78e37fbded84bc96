"""Every strategy finds the numbers that plain comparisons find, and every row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from eddyline.index.ranges.axes import INTEGERS, Arrivals, Axes, Doubts, Partners
from eddyline.index.ranges.range_groups import RangeGroups, as_words, range_groups
from eddyline.index.ranges.range_rows import Asked, count_rows, list_rows
from eddyline.index.ranges.range_search import STRATEGIES, affected
from eddyline.index.ranges.skylines import linked
from eddyline.index.runtime.row_sets import merged

NOBODY = np.empty(0, np.uint64)
LIMITS = np.iinfo(np.int64)


@dataclass
class Case:
    groups: RangeGroups
    axes: Axes
    arrivals: Arrivals
    partners: Partners
    doubts: Doubts
    low: Any
    high: Any
    since: Any
    own: Any


def case(rng: np.random.Generator, axes: int, clustered: bool) -> Case:
    n, tuples, keys = int(rng.integers(1, 300)), int(rng.integers(1, 30)), 3
    middle = rng.choice([-40, 0, 30], (axes, n)) if clustered else rng.integers(-60, 60, (axes, n))
    low = middle - rng.integers(0, 20, (axes, n))
    high = low + rng.integers(0, 40, (axes, n)) * rng.integers(0, 2, (axes, n))
    low[:, rng.random(n) < 0.05], high[:, rng.random(n) < 0.05] = LIMITS.min, LIMITS.max
    if axes == 2 and rng.random() < 0.5:  # as windows are: all hold 0
        low[1], high[1] = -rng.integers(0, 50, n), rng.integers(0, 50, n)
    high = np.maximum(low, high)
    own_low = rng.integers(0, 50, n)
    own = own_low, own_low + rng.integers(0, 30, n)
    groups = range_groups(np.arange(n), low, high, [own], hot=float(rng.choice([0.0, 0.1, 0.9])))
    segments, begin, end = [], [], []
    wanted = rng.integers(0, keys, tuples)
    for _ in range(int(rng.integers(0, 3))):
        rows = int(rng.integers(0, 40))
        key = np.sort(rng.integers(0, keys, rows))
        ts = rng.integers(0, 20, rows)
        values = rng.integers(-70, 70, (axes, rows))
        segment = np.stack([ts, ts + rng.integers(0, 20, rows), rng.integers(0, 30, rows), *values])
        in_time = axes == 2 and rng.random() < 0.7
        if in_time:  # the second axis is time, and links tell skylines
            segment[1], segment[4] = (ts + 9 if rng.random() < 0.5 else 25), ts
        segment = np.ascontiguousarray(segment[:, np.lexsort((segment[3], key))])
        segments.append(linked(segment) if in_time else segment)
        begin.append(np.searchsorted(key, wanted))
        end.append(np.searchsorted(key, wanted, side="right"))
    shift = rng.integers(-10, 10, (axes, tuples))
    if axes == 2:
        shift[1] = rng.integers(-10, 30, tuples)
    ts, attribute = rng.integers(0, 25, tuples), rng.integers(0, 80, tuples)
    arrivals = Arrivals(shift, ts, ts + rng.integers(0, 10, tuples), rng.integers(0, 40, tuples),
                        np.stack([attribute, ~attribute]))  # fmt: skip
    since = np.zeros(len(groups.numbers), np.int64)
    alive = np.ones(n, np.bool_)
    young, living = NOBODY, NOBODY
    if rng.random() < 0.5:
        since[groups.bits] = rng.choice([0, 0, 0, 15, 35], n)
        young = as_words(since > 0)
    if rng.random() < 0.5:
        alive = rng.random(n) < 0.7
        living = as_words((groups.numbers >= 0) & alive[groups.numbers])
    by_number = np.zeros(n, np.int64)
    by_number[groups.numbers[groups.bits]] = since[groups.bits]
    shape = (-1, tuples)
    partners = Partners.of(segments, *(np.array(x, np.int64).reshape(shape) for x in (begin, end)), axes)
    how_placed = Axes(np.full(axes, INTEGERS, np.uint8), np.ones(axes, np.int64))
    accepts = (own[0][:, None] <= attribute) & (attribute <= own[1][:, None]) & alive[:, None]
    return Case(groups, how_placed, arrivals, partners, Doubts(living, young, since), low, high, by_number, accepts)


def given(c: Case) -> set[tuple[int, int, int, int]]:
    """(tuple, number, segment, row) by plain comparisons."""
    found = set()
    for i in range(len(c.arrivals)):
        for s, segment in enumerate(c.partners.segments):
            for k in range(int(c.partners.begin[s, i]), int(c.partners.end[s, i])):
                ts, exp, first = segment[:3, k]
                if max(ts, c.arrivals.ts[i]) > min(exp, c.arrivals.exp[i]):
                    continue
                place = segment[3 : 3 + len(c.low), k] - c.arrivals.shift[:, i]
                held = ((c.low <= place[:, None]) & (place[:, None] <= c.high)).all(axis=0)
                held &= (c.since <= first) & (c.since <= c.arrivals.first[i]) & c.own[:, i]
                found |= {(i, int(q), s, k) for q in np.nonzero(held)[0]}
    return found


@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize("clustered", [True, False])
def test_strategies_find_what_plain_comparisons_find(axes: int, clustered: bool) -> None:
    for seed in range(40):
        rng = np.random.default_rng([seed, axes, clustered])
        c = case(rng, axes, clustered)
        rows = given(c)
        want = {(i, q) for i, q, _, _ in rows}
        for code, strategy in enumerate(STRATEGIES):
            how = np.full(len(c.arrivals), code, np.uint8)
            counts, sets = affected(c.groups, c.axes, c.arrivals, c.partners, c.doubts, how, listing=True)
            assert sets is not None
            listed = merged(len(c.arrivals), [sets])
            got = {
                (i, int(q)) for i in range(len(listed)) for q in listed.members[listed.starts[i] : listed.starts[i + 1]]
            }
            assert got == want, f"seed {seed}, {strategy}"
            assert counts.tolist() == listed.counts.tolist(), f"seed {seed}, {strategy}"
            only, none = affected(c.groups, c.axes, c.arrivals, c.partners, c.doubts, how, listing=False)
            assert none is None and only.tolist() == counts.tolist(), f"seed {seed}, {strategy}"
        mixed = rng.integers(0, len(STRATEGIES), len(c.arrivals)).astype(np.uint8)
        counts, _ = affected(c.groups, c.axes, c.arrivals, c.partners, c.doubts, mixed, listing=False)
        assert int(counts.sum()) == len(want), f"seed {seed}, a strategy for each tuple"
        asked = Asked(c.low, c.high, c.since)
        for s, segment in enumerate(c.partners.segments):
            where = c.partners.begin[s], c.partners.end[s]
            many = count_rows(listed, asked, c.axes, c.arrivals, segment, *where)
            places = np.arange(segment.shape[1])
            found = list_rows(listed, asked, c.axes, c.arrivals, segment, *where, places, int(many.sum()))
            got_rows = [(int(i), int(q), s, int(k)) for i, k, q in zip(*found, strict=True)]
            assert sorted(got_rows) == sorted(r for r in rows if r[2] == s), f"seed {seed}, rows"
            assert got_rows == sorted(got_rows, key=lambda r: (r[0], r[3], r[1])), f"seed {seed}, order of rows"

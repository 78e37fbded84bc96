"""Every strategy gives the queries and the joined rows that plain comparisons give."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from eddyline.index.ranges.probes import INTEGERS, Arrivals, Axes, AxisRanges, Partners, Probes, Visibility
from eddyline.index.ranges.range_groups import RangeGroups, as_words, range_groups
from eddyline.index.ranges.range_rows import SegmentJoin, count_rows, list_rows
from eddyline.index.ranges.range_search import STRATEGIES, affected
from eddyline.index.ranges.skylines import linked
from eddyline.index.runtime.row_sets import merged

NOBODY = np.empty(0, np.uint64)
LIMITS = np.iinfo(np.int64)


@dataclass
class Case:
    groups: RangeGroups
    probes: Probes
    segments: list[Any]
    visibility: Visibility
    ranges: AxisRanges  # by query slot
    since: Any
    accepts: Any  # by query slot and tuple


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
    since = np.zeros(len(groups.slots), np.int64)
    alive = np.ones(n, np.bool_)
    limited, registered = NOBODY, NOBODY
    if rng.random() < 0.5:
        since[groups.bits] = rng.choice([0, 0, 0, 15, 35], n)
        limited = as_words(since > 0)
    if rng.random() < 0.5:
        alive = rng.random(n) < 0.7
        registered = as_words((groups.slots >= 0) & alive[groups.slots])
    by_slot = np.zeros(n, np.int64)
    by_slot[groups.slots[groups.bits]] = since[groups.bits]
    shape = (-1, tuples)
    partners = Partners.of(segments, *(np.array(x, np.int64).reshape(shape) for x in (begin, end)), axes)
    placed = Axes(np.full(axes, INTEGERS, np.uint8), np.ones(axes, np.int64))
    accepts = (own[0][:, None] <= attribute) & (attribute <= own[1][:, None]) & alive[:, None]
    probes, visibility = Probes(placed, arrivals, partners), Visibility(registered, limited, since)
    return Case(groups, probes, segments, visibility, AxisRanges(low, high), by_slot, accepts)


def given(c: Case) -> set[tuple[int, int, int, int]]:
    """(tuple, query slot, segment, row) by plain comparisons."""
    _, arrivals, partners = c.probes
    (low, high), rows = c.ranges, set()
    for i in range(c.probes.tuples):
        for s, segment in enumerate(c.segments):
            for k in range(int(partners.begin[s, i]), int(partners.end[s, i])):
                ts, exp, first = segment[:3, k]
                if max(ts, arrivals.ts[i]) > min(exp, arrivals.exp[i]):
                    continue
                place = segment[3 : 3 + len(low), k] - arrivals.shift[:, i]
                held = ((low <= place[:, None]) & (place[:, None] <= high)).all(axis=0)
                held &= (c.since <= first) & (c.since <= arrivals.first[i]) & c.accepts[:, i]
                rows |= {(i, int(q), s, k) for q in np.nonzero(held)[0]}
    return rows


@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize("clustered", [True, False])
def test_strategies_find_what_plain_comparisons_find(axes: int, clustered: bool) -> None:
    for seed in range(40):
        rng = np.random.default_rng([seed, axes, clustered])
        c = case(rng, axes, clustered)
        rows = given(c)
        want = {(i, q) for i, q, _, _ in rows}
        for code, strategy in enumerate(STRATEGIES):
            strategies = np.full(c.probes.tuples, code, np.uint8)
            counts, sets = affected(c.groups, c.probes, c.visibility, strategies, listing=True)
            assert sets is not None
            listed = merged(c.probes.tuples, [sets])
            got = {
                (i, int(q)) for i in range(len(listed)) for q in listed.members[listed.starts[i] : listed.starts[i + 1]]
            }
            assert got == want, f"seed {seed}, {strategy}"
            assert counts.tolist() == listed.counts.tolist(), f"seed {seed}, {strategy}"
            only, none = affected(c.groups, c.probes, c.visibility, strategies, listing=False)
            assert none is None and only.tolist() == counts.tolist(), f"seed {seed}, {strategy}"
        mixed = rng.integers(0, len(STRATEGIES), c.probes.tuples).astype(np.uint8)
        counts, _ = affected(c.groups, c.probes, c.visibility, mixed, listing=False)
        assert int(counts.sum()) == len(want), f"seed {seed}, a strategy for each tuple"
        axes_of, arrivals, partners = c.probes
        for s, segment in enumerate(c.segments):
            join = SegmentJoin(listed.starts, listed.members, c.ranges, c.since, axes_of, arrivals, segment,
                               partners.begin[s], partners.end[s])  # fmt: skip
            joined = list_rows(join, np.arange(segment.shape[1]), int(count_rows(join).sum()))
            got_rows = [(int(i), int(q), s, int(k)) for i, k, q in zip(*joined, strict=True)]
            assert sorted(got_rows) == sorted(r for r in rows if r[2] == s), f"seed {seed}, rows"
            assert got_rows == sorted(got_rows, key=lambda r: (r[0], r[3], r[1])), f"seed {seed}, order of rows"

"""Rows of a key in count windows, in every phase of a step, against the windows as lists of rows."""

from itertools import pairwise
from random import Random

import numpy as np
import pytest

from eddyline.index.keys.hash_chains import END, Chains, link
from eddyline.index.timelines.count_windows import count_windows, first_places
from eddyline.index.timelines.window_members import (
    BEFORE,
    EVERY,
    RETRACTED,
    SHOWN,
    Span,
    Wanted,
    count_members,
    list_members,
    reach_of,
)
from eddyline.state.delta import MAX
from tests.index.timelines.test_count_windows import Log, held, ordered, some_log, some_windows
from tests.nightly import TIMES

KEYS = 3


def expected(log: Log, span: Span, n: int, since: int) -> dict[int, int]:
    """By row of a window, its last instant; rows that enter and have no instant are left out."""
    visible = [(t, row) for t, row in log[: span.upto] if row >= since]
    before = held(log, span.shown, n, since)
    rows = list(before)
    if span.phase == SHOWN and n > 0:
        rows += [row for _, row in log[span.shown : span.upto] if row >= since]
    ends = {}
    for k, (t, row) in enumerate(visible):
        leaves = visible[k + n][0] if k + n < len(visible) and span.phase != BEFORE else None
        if row in before or (row in rows and (leaves is None or leaves > t)):
            ends[row] = MAX if leaves is None else leaves - 1
    return ends


@pytest.mark.parametrize("phase", [BEFORE, RETRACTED, SHOWN])
def test_members_are_the_rows_of_the_key_that_are_in_the_window(phase: int) -> None:
    rnd, pairs = Random(f"members {phase}"), 0
    for _ in range(150 * TIMES):
        log = some_log(rnd, rnd.randint(1, 25))
        rows, (size, since) = ordered(log), some_windows(rnd, log)
        key = np.array([rnd.randrange(-1, KEYS) for _ in log])
        chains = Chains(np.full(KEYS, END, np.int32), np.full(len(log), END, np.int32))
        link(key, 0, *chains)
        shown = rnd.randint(0, len(log))
        # Rows of one instant enter together.
        ends = [p for p in range(shown, len(log) + 1) if p in (0, len(log)) or log[p][0] > log[p - 1][0]]
        span = Span(shown, rnd.choice(ends), phase)
        windows = count_windows(rows, size, since, shown)
        slot = np.array([rnd.randrange(-2, KEYS) for _ in range(8)])
        window = np.array([rnd.choice([EVERY, rnd.randrange(len(size))]) for _ in slot])
        wanted, reach = Wanted(slot, window), reach_of(rows, windows, first_places(windows, shown))
        counts = count_members(chains, rows, windows, span, wanted, reach)
        members = list_members(chains, rows, windows, span, wanted, reach, counts)
        of = [
            (i, row, w, end)
            for i, s in enumerate(slot.tolist())
            for w in (range(len(size)) if window[i] == EVERY else [int(window[i])])
            for row, end in expected(log, span, int(size[w]), int(since[w])).items()
            if s >= 0 and key[row] == s
        ]
        assert sorted(zip(*(x.tolist() for x in members), strict=True)) == sorted(of), (log, span, size, since)
        assert counts.tolist() == [sum(i == j for j, *_ in of) for i in range(len(slot))]
        assert all(a <= b for i in range(len(slot)) for a, b in pairwise(members[1][members[0] == i].tolist()))
        pairs += len(of)
    assert pairs > 100, "too little was compared"

"""Stream logs: rows are found by key, evicted, saved and restored as in a plain list."""

from __future__ import annotations

from itertools import pairwise
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from eddyline import types as t
from eddyline.state.delta import MAX, Delta
from eddyline.state.pages import as_table
from eddyline.state.store import stream_log
from eddyline.state.store.stream_log import StreamLog

TYPES = (t.INT, t.STRING, t.BOOLEAN, t.DOUBLE, t.TIMESTAMP)
Row = tuple[Any, ...]


def rows_of(delta: Delta) -> list[Row]:
    return list(zip(*(c.to_pylist() for c in delta.columns), delta.ts.tolist(), delta.last.tolist(), strict=True))


def batch(rnd: Random, arrival: int, clock: int) -> Delta:
    n = rnd.choice([0, 1, 3, 50])
    ts = np.array([clock + rnd.randint(0, 9) for _ in range(n)], np.int64)
    columns = (
        pa.array([rnd.choice([None, 1, 2, 3]) for _ in range(n)], t.INT),
        pa.array([rnd.choice([None, "", "a", "longer than the others"]) for _ in range(n)], t.STRING),
        pa.array([rnd.choice([None, True, False]) for _ in range(n)], t.BOOLEAN),
        pa.array([rnd.choice([None, 0.5, float("inf")]) for _ in range(n)], t.DOUBLE),
        pa.array(ts, t.TIMESTAMP),
    )
    offset = rnd.choice([0, 2])  # arrays that begin in the middle of their buffers
    sliced = tuple(pa.concat_arrays([c[:0], pa.concat_arrays([pa.nulls(offset, c.type), c])])[offset:] for c in columns)
    numbers = np.arange(arrival, arrival + n)
    return Delta(sliced, None, ts, np.full(n, MAX), np.ones(n, np.int64), numbers, numbers)


def matching(log: StreamLog, key: Any, low: int, high: int) -> list[Row]:
    """The rows with a key, found by the index."""
    index = log.index("first", [t.INT], lambda rows: [rows.columns[0]])
    wanted = index.wanted([pa.array([key], t.INT)], 1)
    _, rows = index.matches(wanted, low, high, index.counts(wanted, low, high))
    view = log.view()
    columns = [c.take(rows).to_pylist() for c in view.columns]
    return list(zip(*columns, view.ts[rows].tolist(), view.arrivals[rows].tolist(), strict=True))


@pytest.mark.parametrize("seed", range(12))
def test_a_log_is_a_list_of_rows_that_are_found_by_key(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_log, "PAGE", 16)
    monkeypatch.setattr(stream_log, "worth_compacting", lambda total, used: total > 2 * used + 4)
    rnd = Random(seed)
    log, plain, arrival = StreamLog(TYPES, 4), list[Row](), 0
    for clock in range(40):
        new = batch(rnd, arrival, clock)
        arrival += len(new)
        log.append(new)
        plain += rows_of(new)
        before, since = clock - rnd.choice([3, 20]), rnd.choice([0, arrival - 30])
        if rnd.random() < 0.3:
            log.evict(before, since)
            left = rows_of(log.all())
            assert [r for r in plain if r[-2] >= before and r[-1] >= since] == [
                r for r in left if r[-2] >= before and r[-1] >= since
            ], "a row that is needed was evicted"
            assert set(left) <= set(plain)
            plain = left
        if rnd.random() < 0.2:
            saved = {name: as_table(x) for name, x in log.save().items()}
            log = StreamLog(TYPES, 4)
            log.restore(saved)
        assert len(log) == len(plain)
        if rnd.random() < 0.7:
            assert rows_of(log.all()) == plain
            low, high = sorted(rnd.randint(0, len(plain)) for _ in range(2))
            key = rnd.choice([1, 2, 3, 4])
            assert matching(log, key, low, high) == [r for r in plain[low:high] if r[0] == key]
            assert matching(log, None, low, high) == []
            segments = log.segments(high)
            assert [(s.start, s.stop) for s in segments] == list(
                zip([0, *(s.stop for s in segments[:-1])], [*(s.stop for s in segments[:-1]), high], strict=True)
            )[: len(segments)]
            assert all(r[-2] < clock for r in plain[: log.position_from(clock)])
            assert log.first_from(clock) == next((n for n, r in enumerate(plain) if r[-2] >= clock), len(plain))


def test_a_view_keeps_the_rows_of_its_moment() -> None:
    rnd = Random(1)
    log = StreamLog(TYPES, 4)
    log.append(batch(Random(3), 0, 0))
    view, rows = log.view(), rows_of(log.all())
    for clock in range(1, 30):
        log.append(batch(rnd, 1000 * clock, clock))
        log.evict(clock, 0)
    assert rows_of(view.rows(0, len(rows))) == rows


def test_a_page_that_did_not_change_is_saved_as_the_same_object(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_log, "PAGE", 16)
    log = StreamLog(TYPES, 4)
    saved = []
    for i in range(4):
        log.append(batch(Random(2), 1000 * i, i))
        pages = log.save()["rows"]
        assert not isinstance(pages, pa.Table)
        saved.append(pages.pages)
    for earlier, later in pairwise(saved):
        full = [p for p in earlier if p.num_rows == 16]
        assert all(a is b for a, b in zip(full, later, strict=False))

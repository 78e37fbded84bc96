"""Count windows: at every instant, the n latest tuples by (event time, arrival) that are visible to a query."""

from __future__ import annotations

from random import Random
from typing import Literal

import numpy as np
import pyarrow as pa
import pytest

from eddyline import types as t
from eddyline.operators.base import Step
from eddyline.operators.rows_window import CountWindow
from eddyline.operators.scan import StreamScan
from eddyline.plan import physical
from eddyline.plan.patterns import Pattern
from eddyline.sql.bound import Field, StreamSource, Window
from eddyline.state.delta import MAX, MIN, Delta
from eddyline.state.pages import as_table
from eddyline.state.query_table import QueryTable
from eddyline.state.store.stream_log import StreamLog
from tests.nightly import TIMES
from tests.operators.driving import LEAST, NO_FUNCTIONS, PARAMS, Answer, Change, Query, answer, changes_of

FIELDS = (Field("a", t.INT), Field("ts", t.TIMESTAMP))
SCAN = physical.StreamScan(Pattern.MONOTONIC, (), StreamSource("S", "s", FIELDS, 1, Window("unbounded")))
NODE = physical.CountWindow(Pattern.STR, (SCAN,), LEAST)


def built(log: StreamLog | None) -> CountWindow:
    return CountWindow(NODE, [StreamScan(SCAN, ())], log)


def tuples(rnd: Random, clock: int, arrival: int, distance: int) -> Delta:
    n = rnd.choice([0, 1, 2, 5])
    ts = np.array([clock + rnd.randint(0, distance) for _ in range(n)], np.int64)
    numbers = np.arange(arrival, arrival + n)
    columns = pa.array(numbers, t.INT), pa.array(ts, t.TIMESTAMP)
    return Delta(columns, None, ts, np.full(n, MAX), np.ones(n, np.int64), numbers, numbers)


def windows(rows: list[tuple[int, int]], queries: list[Query], instant: int) -> Answer:
    """The windows of queries over (event time, arrival) of all tuples."""
    of = Answer()
    for q in queries:
        visible = sorted((ts, a) for ts, a in rows if a >= q.since and ts <= instant)
        of.update((q.id, a) for _, a in visible[len(visible) - min(q.least, len(visible)) :])
    return of


def folded(changes: list[Change], instant: int) -> Answer:
    return Answer({(query, row[0]): n for (query, row), n in answer(changes, instant).items()})


@pytest.mark.parametrize("log_of", ["its own", "a shared one"])
@pytest.mark.parametrize("seed", range(12 * TIMES))
def test_a_window_has_the_n_latest_tuples_of_each_query(
    log_of: Literal["its own", "a shared one"], seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("eddyline.state.store.stream_log.worth_compacting", lambda total, used: total > 2 * used + 4)
    rnd = Random(f"{log_of} {seed}")
    log = StreamLog(SCAN.types, 1) if log_of == "a shared one" else None
    operator, distance = built(log), rnd.choice([0, 3, 8])
    table, queries, rows, sent = QueryTable(PARAMS), list[Query](), list[tuple[int, int]](), list[Change]()
    clock = 0
    for _ in range(15):
        if len(queries) < 2 or rnd.random() < 0.3:
            size = rnd.randint(0, 6)
            queries.append(Query(table.add_one("q", [size, 0], len(rows)), size, 0, len(rows), clock))
        elif rnd.random() < 0.1:
            table.drop(np.array([queries.pop(rnd.randrange(len(queries))).id]))
        batch, now = tuples(rnd, clock, len(rows), distance), clock + rnd.randint(0, 4)
        rows += zip(batch.ts.tolist(), batch.last.tolist(), strict=True)
        if log is not None:
            log.append(batch)
        step = Step("arrivals", clock, now, table.rows(), NO_FUNCTIONS, {"s": batch})
        sent += changes_of(operator.pull(step))
        clock = now
        if log is not None and rnd.random() < 0.5:
            log.eviction_due = rnd.random() < 0.5
            log.evict(operator.needed_from(table.rows(), NO_FUNCTIONS, clock), 0)
        if rnd.random() < 0.3:
            saved = {name: as_table(state) for name, state in operator.save().items()}
            operator = built(log)
            operator.load(saved, NO_FUNCTIONS)
    live = {q.id for q in queries}
    for instant in range(clock + 1):
        assert folded([c for c in sent if c.query in live], instant) == windows(rows, queries, instant), instant


def test_of_a_shared_log_only_what_a_window_or_the_future_needs_is_kept() -> None:
    log = StreamLog(SCAN.types, 1)
    operator, table = built(log), QueryTable(PARAMS)
    for size in (2, 5):
        table.add_one("q", [size, 0], 0)
    columns = pa.array(range(12), t.INT), pa.array(range(12), t.TIMESTAMP)
    every = np.arange(12)
    batch = Delta(columns, None, every, np.full(12, MAX), np.ones(12, np.int64), every, every)
    log.append(batch)
    operator.pull(Step("arrivals", MIN, 9, table.rows(), NO_FUNCTIONS, {"s": batch}))
    assert operator.needed_from(table.rows(), NO_FUNCTIONS, 9) == 5  # 5 … 9 are in the window of 5
    table.drop(np.array([1]))
    assert operator.needed_from(table.rows(), NO_FUNCTIONS, 9) == 8
    table.drop(np.array([0]))
    assert operator.needed_from(table.rows(), NO_FUNCTIONS, 9) == 9


def test_state_of_a_version_with_rows_per_operator_is_added_to_the_log() -> None:
    log = StreamLog(SCAN.types, 1)
    operator = built(log)
    rows = pa.table(
        {"c0": pa.array([1, 2], t.INT), "c1": pa.array([4, 6], t.TIMESTAMP), "ts": [4, 6], "arrival": [7, 9]}
    )
    operator.load({"rows": rows, "shown": pa.table({"shown": [1]})}, NO_FUNCTIONS)
    assert (log.arrivals.tolist(), operator.seen) == ([7, 9], 10)

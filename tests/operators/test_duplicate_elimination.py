"""DISTINCT without counting: the answer that SQL defines, the changes that counting sends, and little state."""

from __future__ import annotations

from random import Random

import numpy as np
import pyarrow as pa
import pytest

import eddyline
from eddyline.operators.base import Operator, Step
from eddyline.operators.counting import SetOperation
from eddyline.operators.duplicate_elimination import DuplicateElimination
from eddyline.plan import physical
from eddyline.plan.patterns import Pattern
from eddyline.state.query_table import QueryTable
from tests.nightly import TIMES
from tests.operators.driving import (
    NO_FUNCTIONS,
    PARAMS,
    Answer,
    Change,
    Given,
    GivenNode,
    Query,
    Source,
    answer,
    changes_of,
    check,
    given,
)


def operator(input_: GivenNode) -> DuplicateElimination:
    return DuplicateElimination(physical.DuplicateElimination(Pattern.WK, (input_,)), [Given(input_)])


def counting(input_: GivenNode) -> SetOperation:
    return SetOperation(physical.SetOperation(Pattern.WK, (input_,), "distinct"), [Given(input_)])


def pulled(op: Operator, changes: list[Change], clock: int, now: int) -> list[Change]:
    (child,) = op.children
    assert isinstance(child, Given)
    child.changes = list(changes)
    return changes_of(op.pull(Step("arrivals", clock, now, QueryTable(PARAMS).rows(), NO_FUNCTIONS)))


@pytest.mark.parametrize("ends", [True, False])
def test_a_value_is_in_the_answer_while_a_row_covers_the_present(ends: bool) -> None:
    def reference(changes: list[list[Change]], queries: list[Query], instant: int) -> Answer:
        return Answer(set(answer(changes[0], instant)))

    input_ = given(per_query=True, ends=ends)
    check(physical.DuplicateElimination(Pattern.WK, (input_,)), reference, seeds=20 * TIMES)


@pytest.mark.parametrize("seed", range(40 * TIMES))
def test_its_changes_are_those_that_counting_sends_in_the_same_order(seed: int) -> None:
    rnd = Random(seed)
    input_ = given(per_query=True, ends=rnd.random() < 0.9)
    own, counts, source, clock, arrival = operator(input_), counting(input_), Source(rnd, input_), 0, 0
    queries, sent = [0, 1, 2], 0
    for _ in range(30):
        batch = source.batch(clock, queries, arrival)
        arrival += len(batch)
        now = clock + rnd.choice([0, 0, 1, 2, 8])
        changes = pulled(own, batch, clock, now)
        assert changes == pulled(counts, batch, clock, now)
        sent, clock = sent + len(changes), now
        if rnd.random() < 0.1:
            queries = [*queries[1:], queries[-1] + 1]
            gone = np.array([queries[0] - 1])
            for op in (own, counts):
                op.forget(gone)
        if rnd.random() < 0.2:
            saved, own = own.save(), operator(input_)
            own.load(saved, NO_FUNCTIONS)
        if rnd.random() < 0.1:
            step = Step("arrivals", clock, clock, QueryTable(PARAMS).rows(), NO_FUNCTIONS)
            for op in (own, counts):
                op.expire(step)
    assert sent > 0


@pytest.mark.parametrize("seed", range(20 * TIMES))
def test_state_that_was_saved_by_counting_goes_on(seed: int) -> None:
    rnd = Random(seed)
    input_ = given(per_query=True)
    counts, source, clock, arrival = counting(input_), Source(rnd, input_), 0, 0

    def batch() -> tuple[list[Change], int]:
        nonlocal arrival
        changes = source.batch(clock, [0, 1], arrival)
        arrival += len(changes)
        return changes, clock + rnd.choice([0, 1, 2, 8])

    for _ in range(rnd.randint(1, 15)):
        changes, now = batch()
        pulled(counts, changes, clock, now)
        clock = now
    own = operator(input_)
    own.load(counts.save(), NO_FUNCTIONS)
    for _ in range(15):
        changes, now = batch()
        assert pulled(own, changes, clock, now) == pulled(counts, changes, clock, now)
        clock = now


def test_a_value_takes_at_most_two_rows_of_state() -> None:
    db = eddyline.connect()
    db.execute("CREATE STREAM s (v INT, ts TIMESTAMP) WATERMARK ts DELAY OF INTERVAL 0 SECONDS")
    db.execute("CREATE CONTINUOUS QUERY d AS SELECT DISTINCT v FROM s [RANGE 1 HOUR]")
    rng = np.random.default_rng(1)
    for i in range(20):
        ts = pa.array(np.full(1000, i * 1_000_000), pa.timestamp("us"))
        db.push("s", pa.table({"v": pa.array(rng.integers(0, 50, 1000), pa.int32()), "ts": ts}))
    (running,) = db.engine.running.values()
    (own,) = (o for o in running.root.walk() if isinstance(o, DuplicateElimination))
    assert 50 < own.size() <= 100
    assert len(own.calendar) <= 50
    assert db.snapshot("d").num_rows == 50


def test_values_that_no_longer_occur_are_removed() -> None:
    own = operator(given(per_query=True))
    for clock in range(0, 5000, 10):
        pulled(own, [Change((clock + i, None), clock, clock + 5, 1, 0, 0) for i in range(10)], clock, clock)
    assert len(own.slots) <= 1100
    expiring = Step("arrivals", 6000, 6000, QueryTable(PARAMS).rows(), NO_FUNCTIONS)
    own.expire(expiring)
    assert own.size() == 0


def test_intervals_ahead_of_the_clock_are_kept_merged() -> None:
    own = operator(given(per_query=True))
    row = (1, 1)
    rows = [Change(row, ts, ts + 1, 1, 0, 0) for ts in (10, 12, 14, 20, 11, 30)]
    assert pulled(own, rows, 0, 5) == []
    assert own.size() == 1 + 3  # the value; [10, 15], [20, 21] and [30, 31]
    assert [(c.ts, c.exp) for c in pulled(own, [], 5, 20)] == [(10, 15), (20, 21)]
    assert [(c.ts, c.exp) for c in pulled(own, [Change(row, 21, 40, 1, 0, 0)], 20, 21)] == []
    assert [(c.ts, c.exp) for c in pulled(own, [], 21, 22)] == [(22, 40)]


@pytest.mark.parametrize(
    ("sql", "counted"),
    [
        ("SELECT DISTINCT v FROM s [RANGE 1 HOUR]", False),
        ("SELECT DISTINCT v FROM s", False),
        ("SELECT DISTINCT a.v FROM s [RANGE 1 HOUR] AS a, s [RANGE 1 MINUTE] AS b WHERE a.v = b.v", False),
        ("SELECT DISTINCT v FROM s [ROWS 3]", True),
        ("SELECT DISTINCT v FROM t", True),
        ("SELECT DISTINCT n FROM (SELECT v, COUNT(*) AS n FROM s [RANGE 1 HOUR] GROUP BY v) AS g", True),
    ],
)
def test_rows_are_counted_only_if_the_input_may_retract(sql: str, counted: bool) -> None:
    db = eddyline.connect()
    db.execute("CREATE STREAM s (v INT, ts TIMESTAMP) WATERMARK ts; CREATE TABLE t (v INT)")
    db.execute(f"CREATE CONTINUOUS QUERY d AS {sql}")
    plan = "\n".join(db.execute("EXPLAIN d")["plan"].to_pylist())
    assert ("distinct by counting" in plan) is counted
    assert ("distinct by latest ends, because its input never retracts" in plan) is not counted

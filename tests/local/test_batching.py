"""Large random inputs, cut in different ways, give the same consolidated changes: engine against engine."""

from __future__ import annotations

from datetime import datetime
from functools import cache
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.local.common import START, Change, at, bag, clock_of, consolidated, log_of, world

ROWS = 2_000
QUERIES = {
    "filter": "SELECT a, n FROM s WHERE a > 30 AND c < 0.5",
    "window": "SELECT a, b FROM s [RANGE 2 SECONDS] WHERE n <> 'n3'",
    "join": "SELECT r.b, s.b FROM r [RANGE 3 SECONDS], s [RANGE 2 SECONDS] WHERE r.a = s.a",
    "half": "SELECT r.b, s.c FROM r, s [RANGE 1 SECOND] WHERE r.b = s.b AND r.n = s.n",
    "band": "SELECT r.a, s.a FROM r [RANGE 1 SECOND], s [RANGE 200 MILLISECONDS] WHERE s.a - r.a BETWEEN 0 AND 2",
    "time": "SELECT r.b, s.b FROM r, s WHERE r.a = s.a AND abs(r.ts - s.ts) <= INTERVAL 1 SECOND",
    "selfjoin": "SELECT x.b, y.b FROM s [RANGE 1 SECOND] x, s [RANGE 2 SECONDS] y WHERE x.a = y.a AND x.b < y.b",
    "three": "SELECT x.b, y.b, z.b FROM r [RANGE 1 SECOND] x, s [RANGE 1 SECOND] y, r [RANGE 2 SECONDS] z "
    "WHERE x.a = y.a AND y.b = z.b",
    "distinct": "SELECT DISTINCT a FROM s [RANGE 2 SECONDS]",
    "distinct_ever": "SELECT DISTINCT a, n FROM s",
    "group": "SELECT a, COUNT(*) AS k, SUM(b) AS v, MIN(b) AS lo, MAX(n) AS hi FROM s [RANGE 3 SECONDS] GROUP BY a",
    "group_ever": "SELECT n, COUNT(*) AS k, SUM(b) AS v FROM s GROUP BY n",
    "total": "SELECT COUNT(*) AS k, SUM(a) AS v, MAX(b) AS m FROM s [RANGE 1 SECOND]",
    "floats": "SELECT n, SUM(c) AS v, AVG(c) AS w FROM s [RANGE 2 SECONDS] GROUP BY n",
    "having": "SELECT n, COUNT(*) AS k FROM s [RANGE 1 SECOND] GROUP BY n HAVING COUNT(*) > 20",
    "negation": "SELECT a FROM s [RANGE 2 SECONDS] EXCEPT ALL SELECT a FROM r [RANGE 3 SECONDS]",
    "common": "SELECT a FROM s [RANGE 2 SECONDS] INTERSECT ALL SELECT a FROM r [RANGE 3 SECONDS]",
    "union": "SELECT a FROM s [RANGE 1 SECOND] UNION SELECT a FROM r [RANGE 2 SECONDS]",
    "latest": "SELECT a, b FROM s [ROWS 25]",
    "latest_total": "SELECT SUM(b) AS v, COUNT(*) AS k FROM s [ROWS 40] WHERE a > 10",
    "latest_join": "SELECT x.b, y.b FROM r [ROWS 30] x, s [ROWS 30] y WHERE x.a = y.a",
    "nested": "SELECT MAX(g.k) AS m FROM (SELECT a, COUNT(*) AS k FROM s [RANGE 2 SECONDS] GROUP BY a) AS g",
    "table": "SELECT s.b, t.n FROM s [RANGE 2 SECONDS], t WHERE s.a = t.a",
    "frozen": "SELECT s.b, u.n FROM s [RANGE 2 SECONDS], u WHERE s.a = u.a",
    "grouped_join": "SELECT r.n, COUNT(*) AS k, SUM(s.b) AS v FROM r [RANGE 1 SECOND], s [RANGE 1 SECOND] "
    "WHERE r.a = s.a GROUP BY r.n",
    "joined_group": "SELECT g.k, r.b FROM (SELECT a, COUNT(*) AS k FROM s [RANGE 1 SECOND] GROUP BY a) AS g, "
    "r [RANGE 1 SECOND] WHERE g.a = r.a",
}  # fmt: skip
ONE_BY_ONE = ["filter", "join", "distinct", "group", "total", "negation", "latest", "nested", "frozen"]


@cache
def inputs(stream: str, late: bool) -> pa.Table:
    """A few thousand tuples over about half a minute, out of order by up to a second and more."""
    rnd = np.random.default_rng([ord(stream), late])
    micros = np.arange(ROWS) * 10_000 + rnd.integers(-900_000, 0, ROWS) - late * (rnd.random(ROWS) < 0.02) * 3_000_000
    micros = np.maximum(micros // 1_000 * 1_000, 0)
    ts = np.datetime64(START, "us") + micros.astype("timedelta64[us]")
    a = pa.array(rnd.integers(0, 60, ROWS).astype(np.int32), mask=rnd.random(ROWS) < 0.02)
    c = pa.array(np.round(rnd.random(ROWS) * 8) / 8, mask=rnd.random(ROWS) < 0.02)
    n = pa.array([f"n{x}" for x in rnd.integers(0, 6, ROWS)], mask=rnd.random(ROWS) < 0.02)
    return pa.table({"a": a, "b": np.arange(ROWS) % 97, "c": c, "n": n, "ts": ts})


def heard(name: str, size: int, count: int) -> tuple[dict[Any, int], Any, Any, datetime]:
    """The consolidated changes, the last answer and the late rows under one cut."""
    db = world(delay=1)
    for x in "tu":
        db.execute(f"INSERT INTO {x} VALUES " + ", ".join(f"({i}, 'p{i % 4}')" for i in range(0, 60, 3)))
    log: list[Change] = log_of(db.execute(f"CREATE CONTINUOUS QUERY q AS {QUERIES[name]}"), "q")
    rnd = Random(f"{name}{size}")
    for begin in range(0, count, size):
        parts = {x: inputs(x, True).slice(begin, min(size, count - begin)) for x in "rs"}
        if rnd.random() < 0.5:
            parts = {x: parts[x] for x in "sr"}
        log += log_of(db.push(parts), "q")
    log += log_of(db.advance(at(10)), "q")
    clock = clock_of(db, "q")
    return consolidated(log, clock), bag(db.snapshot("q")), [db.late(x).num_rows for x in "rs"], clock


@pytest.mark.parametrize("name", QUERIES)
def test_changes_do_not_depend_on_batches(name: str) -> None:
    want = heard(name, ROWS, ROWS)
    assert want[0] and sum(want[2]) > 0
    for size in (1000, 113):
        found = heard(name, size, ROWS)
        assert found[0] == want[0], f"batches of {size}"
        assert found[1:] == want[1:], f"batches of {size}"


@pytest.mark.parametrize("name", ONE_BY_ONE)
def test_changes_do_not_depend_on_tuples_coming_one_by_one(name: str) -> None:
    count = 150
    want = heard(name, count, count)
    for size in (7, 1):
        assert heard(name, size, count) == want, f"batches of {size}"

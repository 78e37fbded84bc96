"""Over a short window state does not grow with time, however many keys come and go."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.local.common import START, at, row, world

PER_BATCH = 100
BATCHES = 200
# The windows hold some hundred tuples of the 20,000 that come; operators clear away what is over by the ten thousand.
BOUND = 36_000

QUERIES = {
    "filter": "SELECT a, n FROM s [RANGE 3 SECONDS] WHERE b >= 0",
    "join": "SELECT r.a, s.n FROM r [RANGE 3 SECONDS], s [RANGE 3 SECONDS] WHERE r.a = s.a",
    "band": "SELECT r.a, s.n FROM r [RANGE 1 SECOND], s [RANGE 1 SECOND] WHERE r.b = s.b AND s.a - r.a BETWEEN 0 AND 1",
    "three": "SELECT x.a FROM r [RANGE 2 SECONDS] x, s [RANGE 2 SECONDS] y, s [RANGE 3 SECONDS] z "
    "WHERE x.a = y.a AND y.n = z.n",
    "time": "SELECT r.a FROM r [RANGE 2 SECONDS], s [RANGE 2 SECONDS] "
    "WHERE r.a = s.a AND abs(r.ts - s.ts) <= INTERVAL 1 SECOND",
    "distinct": "SELECT DISTINCT a, n FROM s [RANGE 3 SECONDS]",
    "group": "SELECT a, n, COUNT(*) AS k, SUM(b) AS v, MAX(c) AS m FROM s [RANGE 3 SECONDS] GROUP BY a, n",
    "total": "SELECT COUNT(*) AS k, MIN(a) AS lo, MAX(n) AS hi, AVG(c) AS v FROM s [RANGE 3 SECONDS]",
    "negation": "SELECT a FROM s [RANGE 3 SECONDS] EXCEPT ALL SELECT a FROM r [RANGE 3 SECONDS]",
    "common": "SELECT n FROM s [RANGE 3 SECONDS] INTERSECT ALL SELECT n FROM r [RANGE 3 SECONDS]",
    "latest": "SELECT a, n FROM s [ROWS 50]",
    "latest_groups": "SELECT n, COUNT(*) AS k FROM s [ROWS 50] GROUP BY n",
    "latest_join": "SELECT x.a, y.n FROM r [ROWS 20] x, s [ROWS 20] y WHERE x.a = y.a",
    "nested": "SELECT MAX(g.k) AS m FROM (SELECT a, COUNT(*) AS k FROM s [RANGE 3 SECONDS] GROUP BY a) AS g",
    "table": "SELECT s.a, t.n FROM s [RANGE 3 SECONDS], t WHERE s.b = t.a",
    "frozen": "SELECT s.a, u.n FROM s [RANGE 3 SECONDS], u WHERE s.b = u.a",
    "grouped_join": "SELECT s.b, COUNT(*) AS k FROM r [RANGE 2 SECONDS], s [RANGE 2 SECONDS] "
    "WHERE r.a = s.a GROUP BY s.b",
}


def batch(i: int, shift: int) -> pa.Table:
    """Keys that come once and never again; times within one second."""
    keys = np.arange(i * PER_BATCH, (i + 1) * PER_BATCH)
    ts = np.datetime64(START, "us") + np.sort(i * 1_000_000 + (keys * 7919 + shift) % 1_000_000).astype(
        "timedelta64[us]"
    )
    data = {"a": keys.astype(np.int32), "b": keys % 10, "c": keys / 7, "n": [f"key {k}" for k in keys], "ts": ts}
    return pa.table(data)


def lives(db: Any) -> Iterator[int]:
    for i in range(BATCHES):
        db.push({"r": batch(i, 0), "s": batch(i, 1)})
        yield i


def written(path: Path) -> int:
    return sum(f.stat().st_size for f in path.rglob("*") if f.is_file())


EVERY = ["filter", "join", "distinct", "group", "negation", "latest"]
NAMES = [*QUERIES, *(f"{name}_all" for name in EVERY)]


@pytest.fixture(scope="module")
def life(tmp_path_factory: Any) -> dict[str, tuple[int, int, int]]:
    """Per query: the most rows of state it ever held, and the bytes it saved half-way and at the end."""
    path = tmp_path_factory.mktemp("life") / "d"
    db = world()
    db.execute("INSERT INTO t VALUES (1, 'x'), (2, 'y'); INSERT INTO u VALUES (1, 'x'), (2, 'y')")
    for name in NAMES:
        emit = "all" if name.endswith("_all") else "changes"
        db.execute(f"CREATE CONTINUOUS QUERY {name} WITH (emit = '{emit}') AS {QUERIES[name.removesuffix('_all')]}")
    family = {r["query"]: r["family"] for r in db.execute("SHOW QUERIES").to_pylist()}
    most = dict.fromkeys([*NAMES, "history"], 0)
    sizes: dict[str, list[int]] = {name: [] for name in most}
    for i in lives(db):
        if i % 20 == 19:
            found = db.stats()
            for name in NAMES:
                figures = found["families"][family[name]]
                most[name] = max(most[name], figures["state_rows"] + figures["shared_rows"])
            most["history"] = max(most["history"], *(x["kept"] for x in found["streams"].values()))
        if i in (BATCHES // 2 - 1, BATCHES - 1):
            db.save(path)
            for name in NAMES:
                sizes[name].append(written(path / "families" / family[name].removeprefix("family_")))
            sizes["history"].append(written(path / "streams"))
    return {name: (most[name], *sizes[name]) for name in most}  # type: ignore[misc]


@pytest.mark.parametrize("name", [*NAMES, "history"])
def test_state_does_not_grow_with_time(name: str, life: dict[str, tuple[int, int, int]]) -> None:
    most, halfway, end = life[name]
    assert most <= BOUND
    assert end <= 1.5 * halfway + 100_000, "what is saved grows with time"


def test_history_stays_bounded_when_snapshots_are_taken_all_the_time() -> None:
    db = world()
    db.execute("CREATE CONTINUOUS QUERY q AS SELECT a FROM s [RANGE 3 SECONDS]")
    for _ in lives(db):
        db.snapshot("q")
    assert db.stats()["streams"]["s"]["kept"] <= BATCHES * PER_BATCH / 2


def test_history_stays_bounded_when_the_connection_is_saved_all_the_time(tmp_path: Path) -> None:
    db = world()
    db.execute("CREATE CONTINUOUS QUERY q AS SELECT a FROM s [RANGE 3 SECONDS]")
    for i in lives(db):
        if i % 20 == 0:
            db.save(tmp_path / "d")
    assert db.stats()["streams"]["s"]["kept"] <= BATCHES * PER_BATCH / 2


def test_history_is_let_go_when_time_passes_without_tuples() -> None:
    db = world()
    db.execute("CREATE CONTINUOUS QUERY q AS SELECT a FROM s [RANGE 3 SECONDS]")
    for i in range(20):
        db.push("s", batch(i, 0))
    for i in range(100):
        db.advance(at(1000 + i))
    assert db.stats()["streams"]["s"]["kept"] == 0


def test_history_goes_with_the_last_query_that_needs_it() -> None:
    db = world()
    db.execute("CREATE CONTINUOUS QUERY q AS SELECT a FROM s")
    for i in range(20):
        db.push("s", batch(i, 0))
    db.execute("DROP CONTINUOUS QUERY q")
    for i in range(20, 30):
        db.push("s", batch(i, 0))
    assert db.stats()["streams"]["s"]["kept"] == 0


def test_state_of_dropped_queries_is_let_go() -> None:
    db = world()
    db.execute("CREATE QUERY FAMILY f (lo INT) AS SELECT DISTINCT a FROM s WHERE a % 10 = :lo")
    for i in range(60):
        names = [f"q{i}_{j}" for j in range(50)]
        db.register("f", pa.table({"query": names, "lo": pa.array([j % 10 for j in range(50)], pa.int32())}))
        db.push("s", batch(i, 0))
        db.drop("f", names)
    db.register("f", [{"query": "last", "lo": 0}])
    db.push("s", [row(1000, a=10)])
    assert db.stats()["families"]["f"]["state_rows"] <= 100 * PER_BATCH


def test_templates_of_dropped_queries_are_let_go() -> None:
    db = world()
    for i in range(300):
        db.execute(f"CREATE CONTINUOUS QUERY q{i} AS SELECT a AS x{i} FROM s WHERE a > 1")
        db.execute(f"DROP CONTINUOUS QUERY q{i}")
    assert db.stats()["families"] == {} and db.execute("SHOW FAMILIES").num_rows == 0

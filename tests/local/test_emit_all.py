"""`WITH (emit = 'all')`: a `-` for every expiration, once; signs, intervals and snapshots tell the same answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from random import Random
from typing import Any

import pytest

import eddyline
from tests.local.common import Logs, at, bag, by_intervals, by_signs, clock_of, log_of, random_rows, row, world

TICK = timedelta(microseconds=1)
QUERIES = {
    "filter": "SELECT a, n FROM s [RANGE 2 SECONDS] WHERE a > 0",
    "now": "SELECT a FROM s [NOW]",
    "unbounded": "SELECT a FROM s WHERE a < 2",
    "join": "SELECT r.a, s.b FROM r [RANGE 2 SECONDS], s [RANGE 3 SECONDS] WHERE r.a = s.a",
    "half": "SELECT r.a, s.b FROM r, s [RANGE 3 SECONDS] WHERE r.a = s.a",
    "selfjoin": "SELECT x.b, y.b FROM s [RANGE 1 SECOND] x, s [RANGE 2 SECONDS] y WHERE x.a = y.a",
    "distinct": "SELECT DISTINCT a FROM s [RANGE 2 SECONDS]",
    "grouped": "SELECT a, COUNT(*) AS k, SUM(b) AS v, MAX(c) AS m FROM s [RANGE 3 SECONDS] GROUP BY a",
    "having": "SELECT a, COUNT(*) AS k FROM s [RANGE 3 SECONDS] GROUP BY a HAVING COUNT(*) > 1",
    "total": "SELECT COUNT(*) AS k, MIN(b) AS v FROM s [RANGE 2 SECONDS]",
    "except_": "SELECT a FROM s [RANGE 3 SECONDS] EXCEPT ALL SELECT a FROM r [RANGE 2 SECONDS]",
    "intersect_": "SELECT a FROM s [RANGE 3 SECONDS] INTERSECT ALL SELECT a FROM r [RANGE 2 SECONDS]",
    "union_": "SELECT a FROM s [RANGE 3 SECONDS] UNION ALL SELECT a FROM r [RANGE 1 SECOND]",
    "latest": "SELECT a, b FROM s [ROWS 3]",
    "table_": "SELECT s.a, t.n FROM s [RANGE 2 SECONDS], t WHERE s.a = t.a",
    "frozen": "SELECT s.a, u.n FROM s [RANGE 2 SECONDS], u WHERE s.a = u.a",
    "nested": "SELECT MAX(g.k) AS m FROM (SELECT a, COUNT(*) AS k FROM s [RANGE 2 SECONDS] GROUP BY a) AS g",
}


def steps(rnd: Random, db: Any, count: int) -> Iterator[Any]:
    """Random pushes, table changes and passing time; at the end everything expires."""
    now = 0.0
    for _ in range(count):
        now += rnd.choice([0, 0.5, 1, 2])
        times = [max(0.0, now - rnd.choice([0, 0, 0, 1, 3])) for _ in range(rnd.randint(0, 5))]
        batch = random_rows(rnd, times)
        split = rnd.randint(0, len(batch))
        kind = rnd.randrange(6)
        if kind == 0:
            table = rnd.choice("tu")
            yield db.execute(
                rnd.choice(
                    [f"INSERT INTO {table} VALUES ({rnd.randint(0, 3)}, 'z')", f"DELETE FROM {table} WHERE a < 2"]
                )
            )
        elif kind == 1:
            yield db.advance(at(now))
        else:
            yield db.push({"r": batch[:split], "s": batch[split:]})
    for later in (0, 1, 2.5, 60):
        yield db.advance(at(now + later))


def both(name: str, delay: int) -> tuple[Any, Logs]:
    """The query with and without emit = 'all', on one connection."""
    db, logs = world(delay=delay), Logs("plain", "every")
    plain = db.execute(f"CREATE CONTINUOUS QUERY plain AS {QUERIES[name]}")
    every = db.execute(f"CREATE CONTINUOUS QUERY every WITH (emit = 'all') AS {QUERIES[name]}")
    logs.of["plain"] += log_of(plain, "plain")
    logs.of["every"] += log_of(every, "every")
    return db, logs


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("name", QUERIES)
def test_signs_intervals_and_snapshots_agree_after_every_step(name: str, seed: int) -> None:
    rnd = Random(f"{name}{seed}")
    db, logs = both(name, rnd.choice([0, 2]))
    for found in steps(rnd, db, 14):
        logs.take(found)
        clock = clock_of(db, "every") if db.stats()["families"]["family_2"]["clock"] else None
        if clock is None:
            continue
        want = bag(db.snapshot("plain"))
        assert bag(db.snapshot("every")) == want
        assert by_intervals(logs.of["plain"], clock) == want
        assert by_intervals(logs.of["every"], clock) == want
        assert by_signs(logs.of["every"], clock) == want


@pytest.mark.parametrize("name", QUERIES)
def test_emit_all_adds_one_end_per_expiration_and_nothing_else(name: str) -> None:
    rnd = Random(f"ends {name}")
    db, logs = both(name, 1)
    for found in steps(rnd, db, 14):
        logs.take(found)
    plain, every = Counter(logs.of["plain"]), Counter(logs.of["every"])
    assert not plain - every, "what is sent without emit = 'all' is sent with it too"
    ends = every - plain
    assert all(op == "-" and ts == exp + TICK for op, ts, exp, _ in ends)
    due: Counter[Any] = Counter()
    for op, _, exp, values in logs.of["plain"]:
        if exp is not None and exp < clock_of(db, "every"):
            due[values, exp] += 1 if op == "+" else -1
    want = Counter({key: n for key, n in due.items() if n})
    assert Counter({(values, exp): n for (_, _, exp, values), n in ends.items()}) == want


def test_end_is_sent_once_when_the_clock_passes_it() -> None:
    db = world()
    db.execute("CREATE CONTINUOUS QUERY q WITH (emit = 'all') AS SELECT a FROM s [RANGE 2 SECONDS]")
    assert log_of(db.push("s", [row(0, a=5)]), "q") == [("+", at(0), at(2), (5,))]
    assert db.advance(at(2)).count() == 0  # the last instant still belongs to the answer
    assert log_of(db.advance(at(2.5)), "q") == [("-", at(2) + TICK, at(2), (5,))]
    assert db.advance(at(3)).count() == db.advance(at(9)).count() == 0


def test_equal_rows_end_one_by_one() -> None:
    db = world()
    db.execute("CREATE CONTINUOUS QUERY q WITH (emit = 'all') AS SELECT a FROM s [RANGE 2 SECONDS]")
    db.push("s", [row(0), row(0), row(1)])
    assert Counter(log_of(db.advance(at(10)), "q")) == {
        ("-", at(2) + TICK, at(2), (1,)): 2,
        ("-", at(3) + TICK, at(3), (1,)): 1,
    }


def test_row_taken_back_by_a_table_does_not_end_again() -> None:
    db = world()
    db.execute("INSERT INTO t VALUES (1, 'x')")
    db.execute(
        "CREATE CONTINUOUS QUERY q WITH (emit = 'all') AS SELECT s.a FROM s [RANGE 5 SECONDS], t WHERE s.a = t.a"
    )
    db.push("s", [row(0)])
    assert [op for op, *_ in log_of(db.execute("DELETE FROM t"), "q")] == ["-"]
    assert db.advance(at(20)).count() == 0


def test_table_changes_do_not_revise_what_has_ended() -> None:
    db = world()
    db.execute("INSERT INTO t VALUES (1, 'x')")
    db.execute(
        "CREATE CONTINUOUS QUERY q WITH (emit = 'all') AS SELECT s.a FROM s [RANGE 2 SECONDS], t WHERE s.a = t.a"
    )
    logs = Logs("q")
    for step in (
        lambda: db.push("s", [row(0)]),
        lambda: db.advance(at(10)),
        lambda: db.execute("DELETE FROM t"),
        lambda: db.execute("INSERT INTO t VALUES (1, 'y'), (1, 'z')"),
    ):
        logs.take(step())
    assert by_signs(logs.of["q"], at(10)) == by_intervals(logs.of["q"], at(10)) == Counter()


def test_queries_with_and_without_emit_all_are_of_different_families() -> None:
    db, _ = both("filter", 0)
    assert db.execute("SHOW FAMILIES").num_rows == 2


def test_families_take_emit_all_for_all_their_queries() -> None:
    db = world()
    db.execute("CREATE QUERY FAMILY f (w INT) WITH (emit = 'all') AS SELECT a FROM s [RANGE :w SECONDS]")
    db.register("f", [{"query": "w1", "w": 1}, {"query": "w3", "w": 3}])
    db.push("s", [row(0)])
    ch = db.advance(at(2))
    assert log_of(ch, "w1") == [("-", at(1) + TICK, at(1), (1,))] and log_of(ch, "w3") == []
    assert log_of(db.advance(at(4)), "w3") == [("-", at(3) + TICK, at(3), (1,))]


def test_dropped_query_gets_no_ends() -> None:
    db = world()
    db.execute("CREATE QUERY FAMILY f (w INT) WITH (emit = 'all') AS SELECT a FROM s [RANGE :w SECONDS]")
    db.register("f", [{"query": "w1", "w": 1}, {"query": "w3", "w": 1}])
    db.push("s", [row(0)])
    db.drop("f", ["w1"])
    assert db.advance(at(9)).queries() == ["w3"]


def test_unknown_options_are_refused() -> None:
    db = world()
    with pytest.raises(eddyline.BindError, match="emit"):
        db.execute("CREATE CONTINUOUS QUERY q WITH (emit = 'never') AS SELECT a FROM s")
    with pytest.raises(eddyline.BindError, match="emits"):
        db.execute("CREATE CONTINUOUS QUERY q WITH (emits = 'all') AS SELECT a FROM s")
    assert db.execute("SHOW QUERIES").num_rows == 0

"""Many joins over the same streams: no row is joined twice or lost.

Each test is a case that a store of rows shared by all queries could get wrong: self-joins, equal timestamps, changes of
tables, inputs that retract rows, restored connections.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import eddyline
from tests.local.common import Logs, at, bag, by_intervals, cuts, row, world
from tests.local.shared_streams import PAIR, add, joins, one_by_one, results

# Self-joins.


@pytest.mark.parametrize("size", [1, 2, 5])
def test_self_join_pairs_every_row_with_itself_once_however_the_rows_are_cut(size: int) -> None:
    twice = "SELECT x.b AS xb, y.b AS yb FROM r [RANGE 9 SECONDS] AS x, r [RANGE 9 SECONDS] AS y WHERE x.a = y.a"
    thrice = "SELECT x.b, y.b, z.b FROM r [RANGE 9 SECONDS] x, r [RANGE 9 SECONDS] y, r [RANGE 9 SECONDS] z "
    db = joins(twice, thrice + "WHERE x.a = y.a AND z.a = y.a")
    logs = Logs("q0", "q1")
    rows = [row(1, b=1), row(1, b=2), row(2, a=7, b=3), row(2, b=4), row(2, a=None, b=5)]
    for part in cuts(rows, size):
        logs.take(db.push("r", part))
    same = (1, 2, 4)
    assert Counter(v for *_, v in logs.of["q0"]) == Counter([(x, y) for x in same for y in same] + [(3, 3)])
    wanted = Counter([(x, y, z) for x in same for y in same for z in same] + [(3, 3, 3)])
    assert Counter(v for *_, v in logs.of["q1"]) == bag(db.snapshot("q1")) == wanted


@pytest.mark.parametrize("size", [1, 2, 4])
def test_self_join_applies_the_window_of_each_side(size: int) -> None:
    db = joins("SELECT x.b AS xb, y.b AS yb FROM r [RANGE 1 SECOND] AS x, r [RANGE 5 SECONDS] AS y WHERE x.a = y.a")
    rows = [row(0, b=0), row(1, b=1), row(3, b=3), row(6, b=6)]
    logs = Logs("q0")
    for part in cuts(rows, size):
        logs.take(db.push("r", part))
    # Both are in their windows at the later of the two times: x for 1 second, y for 5.
    wanted = Counter((x, y) for x in (0, 1, 3, 6) for y in (0, 1, 3, 6) if max(x, y) <= min(x + 1, y + 5))
    assert Counter(v for *_, v in logs.of["q0"]) == wanted
    assert bag(db.snapshot("q0")) == Counter({(6, 3): 1, (6, 6): 1, (6, 1): 1})


def test_self_join_of_a_count_window_with_a_time_window() -> None:
    db = joins("SELECT x.b AS xb, y.b AS yb FROM r [ROWS 1] AS x, r [RANGE 3 SECONDS] AS y WHERE x.a = y.a")
    for _ in one_by_one(db, "r", row(0, b=0), row(1, b=1), row(2, b=2)):
        pass
    assert bag(db.snapshot("q0")) == Counter({(2, 0): 1, (2, 1): 1, (2, 2): 1})
    db.push("r", [row(5, b=5)])
    assert bag(db.snapshot("q0")) == Counter({(5, 2): 1, (5, 5): 1})


def test_self_join_with_a_third_stream_uses_each_row_in_each_role() -> None:
    db = joins(
        "SELECT x.b, y.b, z.b FROM r [RANGE 9 SECONDS] x, s [RANGE 9 SECONDS] z, r [RANGE 9 SECONDS] y "
        "WHERE x.a = z.a AND z.a = y.a AND x.b < y.b"
    )
    db.push({"r": [row(1, b=1), row(1, b=2)], "s": [row(1, b=9)]})
    found = db.push("r", [row(2, b=3)])
    assert results(found, "q0") == Counter({(1, 3, 9): 1, (2, 3, 9): 1})


# Equal timestamps and order of arrival.


@pytest.mark.parametrize("size", [1, 2, 3, 9])
def test_streams_pushed_together_at_one_instant_make_every_combination_once(size: int) -> None:
    text = "SELECT x.b, y.b, z.b FROM r [RANGE 5 SECONDS] x, s [RANGE 5 SECONDS] y, v [RANGE 5 SECONDS] z "
    db = joins(text + "WHERE x.a = y.a AND y.a = z.a", text + "WHERE z.a = x.a AND x.a = y.a", PAIR.format(5))
    logs = Logs("q0", "q1", "q2")
    rows = [(stream, row(1, b=i)) for i in range(3) for stream in "rsv"]
    for part in cuts(rows, size):
        batch: dict[str, list[Any]] = {}
        for stream, each in part:
            batch.setdefault(stream, []).append(each)
        logs.take(db.push(batch))
    triples = Counter((x, y, z) for x in range(3) for y in range(3) for z in range(3))
    assert Counter(v for *_, v in logs.of["q0"]) == Counter(v for *_, v in logs.of["q1"]) == triples
    assert Counter(v for *_, v in logs.of["q2"]) == Counter((x, y) for x in range(3) for y in range(3))


def test_equal_rows_count_as_often_as_they_arrive() -> None:
    db = joins(PAIR.format(5))
    db.push("r", [row(1), row(1)])
    db.push("r", [row(1)])
    assert results(db.push("s", [row(1), row(2)]), "q0") == Counter({(1, 1): 6})
    assert bag(db.snapshot("q0")) == Counter({(1, 1): 3})  # the clock is that of r, at 1


def test_rows_out_of_order_meet_rows_that_newer_ones_would_have_evicted() -> None:
    db = joins(PAIR.format(2), delay=10)
    db.push("s", [row(10, b=10), row(12, b=12)])
    db.push({"s": [row(30, a=5)], "r": [row(20, a=6)]})  # the clock is 10: rows of second 10 are still needed
    found = db.push("r", [row(11, b=11), row(12.5, b=13)])
    assert results(found, "q0") == Counter({(11, 10): 1, (11, 12): 1, (13, 12): 1})


def test_late_tuples_join_with_nothing_later() -> None:
    db = joins(PAIR.format(100))
    db.push("r", [row(10, b=10)])
    db.push("r", [row(5, b=5)])
    assert results(db.push("s", [row(10, b=1)]), "q0") == Counter({(10, 1): 1})
    assert db.stats()["late"] == 1
    assert results(db.push({"r": [row(1)], "s": []}), "q0") == Counter()


def test_under_clock_max_a_tuple_may_be_behind_the_clock_of_one_family_and_not_of_another() -> None:
    own = "SELECT x.b AS xb, y.b AS yb FROM r [RANGE 50 SECONDS] x, r [RANGE 50 SECONDS] y WHERE x.a = y.a"
    db = joins(PAIR.format(50), own, PAIR.format(50).replace("s [", "v ["), clock="max")
    db.push("s", [row(10, b=10)])
    db.push("v", [row(4, b=4)])
    found = db.push("r", [row(5, b=5)])
    assert results(found, "q0") == Counter()  # s has set its clock to 10
    assert results(found, "q1") == Counter({(5, 5): 1})
    assert results(found, "q2") == Counter({(5, 4): 1})
    found = db.push("r", [row(11, b=11)])
    assert results(found, "q0") == Counter({(11, 10): 1})
    assert results(found, "q1") == Counter({(5, 11): 1, (11, 5): 1, (11, 11): 1})
    assert results(db.push("s", [row(12, b=12)]), "q0") == Counter({(11, 12): 1})
    assert bag(db.snapshot("q0")) == Counter({(11, 10): 1, (11, 12): 1})
    assert db.late("r").num_rows == 1


# Tables.


def test_table_that_changes_between_pushes_is_seen_as_it_was_and_as_it_is() -> None:
    join = (
        "SELECT x.b, y.b, t.n FROM r [RANGE 9 SECONDS] x, s [RANGE 9 SECONDS] y, {0} AS t WHERE x.a = y.a AND y.a = t.a"
    )
    db = joins(join.format("t"), join.format("u"))
    db.execute("INSERT INTO t VALUES (1, 'old'); INSERT INTO u VALUES (1, 'old')")
    logs = Logs("q0", "q1")
    heard = [
        db.push({"r": [row(1, b=1)], "s": [row(1, b=2)]}),
        db.execute("DELETE FROM t WHERE a = 1"),
        db.execute("DELETE FROM u WHERE a = 1"),
        db.execute("INSERT INTO u VALUES (1, 'new')"),
        db.execute("INSERT INTO t VALUES (1, 'new')"),
        db.push("s", [row(2, b=3)]),
        db.push("r", [row(2, a=9)]),
    ]
    assert results(heard[0], "q0") == results(heard[0], "q1") == Counter({(1, 2, "old"): 1})  # read after all changes
    for changes in heard:
        logs.take(changes)
    assert bag(db.snapshot("q0")) == Counter({(1, 2, "new"): 1, (1, 3, "new"): 1})
    assert bag(db.snapshot("q1")) == Counter({(1, 2, "old"): 1, (1, 3, "new"): 1})
    for query in ("q0", "q1"):
        assert by_intervals(logs.of[query], at(2)) == bag(db.snapshot(query))


def test_query_registered_after_a_change_of_a_table_sees_the_whole_table_and_no_earlier_tuple() -> None:
    text = "SELECT x.b AS rb, k.n FROM r [RANGE 50 SECONDS] x, k WHERE x.a = k.a"
    db = joins(text)
    db.push("r", [row(1, b=1)])
    db.execute("INSERT INTO k VALUES (1, 'one')")
    add(db, "late", text)
    db.push("r", [row(2, b=2)])
    assert bag(db.snapshot("late")) == Counter({(2, "one"): 1})
    assert bag(db.snapshot("q0")) == Counter({(1, "one"): 1, (2, "one"): 1})


# Inputs that retract rows.


def test_count_window_that_pushes_a_row_out_retracts_its_joins_in_every_query() -> None:
    text = "SELECT x.b AS rb, y.b AS sb FROM r [ROWS {}] AS x, s [RANGE 50 SECONDS] AS y WHERE x.a = y.a"
    db = joins(text.format(1), text.format(2))
    logs = Logs("q0", "q1")
    logs.take(db.push({"r": [row(1, b=1)], "s": [row(1, b=9)]}))
    logs.take(db.push({"r": [row(2, b=2)], "s": [row(2, a=5)]}))
    assert by_intervals(logs.of["q0"], at(2)) == Counter({(2, 9): 1})
    assert by_intervals(logs.of["q1"], at(2)) == Counter({(1, 9): 1, (2, 9): 1})
    logs.take(db.push({"r": [row(3, b=3)], "s": [row(3, a=5)]}))
    assert by_intervals(logs.of["q0"], at(3)) == bag(db.snapshot("q0")) == Counter({(3, 9): 1})
    assert by_intervals(logs.of["q1"], at(3)) == bag(db.snapshot("q1")) == Counter({(2, 9): 1, (3, 9): 1})


def test_distinct_below_a_join_and_the_stream_itself_beside_it() -> None:
    db = joins(
        "SELECT d.a, y.b FROM (SELECT DISTINCT a FROM r [RANGE 3 SECONDS]) AS d, r [RANGE 9 SECONDS] AS y "
        "WHERE d.a = y.a"
    )
    db.push("r", [row(1, b=1), row(1, b=2)])
    db.push("r", [row(3, b=3)])
    assert bag(db.snapshot("q0")) == Counter({(1, 1): 1, (1, 2): 1, (1, 3): 1})
    db.advance(at(7))
    assert bag(db.snapshot("q0")) == Counter()
    db.push("r", [row(7, b=7)])
    assert bag(db.snapshot("q0")) == Counter({(1, i): 1 for i in (1, 2, 3, 7)})


# Restoring.


def test_restored_store_serves_old_queries_and_hides_old_rows_from_new_ones(tmp_path: Path) -> None:
    db = joins(PAIR.format(20), "SELECT b FROM r [ROWS 3]", "SELECT x.b AS l, y.b AS m FROM r x, r y WHERE x.a = y.a")
    db.push("r", [row(1, b=1)])
    db.save(tmp_path / "state")
    db = eddyline.connect(tmp_path / "state")
    add(db, "late", PAIR.format(40))
    db.push("r", [row(2, b=2)])
    found = db.push("s", [row(2, b=9)])
    assert results(found, "q0") == Counter({(1, 9): 1, (2, 9): 1})
    assert results(found, "late") == Counter({(2, 9): 1})
    assert bag(db.snapshot("q1")) == Counter({(1,): 1, (2,): 1})
    assert bag(db.snapshot("q2")) == Counter((x, y) for x in (1, 2) for y in (1, 2))


def test_a_row_that_arrives_after_registration_is_not_in_the_initial_answer() -> None:
    db = world()
    db.execute("INSERT INTO t VALUES (1, 'x')")
    for name, window in (("f", "RANGE 10 SECONDS"), ("g", "ROWS 10")):
        matched = "(SELECT a, n FROM t WHERE a > :lo) AS y"
        db.execute(f"CREATE QUERY FAMILY {name} (lo INT) AS SELECT s.b FROM s [{window}], {matched} WHERE s.a = y.a")
    db.push("s", [row(1)])
    initial = {name: db.register(name, [{"query": name + "1", "lo": 0}]) for name in "fg"}
    changes = db.push("s", [row(1, b=7)])  # at the clock of the registration
    for name, registered in initial.items():
        assert results(registered, name + "1") == Counter()
        assert results(changes, name + "1") == Counter({(7,): 1})

"""INSERT, UPDATE and DELETE: what they change, what they tell, and what they refuse whole."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

import eddyline
from tests.local.common import Logs, at, bag, by_intervals, log_of, row, tuples, world


def content(db: Any, table: str = "t") -> Counter[tuple[Any, ...]]:
    return bag(db.execute(f"SELECT * FROM {table}"))


def joined(table: str = "t", window: str = "") -> Any:
    db = world()
    db.execute(f"CREATE CONTINUOUS QUERY q AS SELECT s.b, x.n FROM s{window}, {table} x WHERE s.a = x.a")
    return db


def test_changes_of_a_table_are_changes_of_its_queries() -> None:
    db = world()
    db.execute("CREATE CONTINUOUS QUERY q AS SELECT a, n FROM t WHERE a > 0")
    assert log_of(db.execute("INSERT INTO t VALUES (1, 'x'), (0, 'y')"), "q") == [("+", None, None, (1, "x"))]
    changed = db.execute("UPDATE t SET a = a + 1")
    assert Counter((op, v) for op, _, _, v in log_of(changed, "q")) == Counter(
        [("-", (1, "x")), ("+", (2, "x")), ("+", (1, "y"))]
    )
    assert Counter((op, v) for op, _, _, v in log_of(db.execute("DELETE FROM t WHERE a = 2"), "q")) == {
        ("-", (2, "x")): 1
    }
    assert tuples(db.snapshot("q")) == [(1, "y")]


def test_changes_that_change_nothing_tell_nothing() -> None:
    db = world()
    db.execute("INSERT INTO t VALUES (1, 'x'), (1, 'x'), (NULL, NULL)")
    db.execute("CREATE CONTINUOUS QUERY q AS SELECT a, n FROM t")
    for sql in (
        "UPDATE t SET a = a",
        "UPDATE t SET n = n, a = a WHERE a = 1",
        "UPDATE t SET a = 9 WHERE a = 5",
        "DELETE FROM t WHERE a = 5",
        "DELETE FROM t WHERE NULL",
        "INSERT INTO t SELECT a, n FROM t WHERE a = 5",
        "UPDATE t SET a = 1 WHERE n = 'x'",
    ):
        assert db.execute(sql).count() == 0, sql
    assert content(db) == Counter([(1, "x"), (1, "x"), (None, None)])


def test_update_that_swaps_values_tells_nothing() -> None:
    db = world()
    db.execute("CREATE TABLE p (a INT, b INT); INSERT INTO p VALUES (1, 2), (2, 1)")
    db.execute("CREATE CONTINUOUS QUERY q AS SELECT a, b FROM p")
    assert db.execute("UPDATE p SET a = b, b = a").count() == 0
    assert content(db, "p") == Counter([(1, 2), (2, 1)])


def test_update_of_one_of_two_equal_rows_is_not_possible_but_of_both_counts_both() -> None:
    db = world()
    db.execute("INSERT INTO t VALUES (1, 'x'), (1, 'x')")
    db.execute("CREATE CONTINUOUS QUERY q AS SELECT a, n FROM t")
    found = log_of(db.execute("UPDATE t SET n = 'y'"), "q")
    assert Counter((op, v) for op, _, _, v in found) == {("-", (1, "x")): 2, ("+", (1, "y")): 2}


def test_assignments_see_the_row_as_it_was() -> None:
    db = world()
    db.execute("CREATE TABLE p (a INT, b INT); INSERT INTO p VALUES (1, 10)")
    db.execute("UPDATE p SET a = b, b = a + b")
    assert content(db, "p") == {(10, 11): 1}


def test_key_may_move_within_one_update() -> None:
    db = world()
    db.execute("INSERT INTO k VALUES (1, 'x'), (2, 'y')")
    db.execute("UPDATE k SET a = 3 - a")
    assert content(db, "k") == Counter([(2, "x"), (1, "y")])
    db.execute("UPDATE k SET a = a + 1")
    assert content(db, "k") == Counter([(3, "x"), (2, "y")])


@pytest.mark.parametrize(
    "sql",
    [
        "INSERT INTO k VALUES (1, 'again')",
        "INSERT INTO k VALUES (7, 'x'), (7, 'y')",
        "INSERT INTO k VALUES (8, 'ok'), (NULL, 'y')",
        "INSERT INTO k (n) VALUES ('no key')",
        "UPDATE k SET a = 1",
        "UPDATE k SET a = NULL WHERE a = 1",
        "INSERT INTO k SELECT a, n FROM k",
    ],
)
def test_violations_of_a_key_apply_nothing(sql: str) -> None:
    db = world()
    db.execute("INSERT INTO k VALUES (1, 'x'), (2, 'y')")
    db.execute("CREATE CONTINUOUS QUERY q AS SELECT a FROM k")
    before = db.stats()
    with pytest.raises(eddyline.DataError, match="k"):
        db.execute(sql)
    assert content(db, "k") == Counter([(1, "x"), (2, "y")]) and db.stats() == before


def test_key_of_several_columns_is_unique_together() -> None:
    db = world()
    db.execute("CREATE TABLE p (a INT, b STRING, c INT, PRIMARY KEY (a, b))")
    db.execute("INSERT INTO p VALUES (1, 'x', 0), (1, 'y', 0), (2, 'x', 0)")
    with pytest.raises(eddyline.DataError, match="a, b = 1, 'y'"):
        db.execute("INSERT INTO p VALUES (1, 'y', 5)")


def test_deleted_key_is_free_again() -> None:
    db = world()
    db.execute("INSERT INTO k VALUES (1, 'x'); DELETE FROM k WHERE a = 1; INSERT INTO k VALUES (1, 'z')")
    assert content(db, "k") == {(1, "z"): 1}


def test_insert_names_columns_in_any_order_and_leaves_the_others_null() -> None:
    db = world()
    db.execute("INSERT INTO t (n, a) VALUES ('x', 1)")
    db.execute("INSERT INTO t (N) VALUES ('y')")
    assert content(db) == Counter([(1, "x"), (None, "y")])


def test_insert_takes_a_query() -> None:
    db = world()
    db.execute("INSERT INTO t VALUES (1, 'x'), (2, 'y')")
    db.execute("INSERT INTO t SELECT a + 10, n FROM t WHERE a > 1")
    db.execute("INSERT INTO k (n, a) SELECT n, a FROM t")
    assert content(db, "k") == Counter([(1, "x"), (2, "y"), (12, "y")])


def test_insert_of_values_that_do_not_fit_is_refused_whole() -> None:
    db = world()
    for sql in (
        "INSERT INTO t VALUES (1, 'x'), (2)",
        "INSERT INTO t VALUES (1, 'x'), ('word', 'y')",
        "INSERT INTO t VALUES (1, 'x'), (99999999999, 'y')",
        "INSERT INTO t (a, a) VALUES (1, 2)",
        "INSERT INTO t SELECT a FROM t",
        "INSERT INTO t SELECT n, a FROM t",
    ):
        with pytest.raises(eddyline.Error):
            db.execute(sql)
    assert content(db) == {}


def test_insert_into_a_stream_is_a_push() -> None:
    db = world()
    db.execute("CREATE CONTINUOUS QUERY q AS SELECT a, n FROM s WHERE a > 0")
    ch = db.execute(
        "INSERT INTO s (a, ts, n) VALUES (1, '2026-01-01 00:00:05', 'x'), (-1, TIMESTAMP '2026-01-01 00:00:06', 'y')"
    )
    assert log_of(ch, "q") == [("+", at(5), None, (1, "x"))]
    assert ch.affected("q").to_pylist() == [{"stream": "s", "row": 0, "queries": ["q"]}]
    assert db.stats()["streams"]["s"]["rows"] == 2
    assert db.execute("INSERT INTO s (a, ts) VALUES (9, '2026-01-01 00:00:01')").count() == 0
    assert db.late("s").num_rows == 1


def test_insert_into_a_stream_from_a_table() -> None:
    db = world()
    db.execute("INSERT INTO t VALUES (1, 'x'), (2, 'y')")
    db.execute("CREATE CONTINUOUS QUERY q AS SELECT a, n FROM s")
    ch = db.execute("INSERT INTO s (a, n, ts) SELECT a, n, TIMESTAMP '2026-01-01 00:00:00' FROM t")
    assert Counter(v for *_, v in log_of(ch, "q")) == Counter([(1, "x"), (2, "y")])


def test_stream_rows_cannot_be_updated_or_lack_their_time() -> None:
    db = world()
    for sql in ("UPDATE s SET a = 1", "DELETE FROM s", "INSERT INTO s (a) VALUES (1)"):
        with pytest.raises(eddyline.Error):
            db.execute(sql)


# Retroactive and not


def test_retroactive_table_revises_rows_that_came_before() -> None:
    db = joined("t")
    db.push("s", [row(0, b=7)])
    assert [(op, v) for op, _, _, v in log_of(db.execute("INSERT INTO t VALUES (1, 'x')"), "q")] == [("+", (7, "x"))]
    changed = log_of(db.execute("UPDATE t SET n = 'y'"), "q")
    assert sorted((op, v) for op, _, _, v in changed) == [("+", (7, "y")), ("-", (7, "x"))]
    assert [(op, v) for op, _, _, v in log_of(db.execute("DELETE FROM t"), "q")] == [("-", (7, "y"))]
    assert db.snapshot("q").num_rows == 0


def test_retroactive_table_does_not_bring_back_what_has_left_the_window() -> None:
    db = joined("t", " [RANGE 2 SECONDS]")
    db.push("s", [row(0), row(9)])
    found = log_of(db.execute("INSERT INTO t VALUES (1, 'x')"), "q")
    assert by_intervals(found, at(9)) == {(1, "x"): 1} and len(found) == 1


def test_non_retroactive_table_is_seen_by_later_rows_only() -> None:
    db = joined("u")
    db.push("s", [row(0, b=1)])
    assert db.execute("INSERT INTO u VALUES (1, 'x')").count() == 0
    assert [v for *_, v in log_of(db.push("s", [row(1, b=2)]), "q")] == [(2, "x")]
    assert db.execute("UPDATE u SET n = 'y'").count() == 0
    assert [v for *_, v in log_of(db.push("s", [row(2, b=3)]), "q")] == [(3, "y")]
    assert db.execute("DELETE FROM u").count() == 0
    assert db.push("s", [row(3, b=4)]).count() == 0
    assert bag(db.snapshot("q")) == Counter([(2, "x"), (3, "y")])


def test_non_retroactive_window_rows_end_on_their_own() -> None:
    db = joined("u", " [RANGE 2 SECONDS]")
    db.execute("INSERT INTO u VALUES (1, 'x')")
    assert log_of(db.push("s", [row(0)]), "q") == [("+", at(0), at(2), (1, "x"))]
    db.execute("DELETE FROM u")
    assert db.snapshot("q").num_rows == 1
    db.advance(at(3))
    assert db.snapshot("q").num_rows == 0


def test_table_change_between_pushes_with_a_delay_is_ordered_by_arrival() -> None:
    db = world(delay=10)
    db.execute("CREATE CONTINUOUS QUERY q AS SELECT s.b, u.n FROM s, u WHERE s.a = u.a")
    db.execute("INSERT INTO u VALUES (1, 'old')")
    db.push("s", [row(20, b=1)])
    db.execute("UPDATE u SET n = 'new'")
    assert [v for *_, v in log_of(db.push("s", [row(15, b=2)]), "q")] == [(2, "new")]


def test_aggregates_over_tables_follow_every_change() -> None:
    db = world()
    db.execute("CREATE CONTINUOUS QUERY q AS SELECT n, COUNT(*) AS k, MIN(a) AS lo FROM t GROUP BY n")
    logs = Logs("q")
    for sql in (
        "INSERT INTO t VALUES (1, 'x'), (2, 'x'), (3, 'y')",
        "UPDATE t SET n = 'x' WHERE a = 3",
        "DELETE FROM t WHERE a = 1",
        "UPDATE t SET a = NULL",
    ):
        logs.take(db.execute(sql))
    assert bag(db.snapshot("q")) == {("x", 2, None): 1}
    assert by_intervals(logs.of["q"], at(0)) == {("x", 2, None): 1}


def test_new_query_sees_tables_as_they_stand() -> None:
    db = world()
    db.execute("INSERT INTO t VALUES (1, 'x'), (2, 'y')")
    ch = db.execute("CREATE CONTINUOUS QUERY q AS SELECT n FROM t WHERE a > 1")
    assert log_of(ch, "q") == [("+", None, None, ("y",))]
    ch = db.execute("CREATE CONTINUOUS QUERY q2 AS SELECT n FROM t WHERE a > 0")
    assert ch.queries() == ["q2"] and ch.count() == 2


def test_table_in_use_cannot_be_dropped() -> None:
    db = joined("t")
    with pytest.raises(eddyline.CatalogError, match="read by"):
        db.execute("DROP TABLE t")
    db.execute("DROP CONTINUOUS QUERY q; DROP TABLE t")
    db.execute("CREATE TABLE t (a INT)")
    assert content(db) == {}


def test_tables_are_changed_without_regard_to_case() -> None:
    db = world()
    db.execute("INSERT INTO T VALUES (1, 'x')")
    db.execute("UPDATE T SET N = 'y' WHERE A = 1")
    assert content(db, "T") == {(1, "y"): 1}
    db.execute("DELETE FROM T WHERE T.A = 1")
    assert content(db) == {}


def test_infinities_nan_and_zeros_in_tables_compare_as_in_queries() -> None:
    db = world()
    db.execute("CREATE TABLE f (x DOUBLE PRIMARY KEY)")
    db.execute("INSERT INTO f VALUES (CAST('NaN' AS DOUBLE)), (0.0)")
    for again in ("CAST('NaN' AS DOUBLE)", "-0.0"):
        with pytest.raises(eddyline.DataError):
            db.execute(f"INSERT INTO f VALUES ({again})")

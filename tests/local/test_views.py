"""Materialized views, queries over them, and SELECT asked once over tables and views."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest

import eddyline
from tests.local.common import Logs, at, bag, by_intervals, log_of, random_rows, row, tuples, world

TOTALS = "CREATE MATERIALIZED VIEW totals AS SELECT a, SUM(b) AS v, COUNT(*) AS k FROM s GROUP BY a"


def with_totals() -> Any:
    db = world()
    db.execute(TOTALS)
    db.push("s", [row(0, a=1, b=5), row(1, a=1, b=6), row(1, a=2, b=1)])
    db.execute("INSERT INTO t VALUES (1, 'one'), (2, 'two'), (3, 'three')")
    return db


def test_select_from_a_view_gives_its_answer_at_its_clock() -> None:
    db = with_totals()
    assert bag(db.execute("SELECT * FROM totals")) == Counter([(1, 11, 2), (2, 1, 1)])
    assert db.execute("SELECT * FROM totals").column_names == ["a", "v", "k"]
    assert bag(db.execute("SELECT v FROM totals WHERE k > 1")) == Counter([(11,)])


def test_a_view_changes_like_a_query() -> None:
    db = world()
    assert db.execute(TOTALS).count() == 0
    ch = db.push("s", [row(0, a=1, b=5)])
    assert ch.queries() == ["totals"] and log_of(ch, "totals") == [("+", at(0), None, (1, 5, 1))]
    assert tuples(db.snapshot("totals")) == [(1, 5, 1)]


def test_a_view_follows_its_window() -> None:
    db = world()
    db.execute("CREATE MATERIALIZED VIEW recent AS SELECT a FROM s [RANGE 2 SECONDS]")
    db.push("s", [row(0, a=1), row(2, a=2)])
    assert bag(db.execute("SELECT a FROM recent")) == Counter([(1,), (2,)])
    db.advance(at(3))
    assert tuples(db.execute("SELECT a FROM recent")) == [(2,)]
    db.advance(at(9))
    assert tuples(db.execute("SELECT a FROM recent")) == []
    assert tuples(db.execute("SELECT COUNT(*) AS k FROM recent")) == [(0,)]


def test_views_are_joined_with_tables_and_grouped() -> None:
    db = with_totals()
    joined = db.execute("SELECT t.n, totals.v FROM totals JOIN t ON totals.a = t.a WHERE totals.v > 0")
    assert bag(joined) == Counter([("one", 11), ("two", 1)])
    grouped = db.execute("SELECT COUNT(*) AS k, SUM(x.v) AS v, MAX(t.n) AS m FROM totals x, t WHERE x.a <= t.a")
    assert tuples(grouped) == [(5, 35, "two")]
    assert bag(db.execute("SELECT a FROM t EXCEPT ALL SELECT a FROM totals")) == Counter([(3,)])


def test_a_view_with_equal_rows_keeps_them() -> None:
    db = world()
    db.execute("CREATE MATERIALIZED VIEW v AS SELECT a FROM s")
    db.push("s", [row(0), row(0)])
    assert tuples(db.execute("SELECT a FROM v")) == [(1,), (1,)]
    assert tuples(db.execute("SELECT DISTINCT a FROM v")) == [(1,)]


def test_views_over_tables_show_what_stands_at_once() -> None:
    db = world()
    db.execute("INSERT INTO t VALUES (1, 'x'), (2, 'y')")
    ch = db.execute("CREATE MATERIALIZED VIEW v AS SELECT n, a + 1 AS b FROM t")
    assert ch.count() == 2 and bag(db.execute("SELECT * FROM v")) == Counter([("x", 2), ("y", 3)])
    db.execute("DELETE FROM t WHERE a = 1")
    assert tuples(db.execute("SELECT b FROM v")) == [(3,)]


def test_standing_query_over_a_view_follows_it() -> None:
    db = world()
    db.execute(TOTALS)
    db.execute("CREATE CONTINUOUS QUERY big AS SELECT a, v FROM totals WHERE v > 5")
    logs = Logs("big")
    for seconds, b in ((0, 4), (1, 4), (2, -4)):
        logs.take(db.push("s", [row(seconds, b=b)]))
    assert [by_intervals(logs.of["big"], at(x)) for x in (0, 1, 2)] == [{}, {(1, 8): 1}, {}]
    assert tuples(db.snapshot("big")) == []


@pytest.mark.parametrize(
    "text",
    [
        "SELECT a, v FROM totals WHERE k > 1",
        "SELECT totals.a, t.n FROM totals, t WHERE totals.a = t.a",
        "SELECT MAX(v) AS m, COUNT(*) AS c FROM totals",
        "SELECT x.a, y.k FROM totals x, totals y WHERE x.k = y.k",
        "SELECT r.b, totals.v FROM r [RANGE 2 SECONDS], totals WHERE r.a = totals.a",
        "SELECT a FROM totals EXCEPT ALL SELECT a FROM r [RANGE 2 SECONDS]",
    ],
)
def test_standing_query_over_a_view_equals_the_query_over_its_text(text: str) -> None:
    rnd = Random(text)
    db = world()
    db.execute(TOTALS.replace("FROM s", "FROM s [RANGE 4 SECONDS]"))
    db.execute("INSERT INTO t VALUES (1, 'one'), (2, 'two')")
    db.execute(f"CREATE CONTINUOUS QUERY over AS {text}")
    body = "(SELECT a, SUM(b) AS v, COUNT(*) AS k FROM s [RANGE 4 SECONDS] GROUP BY a) AS "
    inline = text.replace("FROM totals x, totals y", f"FROM {body} x, {body} y")
    if inline == text:
        inline = text.replace("FROM totals", f"FROM {body} totals").replace("], totals", f"], {body} totals")
    db.execute(f"CREATE CONTINUOUS QUERY inline AS {inline}")
    logs, now = Logs("over", "inline"), 0.0
    for _ in range(20):
        now += rnd.choice([0, 1])
        batch = random_rows(rnd, [now] * 4)
        logs.take(db.push({"r": batch[:2], "s": batch[2:]}))
        assert bag(db.snapshot("over")) == bag(db.snapshot("inline"))
    assert Counter(logs.of["over"]) == Counter(logs.of["inline"]) and logs.of["over"]


def test_once_select_over_a_view_equals_its_standing_twin() -> None:
    db = world()
    db.execute(TOTALS)
    db.execute("CREATE MATERIALIZED VIEW named AS SELECT t.n, totals.v FROM totals, t WHERE totals.a = t.a")
    db.execute("INSERT INTO t VALUES (1, 'one'), (2, 'two'), (3, 'three')")
    db.push("s", [row(2, a=3, b=9), row(2, a=1, b=1)])
    once = db.execute("SELECT t.n, totals.v FROM totals, t WHERE totals.a = t.a")
    assert bag(once) == bag(db.execute("SELECT n, v FROM named"))


def test_view_that_is_registered_late_sees_only_what_comes() -> None:
    db = world()
    db.execute("CREATE CONTINUOUS QUERY early AS SELECT COUNT(*) AS k FROM s")
    db.push("s", [row(0)])
    db.execute("CREATE MATERIALIZED VIEW late_ AS SELECT COUNT(*) AS k FROM s")
    assert tuples(db.execute("SELECT k FROM late_")) == [(0,)]
    db.push("s", [row(1)])
    assert tuples(db.execute("SELECT k FROM late_")) == [(1,)] and tuples(db.snapshot("early")) == [(2,)]


def test_view_in_use_cannot_be_dropped() -> None:
    db = with_totals()
    db.execute("CREATE MATERIALIZED VIEW upper_ AS SELECT a FROM totals")
    db.execute("CREATE CONTINUOUS QUERY q AS SELECT a FROM upper_")
    for name, user in (("totals", "upper_"), ("upper_", "family")):
        with pytest.raises(eddyline.CatalogError, match=user):
            db.execute(f"DROP MATERIALIZED VIEW {name}")
    with pytest.raises(eddyline.CatalogError):
        db.execute("DROP STREAM s")
    db.execute("DROP CONTINUOUS QUERY q; DROP MATERIALIZED VIEW upper_; DROP MATERIALIZED VIEW totals")
    assert db.execute("SHOW VIEWS").num_rows == 0
    with pytest.raises(eddyline.Error, match="totals"):
        db.execute("SELECT a FROM totals")
    db.execute("DROP STREAM s")


def test_view_read_only_inside_a_subquery_or_a_with_is_in_use() -> None:
    for text in ("SELECT x.a FROM (SELECT a FROM totals) AS x", "WITH x AS (SELECT a FROM totals) SELECT a FROM x"):
        db = with_totals()
        db.execute(f"CREATE CONTINUOUS QUERY q AS {text}")
        with pytest.raises(eddyline.CatalogError):
            db.execute("DROP MATERIALIZED VIEW totals")


def test_dropped_view_can_be_made_again() -> None:
    db = with_totals()
    db.execute("DROP MATERIALIZED VIEW totals")
    assert db.push("s", [row(2)]).count() == 0
    db.execute(TOTALS)
    assert tuples(db.execute("SELECT * FROM totals")) == []
    db.push("s", [row(3, a=4, b=4)])
    assert tuples(db.execute("SELECT * FROM totals")) == [(4, 4, 1)]


def test_views_are_shown_and_are_no_queries() -> None:
    db = with_totals()
    shown = db.execute("SHOW VIEWS").to_pylist()
    assert shown == [{"view": "totals", "columns": "a INT, v BIGINT, k BIGINT"}]
    assert db.execute("SHOW QUERIES").num_rows == db.execute("SHOW FAMILIES").num_rows == db.stats()["queries"] == 0
    assert "totals" in db.explain("totals")


def test_names_of_views_are_taken() -> None:
    db = with_totals()
    for sql in (
        TOTALS,
        "CREATE TABLE totals (a INT)",
        "CREATE STREAM totals (ts TIMESTAMP) WATERMARK ts",
        "CREATE CONTINUOUS QUERY totals AS SELECT a FROM s",
        "CREATE QUERY FAMILY totals AS SELECT a FROM s",
        "CREATE MATERIALIZED VIEW t AS SELECT a FROM s",
    ):
        with pytest.raises(eddyline.CatalogError):
            db.execute(sql)


def test_a_view_is_not_a_query_to_drop_nor_a_table_to_change() -> None:
    db = with_totals()
    for sql in (
        "DROP CONTINUOUS QUERY totals",
        "INSERT INTO totals VALUES (1, 2, 3)",
        "DELETE FROM totals",
        "UPDATE totals SET a = 1",
        "DROP TABLE totals",
    ):
        with pytest.raises(eddyline.CatalogError):
            db.execute(sql)
    with pytest.raises(eddyline.CatalogError):
        db.push("totals", [])


def test_failed_view_leaves_nothing_behind() -> None:
    db = world()
    with pytest.raises(eddyline.Error):
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT nothing FROM s")
    with pytest.raises(eddyline.Error):
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT a FROM s WHERE a > :p")
    db.execute("CREATE MATERIALIZED VIEW v AS SELECT a FROM s")


def test_views_are_named_without_regard_to_case() -> None:
    db = with_totals()
    assert db.execute("SELECT A FROM TOTALS").num_rows == 2
    db.execute("CREATE CONTINUOUS QUERY q AS SELECT Totals.V FROM Totals")
    with pytest.raises(eddyline.CatalogError):
        db.execute("DROP MATERIALIZED VIEW TOTALS")
    db.execute("DROP CONTINUOUS QUERY q; DROP MATERIALIZED VIEW TOTALS")


# SELECT asked once


def tables() -> Any:
    db = world()
    db.execute("INSERT INTO t VALUES (1, 'x'), (1, 'x'), (2, 'y'), (NULL, NULL), (3, 'z')")
    db.execute("INSERT INTO k VALUES (1, 'one'), (2, 'two')")
    db.execute("INSERT INTO u VALUES (1, 'u'), (3, 'w')")
    return db


@pytest.mark.parametrize(
    ("sql", "want"),
    [
        ("SELECT * FROM t WHERE a IS NULL", [(None, None)]),
        ("SELECT DISTINCT a, n FROM t WHERE a > 0", [(1, "x"), (2, "y"), (3, "z")]),
        ("SELECT a + 1 AS b, upper(n) AS m FROM t WHERE n LIKE 'z%'", [(4, "Z")]),
        ("SELECT t.a, k.n FROM t JOIN k ON t.a = k.a", [(1, "one"), (1, "one"), (2, "two")]),
        ("SELECT t.n FROM t JOIN k USING (a)", [("x",), ("x",), ("y",)]),
        ("SELECT x.a, y.a FROM k x CROSS JOIN k y WHERE x.a < y.a", [(1, 2)]),
        ("SELECT a, COUNT(*) AS c FROM t GROUP BY a HAVING COUNT(*) > 1", [(1, 2)]),
        ("SELECT COUNT(*) AS c, COUNT(a) AS d, SUM(a) AS s, AVG(a) AS v, MIN(n) AS lo, MAX(n) AS hi FROM t",
         [(5, 4, 7, 1.75, "x", "z")]),
        ("SELECT COUNT(*) AS c, SUM(a) AS s FROM t WHERE a > 99", [(0, None)]),
        ("SELECT a, COUNT(*) AS c FROM t WHERE a > 99 GROUP BY a", []),
        ("SELECT a FROM t UNION ALL SELECT a FROM k WHERE a = 1", [(1,), (1,), (1,), (2,), (3,), (None,)]),
        ("SELECT a FROM t UNION SELECT a FROM k", [(1,), (2,), (3,), (None,)]),
        ("SELECT a FROM t EXCEPT ALL SELECT a FROM k", [(1,), (3,), (None,)]),
        ("SELECT a FROM t EXCEPT SELECT a FROM k", [(3,), (None,)]),
        ("SELECT a FROM t INTERSECT ALL SELECT a FROM k", [(1,), (2,)]),
        ("SELECT g.c FROM (SELECT a, COUNT(*) AS c FROM t GROUP BY a) AS g, k WHERE g.a = k.a", [(1,), (2,)]),
        ("WITH g AS (SELECT a FROM t WHERE a > 1) SELECT a FROM g", [(2,), (3,)]),
        ("SELECT t.n, u.n FROM t, u WHERE t.a = u.a", [("x", "u"), ("x", "u"), ("z", "w")]),
        ("SELECT CASE WHEN a > 1 THEN 'big' ELSE 'small' END AS s FROM k", [("big",), ("small",)]),
    ],
)  # fmt: skip
def test_select_asked_once_has_every_clause(sql: str, want: list[tuple[Any, ...]]) -> None:
    assert bag(tables().execute(sql)) == Counter(want)


def test_select_asked_once_joins_a_non_retroactive_table_with_a_grouped_subquery() -> None:
    """Nothing is taken back in a query asked once, so there is nothing to refuse."""
    sql = "SELECT u.n, g.c FROM u, (SELECT a, COUNT(*) AS c FROM t GROUP BY a) AS g WHERE u.a = g.a"
    assert bag(tables().execute(sql)) == Counter([("u", 2), ("w", 1)])


def test_select_asked_once_leaves_no_trace() -> None:
    db = tables()
    before = db.stats()
    db.execute("SELECT a, COUNT(*) AS c FROM t GROUP BY a")
    assert db.stats() == before and db.execute("SHOW FAMILIES").num_rows == 0


def test_select_of_an_empty_table_has_its_types() -> None:
    found = world().execute("SELECT a, n, a + 1.5 AS x, COUNT(*) AS c FROM t GROUP BY a, n")
    assert [str(f.type) for f in found.schema] == ["int32", "string", "double", "int64"] and found.num_rows == 0


def test_stream_has_no_content_to_select() -> None:
    for sql in ("SELECT a FROM s", "SELECT t.a FROM t, s", "SELECT x.a FROM (SELECT a FROM s) AS x"):
        with pytest.raises(eddyline.Error, match="stream"):
            tables().execute(sql)


def test_name_of_a_with_clause_may_be_that_of_a_stream() -> None:
    assert bag(tables().execute("WITH s AS (SELECT a FROM k) SELECT a FROM s")) == Counter([(1,), (2,)])


def test_what_a_once_select_cannot_do_is_not_blamed_on_standing_queries() -> None:
    with pytest.raises(eddyline.Error, match="ORDER BY") as e:
        tables().execute("SELECT a FROM t ORDER BY a")
    assert "standing" not in str(e.value)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT g.a, k.n FROM (SELECT a, COUNT(*) AS c FROM t GROUP BY a) AS g, k WHERE g.a = k.a",
        "SELECT g.a, k.n FROM k, (SELECT DISTINCT a FROM t) AS g WHERE g.a = k.a",
        "SELECT g.a, k.n FROM (SELECT a FROM t EXCEPT ALL SELECT a FROM u) AS g, k WHERE g.a = k.a",
        "SELECT g.c, h.a FROM (SELECT COUNT(*) AS c FROM t) AS g, k AS h",
        "SELECT MAX(g.c) AS m FROM (SELECT a, COUNT(*) AS c FROM t GROUP BY a) AS g",
        "SELECT t.a, k.n, x.n FROM t, k, k AS x WHERE t.a = k.a AND x.a > t.a",
        "SELECT DISTINCT t.n FROM t, k WHERE t.a >= k.a",
        "SELECT k.n, COUNT(*) AS c FROM t, k WHERE t.a = k.a GROUP BY k.n HAVING COUNT(*) > 1",
        "SELECT a FROM k INTERSECT ALL SELECT g.a FROM (SELECT a FROM t UNION ALL SELECT a FROM u) AS g",
    ],
)
def test_query_asked_once_gives_what_its_standing_twin_answers(sql: str) -> None:
    db = tables()
    db.execute(f"CREATE CONTINUOUS QUERY q AS {sql}")
    assert bag(db.execute(sql)) == bag(db.snapshot("q")) != Counter()

"""Nothing that modifies an expression or a query is passed over in silence: it has its meaning, or it is refused."""

from typing import Any

import pytest
from sqlglot import exp

import eddyline
from eddyline.sql.catalog import Catalog
from eddyline.sql.expressions import RULES, ExpressionBinder
from eddyline.sql.scope import Constants, Scope

UNREAD = [(kind, arg) for kind in RULES for arg in kind.arg_types if arg not in RULES[kind].reads]


@pytest.mark.parametrize(("kind", "arg"), UNREAD, ids=lambda x: x if isinstance(x, str) else x.__name__)
def test_an_argument_that_is_not_read_is_refused(kind: Any, arg: str) -> None:
    binder = ExpressionBinder(Catalog(), Scope([]), Constants("keep"))
    for value in (True, exp.Literal.string("x"), [exp.Literal.string("x")]):
        with pytest.raises(eddyline.BindError, match="is not supported"):
            binder.operand(kind(**{arg: value}))


def test_what_is_read_of_a_tree_is_something_it_has() -> None:
    assert {(kind, arg) for kind in RULES for arg in RULES[kind].reads - set(kind.arg_types)} == set()


@pytest.fixture(scope="module")
def db() -> Any:
    db = eddyline.connect()
    db.execute("""
        CREATE STREAM r (a INT, s STRING, ts TIMESTAMP) WATERMARK ts;
        CREATE TABLE t (a INT, b INT, c DOUBLE, s STRING, ts TIMESTAMP);
        INSERT INTO t VALUES (1, 2, 2.5, 'abc', '2026-01-01'), (7, NULL, 1.26, 'a%c', NULL);
    """)
    return db


REFUSED = [
    ("a BETWEEN SYMMETRIC 9 AND 1", "SYMMETRIC"),
    ("NOT (a NOT BETWEEN SYMMETRIC 9 AND 1)", "SYMMETRIC"),
    ("s ILIKE 'A%'", "ILIKE"),
    ("s NOT ILIKE 'A%'", "ILIKE"),
    ("s NOT ILIKE 'A%' ESCAPE '!'", "ILIKE"),
    ("s NOT RLIKE 'a'", "RLIKE"),
    ("s LIKE ANY ('a', 'b')", "ANY"),
    ("s NOT LIKE ALL ('a', 'b')", "ALL"),
    ("s LIKE s ESCAPE '!'", "constant pattern"),
    ("s LIKE 'a' ESCAPE s", "lacks"),
    ("s LIKE 'a' ESCAPE ''", "one quoted character"),
    ("s LIKE 'a' ESCAPE '!!'", "one quoted character"),
    ("s LIKE 'a' ESCAPE 5", "lacks"),
    ("s LIKE 'a!b' ESCAPE '!'", "before %, _ or itself"),
    ("s LIKE 'a!' ESCAPE '!'", "before %, _ or itself"),
    ("s IS NOT JSON", "IS takes"),
    ("TRUE = s LIKE 'a%'", "two ways"),  # to Spark it is (TRUE = s) LIKE 'a%'
    ("s LIKE 'a%' = TRUE", "two ways"),
    ("TRUE <> a NOT IN (1, 2)", "two ways"),
    ("a NOT BETWEEN 1 AND 2 = TRUE", "two ways"),
    ("s COLLATE UTF8_LCASE = 'ABC'", "COLLATE"),
    ("COUNT(* EXCEPT (a))", "EXCEPT"),
    ("COUNT(DISTINCT a)", "DISTINCT"),
    ("COUNT(DISTINCT a, b)", "DISTINCT"),
    ("SUM(DISTINCT a)", "DISTINCT"),
    ("SUM(a ORDER BY b)", "ORDER BY"),
    ("SUM(a LIMIT 1)", "LIMIT"),
    ("SUM(a) FILTER (WHERE a > 1)", "FILTER"),
    ("SUM(a) OVER (PARTITION BY b)", "OVER"),
    ("MIN(a) IGNORE NULLS", "IGNORE NULLS"),
    ("MIN(a IGNORE NULLS)", "IGNORE NULLS"),
    ("COUNT(a) RESPECT NULLS", "RESPECT NULLS"),
    ("MAX(a) WITHIN GROUP (ORDER BY b)", "WITHIN GROUP"),
    ("MAX(a HAVING MAX b)", "HAVING"),
    ("MAX(a, b)", "one argument"),
    ("abs(DISTINCT a)", "DISTINCT"),
    ("upper(s) OVER ()", "OVER"),
    ("upper(s => 'a')", "by name"),
    ("round(c, 1, 1)", "round takes 1 to 2"),
    ("floor(c, 1)", "floor takes 1"),
    ("floor(ts TO DAY)", "floor takes 1"),
    ("length(s, 'x')", "length takes 1"),
    ("CAST(a AS INT FORMAT 'x')", "FORMAT"),
    ("CAST(s AS INT DEFAULT 5 ON CONVERSION ERROR)", "DEFAULT"),
    ("CAST(s AS STRING COLLATE UTF8_LCASE)", "COLLATE"),
    ("CAST(s AS STRING(2))", "Write STRING"),
    ("CAST(ts AS TIMESTAMP(3))", "Write TIMESTAMP"),
    ("CAST(c AS FLOAT(2))", "Write FLOAT"),
    ("CAST(a AS NULLABLE(INT))", "NULLABLE"),
    ("CAST(a AS INT8)", "INT8"),
    ("CAST(a AS UUID)", "UUID"),
    ("CAST(a AS BIT)", "BIT"),
    ("CAST(ts AS DATETIME)", "DATETIME"),
    ("INTERVAL '5' SECOND(3)", "unit"),
    ("INTERVAL '1 2' DAY TO HOUR", "unit"),
]


@pytest.mark.parametrize(("expression", "word"), REFUSED)
def test_a_modifier_without_meaning_here_is_refused_with_its_place(db: Any, expression: str, word: str) -> None:
    with pytest.raises(eddyline.Error) as caught:
        db.execute(f"SELECT {expression} AS x FROM t")
    assert word in str(caught.value)
    assert caught.value.span is not None
    start, end = caught.value.span
    assert len("SELECT ") <= start < end <= len("SELECT ") + len(expression)


@pytest.mark.parametrize(
    ("key", "output"),
    [
        ("a BETWEEN 1 AND 9", "a BETWEEN SYMMETRIC 1 AND 9"),
        ("CAST(ts AS TIMESTAMP)", "CAST(ts AS TIMESTAMP(3))"),
        ("greatest(a, b)", "MAX(a, b)"),
        ("s LIKE 'a'", "s NOT LIKE 'a'"),
        ("CAST(s AS INT)", "CAST(s AS INT FORMAT 'x')"),
        ("upper(s)", "upper(s) OVER ()"),
    ],
)
def test_an_output_that_differs_from_the_key_by_a_modifier_is_not_the_key(db: Any, key: str, output: str) -> None:
    with pytest.raises(eddyline.BindError):
        db.execute(f"SELECT {output} AS x, COUNT(*) FROM t GROUP BY {key}")


@pytest.mark.parametrize(
    ("sql", "word"),
    [
        ("WITH x AS (SELECT a FROM t) SEARCH BREADTH FIRST BY a SET q SELECT a FROM x", "SEARCH"),
        ("WITH x AS (SELECT a FROM t) CYCLE a SET q USING z SELECT a FROM x", "CYCLE"),
        ("WITH x USING KEY (a) AS (SELECT a FROM t) SELECT a FROM x", "USING KEY"),
        ("WITH x AS MATERIALIZED (SELECT a FROM t) SELECT a FROM x", "MATERIALIZED"),
        ("SELECT a:b FROM t", "a:b"),
        ("SELECT * EXCEPT (a) FROM t", "EXCEPT"),
        ("SELECT t.* RENAME (a AS x) FROM t", "RENAME"),
        ("INSERT INTO t VALUES (1, 2, 2.5, 'a', NULL) AS x", "ALIAS"),
        ("UPDATE t SET a = 1 WHERE a BETWEEN SYMMETRIC 9 AND 1", "SYMMETRIC"),
        ("DELETE FROM t WHERE a BETWEEN SYMMETRIC 9 AND 1", "SYMMETRIC"),
        ("INSERT INTO t VALUES (CAST('1' AS INT FORMAT 'x'), 2, 2.5, 'a', NULL)", "FORMAT"),
        ("CREATE CONTINUOUS QUERY q AS SELECT a FROM r WHERE a BETWEEN SYMMETRIC 9 AND 1", "SYMMETRIC"),
        ("CREATE QUERY FAMILY f (lo INT) AS SELECT a FROM r WHERE a BETWEEN SYMMETRIC :lo AND 1", "SYMMETRIC"),
        ("CREATE MATERIALIZED VIEW v AS SELECT COUNT(* EXCEPT (a)) FROM t", "EXCEPT"),
    ],
)
def test_a_clause_is_never_ignored(db: Any, sql: str, word: str) -> None:
    with pytest.raises(eddyline.Error, match=word):
        db.execute(sql)
    assert db.execute("SELECT a FROM t").num_rows == 2


@pytest.mark.parametrize(
    ("expression", "values"),
    [
        ("s NOT LIKE 'a%'", [False, False]),
        ("s NOT LIKE '%b%'", [False, True]),
        ("NOT s NOT LIKE '%b%'", [True, False]),
        ("s LIKE 'a!%c' ESCAPE '!'", [False, True]),
        ("s NOT LIKE 'a!%c' ESCAPE '!'", [True, False]),
        ("s LIKE 'a%%c' ESCAPE '%'", [False, True]),
        ("s LIKE 'a__c' ESCAPE '_'", [False, False]),
        (r"'a\\b' LIKE 'a\\b' ESCAPE '!'", [True, True]),
        ("'a!b' LIKE 'a!!b' ESCAPE '!'", [True, True]),
        ("s LIKE NULL ESCAPE '!'", [None, None]),
        ("TRUE = (s LIKE 'a!%c' ESCAPE '!')", [False, True]),
        ("(a IN (1, 2)) = TRUE", [True, False]),
        ("a NOT IN (1, 2)", [False, True]),
        ("a NOT BETWEEN 1 AND 2", [False, True]),
        ("a BETWEEN ASYMMETRIC 1 AND 2", [True, False]),
        ("b IS NOT NULL", [True, False]),
        ("(b = 2) IS NOT TRUE", [False, True]),
        ("b IS DISTINCT FROM 2", [False, True]),
        ("b IS NOT DISTINCT FROM 2", [True, False]),
        ("b IS DISTINCT FROM NULL", [True, False]),
        ("NOT b IS DISTINCT FROM a + 1", [True, False]),
        ("TRY_CAST('x' AS INT)", [None, None]),
        ("TRY_CAST('5' AS INT)", [5, 5]),
        ("TRY_CAST(s AS INT)", [None, None]),
        ("CAST(s AS VARCHAR(2))", ["abc", "a%c"]),  # as Spark does
        ("CAST(s AS CHAR(5)) || '|'", ["abc|", "a%c|"]),
    ],
)
def test_a_modifier_has_its_meaning(db: Any, expression: str, values: list[Any]) -> None:
    assert db.execute(f"SELECT {expression} AS x FROM t").column("x").to_pylist() == values


def test_a_constant_that_cannot_be_cast_is_refused_unless_it_is_only_tried(db: Any) -> None:
    with pytest.raises(eddyline.BindError, match="cannot be read as INT"):
        db.execute("SELECT CAST('x' AS INT) FROM t")


def test_a_comment_is_part_of_no_key_and_no_name(db: Any) -> None:
    found = db.execute("SELECT length(s) /* of s */, COUNT(*) FROM t GROUP BY length(s) -- in characters")
    assert found.to_pylist() == [{"length(s)": 3, "count(*)": 2}]


def test_where_nothing_can_be_selected_from_the_hint_says_how_to_declare_it() -> None:
    db = eddyline.connect()
    db.execute("CREATE STREAM r (a INT, ts TIMESTAMP) WATERMARK ts")
    with pytest.raises(eddyline.BindError, match="no stream, table or view 't'") as caught:
        db.execute("SELECT a FROM t")
    assert caught.value.hint is not None
    assert "CREATE TABLE" in caught.value.hint
    assert "exists" not in caught.value.hint

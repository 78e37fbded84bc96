"""Python functions in queries: where they may stand, what their failures do, and redefinition."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

import eddyline
from tests.local.common import at, log_of, row, tuples, world


def with_function(name: str, body: Any, takes: list[str], gives: str) -> Any:
    db = world()
    db.function(name, body, takes, gives)
    return db


def values(changes: Any, name: str) -> list[tuple[Any, ...]]:
    return [v for *_, v in log_of(changes, name)]


def test_function_in_select_and_where() -> None:
    db = with_function("twice", lambda x: None if x is None else 2 * x, ["INT"], "INT")
    db.execute("CREATE CONTINUOUS QUERY q AS SELECT twice(a) AS d FROM s WHERE twice(a) > 4")
    assert values(db.push("s", [row(0, a=2), row(0, a=3), row(0, a=None)]), "q") == [(6,)]
    assert tuples(db.snapshot("q")) == [(6,)]


def test_function_with_a_parameter_of_a_family() -> None:
    db = with_function("near", lambda x, y: abs(x - y) <= 1, ["INT", "INT"], "BOOLEAN")
    db.execute("CREATE QUERY FAMILY f (p INT) AS SELECT a FROM s WHERE near(a, :p)")
    db.register("f", [{"query": f"q{p}", "p": p} for p in range(5)])
    assert sorted(db.push("s", [row(0, a=2)]).queries()) == ["q1", "q2", "q3"]


def test_function_of_a_parameter_compared_with_a_column() -> None:
    db = with_function("square", lambda x: x * x, ["BIGINT"], "BIGINT")
    db.execute("CREATE QUERY FAMILY f (p INT) AS SELECT a FROM s WHERE a > square(:p)")
    db.register("f", [{"query": f"q{p}", "p": p} for p in range(-2, 3)])
    assert sorted(db.push("s", [row(0, a=2)]).queries()) == ["q-1", "q0", "q1"]


def test_function_in_a_join_condition_over_both_sides() -> None:
    db = with_function("divides", lambda x, y: x != 0 and y % x == 0, ["INT", "INT"], "BOOLEAN")
    db.execute("CREATE CONTINUOUS QUERY q AS SELECT r.a, s.a FROM r, s WHERE divides(r.a, s.a)")
    db.push("r", [row(0, a=2), row(0, a=3), row(0, a=0)])
    assert sorted(values(db.push("s", [row(0, a=6), row(0, a=4)]), "q")) == [(2, 4), (2, 6), (3, 6)]


def test_function_as_the_key_of_an_equality_join() -> None:
    db = with_function("parity", lambda x: x % 2, ["INT"], "INT")
    db.execute("CREATE CONTINUOUS QUERY q AS SELECT r.a, s.a FROM r, s WHERE parity(r.a) = parity(s.a)")
    db.push("r", [row(0, a=1), row(0, a=2)])
    assert sorted(values(db.push("s", [row(0, a=3), row(0, a=4)]), "q")) == [(1, 3), (2, 4)]


def test_function_in_grouping_aggregate_and_having() -> None:
    db = with_function("half", lambda x: x // 2, ["BIGINT"], "BIGINT")
    db.execute(
        "CREATE CONTINUOUS QUERY q AS SELECT half(b) AS g, SUM(half(b)) AS v, half(COUNT(*)) AS h "
        "FROM s GROUP BY half(b) HAVING half(SUM(b)) > 2"
    )
    db.push("s", [row(0, b=b) for b in (1, 4, 5, 6)])
    db.advance(at(1))
    assert sorted(tuples(db.snapshot("q"))) == [(2, 4, 1), (3, 3, 0)]


def test_function_in_once_select_update_delete_and_insert() -> None:
    db = with_function("shout", lambda x: x.upper() + "!", ["STRING"], "STRING")
    db.execute("INSERT INTO t VALUES (1, shout('a')), (2, 'b')")
    assert tuples(db.execute("SELECT shout(n) AS m FROM t WHERE shout(n) = 'B!'")) == [("B!",)]
    db.execute("UPDATE t SET n = shout(n) WHERE shout(n) = 'B!'")
    assert sorted(tuples(db.execute("SELECT n FROM t"))) == [("A!",), ("B!",)]
    db.execute("DELETE FROM t WHERE shout(n) = 'A!!'")
    assert tuples(db.execute("SELECT n FROM t")) == [("B!",)]


def test_function_without_arguments() -> None:
    db = with_function("answer", lambda: 42, [], "INT")
    db.execute("CREATE CONTINUOUS QUERY q AS SELECT answer() AS x FROM s WHERE a < answer()")
    assert values(db.push("s", [row(0), row(0, a=50)]), "q") == [(42,)]


@pytest.mark.parametrize(
    ("type_", "literal", "python"),
    [
        ("BOOLEAN", "TRUE", True),
        ("TINYINT", "CAST(5 AS TINYINT)", 5),
        ("SMALLINT", "CAST(5 AS SMALLINT)", 5),
        ("INT", "5", 5),
        ("BIGINT", "5000000000", 5_000_000_000),
        ("FLOAT", "CAST(1.5 AS FLOAT)", 1.5),
        ("DOUBLE", "1.5", 1.5),
        ("STRING", "'é'", "é"),
        ("DATE", "DATE '2026-03-01'", dt.date(2026, 3, 1)),
        ("TIMESTAMP", "TIMESTAMP '2026-03-01 10:00:00.000001'", dt.datetime(2026, 3, 1, 10, 0, 0, 1)),
        ("INTERVAL", "INTERVAL 90 SECONDS", dt.timedelta(seconds=90)),
    ],
)
def test_functions_take_and_give_every_type(type_: str, literal: str, python: Any) -> None:
    seen: list[Any] = []
    db = with_function("same_as", lambda x: (seen.append(x), x)[1], [type_], type_)
    db.execute("INSERT INTO t VALUES (1, 'x')")
    found = db.execute(f"SELECT same_as({literal}) AS x, same_as(NULL) AS y FROM t")
    assert tuples(found) == [(python, None)]
    assert python in seen and all(type(x) is type(python) for x in seen if x is not None)


def test_null_arguments_are_given_as_none() -> None:
    db = with_function("absent", lambda x: x is None, ["STRING"], "BOOLEAN")
    db.execute("CREATE CONTINUOUS QUERY q AS SELECT a FROM s WHERE absent(n)")
    assert values(db.push("s", [row(0, a=1, n=None), row(0, a=2)]), "q") == [(1,)]


def test_failing_call_gives_null_and_is_counted() -> None:
    db = with_function("inverse", lambda x: 1 / x, ["DOUBLE"], "DOUBLE")
    db.execute("CREATE CONTINUOUS QUERY q AS SELECT a, inverse(c) AS x FROM s")
    assert values(db.push("s", [row(0, a=1, c=0.0), row(0, a=2, c=2.0), row(0, a=3, c=None)]), "q") == [
        (1, None), (2, 0.5), (3, None),
    ]  # fmt: skip
    found = db.stats()["functions"]["inverse"]
    assert found["errors"] == 2 and "TypeError" in found["last_error"]
    shown = db.execute("SHOW FUNCTIONS").to_pylist()[0]
    assert shown["function"] == "inverse" and shown["errors"] == 2


def test_result_of_another_type_is_null_and_counted() -> None:
    db = with_function("wrong", lambda x: "text" if x == 1 else 10**30 if x == 2 else x, ["INT"], "INT")
    db.execute("CREATE CONTINUOUS QUERY q AS SELECT wrong(a) AS x FROM s")
    assert values(db.push("s", [row(0, a=1), row(0, a=2), row(0, a=3)]), "q") == [(None,), (None,), (3,)]
    assert db.stats()["functions"]["wrong"]["errors"] == 2


def test_failure_in_one_query_leaves_the_others_alone() -> None:
    def boom(x: Any) -> Any:
        raise ValueError("boom")

    db = with_function("boom", boom, ["INT"], "BOOLEAN")
    db.execute("CREATE CONTINUOUS QUERY bad AS SELECT a FROM s WHERE boom(a)")
    db.execute("CREATE CONTINUOUS QUERY good AS SELECT a FROM s")
    ch = db.push("s", [row(0)])
    assert ch.queries() == ["good"] and db.stats()["functions"]["boom"] == {
        "errors": 1,
        "last_error": "ValueError: boom",
        "first_error": "boom(1): ValueError: boom",
    }


def test_asking_for_a_snapshot_does_not_count_errors_again() -> None:
    db = with_function("inverse", lambda x: 1 / x, ["DOUBLE"], "DOUBLE")
    db.execute("CREATE CONTINUOUS QUERY q AS SELECT a, inverse(c) AS x FROM s")
    db.push("s", [row(0, c=0.0)])
    for _ in range(3):
        assert tuples(db.snapshot("q")) == [(1, None)]
    assert db.stats()["functions"]["inverse"]["errors"] == 1


def test_redefined_function_is_used_from_then_on() -> None:
    db = with_function("f", lambda x: x + 1, ["INT"], "INT")
    text = "CREATE CONTINUOUS QUERY {} AS SELECT f(a) AS x FROM s"
    db.execute(text.format("old"))
    assert values(db.push("s", [row(0)]), "old") == [(2,)]
    db.function("f", lambda x: x + 10, ["INT"], "INT")
    db.execute(text.format("new"))
    ch = db.push("s", [row(1)])
    assert values(ch, "new") == values(ch, "old") == [(11,)]


def test_redefinition_with_other_types_leaves_standing_queries_whole() -> None:
    """Refused, or harmless: a standing query keeps the types it has."""
    db = with_function("f", lambda x: x + 1, ["INT"], "INT")
    db.execute("CREATE CONTINUOUS QUERY q AS SELECT f(a) AS x FROM s")
    try:
        db.function("f", lambda x: f"<{x}>", ["STRING"], "STRING")
    except eddyline.Error:
        return
    ch = db.push("s", [row(0)])
    assert [str(f.type) for f in ch.rows("q").schema][3:] == ["int32"]
    db.execute("CREATE CONTINUOUS QUERY q2 AS SELECT f(n) AS x FROM s")
    assert values(db.push("s", [row(1)]), "q2") == [("<x>",)]


def test_redefinition_with_other_types_survives_a_restore(tmp_path: Any) -> None:
    db = with_function("f", lambda x: x + 1, ["INT"], "INT")
    db.execute("CREATE CONTINUOUS QUERY q AS SELECT f(a) AS x FROM s")

    def text(x: Any) -> str:
        return f"<{x}>"

    try:
        db.function("f", text, ["STRING", "STRING"], "STRING")
    except eddyline.Error:
        return
    db.save(tmp_path / "d")
    again = eddyline.connect(tmp_path / "d", functions={"f": text})
    assert again.push("s", [row(0)]).rows("q").schema == db.push("s", [row(0)]).rows("q").schema


def test_functions_are_named_without_regard_to_case() -> None:
    db = with_function("Twice", lambda x: 2 * x, ["INT"], "INT")
    db.execute("CREATE CONTINUOUS QUERY q AS SELECT TWICE(a) AS x, twice(a) AS y FROM s")
    assert values(db.push("s", [row(0, a=4)]), "q") == [(8, 8)]
    db.function("tWICE", lambda x: 3 * x, ["INT"], "INT")
    assert values(db.push("s", [row(1, a=4)]), "q") == [(12, 12)]
    shown = db.execute("SHOW FUNCTIONS").to_pylist()
    assert [r["function"] for r in shown if r["kind"] == "user (scalar)"] == ["Twice"]


@pytest.mark.parametrize("name", ["abs", "UPPER", "count", "coalesce"])
def test_function_with_the_name_of_a_built_in_one_is_refused_or_used(name: str) -> None:
    db = world()
    db.execute("INSERT INTO t VALUES (3, 'x')")
    try:
        db.function(name, lambda x: 77, ["INT"], "INT")
    except eddyline.Error as e:
        assert name.lower() in str(e).lower()
        return
    assert tuples(db.execute(f"SELECT {name}(a) AS x FROM t")) == [(77,)]


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("SELECT twice(a, a) AS x FROM t", "twice"),
        ("SELECT twice() AS x FROM t", "twice"),
        ("SELECT twice(n) AS x FROM t", "twice"),
        ("SELECT twise(a) AS x FROM t", "twise"),
    ],
)
def test_wrong_use_of_a_function_names_it(sql: str, words: str) -> None:
    db = with_function("twice", lambda x: 2 * x, ["INT"], "INT")
    with pytest.raises(eddyline.Error, match=words):
        db.execute(sql)


@pytest.mark.parametrize(
    ("name", "body", "takes", "gives"),
    [
        ("f", 5, ["INT"], "INT"),
        ("f", lambda x: x, ["INTT"], "INT"),
        ("f", lambda x: x, ["INT"], "NOTHING"),
        ("a b", lambda x: x, ["INT"], "INT"),
        ("", lambda x: x, ["INT"], "INT"),
    ],
)
def test_bad_definitions_are_refused(name: str, body: Any, takes: list[str], gives: str) -> None:
    db = world()
    with pytest.raises(eddyline.Error):
        db.function(name, body, takes, gives)
    assert len(db.catalog.functions) == 0


def test_types_given_as_one_text_are_refused() -> None:
    with pytest.raises(eddyline.DataError):
        world().function("f", lambda x: x + 1, "INT", "INT")  # type: ignore[arg-type]

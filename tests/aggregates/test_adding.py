"""An aggregate is one file and one entry of the registry: nothing else must know it."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document

import eddyline
from eddyline.aggregates import AGGREGATES
from eddyline.operators.group_by import GroupBy
from eddyline.shell.prompt import Names
from tests.aggregates.bool_and import BOOL_AND
from tests.aggregates.count_if import COUNT_IF
from tests.oracle.queries import aggregate, window
from tests.oracle.range_joins import range_queries
from tests.oracle.scenario import check, scenario

ADDED = (COUNT_IF, BOOL_AND)
GROUPS = (
    "SELECT s.a, COUNT_IF(s.f) AS n, BOOL_AND(s.f) AS m, COUNT_IF(s.a > 1) AS o FROM {} GROUP BY s.a",
    "SELECT BOOL_AND(s.c > 0.5) AS n, COUNT(*) AS m FROM {} HAVING COUNT_IF(s.f) > 0",
)


@pytest.fixture(autouse=True)
def added(monkeypatch: pytest.MonkeyPatch) -> None:
    for function in ADDED:
        monkeypatch.setitem(AGGREGATES, function.name, function)


def world() -> Any:
    db = eddyline.connect()
    db.execute(
        "CREATE STREAM s (a INT, f BOOLEAN, ts TIMESTAMP) WATERMARK ts;"
        "CREATE STREAM r (a INT, f BOOLEAN, ts TIMESTAMP) WATERMARK ts"
    )
    return db


def push(db: Any, stream: str, *rows: tuple[int | None, bool | None]) -> Any:
    return db.push(stream, [{"a": a, "f": f, "ts": "2026-01-01"} for a, f in rows])


def test_it_is_an_aggregate_in_sql() -> None:
    db = world()
    db.execute("CREATE CONTINUOUS QUERY q AS SELECT a, Count_If(f) AS n, bool_and(f) FROM s GROUP BY a HAVING n < 2")
    push(db, "s", (1, True), (1, None), (1, False), (2, True), (3, None), (4, True), (4, True))
    expected = {"a": [1, 2, 3], "n": [1, 1, 0], "bool_and(f)": [False, True, None]}
    assert db.snapshot("q").sort_by("a").to_pydict() == expected
    assert "count_if(f)" in db.explain("q")


@pytest.mark.parametrize("source", ["s{window}", "s [ROWS 3]", "(SELECT DISTINCT a, c, f FROM s [ROWS 4]) AS s"])
def test_the_engine_gives_what_the_reference_gives(source: str) -> None:
    for seed in range(4):
        rnd = Random(f"{source}{seed}")
        texts = [text.format(source.format(window=window(rnd))) for text in GROUPS]
        check(rnd, scenario(rnd, texts, rows=20), restores=0.1)


@pytest.mark.parametrize("strategy", ["auto", "by row"])
def test_over_a_range_join_the_engine_gives_what_the_reference_gives(
    strategy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    items = "COUNT_IF(x.f) AS n, BOOL_AND(x.f) AS m", "BOOL_AND(y.f) AS n, COUNT_IF(y.f) AS m, SUM(x.c) AS o"
    monkeypatch.setattr("tests.oracle.range_joins.ITEMS", items)
    for seed in range(6):
        rnd = Random(f"{strategy}{seed}")
        s = scenario(rnd, range_queries(rnd, "aggregate"), rows=20)
        s.options = f"strategy = '{strategy}'"
        check(rnd, s, cuts=1)


def test_over_a_range_join_no_joined_rows_are_listed() -> None:
    db = world()
    text = "SELECT COUNT_IF(x.f) AS n, BOOL_AND(y.f) AS m FROM r AS x, s AS y WHERE y.a - x.a BETWEEN {} AND {}"
    db.execute(f"CREATE CONTINUOUS QUERY q AS {text.format(0, 3)}")
    (running,) = db.engine.running.values()
    (grouping,) = [o for o in running.root.walk() if isinstance(o, GroupBy)]
    assert grouping.range_sums is not None
    push(db, "r", (1, True), (2, False), (9, True))
    push(db, "s", (1, True), (2, True), (8, False))
    assert db.snapshot("q").to_pylist() == [{"n": 2, "m": True}]


def test_templates_tell_equal_aggregates_from_different_ones() -> None:
    db = world()
    text = "CREATE CONTINUOUS QUERY {} AS SELECT COUNT_IF(a > {}) AS x, COUNT_IF(a > {}) AS y FROM s"
    for name, low, high in (("p", 1, 1), ("q", 1, 2), ("r", 3, 3), ("t", 2, 3)):
        db.execute(text.format(name, low, high))
    assert len(db.registry) == 2, "one family computes one aggregate, the other two"
    push(db, "s", (1, None), (2, None), (3, None), (4, None))
    answers = {name: tuple(db.snapshot(name).to_pylist()[0].values()) for name in "pqrt"}
    assert answers == {"p": (3, 3), "q": (3, 2), "r": (1, 1), "t": (2, 1)}


def test_show_functions_lists_it() -> None:
    shown = {r["function"]: r for r in world().execute("SHOW FUNCTIONS").to_pylist()}
    found = [shown["count_if"][column] for column in ("takes", "gives", "kind")]
    assert found == ["BOOLEAN", "BIGINT", "aggregate"]


def test_the_shell_completes_it() -> None:
    found = Names(list).get_completions(Document("SELECT count_"), CompleteEvent())
    assert [completion.text for completion in found] == ["count_if"]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("COUNT_IF(a)", "COUNT_IF takes a BOOLEAN, but this is INT."),
        ("count_if(*)", "count_if needs a column."),
        ("COUNT_IF()", "COUNT_IF lacks an argument."),
        ("COUNT_IF(f, f)", "COUNT_IF takes one argument."),
        ("COUNT_IF(DISTINCT f)", "COUNT_IF(DISTINCT …) is not supported."),
        ("COUNT_IF(BOOL_AND(f))", "An aggregate cannot contain another."),
        ("COUNT_IF(f) OVER ()", "COUNT_IF(…) OVER is not supported"),
    ],
)
def test_a_wrong_call_of_it_is_refused(call: str, message: str) -> None:
    with pytest.raises(eddyline.BindError) as error:
        world().execute(f"CREATE CONTINUOUS QUERY q AS SELECT {call} AS x FROM s")
    assert message in str(error.value)


def test_it_is_refused_where_no_group_is_and_as_the_name_of_a_users_function() -> None:
    db = world()
    with pytest.raises(eddyline.BindError, match="COUNT_IF is not allowed here"):
        db.execute("CREATE CONTINUOUS QUERY q AS SELECT a FROM s WHERE COUNT_IF(f) > 1")
    with pytest.raises(eddyline.CatalogError, match="built-in function"):
        db.function("Count_If", lambda x: x, ["INT"], "INT")


def test_random_queries_of_the_oracle_use_it() -> None:
    rnd = Random(0)
    drawn = {aggregate(rnd, "s") for _ in range(500)}
    assert {"COUNT_IF(s.f)", "BOOL_AND(s.f)"} <= drawn
